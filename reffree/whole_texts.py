"""Metrics whose model reads whole texts: every candidate with each text that it is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sms.metric import Batch, Metric, NumberedTexts
from sms.ragged import Pairs, places_of
from sms.reasons import CUT, Reason, reasons_of
from sms.text.sentences import SENTENCE_END


@dataclass(frozen=True, eq=False)
class ReadPairs:
    """The pairs of a batch in both of whose texts there is something to read."""

    of: Pairs
    """All pairs of the batch."""
    is_read: np.ndarray
    """Which of them these are, bool, shape (n_pairs,)."""
    texts: NumberedTexts
    side: str
    """Of the others: `reference` or `source`; empty where there are none."""

    @classmethod
    def among(cls, texts: NumberedTexts, side: str) -> ReadPairs:
        """Pair the candidates of a batch with the texts of a side, or with nothing."""
        n_rows = texts.candidate.size
        alone = Pairs(texts.candidate, texts.candidate, np.ones(n_rows, np.int64), is_best=False)
        of = texts.pairs[f"{side}s"] if side else alone
        is_read = texts.is_written[of.candidate] & texts.is_written[of.other]
        return cls(of, is_read, texts, side)

    @cached_property
    def candidates(self) -> list[str]:
        """The candidate of every pair, as a reader sees it."""
        return self._among(self.texts.written, self.of.candidate)

    @cached_property
    def others(self) -> list[str]:
        """The other text of every pair; empty where candidates are judged by themselves."""
        return self._among(self.texts.written if self.side else None, self.of.other)

    @cached_property
    def marked(self) -> tuple[list[str], list[str]]:
        """The same two with `SENTENCE_END` where sentences are given, for what reads sentences."""
        others = self._among(self.texts.given if self.side else None, self.of.other)
        return self._among(self.texts.given, self.of.candidate), others

    def _among(self, texts: list[str] | None, numbers: np.ndarray) -> list[str]:
        return [texts[k] if texts else "" for k in numbers[self.is_read].tolist()]

    @property
    def n_rows(self) -> int:
        """Rows of the batch."""
        return self.of.lengths.size

    @property
    def rows(self) -> np.ndarray:
        """Row of every pair."""
        return self.of.rows[self.is_read]

    @property
    def numbers(self) -> np.ndarray:
        """Which of its row's texts the other one of every pair is."""
        return places_of(self.of.lengths)[self.is_read]

    def by_row(self) -> dict[int, tuple[str, list[str]]]:
        """Return the candidate and all its other texts of every row that has pairs.

        For what finds sentences itself, so the ends of given ones go.
        """
        by_row: dict[int, tuple[str, list[str]]] = {}
        for row, *texts in zip(self.rows.tolist(), *self.marked, strict=True):
            candidate, other = (text.replace(SENTENCE_END, " ") for text in texts)
            by_row.setdefault(row, (candidate, []))[1].append(other)
        return by_row

    def joined(self, scores: np.ndarray) -> np.ndarray:
        """Put the scores of each row's pairs together; a pair that has none might be the best."""
        failed = self._of_all(np.isnan(scores), missing=False)
        joined = self.of.joined(self._of_all(scores, missing=np.nan))
        return np.where(self.of.any(failed), np.nan, joined)

    def any(self, flags: np.ndarray) -> np.ndarray:
        """Tell which rows have a pair with the flag."""
        return self.of.any(self._of_all(flags, missing=False))

    @property
    def has_pair(self) -> np.ndarray:
        """Which rows have a pair, bool, shape (n_rows,)."""
        return self.of.any(self.is_read)

    def _of_all(self, values: np.ndarray, *, missing: float) -> np.ndarray:
        of_all = np.full(self.is_read.size, missing, dtype=values.dtype)
        of_all[self.is_read] = values
        return of_all


def why_not_read(texts: NumberedTexts, side: str) -> Iterator[Reason]:
    """Say of which rows there is no pair to read: for the candidate, or else the other texts."""
    bad = [(why, "", flags) for why, flags in texts.why_not_written().items()]
    for why, of, flags in bad:
        yield Reason("candidate", why, flags[texts.candidate], of)
    if side:
        has_candidate = texts.is_written[texts.candidate]
        yield from reasons_of(side, texts.sides[f"{side}s"], bad, has_candidate)


def by_reason(said: Iterable[tuple[int, str, str]], n: int) -> dict[tuple[str, str], np.ndarray]:
    """Return by side and why which of `n` pairs, or rows, it is said of; bool, shape (n,)."""
    flags: dict[tuple[str, str], np.ndarray] = {}
    for place, side, why in said:
        flags.setdefault((side, why), np.zeros(n, dtype=bool))[place] = True
    return flags


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What a model says of pairs."""

    scores: Mapping[str, np.ndarray]
    """By column one of every pair, float64, shape (n_pairs,); NaN where there is none."""
    is_cut: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By side (`candidate`, `reference`, `source`) the pairs of whose text the model could not read
    all, bool, shape (n_pairs,)."""
    reasons: Sequence[tuple[int, str, str]] = ()
    """Number of a pair, side, and why that text could not be read, in a word; with the metric's
    name in the side's place, why the model's answer could not."""


