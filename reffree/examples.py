"""Training examples: every pair's reference and its negatives, drawn anew for every epoch.

An example follows from its pair, the configuration (with its seed) and the epoch; only cross
pairs and replaced sentences have a part of another document, and only words that are added come
from the training vocabulary. Neither the order of the pairs, nor what else is in a batch, nor
the number of processes that share the work changes an example.

    for group in Examples(bucket_paths(folder, "train"), config, vocabulary).epoch(epoch):
        ...  # the positive first, then its negatives: what a ranking loss compares

Epoch 0 in order is what `assay negatives` writes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from reffree.buckets import Bucket, bucket_paths, neighbours_path, read_bucket
from reffree.cut_text import cut_text
from reffree.edits import CannotEdit
from reffree.hashing import generator_of
from reffree.negatives import POSITIVE, Material, NegativesConfig, make_negative

MAX_HELD_OUT_PAIRS = 5_000
"""Pairs of a side that are judged, at most; buckets are random samples, and so are these."""


@dataclass(frozen=True, slots=True)
class Example:
    """A source, a candidate and how good the candidate is said to be."""

    document_id: str
    number: int
    """Place among the pairs of the document's row; 0 but for several sources or references."""
    kind: str
    """`positive`, or one of `negatives.KINDS`."""
    index: int
    """Place among the examples of this kind of this pair."""
    source: str
    candidate: str
    label: float
    """In [0, 1]; 1 for the positive, 0 for a reference of another document."""
    n_edits: int


class Examples:
    """The examples of the buckets of one side.

    The vocabulary, for additions and replacements, is of the training side, whatever side this is.
    """

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
        self.n_repeated = 0
        """Pairs of the last epoch's buckets that were there twice and are used once."""

    def epoch(self, epoch: int, *, in_order: bool = False) -> Iterator[list[Example]]:
        """Give the examples of an epoch, pair by pair: the positive, then its negatives.

        In the order of buckets and documents, or shuffled.
        """
        self.n_repeated = 0
        seed = self._config.seed
        places = np.arange(len(self._paths))
        if not in_order:
            places = generator_of(seed, "buckets", epoch).permutation(places)
        for place in places.tolist():
            bucket = read_bucket(self._paths[place])
            self.n_repeated += bucket.n_repeated
            rows = np.arange(len(bucket))
            if not in_order:
                rows = generator_of(seed, "rows", epoch, place).permutation(rows)
            neighbours = (
                np.load(neighbours_path(self._paths[place]), allow_pickle=False)
                if self._config.needs_neighbours
                else None
            )
            for row in rows.tolist():
                yield self._of_pair(bucket, neighbours, row, epoch)

    def held_out(self) -> Iterator[list[Example]]:
        """Give the examples that a scorer is judged by: of epoch 0, in order."""
        return islice(self.epoch(0, in_order=True), MAX_HELD_OUT_PAIRS)

    def check_negatives(self, side: str) -> None:
        """Refuse a side of which no pair has a negative: there is nothing to tell apart."""
        if not any(one.kind != POSITIVE for group in self.held_out() for one in group):
            why = ", ".join(f"{n} {kind}: {text}" for (kind, text), n in self.left_out.items())
            raise ValueError(
                f"`negatives` must give both classes, got none for {side} ({why}); choose other "
                "kinds or give more documents"
            )
        self.left_out.clear()  # counted once more when they are used

    def _of_pair(
        self, bucket: Bucket, neighbours: np.ndarray | None, row: int, epoch: int
    ) -> list[Example]:
        config = self._config
        name, number = bucket.text("document_id", row), int(bucket.numbers[row])
        source, reference = bucket.text("source", row), bucket.text("reference", row)
        material = _material(bucket, neighbours, row, self._vocabulary)
        negatives = []
        for kind, index in config.plan(name, number, epoch):
            rng = config.generator(kind, index, name, number, epoch)
            try:
                draft = make_negative(
                    kind, material, config.rate, rng, length_tolerance=config.length_tolerance
                )
            except CannotEdit as reason:
                self.left_out[kind, str(reason)] += 1
                continue
            negatives.append(
                Example(name, number, kind, index, source, draft.text, draft.label, draft.n_edits)
            )
        n_positives = max(1, len(negatives)) if config.is_balanced else 1
        positives = [
            Example(name, number, POSITIVE, index, source, reference, 1.0, 0)
            for index in range(n_positives)
        ]
        return [*positives, *negatives]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFolder:
    """Pairs that lie ready on a disk that all processes see."""

    folder: Path
    """With the buckets, and the neighbours where they are needed."""
    vocabulary: tuple[str, ...]
    n_training_pairs: int

    def examples(self, side: str, config: NegativesConfig) -> Examples:
        """Return the examples of a side."""
        return Examples(bucket_paths(self.folder, side), config, self.vocabulary)


def _material(
    bucket: Bucket, neighbours: np.ndarray | None, row: int, vocabulary: Sequence[str]
) -> Material:
    def other(rng: np.random.Generator) -> str:
        found = bucket.other_than(row, int(rng.integers(2**64, dtype=np.uint64)))
        if found is None:
            raise CannotEdit("no other document")
        return bucket.text("reference", found)

    def near(rng: np.random.Generator) -> str:
        known = () if neighbours is None else neighbours[row][neighbours[row] >= 0]
        if not len(known):
            raise CannotEdit("no near document")
        return bucket.text("reference", int(known[int(rng.integers(len(known)))]))

    return Material(
        reference=cut_text(bucket.text("reference", row)),
        read_source=functools.cache(lambda: cut_text(bucket.text("source", row))),
        vocabulary=vocabulary,
        draw_other=other,
        draw_near=near,
    )
