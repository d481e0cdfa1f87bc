"""Scores shards in several processes of this machine, which start in a second and need no Ray.

Which shard goes where, and what a failure means, is in `schedule`, as on a cluster. What runs in
the processes is in `process_worker`.
"""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

from cluster.children import import_path, start_child
from cluster.parts import Job, ShardReport, part_path
from cluster.schedule import CONTINUE, OVERLONG, SLOW_AFTER_S, Schedule
from cluster.scores_files import committed, reports_from_file
from cluster.shards import Shard
from cluster.store import absolute
from cluster.worker import node_name, one_line
from sms.scorers import Scorer

MAX_FAILED_STARTS = 5
"""A worker that dies so often in a row before it is ready is given up."""
_TICK_S = 1.0
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)

logger = logging.getLogger(__name__)


def run_processes(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: Callable[[ShardReport], None] | None = None,
    *,
    on_start: Callable[[int, str], None] | None = None,
    n_workers: int,
    max_attempts: int = 3,
    started: Workers | None = None,
) -> list[ShardReport]:
    """Score every shard that is handed in, in processes of this machine.

    The scores are those of `run_local`, bit by bit if the scorer's are the same twice; what is not
    said here means what it does there. `make_scorer` is picklable, the job's `threads` are those of
    a worker, and there are never more workers than shards. `started` are processes that load this
    scorer already; they are ended here. Raises `RuntimeError` if no worker can be kept alive.
    """
    if not shards:
        return []
    job = replace(job, out=absolute(job.out))
    reports = Reports(job, on_report)
    schedule = Schedule(shards, max_attempts, SLOW_AFTER_S)
    workers = started or Workers(make_scorer, min(n_workers, len(shards)), job.threads)
    try:
        workers.end_all_but(len(shards))
        _Driver(schedule, workers, job, reports, on_start).run()
    finally:
        workers.close()
    return [reports.by_index[shard.index] for shard in shards]


class Workers:
    """Processes that load a scorer as soon as they are started, and then wait for shards.

    `make_scorer` and `describe` are picklable. The latter says what a scorer is; all workers must
    say the same.
    """

    def __init__(
        self,
        make_scorer: Callable[[int], Scorer],
        n_workers: int,
        n_threads: int,
        describe: Callable[[Any], Any] = type,
    ) -> None:
        self._description: Any = None
        self.was_ready = False
        self.last_failure = ""
        work = pickle.dumps((make_scorer, describe, n_threads))
        self.all: list[_Worker] = []
        try:
            for number in range(n_workers):
                self.all.append(_Worker(number, work, n_threads))
        except BaseException:
            self.close()
            raise

    def description(self) -> Any:  # noqa: ANN401
        """Wait for the first worker that has made its scorer; return what it says of that.

        Raises `RuntimeError` if all workers die before, and whatever making the scorer raises.
        """
        while not self.was_ready:
            for worker in _with_news(self.all, None):
                self.take_ready(worker, worker.answer())
        return self._description

    def take_ready(self, worker: _Worker, answer: object) -> None:
        """Take what a worker says once it has made its scorer, why it cannot, or how it ended.

        One that has ended is started again, unless it does so each time.
        """
        if self.was_ready and not isinstance(answer, Exception) and answer != self._description:
            answer = ValueError(
                "a worker has loaded another scorer than the first one; were its files changed "
                "meanwhile?"
            )
        if not isinstance(answer, Exception):
            self._description, self.was_ready = answer, True
            worker.is_ready, worker.n_failed_starts = True, 0
            return
        if not isinstance(answer, _Ended):
            if not self.was_ready:
                raise answer
            worker.kill()
        self.last_failure = str(answer) if isinstance(answer, _Ended) else one_line(answer)
        worker.n_failed_starts += 1
        if worker.n_failed_starts < MAX_FAILED_STARTS:
            worker.start()
            return
        self.all.remove(worker)
        if not self.all and not self.was_ready:
            raise RuntimeError(
                f"all workers died {MAX_FAILED_STARTS} times before they were ready (last error: "
                f"{answer}); is there enough memory to load the scorer?"
            )

    def end_all_but(self, n_workers: int) -> None:
        """End those for which there is nothing to do; those that are ready first stay."""
        self.all.sort(key=lambda worker: not worker.is_ready)
        for worker in self.all[n_workers:]:
            worker.kill()
        del self.all[n_workers:]

    def close(self) -> None:
        """End all processes."""
        self.end_all_but(0)


class _Ended(Exception):
    """In place of an answer: how the process ended."""


