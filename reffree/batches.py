"""Batches of examples of about the same length, in an order that follows from seed and epoch.

Examples are taken a pool at a time, sorted by length, cut into batches, and the batches shuffled,
so that little is padded and memory does not grow with the corpus. Processes that share the work
all make the same batches and each takes its part of every one: what is learnt from a batch does
not depend on their number. (Each therefore cuts all texts, which is cheap beside training.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import torch

from reffree.examples import Example
from reffree.readers import Reader, Reading

POOL_BATCHES = 64
"""Batches that are sorted by length together."""


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
    n_cut: int
    """Examples of which some text was left out."""

    def document_ids(self) -> list[str]:
        """Name the documents, each once."""
        return list(dict.fromkeys(example.document_id for example in self.examples))


@dataclass(frozen=True, slots=True)
class _Unit:
    """Examples that stay together."""

    examples: Sequence[Example]
    readings: Sequence[Reading]

    @property
    def length(self) -> int:
        return max(reading.length for reading in self.readings)


def training_batches(
    groups: Iterable[Sequence[Example]],
    reader: Reader,
    *,
    size: int,
    rng: np.random.Generator,
    keeps_groups: bool = False,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[Batch]:
    """Make batches of the examples of pairs.

    Parameters
    ----------
    groups : iterable of sequence of Example
        The examples of one pair after the other, from `Examples.epoch`.
    reader : Reader
    size : int
        Examples of a batch, over all processes; a group that is kept together may make it larger.
    rng : Generator
        Shuffles the batches of a pool.
    keeps_groups : bool
        Whether the examples of a pair stay in one batch, as losses that compare them need.
    rank, n_ranks : int
        Which part of every batch this process takes. A batch that has not enough for all, at the
        end of a pool, is joined with the one before, and so is a pool at the end of the epoch.

    Raises
    ------
    ValueError
        If there are fewer examples (or kept groups) than processes, in all or in a full batch.
    """
    for pool in _pools(_units(groups, keeps_groups), size * POOL_BATCHES, n_ranks):
        batches = _cut(_read(pool, reader), size, n_ranks)
        for place in rng.permutation(len(batches)).tolist():
            yield _collated(batches[place][rank::n_ranks], reader)


def count_batches(
    n_groups: int, group_size: int, *, size: int, keeps_groups: bool = False, n_ranks: int = 1
) -> int:
    """Count the batches that `training_batches` makes of groups that all have one size.

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


def ordered_batches(
    groups: Iterable[Sequence[Example]],
    reader: Reader,
    *,
    size: int,
    keeps_groups: bool = False,
) -> Iterator[Batch]:
    """Make batches for judging a model: by length within a pool, no chance involved."""
    for pool in _pools(_units(groups, keeps_groups), size * POOL_BATCHES, 1):
        for batch in _cut(_read(pool, reader), size, 1):
            yield _collated(batch, reader)


def _units(groups: Iterable[Sequence[Example]], keeps_groups: bool) -> Iterator[Sequence[Example]]:
    return iter(groups) if keeps_groups else ([one] for one in chain.from_iterable(groups))


def _pools(
    units: Iterator[Sequence[Example]], n_examples: int, n_ranks: int
) -> Iterator[list[Sequence[Example]]]:
    """Deal units into pools of so many examples; one too small for all ranks joins the former."""
    pool = _take(units, n_examples)
    while pool:
        following = _take(units, n_examples)
        if len(following) < n_ranks:
            pool, following = pool + following, _take(units, n_examples)
        yield pool
        pool = following


def _take(units: Iterator[Sequence[Example]], n_examples: int) -> list[Sequence[Example]]:
    """Take units until they have so many examples."""
    pool: list[Sequence[Example]] = []
    n = 0
    while n < n_examples and (found := list(islice(units, 1))):
        pool += found
        n += len(found[0])
    return pool


def _read(pool: Sequence[Sequence[Example]], reader: Reader) -> list[_Unit]:
    examples = list(chain.from_iterable(pool))
    readings = iter(
        reader.read(
            [example.source for example in examples], [example.candidate for example in examples]
        )
    )
    return [_Unit(unit, list(islice(readings, len(unit)))) for unit in pool]


def _cut(units: Sequence[_Unit], size: int, n_ranks: int) -> list[list[_Unit]]:
    """Cut units, the shortest first, into batches of about `size` examples."""
    batches: list[list[_Unit]] = []
    n = size
    for unit in sorted(units, key=lambda unit: unit.length):
        if n + len(unit.examples) > size:
            batches.append([])
            n = 0
        batches[-1].append(unit)
        n += len(unit.examples)
    if len(batches) > 1 and len(batches[-1]) < n_ranks:
        last = batches.pop()
        batches[-1] += last
    if min(map(len, batches)) < n_ranks:
        raise ValueError(
            f"`workers` must be at most the examples of a batch, got {n_ranks} workers and a batch "
            f"of {min(map(len, batches))}; take fewer workers or larger batches"
        )
    return batches


def _collated(units: Sequence[_Unit], reader: Reader) -> Batch:
    examples = tuple(chain.from_iterable(unit.examples for unit in units))
    readings = [reading for unit in units for reading in unit.readings]
    numbers = {key: n for n, key in enumerate(dict.fromkeys(map(_pair_of, examples)))}
    return Batch(
        inputs=reader.collate(readings),
        labels=torch.tensor([example.label for example in examples], dtype=torch.float32),
        groups=torch.tensor([numbers[_pair_of(example)] for example in examples]),
        examples=examples,
        n_cut=sum(reading.is_cut for reading in readings),
    )


def _pair_of(example: Example) -> tuple[str, int]:
    """Name its pair."""
    return example.document_id, example.number
