"""Training examples: every pair's positives and their negatives, drawn anew for every epoch.

An example follows from its pair, the configuration (with its seed) and the epoch; only cross
pairs and replaced sentences have a part of another document, and only words that are added come
from the training vocabulary. Neither the order of the pairs, nor what else is in a batch, nor
the number of processes that share the work changes an example. Epoch 0 in order is what `assay
negatives` writes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from reffree.hashing import generator_of
from reffree.negatives import (
    POSITIVE,
    POSITIVES,
    REFERENCE,
    Material,
    NegativesConfig,
    make_negative,
)
from reffree.negatives.edits import CannotEdit, Sentence, count_words, cut_text, join
from reffree.negatives.hard_edits import FEWEST_WORDS
from reffree.training_pairs.buckets import Bucket, bucket_paths, neighbours_path, read_bucket

MAX_HELD_OUT_PAIRS = 5_000
"""Pairs of a side that are judged, at most; buckets are random samples, and so are these."""

_MAX_REMEMBERED = 1 << 12


@dataclass(frozen=True, slots=True)
class Example:
    """A source, a candidate and how good the candidate is said to be."""

    document_id: str
    number: int
    """Place among the pairs of the document's row; 0 but for several sources or references."""
    kind: str  # `positive`, or one of `negatives.KINDS`
    index: int  # place among the examples of this kind of this pair
    source: str
    candidate: str
    label: float  # in [0, 1]; 1 for the positive, 0 for a reference of another document
    n_edits: int
    base: str = REFERENCE
    """The positive that it is, or that it was made from; one of `negatives.POSITIVES`. Candidates
    of one pair with the same are compared."""
    aspect: str = ""
    """Heads that it teaches, with commas between them; where nothing is said those of its kind."""
    weight: float = 1.0  # how much a comparison with it counts


class Examples:
    """The examples of the buckets of one side; the vocabulary is always of the training side."""

    def __init__(
        self, buckets: Sequence[Path], config: NegativesConfig, vocabulary: Sequence[str]
    ) -> None:
        if not vocabulary and {"add", "replace"} & set(config.kinds):
            raise ValueError("`vocabulary` must have words for the kinds add and replace, got none")
        self._paths = list(buckets)
        self._config = config
        self._vocabulary = vocabulary
        self.left_out: Counter[tuple[str, str]] = Counter()
        """Negatives that could not be made, by kind and reason, over all epochs so far."""

    def epoch(self, epoch: int, *, in_order: bool = False) -> Iterator[list[Example]]:
        """Give the examples of an epoch by positive: it, then its negatives; shuffled or not."""

        def order(n: int, *named: str | int) -> list[int]:
            places = np.arange(n)
            if not in_order:
                places = generator_of(self._config.seed, *named).permutation(places)
            return places.tolist()

        for place in order(len(self._paths), "buckets", epoch):
            path = self._paths[place]
            neighbours = np.load(neighbours_path(path)) if self._config.needs_neighbours else None
            texts = _Texts(read_bucket(path), neighbours, self._config.language)
            for row in order(len(texts.bucket), "rows", epoch, place):
                yield from self._of_pair(texts, row, epoch)

    def held_out(self) -> Iterator[list[Example]]:
        """Give the examples that a scorer is judged by: of epoch 0, in order."""
        return islice(self.epoch(0, in_order=True), MAX_HELD_OUT_PAIRS)

    def reasons(self) -> dict[str, int]:
        """Count the negatives that could not be made by reason, the most frequent first."""
        return {f"{kind}: {reason}": n for (kind, reason), n in self.left_out.most_common()}

    def check_negatives(self, side: str, groups: Iterable[Sequence[Example]] | None = None) -> None:
        """Refuse a side without any negative, among `groups`: there is nothing to tell apart."""
        is_asked_first = groups is None
        if not any(one.kind != POSITIVE for group in groups or self.held_out() for one in group):
            why = ", ".join(f"{n} {reason}" for reason, n in self.reasons().items())
            raise ValueError(
                f"no negatives can be made for {side} ({why}); choose other kinds of negatives, or "
                "give more documents"
            )
        if is_asked_first:
            self.left_out.clear()  # making the examples counts them again

    def _of_pair(self, texts: _Texts, row: int, epoch: int) -> Iterator[list[Example]]:
        config, bucket = self._config, texts.bucket
        name, number = bucket.text("document_id", row), bucket.pairs.column("number")[row].as_py()
        source = bucket.text("source", row)
        seen: set[str] = set()
        for base in config.positives:
            positive = texts.positive(row, base)
            text = bucket.text("reference", row) if base == REFERENCE else join(positive)
            if text in seen or (base != REFERENCE and count_words(positive) < FEWEST_WORDS):
                continue
            seen.add(text)
            material = texts.material(row, base, self._vocabulary)
            negatives = []
            for kind in config.plan(name, number, epoch):
                rng = config.generator(kind, name, number, epoch, base)
                try:
                    draft = make_negative(kind, material, rng)
                except CannotEdit as reason:
                    self.left_out[kind, str(reason)] += 1
                    continue
                made = (draft.text, draft.label, draft.n_edits)
                negatives.append(Example(name, number, kind, 0, source, *made, base))
            n_positives = max(1, len(negatives)) if config.is_balanced else 1
            positives = [
                Example(name, number, POSITIVE, index, source, text, 1.0, 0, base)
                for index in range(n_positives)
            ]
            yield [*positives, *negatives]


