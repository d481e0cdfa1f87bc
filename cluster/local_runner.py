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
    """Score every shard that is handed in, and return a report of each, in their order.

    A shard that has failed `max_attempts` times is reported with its error. An interrupt leaves
    whole shards only. `make_scorer` is given the number of threads; what it raises is raised here.
    It is called again after a shard has failed, which may have left the scorer damaged. `on_start`
    is called with the index of each shard that is begun, and the name of this machine. `on_report`
    is called with each report at once; those that are returned then lack the sums, which for many
    shards and systems would fill the memory.
    """
    waiting = deque(enumerate(shards))
    reports: dict[int, ShardReport] = {}
    attempts = Counter[int]()
    while waiting:
        results = _until_a_failure(waiting, make_scorer(job.threads), job, on_start)
        with closing(results):
            for place, shard, result in results:
                if result is None:  # discarded: another shard failed on the same scorer
                    waiting.appendleft((place, shard))
                    continue
                attempts[place] += 1
                report = replace(result, attempts=attempts[place])
                if _is_fault(report) and attempts[place] < max_attempts:
                    waiting.appendleft((place, shard))
                    continue
                if on_report is not None:
                    on_report(report)
                    report = report.without_sums()
                reports[place] = report
        del results  # before the next scorer is made: there may be no memory for two
    return [reports[place] for place in range(len(shards))]


def _is_fault(report: ShardReport) -> bool:
    return report.error is not None and not report.is_out_of_room


def _until_a_failure(
    waiting: deque[tuple[int, Shard]],
    scorer: Scorer,
    job: Job,
    on_start: Callable[[int, str], None] | None,
) -> Generator[tuple[int, Shard, ShardReport | None]]:
    """Score what waits until a shard fails; a shard has no report if that spoiled the scorer."""
    shared = SharedScorer(scorer)
    under_way: dict[Future[ShardReport], tuple[int, Shard]] = {}
    is_fine = True
    with ThreadPoolExecutor(job.shards_at_once) as pool:
        try:
            while under_way or (waiting and is_fine):
                while waiting and is_fine and len(under_way) < job.shards_at_once:
                    place, shard = waiting.popleft()
                    if on_start is not None:
                        on_start(shard.index, node_name())
                    begin = pool.submit if job.shards_at_once > 1 else _done_here
                    under_way[begin(try_shard, shard, shared, job)] = place, shard
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    place, shard = under_way.pop(future)
                    try:
                        report: ShardReport | None = future.result()
                    except Spoiled:
                        report = None
                    is_fine = is_fine and report is not None and not _is_fault(report)
                    yield place, shard, report
        except BaseException:  # an interrupt: what is under way ends with its batch
            shared.spoil()
            raise


def _done_here(function: Callable[..., ShardReport], *arguments: object) -> Future[ShardReport]:
    """Call a function in this thread, which one that is interrupted has to be."""
    future = Future[ShardReport]()
    future.set_result(function(*arguments))
    return future