class ByRow(NamedTuple):
    """What a model says of rows."""

    columns: Mapping[str, np.ndarray]
    reasons: Sequence[Reason]


class WholeTextMetric(Metric):
    """A metric whose model reads every candidate with each text that it is judged by.

    A subclass says what a model may be told (`table`), loads it (`open`) and asks it (`judge`).
    With `companions={"cut": ...}` a column says which rows were read in part.
    """

    reads_texts = False

    @property
    def paired_with(self) -> str:
        """With which texts candidates are paired: `reference`, `source`, or none if empty."""
        return self.against or ""

    def judge(self, batch: Batch, pairs: ReadPairs) -> Judged:
        """Score every pair."""
        raise NotImplementedError

    def of_rows(self, batch: Batch) -> ByRow:
        """Score a batch."""
        pairs = ReadPairs.among(batch, self.paired_with)
        judged = Judged({column: np.empty(0) for column in self.columns})
        if pairs.rows.size:
            judged = self._checked(self.judge(batch, pairs), pairs)
        model = self.written.partition("@")[2]
        reasons = list(why_not_read(batch, pairs.side))
        failed = by_reason(judged.reasons, pairs.rows.size)
        reasons += [Reason(*said, pairs.any(flags), model) for said, flags in failed.items()]
        is_told = np.any([np.zeros(pairs.rows.size, dtype=bool), *failed.values()], axis=0)
        for column, scores in judged.scores.items():
            reasons.append(Reason(column, "undefined", pairs.any(np.isnan(scores) & ~is_told)))
        reasons += [
            Reason(side, CUT, pairs.any(flags), model) for side, flags in judged.is_cut.items()
        ]
        columns = {name: pairs.joined(scores) for name, scores in judged.scores.items()}
        for cut in self.companion_columns:
            nothing = np.zeros(pairs.rows.size, dtype=bool)
            is_cut = pairs.any(np.any([nothing, *judged.is_cut.values()], axis=0))
            columns[cut] = np.where(pairs.has_pair, is_cut, np.nan)
        return ByRow(columns, reasons)

    def _checked(self, judged: Judged, pairs: ReadPairs) -> Judged:
        """Hold a judge to its word; a score that is no finite number is none."""
        n = pairs.rows.size
        sides = {"candidate", pairs.side, *(side.removesuffix("s") for side in self.sides)}

        def of_pairs(what: str, values: Any, dtype: type) -> np.ndarray:  # noqa: ANN401
            array: np.ndarray = np.asarray(values, dtype=dtype)
            if array.shape != (n,):
                raise RuntimeError(
                    f"the judge of metric {self.written!r} must return {what} for each of {n} "
                    f"pairs, got an array of shape {array.shape}"
                )
            return array

        if {*judged.scores} != {*self.columns}:
            raise RuntimeError(
                f"the judge of metric {self.written!r} must return scores of "
                f"{', '.join(self.columns)}, got {', '.join(judged.scores) or 'none'}"
            )
        if outside := [pair for pair, _, _ in judged.reasons if not 0 <= pair < n]:
            raise RuntimeError(
                f"the judge of metric {self.written!r} must give reasons of pairs from 0 to "
                f"{n - 1}, got {outside[0]}"
            )
        named = {*judged.is_cut, *(side for _, side, _ in judged.reasons)} - {self.name}
        if not named <= sides:
            raise RuntimeError(
                f"the judge of metric {self.written!r} must name sides out of "
                f"{', '.join(sorted(sides))}, got {', '.join(sorted(named - sides))}"
            )
        scores = {name: of_pairs("scores", values, float) for name, values in judged.scores.items()}
        cut = {side: of_pairs("what was cut", flags, bool) for side, flags in judged.is_cut.items()}
        return Judged(
            {
                name: np.where(np.isfinite(values), values, np.nan)
                for name, values in scores.items()
            },
            cut,
            judged.reasons,
        )

    def prepare(self, batch: Batch) -> None:
        """Run the model."""
        self._of_rows_once(batch)

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores of the rows that have words, and which of them were cut."""
        found = self._of_rows_once(batch)
        for reason in found.reasons:
            batch.tell(reason.side, reason.why, reason.rows, of=reason.of, columns=self.columns)
        return found.columns

    def _of_rows_once(self, batch: Batch) -> ByRow:
        return batch.once((type(self), self.written), lambda: self.of_rows(batch))
