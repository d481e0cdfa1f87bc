"""What the driver's own process does on Ray: it joins a cluster, and drives a run there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

from cluster.driver import Driver
from cluster.facts import Description, Facts, facts_here
from cluster.parts import Job
from cluster.ray_cluster import connected, resources_of_nodes
from cluster.ray_metrics import RunMetrics
from cluster.ray_options import Needs, RayOptions
from cluster.ray_pool import RayPool
from cluster.schedule import SLOW_AFTER_S, Schedule
from cluster.serving import Setup
from cluster.shards import Shard
from cluster.store import join, write_whole
from sms.urls import is_url

MARK = ".driver-"
"""So begins the name of a file in the folder of a run, while its driver works."""


def drive(
    shards: Sequence[Shard],
    setup: Setup,
    job: Job,
    options: RayOptions,
    expected: Facts | None,
    say: Callable[..., None],
) -> None:
    """Connect, then have all shards scored; `say` what is begun and done."""
    with _driver(setup, job.out, options, expected) as (driver, needs):
        job = replace(job, threads=needs.cpus, has_gpu=needs.gpus > 0)
        schedule = Schedule(shards, options.max_attempts, SLOW_AFTER_S)
        driver.run(schedule, job, partial(say, "report"), partial(say, "start"))


def describe(setup: Setup, out: str, options: RayOptions, _say: Callable[..., None]) -> Description:
    """Return what a worker says of its scorer: the driver needs no models."""
    with _driver(setup, out, replace(options, workers=1), None) as (driver, _):
        driver.start(1)
        return driver.description()


def count_gpus(address: str, is_open_allowed: bool, _say: Callable[..., None]) -> int:
    """Join a cluster and count the GPUs of its nodes."""
    with connected(address, is_open_allowed=is_open_allowed):
        return int(sum(node.get("GPU", 0) for node in resources_of_nodes()))


@contextmanager
def _driver(
    setup: Setup, out: str, options: RayOptions, expected: Facts | None
) -> Iterator[tuple[Driver, Needs]]:
    """Join the cluster that is asked for; drive workers there till the end."""
    cluster = connected(
        options.address, is_open_allowed=options.is_open_allowed, sends_packages=True
    )
    with cluster, _mark(out) as mark:
        needs, versions = Needs.of(options, resources_of_nodes()), options.versions
        setup = replace(setup, threads=needs.cpus, versions=versions, mark=mark)
        here = facts_here(versions)
        here = replace(here, versions={**here.versions, **versions})
        expected = replace(here, scorer=expected.scorer if expected else {})
        driver = Driver(RayPool(setup, needs, options.workers), expected, on_look=RunMetrics().set)
        try:
            yield driver, needs
        finally:
            driver.close()


@contextmanager
def _mark(out: str) -> Iterator[str | None]:
    """Leave a file in a folder, as long as workers have to show that they see this one.

    Its name is new each time, since a node may remember a file that another driver has left.
    """
    if is_url(out):
        yield None
        return
    mark = join(out, f"{MARK}{uuid4().hex}")
    write_whole(mark, b"")
    try:
        yield mark
    finally:
        for path in Path(out).glob(f"{MARK}*"):  # those of drivers that were killed, too
            path.unlink(missing_ok=True)
