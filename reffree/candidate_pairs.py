"""The candidates of a batch with each text they are judged by, for metrics that ask a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sms.cutting import first_tokens
from sms.metric import Batch, Metric
from sms.sentences import SENTENCE_END, whole


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePairs:
    """Every candidate that has words, with each such text of one side."""

    candidates: list[str]
    others: list[str]  # empty texts where candidates are judged by themselves
    rows: np.ndarray  # row of every pair, int64
    numbers: list[int]  # which of its row's texts the other one is
    side: str  # of the others: `reference` or `source`; empty where there are none
    is_best: bool  # whether the best of a row's pairs counts, or else their mean
    n_rows: int
    reasons: dict[int, list[str]]  # by row, why it has no score

    @classmethod
    def of(cls, metric: Metric, batch: Batch) -> CandidatePairs:
        """Pair the candidates of a batch with what a metric compares them with."""
        side = metric.against or ""
        is_best = side == "reference" and batch.setting.multi_reference == "best"
        candidates = batch.rows["candidate"].to_pylist()
        return cls.of_texts(candidates, _others(metric, batch), side=side, is_best=is_best)

    @classmethod
    def of_texts(
        cls,
        given: Sequence[str | None],
        others: Sequence[Sequence[str | None]],
        *,
        side: str,
        is_best: bool = False,
    ) -> CandidatePairs:
        """Pair each candidate with its other texts, of which there are as many lists."""
        paired: list[tuple[int, int, str, str]] = []
        reasons: dict[int, list[str]] = {}
        for row, (candidate, own) in enumerate(zip(given, others, strict=True)):
            usable = [(k, text) for k, text in enumerate(own) if text and not _why_unusable(text)]
            if why := _why_unusable(candidate):
                reasons[row] = [f"candidate:{why}"]
            elif side and not usable:
                reasons[row] = [f"{side}:{_why_unusable(own[0]) if own else 'missing'}"]
            else:
                read = candidate or ""  # null has a reason
                paired += [(row, k, read, text) for k, text in usable or [(0, "")]]
        rows = np.array([row for row, *_ in paired], dtype=np.int64)
        return cls(
            [candidate for *_, candidate, _ in paired],
            [other for *_, other in paired],
            rows,
            [number for _, number, *_ in paired],
            side,
            is_best,
            len(given),
            reasons,
        )

    def by_row(self) -> dict[tuple[int, str], list[str]]:
        """Return all other texts of every row and candidate, as a scorer reads them.

        It finds sentences itself, so the ends of given ones go.
        """
        by_row: dict[tuple[int, str], list[str]] = {}
        for row, *texts in zip(self.rows.tolist(), self.candidates, self.others, strict=True):
            candidate, other = (text.replace(SENTENCE_END, " ") for text in texts)
            by_row.setdefault((row, candidate), []).append(other)
        return by_row

    def together(self, scores: np.ndarray) -> np.ndarray:
        """Put the scores of each row's pairs together; a pair that has none might be the best."""
        if not self.is_best:
            return self._mean(scores)
        best = np.full(self.n_rows, -np.inf)
        with np.errstate(invalid="ignore"):
            np.maximum.at(best, self.rows, scores)
        return np.where(np.isneginf(best), np.nan, best)

    def any(self, flags: np.ndarray) -> np.ndarray:
        """Tell by row whether a pair is flagged, 1.0 or 0.0; NaN where there is no pair."""
        return np.ceil(self._mean(flags))

    def _mean(self, values: np.ndarray) -> np.ndarray:
        n = np.bincount(self.rows, minlength=self.n_rows)
        sums = np.bincount(self.rows, weights=values, minlength=self.n_rows)
        return np.divide(sums, n, out=np.full(self.n_rows, np.nan), where=n > 0)


class Judged(NamedTuple):
    """What a model says of pairs."""

    scores: Mapping[str, np.ndarray]  # by column, one of every pair
    is_cut: Mapping[str, np.ndarray]  # by side, pairs of whose text it could not read all
    reasons: Sequence[tuple[int, str, str]]  # pair, side and why it could not be read


class ByRow(NamedTuple):
    """What a model says of rows."""

    columns: Mapping[str, np.ndarray]
    reasons: Mapping[int, list[str]]  # by row, why it has no score
    read_in_part: Mapping[str, np.ndarray]  # by `SIDE:cut@MODEL`, rows, bool


class PairsMetric(Metric):
    """A metric whose model reads every candidate with each text that it is judged by."""

    reads_texts = False

    def judge(self, batch: Batch, pairs: CandidatePairs) -> Judged:
        """Score every pair."""
        raise NotImplementedError

    def of_rows(self, batch: Batch) -> ByRow:
        """Score a batch."""
        pairs = CandidatePairs.of(self, batch)
        judged = self.judge(batch, pairs)
        model = self.written.partition("@")[2]
        for pair, side, why in judged.reasons:
            pairs.reasons[int(pairs.rows[pair])] = [f"{side}:{why}@{model}"]
        columns = {name: pairs.together(scores) for name, scores in judged.scores.items()}
        (cut,) = self.companion_columns
        columns[cut] = pairs.any(np.any([*judged.is_cut.values()], axis=0))
        said = {f"{side}:cut@{model}": pairs.any(own) > 0 for side, own in judged.is_cut.items()}
        return ByRow(columns, pairs.reasons, said)

    def prepare(self, batch: Batch) -> None:
        """Run the model."""
        self._of_rows_once(batch)

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores of the rows that have words, and which of them were cut."""
        found = self._of_rows_once(batch)
        for row, why in found.reasons.items():
            batch.explained.setdefault(row, []).extend(why)
        batch.read_in_part.update(found.read_in_part)
        return found.columns

    def _of_rows_once(self, batch: Batch) -> ByRow:
        return batch.once((type(self), self.written), lambda: self.of_rows(batch))


def _others(metric: Metric, batch: Batch) -> list[Sequence[str | None]]:
    """Return what each candidate is judged by: its `references` or `sources`, as the run asks."""
    if not metric.sides:
        return [()] * len(batch.rows)
    (side,) = metric.sides
    setting = batch.setting
    rows: list[list[str | None]] = [own or [] for own in batch.rows[side].to_pylist()]
    if side == "references" and setting.multi_reference == "first":
        return [own[:1] for own in rows]
    if side == "sources" and (n := setting.source_tokens) is not None:
        return [first_tokens(pa.array(own, pa.string()), n).to_pylist() for own in rows]
    return list(rows)


def _why_unusable(text: str | None) -> str | None:
    """Say why there is nothing to read in a text; None where there is."""
    if text is None:
        return "null"
    read = whole(text)
    if not read.strip():
        return "empty"
    return None if any(map(str.isalnum, read)) else "no_words"
