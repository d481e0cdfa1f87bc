"""Training examples: every pair's reference and its negatives, drawn anew for every epoch.

An example follows from its pair, the configuration (with its seed) and the epoch; only cross
pairs and replaced sentences have a part of another document, and only words that are added come
from the training vocabulary. Neither the order of the pairs, nor what else is in a batch, nor
the number of processes that share the work changes an example.

    examples = Examples(bucket_paths(folder, "train"), config, vocabulary)
    for epoch in range(n_epochs):
        for group in examples.epoch(epoch, rank=rank, n_ranks=n_ranks):
            ...  # the positive first, then its negatives: what a ranking loss compares

Epoch 0 in order is what `assay negatives` writes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reffree.buckets import Bucket, neighbours_path, read_bucket
from reffree.cut_text import cut_text
from reffree.edits import CannotEdit
from reffree.hashing import generator_of
from reffree.mixture import NegativesConfig
from reffree.negatives import POSITIVE, Material, make_negative


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
    """The examples of one side.

    Parameters
    ----------
    buckets : sequence of Path
        From `buckets.bucket_paths`, with `neighbours_path` beside each if the configuration
        needs neighbours.
    config : NegativesConfig
    vocabulary : sequence of str
        Words for additions and replacements; of the training side, whatever side this is.

    Raises
    ------
    ValueError
        If there is no bucket, no word and a kind that needs one, or no file of neighbours and a
        kind that needs it.
    """

    def __init__(
        self, buckets: Sequence[Path], config: NegativesConfig, vocabulary: Sequence[str]
    ) -> None:
        if not buckets:
            raise ValueError("`buckets` must name at least one file, got none")
        if not vocabulary and {"add", "replace"} & set(config.kinds):
            raise ValueError("`vocabulary` must have words for the kinds add and replace, got none")
        without = [path for path in buckets if not neighbours_path(path).exists()]
        if config.needs_neighbours and without:
            raise ValueError(
                f"`buckets` must have neighbours for cross-pair-hard, got none for {without[0]}; "
                "call `write_neighbours` for every bucket"
            )
        self._paths = list(buckets)
        self._config = config
        self._vocabulary = vocabulary
        self.left_out: Counter[tuple[str, str]] = Counter()
        """Negatives that could not be made, by kind and reason, over all epochs so far."""
        self.n_repeated = 0
        """Pairs of the last epoch's buckets that were there twice and are used once."""

    def epoch(
        self, epoch: int, *, rank: int = 0, n_ranks: int = 1, in_order: bool = False
    ) -> Iterator[list[Example]]:
        """Give the examples of an epoch, pair by pair: the positive, then its negatives.

        Parameters
        ----------
        epoch : int
            From 0.
        rank, n_ranks : int
            Of `n_ranks` processes each gets every n-th pair of every bucket.
        in_order : bool
            By bucket and document instead of shuffled.
        """
        self.n_repeated = 0
        seed = self._config.seed
        places = np.arange(len(self._paths))
        if not in_order:
            places = generator_of(seed, "buckets", epoch).permutation(places)
        for place in places.tolist():
            bucket, n_repeated = read_bucket(self._paths[place])
            self.n_repeated += n_repeated
            rows = np.arange(len(bucket))
            if not in_order:
                rows = generator_of(seed, "rows", epoch, place).permutation(rows)
            neighbours = self._neighbours(self._paths[place])
            for row in rows[rank::n_ranks].tolist():
                yield self._of_pair(bucket, neighbours, row, epoch)

    def _neighbours(self, path: Path) -> np.ndarray | None:
        if not self._config.needs_neighbours:
            return None
        found: np.ndarray = np.load(neighbours_path(path), allow_pickle=False)
        return found

    def _of_pair(
        self, bucket: Bucket, neighbours: np.ndarray | None, row: int, epoch: int
    ) -> list[Example]:
        config = self._config
        name, number = bucket.text("document_id", row), bucket.number(row)
        source, reference = bucket.text("source", row), bucket.text("reference", row)
        material = _material(bucket, neighbours, row, self._vocabulary)
        negatives = []
        planned = config.plan(name, number, epoch)
        for kind, index in planned:
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
