"""Scores shards on Ray: each worker is an actor that holds a scorer and takes shards one by one.

The driver owns the retries. A worker that dies is started again by Ray and asked whether it is
ready before it gets work, so only a shard that was really sent pays with one of its attempts.
The only file of this package that imports Ray.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

# Read when ray is imported. The second keeps the raylet's notes about dead workers off our standard
# output, which `log_to_driver=False` does not; what they mean for the run is in the reports.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

import pyarrow as pa
import ray
from ray.exceptions import RayError, RayTaskError

from cluster.shards import Shard
from cluster.store import absolute
from cluster.worker import Job, Scorer, ShardReport, one_line, try_shard

MAX_FAILED_STARTS = 5
"""A worker that dies so many times in a row before it is ready is given up."""

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
_PORT, _CLIENT_PORT = 6379, 10001  # where Ray listens unless told otherwise
_KNOCK_S = 10.0
_RETRY_WAIT_S = 0.5
_REMIND_EVERY_S = 60.0

logger = logging.getLogger(__name__)


def run_ray(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: Callable[[ShardReport], None] | None = None,
    *,
    workers: int | None = None,
    cpus_per_worker: int = 1,
    gpus_per_worker: float = 0.0,
    address: str | None = None,
    max_attempts: int = 3,
) -> list[ShardReport]:
    """Score every shard that is handed in, on a Ray cluster.

    The scores are those of `run_local`, bit by bit. Shards committed before an interruption stay.

    Parameters
    ----------
    shards : sequence of Shard
        Those still to do (`committed` says which are done).
    make_scorer : callable
        Picklable. Given the number of threads, returns the scorer. What it raises is raised here.
    job : Job
        What is the same for all of them; `threads` becomes `cpus_per_worker`.
    on_report : callable, optional
        Called here, in the driver, with each report as soon as there is one.
    workers : int, optional
        Number of actors; as many as the cluster has room for.
    cpus_per_worker : int
        Cores, and threads, of one worker.
    gpus_per_worker : float
        GPUs of one worker; may be a fraction.
    address : str, optional
        None starts a cluster on this machine and stops it at the end; ``"auto"`` or a host joins
        one. A connection this process already has is used as it is.
    max_attempts : int
        After so many failures a shard is given up.

    Returns
    -------
    list of ShardReport
        One per shard, in the order of `shards`.

    Raises
    ------
    ConnectionError
        If no cluster answers at `address`.
    RuntimeError
        If every worker keeps dying before it is ready.
    """
    if cpus_per_worker < 1 or (workers is not None and workers < 1):
        raise ValueError(
            f"`workers` and `cpus_per_worker` must be at least 1, got {workers} and "
            f"{cpus_per_worker}"
        )
    if not shards:
        return []
    with connected(address, (workers or 1) * cpus_per_worker):
        n_workers = min(workers or _room(cpus_per_worker, gpus_per_worker), len(shards))
        actor = ray.remote(_Worker).options(
            num_cpus=cpus_per_worker,
            num_gpus=gpus_per_worker,
            max_restarts=-1,
            max_task_retries=0,
            runtime_env={"env_vars": worker_environment(cpus_per_worker, is_local=address is None)},
        )
        pinned = replace(job, threads=cpus_per_worker, out=absolute(job.out))
        actors: list[Any] = [actor.remote(make_scorer, pinned) for _ in range(n_workers)]
        try:
            reports = _Driver(shards, actors, max_attempts, on_report).run()
        finally:
            for handle in actors:
                ray.kill(handle, no_restart=True)
    return [reports[shard.index] for shard in shards]


class _Worker:
    """The actor: loads the scorer once, then scores the shards it is sent."""

    def __init__(self, make_scorer: Callable[[int], Scorer], job: Job) -> None:
        self._make_scorer = make_scorer
        self._job = job
        self._scorer: Scorer | None = None
        pa.set_cpu_count(job.threads)

    def ready(self) -> None:
        """Load the scorer; not in `__init__`, where an exception would only look like a death."""
        if self._scorer is None:
            self._scorer = self._make_scorer(self._job.threads)

    def score(self, shard: Shard) -> ShardReport | None:
        """Score one shard; None if this is a restarted worker that was not asked to be ready.

        The shard's own failure is a report, so whatever is raised is the machine's.
        """
        return None if self._scorer is None else try_shard(shard, self._scorer, self._job)


class _Driver:
    """Hands out shards, counts attempts, asks workers that fell silent if they are back."""

    def __init__(
        self,
        shards: Sequence[Shard],
        actors: Sequence[Any],
        max_attempts: int,
        on_report: Callable[[ShardReport], None] | None,
    ) -> None:
        self._waiting = deque(shards)
        self._max_attempts = max_attempts
        self._on_report = on_report
        self._attempts: Counter[int] = Counter()
        self._failed_starts: Counter[int] = Counter()
        self._last_death = ""
        self._actors = list(actors)
        self._idle: list[int] = []
        # What is under way: a worker's number, and its shard or None for the question.
        self._running: dict[Any, tuple[int, Shard | None]] = {}
        self._reports: dict[int, ShardReport] = {}
        self._n_shards = len(shards)

    def run(self) -> dict[int, ShardReport]:
        for worker in range(len(self._actors)):
            self._ask(worker)
        while len(self._reports) < self._n_shards:
            self._assign()
            if not self._running:
                raise RuntimeError(
                    f"all {len(self._actors)} workers died {MAX_FAILED_STARTS} times before they "
                    f"were ready, at last by {self._last_death}; can they import what the driver "
                    "can, and is there memory enough to load the scorer?"
                )
            done, _ = ray.wait(list(self._running), num_returns=1, timeout=_REMIND_EVERY_S)
            if not done:
                self._remind()
            for reference in done:
                self._take(reference)
        return self._reports

    def _ask(self, worker: int) -> None:
        self._running[self._actors[worker].ready.remote()] = (worker, None)

    def _assign(self) -> None:
        while self._idle and self._waiting:
            worker, shard = self._idle.pop(), self._waiting.popleft()
            self._attempts[shard.index] += 1
            self._running[self._actors[worker].score.remote(shard)] = (worker, shard)

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
                self._settle(shard, ShardReport(index=shard.index, error=reason))
                self._ask(worker)
            return
        if shard is not None and report is None:
            self._attempts[shard.index] -= 1
            self._waiting.appendleft(shard)
            self._ask(worker)
            return
        self._idle.append(worker)
        self._failed_starts[worker] = 0
        if shard is not None:
            self._settle(shard, report)

    def _not_ready(self, worker: int, error: RayError) -> None:
        if isinstance(error, RayTaskError):  # not a death: the scorer cannot be made
            raise error.cause if isinstance(error.cause, Exception) else error
        self._failed_starts[worker] += 1
        self._last_death = str(error).strip().splitlines()[-1]  # the cause comes last
        logger.info("worker %d is not ready: %s", worker, one_line(error))
        if self._failed_starts[worker] < MAX_FAILED_STARTS:
            time.sleep(_RETRY_WAIT_S)
            self._ask(worker)

    def _settle(self, shard: Shard, report: ShardReport) -> None:
        """Keep a report that is final, or put the shard at the end of the queue."""
        attempts = self._attempts[shard.index]
        if report.error is not None and attempts < self._max_attempts:
            self._waiting.append(shard)
            return
        report = replace(report, attempts=attempts)
        self._reports[shard.index] = report
        if self._on_report is not None:
            self._on_report(report)

    def _remind(self) -> None:
        n_asked = sum(shard is None for _, shard in self._running.values())
        if n_asked:
            logger.warning("%d of %d workers are not ready yet", n_asked, len(self._actors))


@contextmanager
def connected(address: str | None, n_cpus: int) -> Iterator[None]:
    """Join or start a cluster; leave or stop it at the end, however that comes."""
    if ray.is_initialized():
        yield
        return
    if address is None:
        # As many cores as were asked for, even if the machine has fewer: workers then share them.
        n_cpus = max(n_cpus, os.cpu_count() or 1)
        ray.init(
            address="local",
            num_cpus=n_cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    else:
        try:
            address = _reachable(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except OSError as error:  # ConnectionError among them
            raise ConnectionError(
                f"no Ray cluster answers at `{address}`; start one, or leave the address out "
                "to run on this machine"
            ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _reachable(address: str) -> str:
    """Complete a host by its port and knock there; Ray itself would wait for many minutes."""
    if address == "auto":
        return address
    scheme, _, place = address.rpartition("://")
    host, _, port = place.partition(":")
    number = int(port) if port.isdigit() else _CLIENT_PORT if scheme else _PORT
    socket.create_connection((host, number), timeout=_KNOCK_S).close()
    return f"{scheme}://{host}:{number}" if scheme else f"{host}:{number}"


def worker_environment(n_threads: int, *, is_local: bool) -> dict[str, str]:
    """Pin the thread pools of a worker; on this machine it also imports from where we do."""
    variables = dict.fromkeys(_THREAD_VARIABLES, str(n_threads))
    if is_local:
        variables["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return variables


def _room(cpus_per_worker: int, gpus_per_worker: float) -> int:
    """How many workers fit into the cluster; at least one, which then waits for room."""
    has = ray.cluster_resources()
    n_workers = int(has.get("CPU", 0) // cpus_per_worker)
    if gpus_per_worker:
        n_workers = min(n_workers, int(has.get("GPU", 0) // gpus_per_worker))
    return max(1, n_workers)
