"""Batches of examples of about the same length, in an order that follows from seed and epoch.

Examples are taken a pool at a time, sorted by length, cut into batches, and the batches shuffled,
so that little is padded and memory does not grow with the corpus. Processes that share the work
all make the same batches and each takes its part of every one: what is learnt from a batch does
not depend on their number. (Each therefore cuts all texts, which is cheap beside training.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import torch

from reffree.examples import Example
from reffree.readers import Reader, Reading

POOL_BATCHES = 64
"""Batches that are sorted by length together."""

U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some examples, ready for a model."""

    inputs: dict[str, torch.Tensor]
    """Arguments of the model."""
    labels: torch.Tensor
    """float32, shape (n,)."""
    groups: torch.Tensor
    """Number of each example's pair, int64, shape (n,)."""
    examples: tuple[Example, ...]

    def document_ids(self) -> list[str]:
        """Name the documents, each once."""
        return list(dict.fromkeys(example.document_id for example in self.examples))


@dataclass(frozen=True, slots=True)
class _Unit:
    """Examples that stay together."""

    examples: Sequence[Example]
    readings: Sequence[Reading]

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def length(self) -> int:
        return max(reading.length for reading in self.readings)


def batches(
    groups: Iterable[Sequence[Example]],
    reader: Reader,
    *,
    size: int,
    rng: np.random.Generator | None = None,
    keeps_groups: bool = False,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[Batch]:
    """Make batches of the examples of pairs, of `size` examples over all processes.

    `groups` are the examples of one pair after the other, from `Examples.epoch`. With
    `keeps_groups`, as losses that compare them need, the examples of a pair stay in one batch,
    which may be larger for it. `rng` shuffles the batches of a pool; without it short ones come
    first. This process takes the part `rank` of every batch; a batch that has not enough for all
    `n_ranks` is joined with the one before, and so is a pool at the end of the epoch.
    """
    units = iter(groups) if keeps_groups else ([one] for one in chain.from_iterable(groups))
    for pool in pools(units, size * POOL_BATCHES, n_ranks, n_of=len):
        made = cut(
            _read(pool, reader), size, n_ranks, length=lambda unit: unit.length, n_of=len,
            what="examples",
        )  # fmt: skip
        for batch in shuffled(made, rng):
            yield _collated(batch[rank::n_ranks], reader)


def count_batches(
    n_groups: int, group_size: int, *, size: int, keeps_groups: bool = False, n_ranks: int = 1
) -> int:
    """Count the batches that `batches` makes of groups that all have one size.

    Examples
    --------
    >>> count_batches(7, 5, size=12), count_batches(7, 5, size=12, keeps_groups=True)
    (3, 4)
    """
    unit_size = group_size if keeps_groups else 1
    n_units = n_groups * group_size // unit_size
    pool = math.ceil(size * POOL_BATCHES / unit_size)
    batch = max(1, size // unit_size)

    def n_parts(n: int, part: int) -> int:
        return max(1, n // part + (n % part >= n_ranks))  # what is too small for all is joined

    n_pools = n_parts(n_units, pool)
    last = n_units - (n_pools - 1) * pool
    return (n_pools - 1) * n_parts(pool, batch) + n_parts(last, batch)


def pools(
    units: Iterator[U], size: int, n_ranks: int, *, n_of: Callable[[U], int]
) -> Iterator[list[U]]:
    """Deal units into pools of so many examples; one too small for all ranks joins the former."""

    def take() -> list[U]:
        pool: list[U] = []
        n = 0
        while n < size and (found := list(islice(units, 1))):
            pool += found
            n += n_of(found[0])
        return pool

    pool = take()
    while pool:
        following = take()
        if len(following) < n_ranks:
            pool, following = pool + following, take()
        yield pool
        pool = following


def cut(
    units: Sequence[U],
    size: int,
    n_ranks: int,
    *,
    length: Callable[[U], int],
    n_of: Callable[[U], int],
    what: str,
) -> list[list[U]]:
    """Cut units, the shortest first, into batches of about `size` examples."""
    made: list[list[U]] = []
    n = size
    for unit in sorted(units, key=length):
        if n + n_of(unit) > size:
            made.append([])
            n = 0
        made[-1].append(unit)
        n += n_of(unit)
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


def _read(pool: Sequence[Sequence[Example]], reader: Reader) -> list[_Unit]:
    examples = list(chain.from_iterable(pool))
    readings = iter(reader.read([e.source for e in examples], [e.candidate for e in examples]))
    return [_Unit(unit, list(islice(readings, len(unit)))) for unit in pool]


def _collated(units: Sequence[_Unit], reader: Reader) -> Batch:
    examples = tuple(chain.from_iterable(unit.examples for unit in units))
    pairs = [(example.document_id, example.number) for example in examples]
    numbers = {pair: n for n, pair in enumerate(dict.fromkeys(pairs))}
    return Batch(
        inputs=reader.collate([reading for unit in units for reading in unit.readings]),
        labels=torch.tensor([example.label for example in examples], dtype=torch.float32),
        groups=torch.tensor([numbers[pair] for pair in pairs]),
        examples=examples,
    )
