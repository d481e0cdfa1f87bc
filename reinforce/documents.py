"""Documents with their references, from the buckets of prepared pairs, in batches by length.

Documents are read a bucket at a time, so that memory does not grow with their number, taken a
pool at a time, sorted by length and cut into batches, and the batches shuffled. Every process
makes the same batches and takes its part of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

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


def read_documents(paths: Sequence[Path], *, seed: int | None = None, epoch: int = 0) -> Iterator[
    Document
]:  # fmt: skip
    """Read documents from buckets.

    Parameters
    ----------
    paths : sequence of Path
        Of one side; see `reffree.buckets`.
    seed : int, optional
        Shuffles buckets and the documents of each, anew in every epoch; without it they are
        sorted by name.
    epoch : int
    """
    rng = None if seed is None else generator_of("documents", seed, epoch)
    order = range(len(paths)) if rng is None else rng.permutation(len(paths)).tolist()
    for place in order:
        documents = _documents(paths[place])
        shuffled = range(len(documents)) if rng is None else rng.permutation(len(documents))
        for number in shuffled:
            yield documents[number]


def _documents(path: Path) -> list[Document]:
    """Put the pairs of a bucket that share document and source together."""
    pairs = read_bucket(path).pairs
    references: dict[tuple[str, str], list[str]] = {}
    columns = (pairs.column(name).to_pylist() for name in ("document_id", "source", "reference"))
    for document_id, source, reference in zip(*columns, strict=True):
        found = references.setdefault((document_id, source), [])
        if reference not in found:
            found.append(reference)
    return [Document(*key, tuple(found)) for key, found in references.items()]


def batches_of(
    documents: Iterator[Document],
    *,
    size: int,
    rng: np.random.Generator | None = None,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[list[Document]]:
    """Make batches of documents of about the same length.

    Parameters
    ----------
    documents : iterator of Document
    size : int
        Documents of a batch, over all processes.
    rng : Generator, optional
        Shuffles the batches of a pool; without it short documents come first.
    rank, n_ranks : int
        Which part of every batch this process takes.

    Raises
    ------
    ValueError
        If a full batch, or all of it, has fewer documents than there are processes.
    """
    following = list(islice(documents, size * POOL_BATCHES))
    while pool := following:
        following = list(islice(documents, size * POOL_BATCHES))
        if len(following) < n_ranks:  # too few for a batch of its own
            pool, following = pool + following, []
        pool.sort(key=lambda document: len(document.source))
        batches = [pool[start : start + size] for start in range(0, len(pool), size)]
        if len(batches) > 1 and len(batches[-1]) < n_ranks:
            last = batches.pop()
            batches[-1] += last
        n_fewest = min(size, len(batches[-1]))
        if n_fewest < n_ranks:
            raise ValueError(
                f"`workers` must be at most the documents of a batch, got {n_ranks} workers and a "
                f"batch of {n_fewest}; take fewer workers"
            )
        order = range(len(batches)) if rng is None else rng.permutation(len(batches)).tolist()
        for place in order:
            yield batches[place][rank::n_ranks]
