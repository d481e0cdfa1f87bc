"""Scores shards in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster.parts import Job, ShardReport
from cluster.shards import Shard
from cluster.worker import node_name, try_shard
from sms.scorers import Scorer


def run_local(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: Callable[[ShardReport], None] | None = None,
    *,
    on_start: Callable[[int, str], None] | None = None,
    max_attempts: int = 3,
) -> list[ShardReport]:
    """Score every shard that is handed in.

    A shard that keeps failing is reported with its error and the others go on. Interrupting
    leaves the shards that are done, and nothing of the one at work.

    Parameters
    ----------
    shards : sequence of Shard
        Those still to do (`committed` says which are done).
    make_scorer : callable
        Given the number of threads, returns the scorer. What it raises is raised here. Called again
        after a shard has failed: nobody knows what that has left in the scorer.
    job : Job
        What is the same for all of them.
    on_report : callable, optional
        Called with each report as soon as there is one.
    on_start : callable, optional
        Called with the index of each shard that is begun, and the name of this machine.
    max_attempts : int
        After so many failures a shard is given up.

    Returns
    -------
    list of ShardReport
        One per shard, in the order of `shards`; without their sums if `on_report` has had those,
        which for many shards and systems would fill the memory.
    """
    reports: list[ShardReport] = []
    if not shards:
        return reports
    scorer: Scorer | None = make_scorer(job.threads)
    for shard in shards:
        if on_start is not None:
            on_start(shard.index, node_name())
        for attempt in range(1, max_attempts + 1):
            if scorer is None:
                scorer = make_scorer(job.threads)
            report = replace(try_shard(shard, scorer, job), attempts=attempt)
            if report.error is None or report.is_out_of_room:
                break
            scorer = None  # before the next is made: there may be no memory for two
        if on_report is not None:
            on_report(report)
            report = report.without_sums()
        reports.append(report)
    return reports
