"""Scores shards in several processes of this machine, which start in a second and need no Ray.

Which shard goes where, and what a failure means, is in `schedule`, as on a cluster. What runs in
the processes is in `process_worker`.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Pipe, wait
from typing import Any

from cluster.parts import Job, ShardReport
from cluster.ray_process import import_path
from cluster.reports import Reports
from cluster.schedule import SLOW_AFTER_S, Schedule
from cluster.shards import Shard
from cluster.store import absolute
from cluster.worker import node_name, one_line
from sms.scorers import Scorer

MAX_FAILED_STARTS = 5
"""A worker that dies so many times in a row before it is ready is given up."""
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
) -> list[ShardReport]:
    """Score every shard that is handed in, in processes of this machine.

    The scores are those of `run_local`, bit by bit if the scorer's are the same twice.

    Parameters
    ----------
    shards : sequence of Shard
        Those still to do (`committed` says which are done).
    make_scorer : callable
        Picklable. Given the number of threads, returns the scorer. What it raises is raised here.
    job : Job
        What is the same for all of them; `threads` are those of a worker.
    on_report, on_start : callable, optional
        Called here with each report as soon as there is one; and with the index of each shard that
        is handed out, and the name of this machine.
    n_workers : int
        At most; no more than there are shards.
    max_attempts : int
        After so many failures a shard is given up.

    Returns
    -------
    list of ShardReport
        One per shard, in the order of `shards`; without their sums if `on_report` has had those.

    Raises
    ------
    RuntimeError
        If no worker can be kept alive.
    """
    if not shards:
        return []
    job = replace(job, out=absolute(job.out))
    reports = Reports(job, on_report)
    schedule = Schedule(shards, max_attempts, SLOW_AFTER_S)
    work = pickle.dumps((make_scorer, job))
    workers: list[_Worker] = []
    try:
        for number in range(min(n_workers, len(shards))):
            workers.append(_Worker(number, work, job.threads))
        for worker in workers:  # when all have been started
            worker.hand_over()
        _Driver(schedule, workers, reports, on_start).run()
    finally:
        for worker in workers:
            worker.kill()
    return [reports.by_index[shard.index] for shard in shards]


class _Worker:
    """A process that scores, and what it is doing."""

    def __init__(self, number: int, work: bytes, n_threads: int) -> None:
        self.number = number
        self._work, self._n_threads = work, n_threads
        self.shard: Shard | None = None
        self.is_ready = False
        self.n_failed_starts = 0
        self._spawn()

    def _spawn(self) -> None:
        self.connection, theirs = Pipe()
        self.is_ready, self.shard = False, None
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cluster.process_worker", str(theirs.fileno())],
            env={**os.environ, **worker_environment(self._n_threads, is_local=True)},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,  # closed by the end of this process, whatever ends it
            start_new_session=True,  # an interrupt from the keyboard is for this process alone
        )
        theirs.close()

    def hand_over(self) -> None:
        """Say what the work is, once the process reads it; it is ready when it says so."""
        with suppress(ConnectionError):  # it has ended; that shows when it is listened to
            self.connection.send_bytes(self._work)

    def restart(self) -> None:
        """Start another process in place of one that has ended."""
        self._spawn()
        self.hand_over()

    def send(self, shard: Shard) -> None:
        """Hand out a shard."""
        self.shard = shard
        with suppress(ConnectionError):
            self.connection.send_bytes(pickle.dumps(shard))

    def kill(self) -> str:
        """End the process; say how it ended."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.connection.close()
        status = self._process.returncode
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


