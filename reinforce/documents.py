"""Documents with their references, from the buckets of prepared pairs, in batches by length.

Documents are read a bucket at a time, so that memory does not grow with their number. Batches are
made as those of `reffree.batches`: every process makes the same and takes its part of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reffree.batches import cut, pools, shuffled
from reffree.buckets import read_bucket
from reffree.hashing import generator_of

POOL_BATCHES = 32
"""Batches that are sorted by length together."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document and what people wrote about it."""

    document_id: str
    source: str
    references: tuple[str, ...]

    def reference(self, epoch: int) -> str:
        """Return the reference that is learnt from in an epoch: each in its turn."""
        return self.references[epoch % len(self.references)]


def read_documents(
    paths: Sequence[Path], *, seed: int | None = None, epoch: int = 0
) -> Iterator[Document]:
    """Read documents from the buckets of one side.

    A seed shuffles buckets and the documents of each, anew in every epoch; without it they are
    sorted by name.
    """
    rng = None if seed is None else generator_of("documents", seed, epoch)
    for path in shuffled(paths, rng):
        pairs = read_bucket(path).pairs
        references: dict[tuple[str, str], dict[str, None]] = {}  # in order, each once
        names = ("document_id", "source", "reference")
        columns = (pairs.column(name).to_pylist() for name in names)
        for document_id, source, reference in zip(*columns, strict=True):
            references.setdefault((document_id, source), {})[reference] = None
        documents = [Document(*key, tuple(own)) for key, own in references.items()]
        yield from shuffled(documents, rng)


def batches_of(
    documents: Iterator[Document],
    *,
    size: int,
    rng: np.random.Generator | None = None,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[list[Document]]:
    """Make batches of documents of about the same length, `size` over all processes.

    Random numbers shuffle the batches of a pool; without them short documents come first.
    """
    for pool in pools(documents, size * POOL_BATCHES, n_ranks):
        made = cut(pool, size, n_ranks, length=lambda one: len(one.source), what="documents")
        for batch in shuffled(made, rng):
            yield batch[rank::n_ranks]
