"""Packed rows of unequal length, and candidates paired with packed rows of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of unequal length, packed: row `i` is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray
    """All rows one after the other, shape (n_values,)."""
    offsets: np.ndarray
    """Start of each row and the end of the last, int64, shape (n_rows + 1,)."""

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Number of values in each row, shape (n_rows,)."""
        return self.offsets[1:] - self.offsets[:-1]  # `np.diff` takes its time for a few rows

    @property
    def owners(self) -> np.ndarray:
        """Row of each value, shape (n_values,)."""
        return owners_of(self.lengths)

    def sums(self, numbers: np.ndarray) -> np.ndarray:
        """Add up a whole number (or truth) of each value over every row, int64, shape (n_rows,).

        >>> words = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))  # [7, 8] and [9]
        >>> words.sums(words.values > 7).tolist()
        [1, 1]
        """
        sums = offsets_of(numbers)[self.offsets]
        return sums[1:] - sums[:-1]

    @classmethod
    def from_lengths(cls, values: np.ndarray, lengths: np.ndarray) -> Ragged:
        """Cut `values` into rows of the given lengths."""
        return cls(values, offsets_of(lengths))

    @classmethod
    def from_rows(cls, rows: Iterable[np.ndarray], dtype: type = np.int64) -> Ragged:
        """Pack separate rows; for tests and small inputs."""
        listed: list[np.ndarray] = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(listed) if listed else np.empty(0, dtype=dtype)
        return cls.from_lengths(values, np.array([row.size for row in listed], dtype=np.int64))

    def and_rows(self, other: Ragged) -> Ragged:
        """Return these rows and, after them, those of another."""
        return Ragged.from_lengths(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.lengths, other.lengths]),
        )

    def take(self, rows: np.ndarray) -> Ragged:
        """Return the rows named by `rows`, in that order; a row may be named twice.

        >>> words = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))  # [7, 8] and [9]
        >>> swapped = words.take(np.array([1, 0]))
        >>> swapped[0].tolist(), swapped[1].tolist()
        ([9], [7, 8])
        """
        lengths = self.lengths[rows]
        return Ragged.from_lengths(self.values[ranges(self.offsets[rows], lengths)], lengths)

    def expand(self, rows_of_values: Ragged) -> Ragged:
        """Replace every value of `self`, a row number, by that row of `rows_of_values`.

        >>> sentence_words = Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))  # [7, 8] and [9]
        >>> text_sentences = Ragged(np.array([1, 0, 1]), np.array([0, 2, 3]))  # [1, 0] and [1]
        >>> text_words = text_sentences.expand(sentence_words)
        >>> text_words[0].tolist(), text_words[1].tolist()
        ([9, 7, 8], [9])
        """
        picked = rows_of_values.take(self.values)
        return Ragged(picked.values, picked.offsets[self.offsets])


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the packed offsets of rows with these lengths, shape (n_rows + 1,)."""
    offsets = np.zeros(lengths.size + 1, dtype=np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def owners_of(lengths: np.ndarray) -> np.ndarray:
    """Return the row of each value of rows with these lengths, shape (n_values,)."""
    return np.repeat(np.arange(lengths.size), lengths)


def places_of(lengths: np.ndarray) -> np.ndarray:
    """Return the place of each value in its row, for rows with these lengths, (n_values,)."""
    return ranges(np.zeros_like(lengths), lengths)


def starts_of_runs(values: np.ndarray) -> np.ndarray:
    """Return where runs of equal values start.

    >>> starts_of_runs(np.array([5, 5, 7, 5])).tolist()
    [0, 2, 3]
    """
    is_first = np.ones(values.size, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate `arange(start, start + length)` of every row; both are int64."""
    filled = np.empty(int(lengths.sum()), np.int64)
    if filled.size:
        from sms.ragged_kernels import fill_ranges

        fill_ranges(starts, lengths, filled)
    return filled


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
                n_defined = np.add.reduceat(defined.astype(np.int64), starts)
                sums = np.add.reduceat(np.where(defined, values, 0.0), starts)
                per_row[rows] = np.where(n_defined > 0, sums / np.maximum(n_defined, 1), np.nan)
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
