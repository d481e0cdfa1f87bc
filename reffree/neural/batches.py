"""Batches of examples of about the same length, in an order that follows from seed and epoch.

Examples are taken a pool at a time, sorted by length, cut into batches, and the batches shuffled,
so that little is padded and memory does not grow with the corpus. Processes that share the work
all make the same batches and each takes its part of every one: what is learnt from a batch does
not depend on their number. (Each therefore cuts all texts, which is cheap compared to training.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import torch

from reffree.neural.readers import Reader
from reffree.training_pairs.examples import Example

POOL_BATCHES = 64  # batches that are sorted by length together

U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some examples, ready for a model."""

    inputs: dict[str, torch.Tensor]  # arguments of the model
    labels: torch.Tensor  # float32, shape (n,)
    examples: tuple[Example, ...]

    def document_ids(self) -> list[str]:
        """Name the documents, each once."""
        return list(dict.fromkeys(example.document_id for example in self.examples))


def batches(
    groups: Iterable[Sequence[Example]],
    reader: Reader,
    *,
    size: int,
    rng: np.random.Generator | None = None,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[Batch]:
    """Make batches of examples from `Examples.epoch`, of `size` over all processes.

    `rng` shuffles the batches of a pool; without it short ones come first. This process takes the
    part `rank` of each; a batch too small for all `n_ranks` is joined with the one before.
    """
    for pool in pools(chain.from_iterable(groups), size * POOL_BATCHES, n_ranks):
        readings = reader.read([e.source for e in pool], [e.candidate for e in pool])
        read = list(zip(pool, readings, strict=True))
        made = cut(read, size, n_ranks, length=lambda one: one[1].length, what="examples")
        for batch in shuffled(made, rng):
            examples, rank_readings = zip(*batch[rank::n_ranks], strict=True)
            labels = torch.tensor([one.label for one in examples], dtype=torch.float32)
            yield Batch(reader.collate(rank_readings), labels, examples)


def count_batches(n_examples: int, *, size: int, n_ranks: int = 1) -> int:
    """Count the batches that `batches` makes of so many examples."""
    pool = size * POOL_BATCHES

    def n_parts(n: int, part: int) -> int:
        return max(1, n // part + (n % part >= n_ranks))  # what is too small for all is joined

    n_pools = n_parts(n_examples, pool)
    last = n_examples - (n_pools - 1) * pool
    return (n_pools - 1) * n_parts(pool, size) + n_parts(last, size)


def pools(units: Iterator[U], size: int, n_ranks: int) -> Iterator[list[U]]:
    """Deal units into pools of `size`; a last pool too small for all ranks joins the former."""
    pool = list(islice(units, size))
    while pool:
        following = list(islice(units, size))
        if len(following) < n_ranks:
            pool, following = pool + following, list(islice(units, size))
        yield pool
        pool = following


def cut(
    units: Sequence[U], size: int, n_ranks: int, *, length: Callable[[U], int], what: str
) -> list[list[U]]:
    """Cut units, the shortest first, into batches of `size`."""
    ordered = sorted(units, key=length)
    made = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if len(made) > 1 and len(made[-1]) < n_ranks:
        last = made.pop()
        made[-1] += last
    n_fewest = min(map(len, made))
    if n_fewest < n_ranks:
        raise ValueError(
            f"`workers` must be at most the {what} of a batch, got {n_ranks} workers and a batch "
            f"of {n_fewest}; take fewer workers or larger batches"
        )
    return made


def shuffled(made: Sequence[U], rng: np.random.Generator | None) -> Iterator[U]:
    """Give batches in an order of chance, or as they are."""
    order = range(len(made)) if rng is None else rng.permutation(len(made)).tolist()
    return (made[place] for place in order)
