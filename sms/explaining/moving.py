"""The exact plan behind a mover's similarity, traced back to the words and sentences it moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from sms.explaining.records import (
    CANDIDATE,
    LIST_COLUMN,
    NOT_ALPHABETIC,
    NOTHING_KEPT,
    PUNCTUATION,
    REFERENCE,
    SENTENCE,
    STOP_WORD,
    UNKNOWN_WORD,
    WORD,
    Flow,
    Moves,
    Point,
    TextUnits,
    Unit,
)
from sms.metric import Batch
from sms.metrics.movers import PROBLEMS, Mover, text_clouds
from sms.scoring import SummaryScorer
from sms.text import SegmentedTexts, TextRules, stop_words, word_spans
from sms.text.languages import language_of
from sms.transport import MAX_CELLS, mover_plan
from sms.transport.clouds import JOINT, SENTENCES, WORDS

_SPELLINGS_SHOWN = 3
_Vector = tuple[str, int]
"""Kind, and row among the encoder's vectors of that kind."""


class PlanFinder:
    """Solves pairs of a prepared batch once more, for a mover's similarity, keeping the plans."""

    def __init__(self, scorer: SummaryScorer, batch: Batch, metric: Mover) -> None:
        (alias,) = metric.encoders
        encoder = scorer.encoders[alias]
        self._batch, self._rules = batch, scorer.config.rules
        self._side = metric.against or REFERENCE
        self._problem = PROBLEMS[metric.name]
        self._has_words = encoder.has_words
        self._is_known = encoder.known_words(batch.texts)
        self._encoded, self._text_sentences = batch.encoded[alias]
        self._clouds = text_clouds(
            self._encoded, self._text_sentences, words=self._problem != SENTENCES
        )

    def placed_texts(self, number: int, row: Mapping[str, Any]) -> list[tuple[int, TextUnits]]:
        """Find the candidate of a row and the texts it is compared with, with their numbers."""
        column = LIST_COLUMN[self._side]
        given = [(CANDIDATE, 0, int(self._batch.candidate[number]), row[CANDIDATE] or "")]
        for k, at in enumerate(self._batch.sides[column][number].tolist()):
            given.append((self._side, k, at, row[column][k] or ""))
        return [(at, self._text_units(side, k, at, text)) for side, k, at, text in given]

    def moves(self, candidate: tuple[int, TextUnits], other: tuple[int, TextUnits]) -> Moves | None:
        """Return the optimal plan; None where a text has no mass, or they have too many points."""
        (ours, units), (theirs, other_units) = candidate, other
        sizes = self._clouds.members.lengths[[ours, theirs]]
        if not 0 < sizes[0] * sizes[1] <= MAX_CELLS:
            return None
        distance, plan = mover_plan(self._clouds, ours, theirs, self._problem)
        ground_cost = cdist(self._vectors(ours), self._vectors(theirs))
        cells = (plan.rows.tolist(), plan.columns.tolist(), plan.mass.tolist())
        flows = [
            Flow(i, j, mass, float(ground_cost[i, j])) for i, j, mass in zip(*cells, strict=True)
        ]
        flows.sort(key=lambda flow: (-flow.contribution, -flow.mass, flow.candidate, flow.other))
        return Moves(units, other_units, tuple(flows), ground_cost, distance)

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
        numbers, rows = texts.text_sentences[at].tolist(), self._text_sentences[at].tolist()
        placed = groupby(units_of(text, texts, at, self._rules), attrgetter("sentence"))
        for (_, group), number, row in zip(placed, numbers, rows, strict=True):
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
        members = self._clouds.members[text].tolist()
        n_words = int(self._clouds.splits[text] - self._clouds.members.offsets[text])
        points = [(WORD if k < n_words else SENTENCE, row) for k, row in enumerate(members)]
        last = n_words if self._problem == WORDS else None
        return points[:last], self._clouds.weights[text][:last]

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


def units_of(text: str, texts: SegmentedTexts, number: int, rules: TextRules) -> Iterator[Unit]:
    """Yield each sentence and then its words, of text number `number` of a batch made by `rules`.

    Words say why they do not count, whatever the encoder. Raises `RuntimeError` if a sentence is
    not in the text; the segmenter then changes what it cuts.
    """
    stop = 0
    for k, sentence in enumerate(texts.text_sentences[number].tolist()):
        sentence_text = texts.sentences[sentence]
        start = text.find(sentence_text, stop)
        if start < 0:
            raise RuntimeError(f"sentence {k} of a text is not in it as it was cut out")
        stop = start + len(sentence_text)
        yield Unit(text=sentence_text, kind=SENTENCE, sentence=k, start=start, stop=stop)
        for first, end, dropped in _places(texts, sentence, rules):
            yield Unit(
                text=sentence_text[first:end], kind=WORD, sentence=k,
                start=start + first, stop=start + end, dropped=dropped,
            )  # fmt: skip


def _places(
    texts: SegmentedTexts, sentence: int, rules: TextRules
) -> Iterator[tuple[int, int, str | None]]:
    """Yield every word, and what the tokeniser writes in another way than the text."""
    sentence_text = texts.sentences[sentence]
    words = texts.sentence_words[sentence].tolist()
    done = 0
    for number, (start, stop) in zip(words, word_spans(texts, sentence).tolist(), strict=True):
        is_kept = texts.is_kept[number]
        if start == stop and not is_kept:
            continue  # `_between` has what stands there
        yield from _between(sentence_text, done, start)
        yield start, stop, None if is_kept else _why_dropped(texts.vocabulary.words[number], rules)
        done = stop
    yield from _between(sentence_text, done, len(sentence_text))


def _between(sentence: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Yield what is seen between two words: quotation marks that became other tokens."""
    at = start
    for piece in sentence[start:stop].split():
        at = sentence.index(piece, at)
        if any(character.isprintable() for character in piece):
            yield at, at + len(piece), PUNCTUATION
        at += len(piece)


def _why_dropped(word: str, rules: TextRules) -> str:
    """Say which rule leaves a word out; brackets as in `-lrb-` are punctuation."""
    if language_of(rules.language).lower(word) in stop_words(rules):
        return STOP_WORD
    is_word = any(character.isalnum() for character in word)
    return NOT_ALPHABETIC if is_word and rules.words == "clark2019" else PUNCTUATION
