"""Scores shards on Ray: each worker is an actor that holds a scorer and takes shards.

It takes one at a time, or two with a GPU, which begins the next while one is written. The driver
owns the retries. A worker that dies is started again by Ray and asked whether it is ready before it
gets work, so only a shard that was really sent pays with one of its attempts. One on which a shard
has failed makes its scorer anew before it is ready again, once nothing is under way on it.
Which shard goes where is in `schedule`, the cluster itself in `ray_cluster`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from cluster import ray_cluster  # noqa: F401  (sets what Ray reads when it is imported)

import ray  # isort: skip
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError  # isort: skip

import pyarrow as pa

from cluster.node_check import NodeFacts, node_facts, refusal
from cluster.parts import Job, ShardReport
from cluster.process_runner import MAX_FAILED_STARTS, worker_environment
from cluster.ray_cluster import (
    PACKAGES,
    HeadLost,
    HeadWatch,
    Needs,
    check_nodes,
    connected,
    cpus_beside,
    facts_here,
)
from cluster.ray_metrics import RunMetrics, ShardMetrics
from cluster.ray_options import RayOptions
from cluster.schedule import CONTINUE, OVERLONG, SLOW_AFTER_S, Schedule
from cluster.shards import Shard
from cluster.shared_scorer import SharedScorer, Spoiled
from cluster.worker import node_name, one_line, try_shard
from sms.scorers import Scorer

MAX_WISHES = 100
"""A cluster is asked for room for no more further workers at a time."""
LOOK_AROUND_EVERY_S = 5.0
"""So often the driver asks whether the head node answers and there is room for more workers."""

_RESTARTING = "The actor is restarting"  # how Ray puts it, in an error that has no other sign
_NO_ROOM = "no node has room for a worker of %s; waiting for one"
_RETRY_WAIT_S = 0.5
_TICK_S = 1.0
_REMIND_EVERY_S = 60.0

logger = logging.getLogger(__name__)


def drive(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    options: RayOptions,
    say: Callable[..., None],
) -> None:
    """Be the driver: connect, then hand out the shards."""
    with _joined_cluster(options, job.out):
        pool = _Pool(make_scorer, job, options)
        try:
            _Driver(Schedule(shards, options.max_attempts, SLOW_AFTER_S), pool, say).run()
        except HeadLost:
            pool.actors.clear()  # without a head node actors cannot be stopped
            pool.wishes.clear()
            raise
        finally:
            pool.close()


def describe(
    make_scorer: Callable[[int], Scorer],
    what: Callable[[Scorer], Any],
    out: str,
    options: RayOptions,
    _say: Callable[..., None],
) -> Any:  # noqa: ANN401
    """Return what a function says of the scorer that a worker makes: the driver needs no models."""
    with _joined_cluster(options, out):
        needs, head = _needs_of(options), HeadWatch()
        if not needs.room():
            logger.warning(_NO_ROOM, needs)
        environment = worker_environment(needs.cpus, is_local=options.address is None)
        # its process ends with it, and leaves the memory of the model to the workers
        task = ray.remote(max_calls=1)(lambda: what(make_scorer(needs.cpus))).options(
            num_cpus=needs.cpus, num_gpus=needs.gpus, runtime_env={"env_vars": environment}
        )
        asked = task.remote()
        while not ray.wait([asked], timeout=LOOK_AROUND_EVERY_S)[0]:
            head.check()
        try:
            return ray.get(asked)
        except RayTaskError as error:
            raise _cause_of(error) from None
        except RayError as error:
            lost = f"the worker that loaded the models was lost ({one_line(error)})"
            raise RuntimeError(lost) from error


def _joined_cluster(options: RayOptions, out: str) -> AbstractContextManager[None]:
    """Join the cluster that is asked for, whose nodes must see the folder, or start one."""
    is_joined = options.address is not None
    return connected(
        options.address,
        (options.workers or 1) * (options.cpus_per_worker or 1),
        is_open_allowed=options.is_open_allowed,
        check=partial(check_nodes, options.versions or {}, out) if is_joined else None,
    )


def _cause_of(error: RayTaskError) -> Exception:
    """Return what was raised in the other process."""
    return error.cause if isinstance(error.cause, Exception) else error


def _needs_of(options: RayOptions) -> Needs:
    """Return what a worker takes of a node; the cluster is joined already."""
    gpus = options.gpus_per_worker
    return Needs(cpus=options.cpus_per_worker or cpus_beside(gpus), gpus=gpus)


class _Worker:
    """The actor: loads the scorer once, then scores the shards it is sent."""

    def __init__(
        self, make_scorer: Callable[[int], Scorer], job: Job, driver: NodeFacts | None
    ) -> None:
        self._make_scorer = make_scorer
        self._driver = driver
        self._job = job
        self._scorer: SharedScorer | None = None
        self._lock = threading.Lock()  # with a GPU two threads score
        self._metrics = ShardMetrics()
        pa.set_cpu_count(job.threads)

    def ready(self) -> str:
        """Load the scorer; not in `__init__`, where an exception would only look like a death.

        Returns the name of the node. One that joined after the others were checked is checked here.
        """
        if self._scorer is None:
            if self._driver is not None:
                here = node_facts(PACKAGES, list(self._driver.versions), os.sep)
                if reason := refusal(self._driver, here):
                    raise ValueError(reason)
            self._scorer = SharedScorer(self._make_scorer(self._job.threads))
        return node_name()

    def score(self, shard: Shard) -> ShardReport | None:
        """Score one shard; None if the scorer is missing, or was spoiled by another shard.

        Without one this worker was not asked to be ready. The shard's own failure is a report, so
        whatever is raised is the machine's.
        """
        with self._lock:
            scorer = self._scorer
        try:
            report = None if scorer is None else try_shard(shard, scorer, self._job)
        except Spoiled:
            report = None
        with self._lock:
            if report is None or report.error is not None:  # the scorer may be in any state
                self._scorer = None
            if report is not None:
                self._metrics.count(report)
        return report

    def end(self) -> NoReturn:
        """End this process, so that Ray starts another one in its place."""
        os._exit(1)


class _Pool:
    """The actors of a run, as many as were asked for or as the cluster has room for."""

    def __init__(self, make_scorer: Callable[[int], Scorer], job: Job, options: RayOptions) -> None:
        self._needs = _needs_of(options)
        gpus = self._needs.gpus
        self._is_local = options.address is None
        driver = None if self._is_local else facts_here(options.versions or {})
        job = replace(job, threads=self._needs.cpus, has_gpu=gpus > 0)
        self.shards_at_once = job.shards_at_once
        self._arguments = (make_scorer, job, driver)
        self._workers = options.workers
        variables = worker_environment(self._needs.cpus, is_local=self._is_local)
        self._actor = ray.remote(_Worker).options(
            num_cpus=self._needs.cpus,
            num_gpus=gpus,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=self.shards_at_once,
            runtime_env={"env_vars": variables},
        )
        self.actors: list[Any] = []
        # Does nothing where a worker would fit. While it waits for that, a cluster that scales
        # itself starts nodes. Unlike `request_resources` it is a request of this run alone, and is
        # gone with the driver, however that ends.
        self._wish = ray.remote(lambda: None).options(
            name="room for a worker", num_cpus=self._needs.cpus, num_gpus=gpus, max_retries=0
        )
        self.wishes: list[Any] = []

    def grow(self, n_open: int) -> range:
        """Start the workers there is room for, at most one for a shard; return their numbers.

        Workers whose node has gone keep their place: Ray starts them again where there is room.
        """
        room = self._workers or self._needs.room()
        begin = len(self.actors)
        if room == 0 and begin == 0:
            if self._is_local:
                raise ValueError(
                    f"this machine has no room for a worker of {self._needs}; ask for less, or "
                    "join a cluster with `--address`"
                )
            logger.warning(_NO_ROOM, self._needs)
            room = 1  # a waiting actor makes an autoscaling cluster start a node
        for _ in range(begin, min(room, n_open)):
            self.actors.append(self._actor.remote(*self._arguments))
        return range(begin, len(self.actors))

    def wish_for(self, n_workers: int) -> None:
        """Have Ray know for how many more workers there is something to do."""
        if self._is_local or self._workers is not None:  # no wish: waiting actors are enough
            n_workers = 0
        n_workers = max(0, min(n_workers, MAX_WISHES))
        if self.wishes:
            _, self.wishes = ray.wait(self.wishes, num_returns=len(self.wishes), timeout=0)
        for reference in self.wishes[n_workers:]:
            ray.cancel(reference)
        del self.wishes[n_workers:]
        while len(self.wishes) < n_workers:
            self.wishes.append(self._wish.remote())

    def close(self) -> None:
        """Stop all workers, whatever they are doing."""
        self.wish_for(0)
        for handle in self.actors:
            ray.kill(handle, no_restart=True)


class _Driver:
    """Hands out shards, and asks workers that fell silent if they are back."""

    def __init__(self, schedule: Schedule, pool: _Pool, say: Callable[..., None]) -> None:
        self._schedule = schedule
        self._pool = pool
        self._say = say
        self._head = HeadWatch()
        self._metrics = RunMetrics()
        self._nodes: dict[int, str] = {}
        self._failed_starts: Counter[int] = Counter()
        self._last_death = self._last_failure = ""
        # A worker stands here once for every further shard that it can take.
        self._idle: list[int] = []
        # Those that must be asked anew (or ended first) when nothing is under way on them.
        self._unwell: dict[int, bool] = {}
        # What is under way: a worker's number, and its shard or None for the question.
        self._running: dict[Any, tuple[int, Shard | None]] = {}
        self._ask_at: dict[int, float] = {}
        self._looked_around = self._reminded = time.monotonic()

    def run(self) -> None:
        self._grow()
        while self._schedule.n_open:
            self._look_around()
            self._ask_again()
            self._assign()
            if not (self._running or self._ask_at) and all(
                map(self._schedule.is_left_out, self._idle)
            ):
                raise RuntimeError(self._why_nobody_is_left())
            self._wait()

    def _why_nobody_is_left(self) -> str:
        n_workers, n_idle = len(self._pool.actors), len({*self._idle})
        if n_idle:
            return (
                f"no worker is left: shards kept failing on {n_idle} of {n_workers}, even after a "
                f"restart (last error: {self._last_failure}); {CONTINUE}"
            )
        if self._nodes:
            return (
                f"the Ray cluster was lost (none of its {n_workers} workers could be started "
                f"again; last error: {self._last_death}); {CONTINUE}"
            )
        return (
            f"all {n_workers} workers died {MAX_FAILED_STARTS} times before they were ready (last "
            f"error: {self._last_death}); check that they can import what the driver can and have "
            "enough memory to load the scorer"
        )

    def _wait(self) -> None:
        """Take the next answer, if one comes soon."""
        if not self._running:
            time.sleep(_RETRY_WAIT_S)
            return
        tick_s = _RETRY_WAIT_S if self._ask_at else _TICK_S
        done, _ = ray.wait(list(self._running), num_returns=1, timeout=tick_s)
        for reference in done:
            self._take(reference)

    def _ask_again(self) -> None:
        now = time.monotonic()
        for worker in [worker for worker, due in self._ask_at.items() if due <= now]:
            del self._ask_at[worker]
            self._ask(worker)

    def _look_around(self) -> None:
        now = time.monotonic()
        if now - self._looked_around < LOOK_AROUND_EVERY_S:
            return
        self._looked_around = now
        n_running = sum(shard is not None for _, shard in self._running.values())
        self._metrics.set(
            n_waiting=self._schedule.n_waiting,
            n_running=n_running,
            n_starting=len(self._running) - n_running,
            n_idle=len({*self._idle}),
        )
        self._stop_overlong()
        if self._head.check():
            self._grow()
        if now - self._reminded >= _REMIND_EVERY_S:
            self._reminded = now
            n_asked = sum(shard is None for _, shard in self._running.values())
            n_asked += len(self._ask_at)
            if n_asked:
                n_workers = len(self._pool.actors)
                logger.warning("%d of %d workers are not ready yet", n_asked, n_workers)

    def _grow(self) -> None:
        """Start workers where there is room, and ask for more while shards wait for one."""
        n_waiting = self._schedule.n_waiting
        if n_waiting:
            for worker in self._pool.grow(self._schedule.n_open):
                self._ask(worker)
        self._pool.wish_for(min(n_waiting, self._schedule.n_open - len(self._pool.actors)))

    def _stop_overlong(self) -> None:
        """Kill the workers that have had a shard for too long, and ask them when they are back."""
        for worker, shard, seconds in self._schedule.over_limit(time.monotonic()):
            (reference,) = (r for r, held in self._running.items() if held == (worker, shard))
            if ray.wait([reference], timeout=0)[0]:  # it is this process that was held up
                continue
            del self._running[reference]
            logger.warning(
                f"worker {worker} on {self._nodes[worker]} has worked on shard {shard.index} for "
                f"{seconds:.0f} s and is restarted"
            )
            ray.kill(self._pool.actors[worker], no_restart=False)
            self._lose(worker, shard, OVERLONG.format(seconds))

    def _lose(self, worker: int, shard: Shard, reason: str) -> None:
        """Settle the shard of a worker that is lost, and ask when that is back."""
        failed = ShardReport(index=shard.index, error=reason, node=self._nodes[worker])
        self._settle(worker, shard, failed)
        self._schedule.leave(worker)
        self._renew(worker)

    def _renew(self, worker: int, *, ends: bool = False) -> None:
        """Ask a worker anew whether it is ready, as soon as nothing is under way on it."""
        self._idle = [other for other in self._idle if other != worker]
        self._unwell[worker] = ends or self._unwell.get(worker, False)
        if any(other == worker for other, _ in self._running.values()):
            return
        if self._unwell.pop(worker):  # what is asked after `ray.kill` may reach the old process
            self._running[self._pool.actors[worker].end.remote()] = (worker, None)
        else:
            self._ask(worker)

    def _ask(self, worker: int) -> None:
        self._running[self._pool.actors[worker].ready.remote()] = (worker, None)

    def _assign(self) -> None:
        for worker in self._least_busy_first():
            shard = self._schedule.take(worker, time.monotonic())
            if shard is None:
                continue
            self._idle.remove(worker)
            self._running[self._pool.actors[worker].score.remote(shard)] = (worker, shard)
            self._say("start", shard.index, self._nodes[worker])

    def _least_busy_first(self) -> list[int]:
        """List idle workers; of equally busy ones that first which was at work just now."""
        n_free, places = Counter(self._idle), []
        for worker in self._idle[::-1]:
            places.append((n_free[worker], worker))
            n_free[worker] -= 1
        return [worker for _, worker in sorted(places, key=lambda place: -place[0])]

    def _take(self, reference: Any) -> None:  # noqa: ANN401  (Ray's references have no type here)
        worker, shard = self._running.pop(reference)
        try:
            report = ray.get(reference)
        except RayError as error:
            if shard is None:
                self._not_ready(worker, error)
            else:
                logger.info("worker %d lost shard %d", worker, shard.index, exc_info=True)
                reason = f"the worker was lost while scoring it ({one_line(error)})"
                self._lose(worker, shard, reason)
            return
        if shard is None:
            self._failed_starts[worker] = 0
            self._nodes[worker] = report
            self._idle += [worker] * self._pool.shards_at_once
            return
        if report is None:
            self._schedule.put_back(worker, shard)
            self._schedule.leave(worker)
            self._renew(worker)
            return
        self._failed_starts[worker] = 0
        self._settle(worker, shard, report)
        is_left_out = self._schedule.is_left_out(worker)
        if report.error is not None and not is_left_out and self._schedule.needs_restart(worker):
            logger.warning(
                f"worker {worker} on {report.node} failed twice in a row and is restarted; last "
                f"error: {report.error}"
            )
            self._renew(worker, ends=True)
        elif worker in self._unwell or (report.error is not None and not is_left_out):
            self._renew(worker)
        else:
            self._idle.append(worker)

    def _settle(self, worker: int, shard: Shard, report: ShardReport) -> None:
        was_left_out = self._schedule.is_left_out(worker)
        final = self._schedule.settle(worker, shard, report, time.monotonic())
        if report.error is not None:
            self._last_failure = report.error
        if self._schedule.is_left_out(worker) and not was_left_out:
            logger.warning(
                f"worker {worker} on {report.node} is left out: shards fail on it even after a "
                f"restart; last error: {report.error}"
            )
        if final is not None:
            self._say("report", final)

    def _not_ready(self, worker: int, error: RayError) -> None:
        if isinstance(error, RayTaskError):  # not a death: the scorer cannot be made
            cause = _cause_of(error)
            if not self._nodes:
                raise cause
            logger.warning("one worker cannot score and is left out: %s", one_line(cause))
            return
        # Not a death either, but a node with room for the worker that is still to come.
        is_coming = isinstance(error, ActorUnavailableError) and _RESTARTING in str(error)
        self._failed_starts[worker] += not is_coming
        # The cause comes last; Ray's numbers of nodes and owners follow its first sentence.
        self._last_death = str(error).strip().splitlines()[-1].partition(". ")[0].rstrip(".")
        logger.info("worker %d is not ready: %s", worker, one_line(error))
        if self._failed_starts[worker] < MAX_FAILED_STARTS:
            self._ask_at[worker] = time.monotonic() + _RETRY_WAIT_S
