"""Drives a run: starts workers, hands out shards, and replaces each worker that fails or ends.

It alone decides what a failure means, whatever the workers are: this process, other processes, or
actors of Ray. These are pools, which start and end workers, pass shards on, and tell the news.
Which shard goes where is in `schedule`.

A worker that has failed is never repaired. Another one takes its number, since the failure may have
left the scorer or the process in any state. One that cannot make its scorer, or would not score as
the driver does, keeps its room, so that no other one is started there.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from cluster.facts import Description, Facts, refusal
from cluster.parts import Job, ShardReport
from cluster.schedule import CONTINUE, OVERLONG, Schedule
from cluster.serving import Ended, News, Ready, Unfinished
from cluster.shards import Shard
from cluster.worker import one_line
from sms.naming import counted

MAX_FAILED_STARTS = 5
"""A worker that ends so often in a row before it is ready is not started again."""
LOOK_AROUND_EVERY_S = 5.0
"""So often the driver looks for room for more workers and for shards that take too long."""
_REMIND_EVERY_S = 60.0
_TICK_S = 1.0

logger = logging.getLogger(__name__)


class Pool(Protocol):
    """Workers of one kind, by number."""

    def begin(self, job: Job) -> None:
        """Learn what is the same for every shard, before the first one is sent."""

    def room(self) -> tuple[int, int]:
        """Say how many workers there should be, and how many more a cluster may grow for."""

    def start(self, worker: int) -> None:
        """Start a worker, which then says that it is ready."""

    def send(self, worker: int, shard: Shard) -> None:
        """Have a worker score a shard."""

    def kill(self, worker: int) -> None:
        """End a worker, of which there is no more news; it may have ended already."""

    def news(self, timeout_s: float) -> Iterable[tuple[int, News]]:
        """Wait for news; return all there is, by worker."""

    def close(self) -> None:
        """End all workers."""


@dataclass(eq=False)
class _Worker:
    number: int
    n_failed_starts: int = 0
    is_out: bool = False
    """Whether it never gets a shard, but counts as a worker."""
    # of the process or actor that has this number now
    place: int = -1
    """Where it runs, once it is ready: the schedule holds failures against places."""
    node: str = ""
    shards: dict[int, Shard] = field(default_factory=dict)
    """What it has under way, by index."""
    has_failed: bool = False
    """Whether it is replaced as soon as nothing is under way on it."""

    @property
    def is_ready(self) -> bool:
        return self.place >= 0

    @property
    def is_starting(self) -> bool:
        return not (self.is_ready or self.is_out)


class Driver:
    """The workers of a run, from their start to the last report.

    `expected` is what a worker must say of itself. Without, its scorer must be the first one's.
    `on_look` is given the numbers of shards (waiting, running) and workers (busy, starting, idle).
    """

    def __init__(
        self,
        pool: Pool,
        expected: Facts | None = None,
        *,
        on_look: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._pool = pool
        self._expected = expected or Facts(node="")
        self._on_look = on_look
        self._schedule = Schedule((), 1, 0.0)
        self._report: Callable[[ShardReport], None] = lambda _: None
        self._workers: dict[int, _Worker] = {}
        self._shards_at_once = 1
        self._idle: list[_Worker] = []
        """A worker stands here once for every further shard that it can take."""
        self._n_wanted = self._n_places = 0
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._was_ready = self._has_begun = False
        self._last_failure = ""
        self._looked_around = self._reminded = time.monotonic()

    def start(self, n_workers: int) -> None:
        """Start the workers there is room for, this many at most."""
        self._n_wanted, _ = self._pool.room()
        self._start_until(min(max(1, self._n_wanted), n_workers))

    def description(self) -> Description:
        """Wait for the first worker that has made its scorer; return what it says of that.

        Raises `RuntimeError` if all workers end before, and whatever making the scorer raises.
        """
        self.wait_for(1)
        return self._expected.scorer

    def wait_for(self, n_ready: int) -> None:
        """Wait until so many workers are ready; raise what `description` does."""
        while sum(worker.is_ready for worker in self._workers.values()) < n_ready:
            self._take_news(_TICK_S)
            self._look_around()
            self._check_that_some_work()

    def run(
        self,
        schedule: Schedule,
        job: Job,
        on_report: Callable[[ShardReport], None],
        on_start: Callable[[int, str], None] | None = None,
    ) -> None:
        """Have every shard of a schedule scored; what becomes of each is reported.

        Raises `RuntimeError` if no worker can be kept alive.
        """
        self._schedule, self._report, self._has_begun = schedule, on_report, True
        self._shards_at_once = job.shards_at_once
        self._pool.begin(job)
        self._idle = [each for each in self._workers.values() if each.is_ready] * job.shards_at_once
        self._grow()
        while schedule.n_open:
            self._hand_out(on_start)
            self._check_that_some_work()
            self._take_news(_TICK_S)
            self._look_around()

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        self._pool.close()

    # Workers

    def _start_until(self, n_workers: int) -> None:
        while len(self._workers) < n_workers:
            worker = _Worker(number=max(self._workers, default=-1) + 1)
            self._workers[worker.number] = worker
            self._pool.start(worker.number)

    def _look_around(self) -> None:
        now = time.monotonic()
        if now - self._looked_around < LOOK_AROUND_EVERY_S:
            return
        self._looked_around = now
        self._on_look(self._counts())
        self._take_news(0)  # the driver itself may have been held up
        self._end_overlong()
        self._grow()
        if now - self._reminded >= _REMIND_EVERY_S:
            self._reminded = now
            self._remind()

    def _remind(self) -> None:
        """Say how many workers are awaited; those that a cluster may grow for are not."""
        n_wanted = max(1, self._n_wanted)
        n_starting = sum(worker.is_starting for worker in self._workers.values())
        n_awaited = min(n_starting, n_wanted - (len(self._workers) - n_starting))
        if n_awaited > 0:
            logger.warning("%d of %d workers are not ready yet", n_awaited, n_wanted)

    def _counts(self) -> dict[str, int]:
        workers = self._workers.values()
        return {
            "waiting": self._schedule.n_waiting,
            "running": sum(len(worker.shards) for worker in workers),
            "busy": sum(bool(worker.shards) for worker in workers),
            "starting": sum(worker.is_starting for worker in workers),
            "idle": len(set(self._idle)),
        }

    def _grow(self) -> None:
        """Start workers where there is room, and ask for more while shards wait for one."""
        n_open, n_waiting = self._schedule.n_open, self._schedule.n_waiting
        self._n_wanted, n_more = self._pool.room()
        n_more = min(n_more, n_waiting)
        if n_waiting:
            self._start_until(min(n_open, self._n_wanted + n_more))
        starting = [worker for worker in self._workers.values() if worker.is_starting]
        n_settled = len(self._workers) - len(starting)
        for worker in starting[max(0, self._n_wanted - n_settled) + n_more :]:
            self._pool.kill(worker.number)
            del self._workers[worker.number]

    def _end_overlong(self) -> None:
        at = {worker.place: worker for worker in self._workers.values()}
        for place, shard, seconds in self._schedule.over_limit(time.monotonic()):
            worker = at[place]
            if shard.index not in worker.shards:  # it was replaced for its other shard
                continue
            logger.warning(
                f"worker {worker.number} on {worker.node} has worked on shard {shard.index} for "
                f"{seconds:.0f} s and is restarted"
            )
            self._settle_lost(worker, shard, OVERLONG.format(seconds))
            self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        """End a worker and start another one in its stead, if there is something left to do."""
        self._pool.kill(worker.number)
        self._idle = [other for other in self._idle if other is not worker]
        if worker.is_ready:
            for shard in worker.shards.values():  # which may be as good as others
                self._schedule.put_back(worker.place, shard)
            self._schedule.leave(worker.place)
        worker.place, worker.shards = -1, {}
        worker.has_failed = worker.is_out = False
        if self._schedule.n_open or not self._has_begun:
            self._pool.start(worker.number)

    def _check_that_some_work(self) -> None:
        """Raise `RuntimeError` if nobody works, and nobody will."""
        workers = self._workers.values()
        if any(each.shards or (each.is_ready and not self._is_left_out(each)) for each in workers):
            return
        ready = [worker for worker in workers if worker.is_ready]
        n_wanted = max(1, self._n_wanted)
        if ready:
            is_over = len(ready) + sum(worker.is_out for worker in workers) >= n_wanted
            why = f"shards kept failing on {len(ready)} of {len(workers)}, even after restarts"
        else:
            n_failed_starts = sum(worker.n_failed_starts for worker in workers)
            # Once some have worked, it may be the nodes that fail: others may come.
            is_over = not self._was_ready and n_failed_starts >= MAX_FAILED_STARTS * n_wanted
            why = f"none of {counted(len(workers), 'worker')} could be started again"
        if not is_over and any(worker.is_starting for worker in workers):
            return
        if not self._was_ready:
            raise RuntimeError(
                f"all workers ended {MAX_FAILED_STARTS} times before they were ready (last error: "
                f"{self._last_failure}); is there enough memory to load the scorer?"
            )
        raise RuntimeError(
            f"no worker is left: {why} (last error: {self._last_failure}); {CONTINUE}"
        )

    def _is_left_out(self, worker: _Worker) -> bool:
        return self._schedule.is_left_out(worker.place)

    # News

    def _take_news(self, timeout_s: float) -> None:
        for number, news in self._pool.news(timeout_s):
            worker = self._workers[number]
            if isinstance(news, Ready):
                self._welcome(worker, news)
            elif isinstance(news, Ended):
                self._lose(worker, news.how)
            else:
                self._take_answer(worker, news)

    def _welcome(self, worker: _Worker, ready: Ready) -> None:
        """Give a worker that is ready a place, unless it would not score as it must."""
        reason = refusal(self._expected, ready.facts)
        failure = ValueError(reason) if reason else ready.failure
        if failure is not None:
            if not self._was_ready:
                raise failure
            worker.is_out = True
            self._last_failure = one_line(failure)
            logger.warning("one worker cannot score and is left out: %s", self._last_failure)
            return
        if not self._expected.scorer:
            self._expected = replace(self._expected, scorer=ready.facts.scorer)
        self._was_ready, worker.n_failed_starts = True, 0
        worker.node = ready.facts.node
        worker.place = self._free_place(worker.node)
        self._idle += [worker] * self._shards_at_once

    def _free_place(self, node: str) -> int:
        """Choose a place on a node; a worker that replaces one there gets that one's."""
        taken = {worker.place for worker in self._workers.values()}
        for place in self._places[node]:
            if place not in taken:
                return place
        self._places[node].append(self._n_places)
        self._n_places += 1
        return self._n_places - 1

    def _lose(self, worker: _Worker, how: str) -> None:
        """Replace a worker that has ended, unless it never begins."""
        logger.info("worker %d on %s has ended: %s", worker.number, worker.node or "a node", how)
        for shard in [*worker.shards.values()]:
            self._settle_lost(worker, shard, f"the worker was lost while scoring it ({how})")
        if not worker.is_ready:
            self._last_failure = how
            worker.n_failed_starts += 1
            if worker.n_failed_starts >= MAX_FAILED_STARTS:
                worker.is_out = True
                self._pool.kill(worker.number)
                return
        self._replace(worker)

    # Shards

    def _hand_out(self, on_start: Callable[[int, str], None] | None) -> None:
        for worker in self._least_busy_first():
            shard = self._schedule.take(worker.place, time.monotonic())
            if shard is None:
                continue
            self._idle.remove(worker)
            worker.shards[shard.index] = shard
            if on_start is not None:
                on_start(shard.index, worker.node)
            self._pool.send(worker.number, shard)

    def _least_busy_first(self) -> list[_Worker]:
        """List idle workers; of equally busy ones that first which was at work just now."""
        n_free, places = Counter(self._idle), []
        for worker in self._idle[::-1]:
            places.append((n_free[worker], worker))
            n_free[worker] -= 1
        return [worker for _, worker in sorted(places, key=lambda place: -place[0])]

    def _take_answer(self, worker: _Worker, answer: ShardReport | Unfinished) -> None:
        shard = worker.shards.pop(answer.index)
        if isinstance(answer, Unfinished):
            self._schedule.put_back(worker.place, shard)
            worker.has_failed = True
        else:
            self._settle(worker, shard, answer)
            worker.has_failed |= answer.error is not None
        if not worker.has_failed:
            self._idle.append(worker)
        elif worker.shards:
            self._idle = [other for other in self._idle if other is not worker]
        else:
            self._replace(worker)

    def _settle_lost(self, worker: _Worker, shard: Shard, reason: str) -> None:
        del worker.shards[shard.index]
        report = ShardReport(index=shard.index, error=reason, node=worker.node)
        self._settle(worker, shard, report)

    def _settle(self, worker: _Worker, shard: Shard, report: ShardReport) -> None:
        was_left_out = self._is_left_out(worker)
        final = self._schedule.settle(worker.place, shard, report, time.monotonic())
        if report.error is not None:
            self._last_failure = report.error
        if self._is_left_out(worker) and not was_left_out:
            logger.warning(
                f"worker {worker.number} on {worker.node} is left out: shards keep failing on it, "
                f"even after it was restarted; last error: {report.error}"
            )
        if final is not None:
            self._report(final)
