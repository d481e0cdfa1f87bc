"""Candidates with the texts they are compared with, and how several pairs become one score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sms.ragged import Ragged, offsets_of, owners_of


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every candidate with each text it is compared with."""

    candidate: np.ndarray
    """Text number of each pair's candidate, int64, shape (n_pairs,)."""
    other: np.ndarray
    """Text number of what it is compared with."""
    lengths: np.ndarray
    """Number of pairs of each row, shape (n_rows,)."""
    is_best: bool
    """Whether a row's score is that of its best pair, or else their mean."""

    @classmethod
    def of(cls, candidate: np.ndarray, others: Ragged, *, is_best: bool) -> Pairs:
        """Pair every row's candidate with all texts of the row."""
        return cls(np.repeat(candidate, others.lengths), others.values, others.lengths, is_best)

    @property
    def rows(self) -> np.ndarray:
        """Row of every pair."""
        return owners_of(self.lengths)

    def joined(self, values: np.ndarray) -> np.ndarray:
        """Make one score per row from its pairs, undefined ones left out; NaN if none is left."""
        per_row = np.full(self.lengths.size, np.nan)
        rows = np.flatnonzero(self.lengths)
        if rows.size:
            starts = offsets_of(self.lengths)[rows]
            if self.is_best:
                per_row[rows] = np.fmax.reduceat(values, starts)
            else:
                defined = ~np.isnan(values)
                counts = np.add.reduceat(defined.astype(np.int64), starts)
                sums = np.add.reduceat(np.where(defined, values, 0.0), starts)
                per_row[rows] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return per_row

    def joined_by(
        self, deciding: np.ndarray, parts: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Join several values of each pair; where the best pair counts, `deciding` chooses it."""
        if not self.is_best or not deciding.size:
            return {name: self.joined(values) for name, values in parts.items()}
        chosen = np.full(self.lengths.size, -1)
        hits = np.flatnonzero(deciding == np.repeat(self.joined(deciding), self.lengths))
        chosen[self.rows[hits[::-1]]] = hits[::-1]  # of equal ones the first
        return {
            name: np.where(chosen >= 0, values[chosen], np.nan) for name, values in parts.items()
        }

    def any(self, flags: np.ndarray) -> np.ndarray:
        """Tell which rows have a pair with the flag."""
        return np.bincount(self.rows[flags], minlength=self.lengths.size) > 0
