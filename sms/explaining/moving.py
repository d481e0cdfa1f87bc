"""The exact plan behind a mover's similarity, traced back to the words and sentences it moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from sms.explaining.units import PlacedSentence, PlacedWord, placed_sentences
from sms.metric import Batch, MetricRequest
from sms.movers import PROBLEMS, text_clouds
from sms.scoring import SummaryScorer
from sms.transport import MAX_CELLS, mover_plan
from sms.transport_kernels import JOINT, SENTENCES, WORDS

_SPELLINGS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A text of a batch, found again in its units."""

    side: str
    number: int
    """Of several references or sources, from 0."""
    batch_number: int
    """Of the text in the batch."""
    text: str
    sentences: list[PlacedSentence]


class PlanFinder:
    """Solves pairs of a prepared batch once more, for a mover's similarity, keeping the plans."""

    def __init__(self, scorer: SummaryScorer, batch: Batch, request: MetricRequest) -> None:
        encoder = scorer.encoders[request.encoder or ""]
        self._batch, self._rules = batch, scorer.config.rules
        self._side = request.against or REFERENCE
        self._problem = PROBLEMS[request.metric.name]
        self._has_words = encoder.has_words
        is_known = encoder.known_words(batch.texts).tolist()
        words = batch.texts.vocabulary.words
        self._unknown = {word for word, known in zip(words, is_known, strict=True) if not known}
        self._encoded, self._text_sentences = batch.encoded[request.encoder or ""]
        self._clouds = text_clouds(
            self._encoded, self._text_sentences, words=self._problem != SENTENCES
        )

    def placed_texts(self, number: int, row: Mapping[str, Any]) -> list[PlacedText]:
        """Find the candidate of a row and the texts it is compared with in the batch."""
        column = LIST_COLUMN[self._side]
        given = [(CANDIDATE, 0, int(self._batch.candidate[number]), row[CANDIDATE] or "")]
        for k, at in enumerate(self._batch.sides[column][number].tolist()):
            given.append((self._side, k, at, row[column][k] or ""))
        texts = self._batch.texts
        return [
            PlacedText(side, k, at, text, placed_sentences(text, texts, at, self._rules))
            for side, k, at, text in given
        ]

    def moves(self, candidate: PlacedText, other: PlacedText) -> Moves | None:
        """Return the optimal plan; None where a text has no mass, or they have too many points."""
        ours, theirs = candidate.batch_number, other.batch_number
        sizes = self._clouds.members.lengths[[ours, theirs]]
        if not 0 < sizes[0] * sizes[1] <= MAX_CELLS:
            return None
        distance, plan = mover_plan(self._clouds, ours, theirs, self._problem)
        ground_cost = cdist(self._vectors(ours), self._vectors(theirs))
        rows, columns = (
            places - self._span(text).start
            for places, text in ((plan.rows, ours), (plan.columns, theirs))
        )
        flows = [
            Flow(i, j, mass, float(ground_cost[i, j]))
            for i, j, mass in zip(rows.tolist(), columns.tolist(), plan.mass.tolist(), strict=True)
        ]
        flows.sort(key=lambda flow: (-flow.contribution, -flow.mass, flow.candidate, flow.other))
        texts = self.text_units(candidate), self.text_units(other)
        return Moves(*texts, tuple(flows), ground_cost, distance)

    def text_units(self, placed: PlacedText) -> TextUnits:
        """Return a text's units with the mass and the point of each."""
        members, weights = self._points(placed.batch_number)
        total = weights.sum() if weights.size else 1
        units, occurrences = self._units(placed)
        count = Counter(point for point in occurrences if point is not None)
        place = {point: k for k, point in enumerate(members)}
        shares = weights / total
        placed_units: list[Unit] = []
        by_point: list[list[int]] = [[] for _ in members]
        for k, (unit, point) in enumerate(zip(units, occurrences, strict=True)):
            if point is None:
                placed_units.append(unit)
                continue
            at = place[point]
            by_point[at].append(k)
            placed_units.append(replace(unit, weight=float(shares[at]) / count[point], point=at))
        points = tuple(
            Point(_label([units[k].text for k in numbers]), kind, float(share), tuple(numbers))
            for (kind, _), share, numbers in zip(members, shares, by_point, strict=True)
        )
        return TextUnits(placed.side, placed.number, placed.text, tuple(placed_units), points)

    def _units(self, placed: PlacedText) -> tuple[list[Unit], list[tuple[str, int] | None]]:
        """Return the units of a text, and the kind and row of the vector each is moved by."""
        units: list[Unit] = []
        occurrences: list[tuple[str, int] | None] = []
        own = self._text_sentences[placed.batch_number].tolist()
        for k, (sentence, row) in enumerate(zip(placed.sentences, own, strict=True)):
            has_mass = bool(self._encoded.weights[row])
            is_moved = has_mass and self._problem & (SENTENCES | JOINT)
            reasons = self._why_dropped(sentence, row)
            parts: list[tuple[str, PlacedSentence | PlacedWord, str | None]] = [
                (SENTENCE, sentence, None if has_mass else NOTHING_KEPT)
            ]
            parts += [(WORD, *each) for each in zip(sentence.words, reasons, strict=True)]
            for kind, part, dropped in parts:
                start, stop = part.start, part.stop
                text = placed.text[start:stop]
                units.append(
                    Unit(text=text, kind=kind, sentence=k, start=start, stop=stop, dropped=dropped)
                )
            occurrences += [(SENTENCE, row) if is_moved else None, *self._word_points(reasons, row)]
        return units, occurrences

    def _word_points(
        self, reasons: Sequence[str | None], row: int
    ) -> Sequence[tuple[str, int] | None]:
        """Return kind and row of the vector of every word of a sentence that is moved itself."""
        word_points: list[tuple[str, int] | None] = [None] * len(reasons)
        if self._problem & (WORDS | JOINT):
            counting = [k for k, why in enumerate(reasons) if why is None]
            vectors = self._encoded.sentence_words[row].tolist()
            for k, vector in zip(counting, vectors, strict=True):
                word_points[k] = (WORD, vector)
        return word_points

    def _why_dropped(self, sentence: PlacedSentence, row: int) -> list[str | None]:
        """Say of every word why it does not count; unknown ones may stay as zero vectors."""
        dropped = [word.dropped for word in sentence.words]
        n_kept = dropped.count(None)
        if not self._has_words or self._encoded.sentence_words.lengths[row] == n_kept:
            return dropped
        return [
            UNKNOWN_WORD if why is None and word.word in self._unknown else why
            for word, why in zip(sentence.words, dropped, strict=True)
        ]

    def _points(self, text: int) -> tuple[list[tuple[str, int]], np.ndarray]:
        """Return kind and row of the vectors of a text's points, and their weights (eq. 1, 4, 5).

        The weights are counts of words; each half of the joint problem has the same sum.
        """
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
    distinct = list(dict.fromkeys(spellings))
    by_form = list({spelling.lower(): spelling for spelling in reversed(distinct)}.values())[::-1]
    shown = " / ".join(by_form[:_SPELLINGS_SHOWN])
    return f"{shown} / …" if len(by_form) > _SPELLINGS_SHOWN else shown