class _Driver:
    """Hands out shards, and starts workers anew that have died, hang or keep failing."""

    def __init__(
        self,
        schedule: Schedule,
        workers: Sequence[_Worker],
        reports: Reports,
        on_start: Callable[[int, str], None] | None,
    ) -> None:
        self._schedule = schedule
        self._workers = list(workers)
        self._reports = reports
        self._on_start = on_start
        self._was_ready = False
        self._last_failure = ""

    def run(self) -> None:
        while self._schedule.n_open:
            self._assign()
            busy = [one for one in self._workers if one.shard is not None or not one.is_ready]
            if not busy and all(self._schedule.is_left_out(one.number) for one in self._workers):
                raise RuntimeError(
                    f"no worker is left, at last by {self._last_failure}; what is committed stays, "
                    "the same command goes on from there"
                )
            by_connection: dict[Any, _Worker] = {one.connection: one for one in busy}
            for connection in wait(list(by_connection), _TICK_S) if busy else ():
                self._take(by_connection[connection])
            self._stop_overlong()

    def _assign(self) -> None:
        for worker in self._workers:
            if worker.is_ready and worker.shard is None:
                shard = self._schedule.take(worker.number, time.monotonic())
                if shard is not None:
                    worker.send(shard)
                    if self._on_start is not None:
                        self._on_start(shard.index, node_name())

    def _take(self, worker: _Worker) -> None:
        """Take what a worker says, or that it has died."""
        try:
            answer = pickle.loads(worker.connection.recv_bytes())
        except (EOFError, ConnectionError):
            how = worker.kill()
            if worker.shard is None:
                self._not_ready(worker, how)
            else:
                self._lose(worker, f"the worker was lost while scoring it ({how})")
            return
        if isinstance(answer, Exception):  # the scorer cannot be made
            if not self._was_ready:
                raise answer
            worker.kill()
            self._not_ready(worker, one_line(answer))
        elif worker.shard is None:
            worker.is_ready = self._was_ready = True
            worker.n_failed_starts = 0
        else:
            self._settle(worker, answer)
            if answer.error is not None:
                if self._schedule.needs_restart(worker.number):
                    worker.kill()
                    worker.restart()
                else:
                    worker.is_ready = False  # it makes its scorer anew

    def _not_ready(self, worker: _Worker, reason: str) -> None:
        self._last_failure = reason
        worker.n_failed_starts += 1
        if worker.n_failed_starts < MAX_FAILED_STARTS:
            worker.restart()
            return
        self._workers.remove(worker)
        if not self._workers and not self._was_ready:
            raise RuntimeError(
                f"all workers died {MAX_FAILED_STARTS} times before they were ready, at last "
                f"{reason}; is there memory enough to load the scorer?"
            )

    def _lose(self, worker: _Worker, reason: str) -> None:
        """Settle the shard of a worker that has ended, and start that anew."""
        assert worker.shard is not None  # noqa: S101
        logger.info("worker %d lost shard %d: %s", worker.number, worker.shard.index, reason)
        self._settle(worker, ShardReport(index=worker.shard.index, error=reason, node=node_name()))
        self._schedule.leave(worker.number)
        worker.restart()

    def _settle(self, worker: _Worker, report: ShardReport) -> None:
        shard, worker.shard = worker.shard, None
        assert shard is not None  # noqa: S101
        final = self._schedule.settle(worker.number, shard, report, time.monotonic())
        if report.error is not None:
            self._last_failure = report.error
        if final is not None:
            self._reports.add(final)

    def _stop_overlong(self) -> None:
        by_number = {worker.number: worker for worker in self._workers}
        for number, shard, seconds in self._schedule.over_limit(time.monotonic()):
            logger.warning(
                "a worker has had shard %d for %.0f s and is started anew", shard.index, seconds
            )
            by_number[number].kill()
            reason = f"not done after {seconds:.0f} s, far more than others take; worker killed"
            self._lose(by_number[number], reason)


def worker_environment(n_threads: int, *, is_local: bool) -> dict[str, str]:
    """Pin the thread pools of a worker; on this machine it also imports from where we do."""
    variables = dict.fromkeys(_THREAD_VARIABLES, str(n_threads))
    if is_local:
        variables["PYTHONPATH"] = import_path()
    return variables
