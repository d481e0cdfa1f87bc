"""The exact plan behind a mover's similarity, traced back to the words and sentences it moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from sms.explaining.records import (
    CANDIDATE,
    LIST_COLUMN,
    NOTHING_KEPT,
    REFERENCE,
    SENTENCE,
    UNKNOWN_WORD,
    WORD,
    Flow,
    Moves,
    Point,
    TextUnits,
    Unit,
)
from sms.explaining.units import units_of
from sms.metric import Batch, MetricRequest
from sms.movers import PROBLEMS, text_clouds
from sms.scoring import SummaryScorer
from sms.transport import MAX_CELLS, mover_plan
from sms.transport_kernels import JOINT, SENTENCES, WORDS

_SPELLINGS_SHOWN = 3
_Vector = tuple[str, int]
"""Kind, and row among the encoder's vectors of that kind."""


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A text of a batch, with its number there."""

    batch_number: int
    units: TextUnits


class PlanFinder:
    """Solves pairs of a prepared batch once more, for a mover's similarity, keeping the plans."""

    def __init__(self, scorer: SummaryScorer, batch: Batch, request: MetricRequest) -> None:
        (alias,) = request.encoders
        encoder = scorer.encoders[alias]
        self._batch, self._rules = batch, scorer.config.rules
        self._side = request.against or REFERENCE
        self._problem = PROBLEMS[request.metric.name]
        self._has_words = encoder.has_words
        self._is_known = encoder.known_words(batch.texts)
        self._encoded, self._text_sentences = batch.encoded[alias]
        self._clouds = text_clouds(
            self._encoded, self._text_sentences, words=self._problem != SENTENCES
        )

    def placed_texts(self, number: int, row: Mapping[str, Any]) -> list[PlacedText]:
        """Find the candidate of a row and the texts it is compared with in the batch."""
        column = LIST_COLUMN[self._side]
        given = [(CANDIDATE, 0, int(self._batch.candidate[number]), row[CANDIDATE] or "")]
        for k, at in enumerate(self._batch.sides[column][number].tolist()):
            given.append((self._side, k, at, row[column][k] or ""))
        return [PlacedText(at, self._text_units(side, k, at, text)) for side, k, at, text in given]

    def moves(self, candidate: PlacedText, other: PlacedText) -> Moves | None:
        """Return the optimal plan; None where a text has no mass, or they have too many points."""
        ours, theirs = candidate.batch_number, other.batch_number
        sizes = self._clouds.members.lengths[[ours, theirs]]
        if not 0 < sizes[0] * sizes[1] <= MAX_CELLS:
            return None
        distance, plan = mover_plan(self._clouds, ours, theirs, self._problem)
        ground_cost = cdist(self._vectors(ours), self._vectors(theirs))
        rows = (plan.rows - self._span(ours).start).tolist()
        columns = (plan.columns - self._span(theirs).start).tolist()
        flows = [
            Flow(i, j, mass, float(ground_cost[i, j]))
            for i, j, mass in zip(rows, columns, plan.mass.tolist(), strict=True)
        ]
        flows.sort(key=lambda flow: (-flow.contribution, -flow.mass, flow.candidate, flow.other))
        return Moves(candidate.units, other.units, tuple(flows), ground_cost, distance)

    def _text_units(self, side: str, number: int, at: int, text: str) -> TextUnits:
        """Return a text's units with the mass and the point of each."""
        members, weights = self._points(at)
        shares = (weights / (weights.sum() if weights.size else 1)).tolist()
        units, vectors = self._units(at, text)
        count = Counter(vectors)
        place = {vector: k for k, vector in enumerate(members)}
        by_point: list[list[int]] = [[] for _ in members]
        for k, vector in enumerate(vectors):
            if vector is not None:
                point = place[vector]
                by_point[point].append(k)
                units[k] = replace(units[k], weight=shares[point] / count[vector], point=point)
        points = tuple(
            Point(_label([units[k].text for k in numbers]), kind, share, tuple(numbers))
            for (kind, _), share, numbers in zip(members, shares, by_point, strict=True)
        )
        return TextUnits(side, number, text, tuple(units), points)

    def _units(self, at: int, text: str) -> tuple[list[Unit], list[_Vector | None]]:
        """Return the units of a text, and the vector that each is moved by."""
        texts = self._batch.texts
        units: list[Unit] = []
        vectors: list[_Vector | None] = []
        own, rows = texts.text_sentences[at].tolist(), self._text_sentences[at].tolist()
        placed = groupby(units_of(text, texts, at, self._rules), attrgetter("sentence"))
        for (_, group), number, row in zip(placed, own, rows, strict=True):
            sentence, *words = group
            words = self._without_unknown(words, number, row)
            has_mass = bool(self._encoded.weights[row])
            units += [sentence if has_mass else replace(sentence, dropped=NOTHING_KEPT), *words]
            is_moved = has_mass and self._problem & (SENTENCES | JOINT)
            vectors.append((SENTENCE, row) if is_moved else None)
            first = len(vectors)
            vectors += [None] * len(words)
            if self._problem & (WORDS | JOINT):
                kept = [k for k, word in enumerate(words, first) if word.is_kept]
                points = self._encoded.sentence_words[row].tolist()
                for k, point in zip(kept, points, strict=True):
                    vectors[k] = (WORD, point)
        return units, vectors

    def _without_unknown(self, words: Sequence[Unit], number: int, row: int) -> list[Unit]:
        """Drop words of a sentence without a vector; they may also stay as zero vectors."""
        kept = [k for k, word in enumerate(words) if word.is_kept]
        if not self._has_words or self._encoded.sentence_words.lengths[row] == len(kept):
            return list(words)
        spoken = self._batch.texts.sentence_words[number]
        is_known = self._is_known[spoken[self._batch.texts.is_kept[spoken]]].tolist()
        unknown = {k for k, known in zip(kept, is_known, strict=True) if not known}
        return [
            replace(word, dropped=UNKNOWN_WORD) if k in unknown else word
            for k, word in enumerate(words)
        ]

    def _points(self, text: int) -> tuple[list[_Vector], np.ndarray]:
        """Return the vectors of a text's points, and their weights in words (eq. 1, 4, 5)."""
        span, n_words = self._span(text), self._n_words(text)
        rows = self._clouds.members[text][span].tolist()
        kinds = [WORD if k < n_words else SENTENCE for k in range(span.start, span.stop)]
        return list(zip(kinds, rows, strict=True)), self._clouds.weights[text][span]

    def _span(self, text: int) -> slice:
        """Return the points of a text's cloud that the problem is about."""
        n_words = self._n_words(text)
        n_points = int(self._clouds.members.lengths[text])
        return slice(
            n_words if self._problem == SENTENCES else 0,
            n_words if self._problem == WORDS else n_points,
        )

    def _n_words(self, text: int) -> int:
        return int(self._clouds.splits[text] - self._clouds.members.offsets[text])

    def _vectors(self, text: int) -> np.ndarray:
        sources = {WORD: self._encoded.word_points, SENTENCE: self._encoded.sentence_points}
        members, _ = self._points(text)
        return np.array([sources[kind][row] for kind, row in members], dtype=np.float64)


def _label(spellings: Iterable[str]) -> str:
    """Name a point by its occurrences, which differ where words share a vector."""
    by_form: dict[str, str] = {}
    for spelling in spellings:
        by_form.setdefault(spelling.lower(), spelling)
    shown = " / ".join([*by_form.values()][:_SPELLINGS_SHOWN])
    return f"{shown} / …" if len(by_form) > _SPELLINGS_SHOWN else shown
