"""Scores shards in this process, one after the other; with a GPU, two at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace

from cluster.parts import Job, ShardReport
from cluster.shards import Shard
from cluster.shared_scorer import SharedScorer, Spoiled
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

    A shard that keeps failing is reported with its error. An interrupt leaves whole shards only.

    Parameters
    ----------
    shards : sequence of Shard
        Those still to do (`committed` says which are done).
    make_scorer : callable
        Given the number of threads, returns the scorer. What it raises is raised here. Called again
        after a shard has failed, which may have left the scorer damaged.
    job : Job
        What is the same for all of them.
    on_report : callable, optional
        Called with each report at once.
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
    waiting = deque(enumerate(shards))
    reports: dict[int, ShardReport] = {}
    attempts = Counter[int]()
    scorer: Scorer | None = make_scorer(job.threads) if shards else None
    while waiting:
        if scorer is None:
            scorer = make_scorer(job.threads)
        with closing(_scored(waiting, scorer, job, on_start)) as results:
            for place, shard, result in results:
                if result is None:  # of no use, since another shard has failed on the same scorer
                    waiting.appendleft((place, shard))
                    continue
                attempts[place] += 1
                report = replace(result, attempts=attempts[place])
                if report.error is not None and not report.is_out_of_room:
                    scorer = None  # before the next is made: there may be no memory for two
                    if attempts[place] < max_attempts:
                        waiting.appendleft((place, shard))
                        continue
                if on_report is not None:
                    on_report(report)
                    report = report.without_sums()
                reports[place] = report
        del results
    return [reports[place] for place in range(len(shards))]


def _scored(
    waiting: deque[tuple[int, Shard]],
    scorer: Scorer,
    job: Job,
    on_start: Callable[[int, str], None] | None,
) -> Generator[tuple[int, Shard, ShardReport | None]]:
    """Score what waits until a shard fails; a shard has no report if that spoiled the scorer."""
    if job.shards_at_once == 1:
        yield from _one_by_one(waiting, scorer, job, on_start)
        return
    shared = SharedScorer(scorer, job.text_processes)
    under_way: dict[Future[ShardReport], tuple[int, Shard]] = {}
    is_fine = True
    with closing(shared), ThreadPoolExecutor(job.shards_at_once) as pool:
        try:
            while under_way or (waiting and is_fine):
                while waiting and is_fine and len(under_way) < job.shards_at_once:
                    place, shard = _begin(waiting, on_start)
                    future = pool.submit(try_shard, shard, shared, job)
                    under_way[future] = place, shard
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    place, shard = under_way.pop(future)
                    try:
                        report: ShardReport | None = future.result()
                    except Spoiled:
                        report = None
                    is_fine = is_fine and report is not None and report.error is None
                    yield place, shard, report
        except BaseException:  # an interrupt: what is under way ends with its batch
            shared.spoil()
            raise


def _one_by_one(
    waiting: deque[tuple[int, Shard]],
    scorer: Scorer,
    job: Job,
    on_start: Callable[[int, str], None] | None,
) -> Generator[tuple[int, Shard, ShardReport]]:
    is_fine = True
    while waiting and is_fine:
        place, shard = _begin(waiting, on_start)
        report = try_shard(shard, scorer, job)
        is_fine = report.error is None
        yield place, shard, report


def _begin(
    waiting: deque[tuple[int, Shard]], on_start: Callable[[int, str], None] | None
) -> tuple[int, Shard]:
    place, shard = waiting.popleft()
    if on_start is not None:
        on_start(shard.index, node_name())
    return place, shard
