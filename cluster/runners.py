"""Runs a scorer over shards: in this process, in several of this machine, or on a Ray cluster.

Each way is a pool of workers under one `Driver`. On Ray the driver is in a process of its own, and
this one never imports Ray.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

from cluster.children import ProcessLost
from cluster.driver import Driver
from cluster.facts import Description, Facts
from cluster.local_pool import LocalPool
from cluster.parts import Job, ShardReport, part_path
from cluster.process_pool import ProcessPool
from cluster.ray_options import RayOptions
from cluster.ray_process import call_apart
from cluster.schedule import SLOW_AFTER_S, Schedule
from cluster.scores_files import committed, reports_from_file
from cluster.serving import Setup, no_description
from cluster.shards import Shard
from cluster.store import absolute
from cluster.worker import node_name
from sms.scorers import Scorer

OnReport = Callable[[ShardReport], None]
OnStart = Callable[[int, str], None]
Describe = Callable[[Any], Description]

logger = logging.getLogger(__name__)


def run_local(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: OnReport | None = None,
    *,
    on_start: OnStart | None = None,
    max_attempts: int = 3,
    describe: Describe = no_description,
    expected: Description | None = None,
) -> list[ShardReport]:
    """Score every shard that is handed in, and return a report of each, in their order.

    A shard that has failed `max_attempts` times is reported with its error. An interrupt leaves
    whole shards only. `make_scorer` is given the number of threads; what it raises is raised here.
    It is called again after a shard has failed, which may have left the scorer damaged; what
    `describe` says of the scorer must then be as before, and as `expected`. `on_start` is called
    with the index of each shard that is begun, and the name of this machine. `on_report` is called
    with each report at once.
    """
    reports = _Reports(job, on_report)
    setup = Setup(make_scorer=make_scorer, threads=job.threads, describe=describe)
    schedule = Schedule(shards, max_attempts, math.inf, is_alone=True)
    with closing(Driver(LocalPool(setup), _as_expected(expected))) as driver:
        driver.run(schedule, reports.job, reports.add, on_start)
    return reports.of(shards)


def start_processes(
    make_scorer: Callable[[int], Scorer],
    n_workers: int,
    n_threads: int = 1,
    *,
    n_gpus: int = 0,
    gpus_per_worker: float = 0.0,
    describe: Describe = no_description,
    expected: Description | None = None,
) -> Driver:
    """Start processes of this machine that load a scorer at once, and wait for `run_processes`.

    `make_scorer` and `describe` are picklable; the threads are those of each process. All must
    describe the same scorer, the one that is `expected`. GPUs of this machine are dealt out among
    them.
    """
    setup = Setup(make_scorer=make_scorer, threads=n_threads, describe=describe)
    pool = ProcessPool(setup, n_workers, n_gpus=n_gpus, gpus_per_worker=gpus_per_worker)
    driver = Driver(pool, _as_expected(expected))
    try:
        driver.start(n_workers)
    except BaseException:
        driver.close()
        raise
    return driver


def run_processes(
    shards: Sequence[Shard],
    workers: Driver,
    job: Job,
    on_report: OnReport | None = None,
    *,
    on_start: OnStart | None = None,
    max_attempts: int = 3,
) -> list[ShardReport]:
    """Score every shard that is handed in, in processes that have been started, and end them.

    The scores are those of `run_local`, bit by bit if the scorer's are the same twice; what is not
    said here means what it does there. Raises `RuntimeError` if no worker can be kept alive, and
    whatever making the scorer raises.
    """
    reports = _Reports(job, on_report)
    schedule = Schedule(shards, max_attempts, SLOW_AFTER_S)
    with closing(workers):
        workers.run(schedule, reports.job, reports.add, on_start)
    return reports.of(shards)


def run_ray(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: OnReport | None = None,
    *,
    on_start: OnStart | None = None,
    options: RayOptions,
    describe: Describe = no_description,
    expected: Description | None = None,
) -> list[ShardReport]:
    """Score every shard that is handed in, on a Ray cluster.

    The scores are those of `run_local`, bit by bit if the scorer's are the same twice; what is not
    said here means what it does there. `make_scorer` is picklable; relative paths mean in a worker
    what they mean here, where it sees them. The job's `threads` and `has_gpu` become those of a
    worker. Raises `ConnectionError` if no cluster answers at the address, `ValueError` if it asks
    for no token or its workers would score otherwise than this driver, and `RuntimeError` if no
    worker can be kept alive, or the cluster is lost.
    """
    if not shards:
        return []
    reports = _Reports(job, on_report)
    setup = _ray_setup(make_scorer, describe)
    tell = {"report": reports.add, "start": on_start or (lambda *_: None)}
    work = (shards, setup, reports.job, options, _as_expected(expected))
    try:
        _call_driver("drive", *work, tell=tell, address=options.address)
    except RuntimeError as error:  # whatever became of the cluster, the files say what is done
        if reports.add_committed(shards):
            logger.warning("all shards were committed before the cluster was lost: %s", error)
        elif isinstance(error, ProcessLost):
            raise RuntimeError(
                f"the Ray cluster was lost ({error}); committed shards are kept: run the "
                "same command again once the cluster is back"
            ) from error
        else:
            raise
    return reports.of(shards)


def describe_on_ray(
    make_scorer: Callable[[int], Scorer], describe: Describe, out: str, options: RayOptions
) -> Description:
    """Return what a function says of the scorer that a worker makes; this process makes none.

    Both functions are picklable; `out` is the folder or URL of the run, which every node must see.
    Raises `ConnectionError`, `ValueError` and `RuntimeError` as `run_ray` does, and whatever making
    the scorer raises.
    """
    work = (_ray_setup(make_scorer, describe), absolute(out), options)
    try:
        described: Description = _call_driver("describe", *work, tell={}, address=options.address)
    except ProcessLost as error:
        raise RuntimeError(
            f"the Ray cluster was lost ({error}); run the same command again once it is back"
        ) from error
    return described


def gpus_of_cluster(address: str, *, is_open_allowed: bool) -> int:
    """Count the GPUs of the nodes that a cluster has now.

    Raises `ConnectionError` if no cluster answers at the address; `ValueError` if the cluster asks
    for no token, and that is not allowed.
    """
    n_gpus: int = _call_driver("count_gpus", address, is_open_allowed, tell={}, address=address)
    return n_gpus


def _call_driver(name: str, *arguments: Any, **how: Any) -> Any:  # noqa: ANN401
    return call_apart(_called, name, *arguments, **how)


def _called(name: str, *arguments: Any) -> Any:  # noqa: ANN401
    """Call a function by its name, in the process that may import Ray."""
    return resolve_name(f"cluster.ray_driver:{name}")(*arguments)


def _ray_setup(make_scorer: Callable[[int], Scorer], describe: Describe) -> Setup:
    return Setup(make_scorer=partial(_made_in, os.getcwd(), make_scorer), describe=describe)


def _made_in(folder: str, make_scorer: Callable[[int], Scorer], threads: int) -> Scorer:
    """Make a scorer in a worker, which Ray has not started in the folder of this process."""
    with suppress(OSError):  # a node that does not see it
        os.chdir(folder)
    return make_scorer(threads)


def _as_expected(scorer: Description | None) -> Facts | None:
    return None if scorer is None else Facts(node=node_name(), scorer=scorer)


class _Reports:
    """The reports so far of a run."""

    def __init__(self, job: Job, on_report: OnReport | None) -> None:
        self.job = replace(job, out=absolute(job.out))
        self._on_report = on_report
        self._by_index: dict[int, ShardReport] = {}

    def add(self, report: ShardReport) -> None:
        """Pass on a report; where a failed shard is committed after all, one made from its file."""
        if report.error is not None:
            # a worker may have been lost just after it committed
            with suppress(OSError, ValueError):
                report = self._from_file(report.index)
        if self._on_report is not None:
            self._on_report(report)
        self._by_index[report.index] = report

    def add_committed(self, shards: Sequence[Shard]) -> bool:
        """Add reports of committed shards that nobody reported; say if all shards have one now."""
        left = [shard for shard in shards if shard.index not in self._by_index]
        for index in sorted(committed(self.job.out, left, self.job.fingerprint)):
            self.add(self._from_file(index))
        return len(self._by_index) == len(shards)

    def of(self, shards: Sequence[Shard]) -> list[ShardReport]:
        """Return the reports of shards."""
        return [self._by_index[shard.index] for shard in shards]

    def _from_file(self, index: int) -> ShardReport:
        (report,) = reports_from_file(part_path(self.job.out, index, self.job.fingerprint))
        return report