class _Worker:
    """A process that scores, and what it is doing."""

    def __init__(self, number: int, work: bytes, n_threads: int) -> None:
        self.number = number
        self._work, self._n_threads = work, n_threads
        self.n_failed_starts = 0
        self.start()

    def start(self) -> None:
        """Start a process; where there was one, it has ended."""
        self._process, self.connection = start_child(
            "cluster.process_worker:work",
            worker_environment(self._n_threads, is_local=True),
            stdin=subprocess.PIPE,  # closed by the end of this process, whatever ends it
        )
        self.shard: Shard | None = None
        self.is_ready = self._knows_job = False
        self._send(self._work)

    def score(self, shard: Shard, job: Job) -> None:
        """Hand out a shard."""
        self.shard = shard
        self._send(pickle.dumps((shard, None if self._knows_job else job)))
        self._knows_job = True

    def _send(self, message: bytes) -> None:
        with suppress(ConnectionError):  # the worker has ended; reading its answer shows it
            self.connection.send_bytes(message)

    def answer(self) -> Any:  # noqa: ANN401
        """Read what the process says, or how it has ended."""
        try:
            return pickle.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionError):
            return _Ended(self.kill())

    def kill(self) -> str:
        """End the process; say how it ended."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.connection.close()
        status = self._process.returncode
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def _with_news(workers: Sequence[_Worker], timeout_s: float | None) -> list[_Worker]:
    """Wait for workers that have something to say, or have ended."""
    by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in workers}
    return [by_connection[connection] for connection in wait(list(by_connection), timeout_s)]


@dataclass
class _Driver:
    """Hands out shards, and restarts workers that die, hang or keep failing."""

    schedule: Schedule
    workers: Workers
    job: Job
    reports: Reports
    on_start: Callable[[int, str], None] | None

    def run(self) -> None:
        while self.schedule.n_open:
            self._assign()
            workers = self.workers.all
            busy = [one for one in workers if one.shard is not None or not one.is_ready]
            if not busy and all(self.schedule.is_left_out(one.number) for one in workers):
                raise RuntimeError(
                    f"no worker is left (last error: {self.workers.last_failure}); {CONTINUE}"
                )
            for worker in _with_news(busy, _TICK_S):
                self._take(worker)
            self._stop_overlong()

    def _assign(self) -> None:
        for worker in self.workers.all:
            if worker.is_ready and worker.shard is None:
                shard = self.schedule.take(worker.number, time.monotonic())
                if shard is not None:
                    worker.score(shard, self.job)
                    if self.on_start is not None:
                        self.on_start(shard.index, node_name())

    def _take(self, worker: _Worker) -> None:
        """Take what a worker says, or that it has died."""
        shard, answer = worker.shard, worker.answer()
        if shard is None:
            self.workers.take_ready(worker, answer)
        elif isinstance(answer, _Ended):
            self._lose(worker, shard, f"the worker was lost while scoring it ({answer})")
        else:
            self._settle(worker, shard, answer)
            if answer.error is None:
                return
            if self.schedule.needs_restart(worker.number):
                worker.kill()
                worker.start()
            else:
                worker.is_ready = False  # it makes its scorer anew

    def _lose(self, worker: _Worker, shard: Shard, reason: str) -> None:
        """Settle the shard of a worker that has ended, and start the worker again."""
        logger.info("worker %d lost shard %d: %s", worker.number, shard.index, reason)
        lost = ShardReport(index=shard.index, error=reason, node=node_name())
        self._settle(worker, shard, lost)
        self.schedule.leave(worker.number)
        worker.start()

    def _settle(self, worker: _Worker, shard: Shard, report: ShardReport) -> None:
        worker.shard = None
        final = self.schedule.settle(worker.number, shard, report, time.monotonic())
        if report.error is not None:
            self.workers.last_failure = report.error
        if final is not None:
            self.reports.add(final)

    def _stop_overlong(self) -> None:
        by_number = {worker.number: worker for worker in self.workers.all}
        for number, shard, seconds in self.schedule.over_limit(time.monotonic()):
            logger.warning(
                "a worker has had shard %d for %.0f s and is restarted", shard.index, seconds
            )
            by_number[number].kill()
            self._lose(by_number[number], shard, OVERLONG.format(seconds))


class Reports:
    """The reports so far of a run whose workers are other processes."""

    def __init__(self, job: Job, on_report: Callable[[ShardReport], None] | None) -> None:
        self.job = job
        self._on_report = on_report
        self.by_index: dict[int, ShardReport] = {}

    def add(self, report: ShardReport) -> None:
        """Pass on a report; where a failed shard is committed after all, one made from its file."""
        if report.error is not None:
            # a worker may have been lost just after it committed
            with suppress(OSError, ValueError):
                report = self._from_file(report.index)
        if self._on_report is not None:
            self._on_report(report)
            report = report.without_sums()
        self.by_index[report.index] = report

    def add_committed(self, shards: Sequence[Shard]) -> bool:
        """Add reports of committed shards that nobody reported; say if all shards have one now."""
        left = [shard for shard in shards if shard.index not in self.by_index]
        for index in sorted(committed(self.job.out, left, self.job.fingerprint)):
            self.add(self._from_file(index))
        return len(self.by_index) == len(shards)

    def _from_file(self, index: int) -> ShardReport:
        (report,) = reports_from_file(part_path(self.job.out, index, self.job.fingerprint))
        return report


def worker_environment(n_threads: int, *, is_local: bool) -> dict[str, str]:
    """Pin the thread pools of a worker; on this machine it also imports from where we do."""
    path = {"PYTHONPATH": import_path()} if is_local else {}
    return dict.fromkeys(_THREAD_VARIABLES, str(n_threads)) | path