class _Texts:
    """The texts of a bucket, cut; of recent pairs they are remembered."""

    def __init__(self, bucket: Bucket, neighbours: np.ndarray | None, language: str) -> None:
        self.bucket, self._neighbours, self._language = bucket, neighbours, language
        self._cut = functools.lru_cache(_MAX_REMEMBERED)(
            lambda row, column: cut_text(bucket.text(column, row), language)
        )
        self._made = functools.lru_cache(_MAX_REMEMBERED)(
            lambda row, base: POSITIVES[base](
                self._cut(row, "source"), self._cut(row, "reference"), language
            )
        )

    def positive(self, row: int, base: str) -> tuple[Sentence, ...]:
        """Return a positive of a pair."""
        # For a reference the source need not be cut into sentences.
        return self._cut(row, "reference") if base == REFERENCE else self._made(row, base)

    def material(self, row: int, base: str, vocabulary: Sequence[str]) -> Material:
        """Return what the negatives of a positive are made from."""
        bucket, neighbours = self.bucket, self._neighbours

        def other(rng: np.random.Generator) -> tuple[Sentence, ...]:
            drawn = bucket.other_than(row, rng)
            if drawn is None:
                raise CannotEdit("no other document")
            return self.positive(drawn, base)

        def near(rng: np.random.Generator) -> tuple[Sentence, ...]:
            known = () if neighbours is None else neighbours[row][neighbours[row] >= 0]
            if not len(known):
                raise CannotEdit("no near document")
            return self.positive(int(known[int(rng.integers(len(known)))]), base)

        return Material(
            positive=self.positive(row, base),
            read_source=lambda: self._cut(row, "source"),
            vocabulary=vocabulary,
            draw_other=other,
            draw_near=near,
            language=self._language,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPairs:
    """Pairs that lie ready on a disk that all processes see, and what became of the others."""

    folder: Path  # with the buckets, and the neighbours where they are needed
    vocabulary: tuple[str, ...]  # words of the training references
    n_rows: int
    n_pairs: Mapping[str, int]  # by side
    left_out: Mapping[str, int]  # rows, texts or pairs that are not used, by reason
    n_shared: int  # documents that share a text, or nearly a source, with another one
    has_own_split: bool  # whether the files said which side a document is on
    source_sample: tuple[int, ...]
    """Hashes of some of the sources for training, from `SourceSample`."""

    def examples(self, side: str, config: NegativesConfig) -> Examples:
        """Return the examples of a side."""
        return Examples(bucket_paths(self.folder, side), config, self.vocabulary)
