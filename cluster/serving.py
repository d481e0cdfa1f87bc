"""What a worker is, wherever it runs: it makes a scorer, says what it is, and scores shards.

It decides nothing. What follows from a failure is in `driver`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cluster.facts import Description, Facts, facts_here
from cluster.parts import Job, ShardReport
from cluster.shards import Shard
from cluster.shared_scorer import SharedScorer, Spoiled
from cluster.worker import node_name, try_shard
from sms.scorers import Scorer


def no_description(_scorer: Any) -> Description:  # noqa: ANN401
    """Describe a scorer of which nothing has to be the same everywhere."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker is told when it is started; it can be pickled if its functions can."""

    make_scorer: Callable[[int], Scorer]
    """Is given the number of threads."""
    threads: int = 1
    describe: Callable[[Any], Description] = no_description
    """Says what a scorer is, which all workers must say alike."""
    versions: Mapping[str, str] | None = None
    """Of the driver, by distribution; None on its own machine, where they are the same."""
    mark: str | None = None
    """A file of the driver in the folder of the run; None if the folder needs no check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A worker has made its scorer, or cannot."""

    facts: Facts
    failure: Exception | None = None
    """What making the scorer raised."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A shard was not scored, because another one has spoiled the scorer."""

    index: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker has ended, nobody knows why."""

    how: str


News = Ready | ShardReport | Unfinished | Ended


class Worker:
    """A scorer, and what is said of it; `score` may be called by two threads at once."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._scorer: SharedScorer | None = None

    def make_ready(self) -> Ready:
        """Look around and make the scorer."""
        setup = self._setup
        pa.set_cpu_count(setup.threads)
        facts = Facts(node=node_name())
        if setup.versions is not None:
            facts = facts_here(
                setup.versions, sees_out=not setup.mark or os.path.exists(setup.mark)
            )
        try:
            scorer = setup.make_scorer(setup.threads)
            facts = replace(facts, scorer=setup.describe(scorer))
        except Exception as error:  # noqa: BLE001  (the driver raises it)
            return Ready(facts=facts, failure=error)
        self._scorer = SharedScorer(scorer)
        return Ready(facts=facts)

    def score(self, shard: Shard, job: Job) -> ShardReport | Unfinished:
        """Score one shard; its own failure is a report."""
        if self._scorer is None:
            raise RuntimeError("this worker was not made ready")
        try:
            return try_shard(shard, self._scorer, job)
        except Spoiled:
            return Unfinished(shard.index)

    def spoil(self) -> None:
        """Have what is under way end with its batch."""
        if self._scorer is not None:
            self._scorer.spoil()
