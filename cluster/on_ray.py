"""Scores shards on Ray, by a driver in another process.

The driver and its workers are in `ray_runner`. This process never imports Ray.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

from cluster.children import ProcessLost
from cluster.parts import Job, ShardReport
from cluster.process_runner import Reports
from cluster.ray_options import RayOptions
from cluster.ray_process import call_apart
from cluster.shards import Shard
from cluster.store import absolute
from sms.scorers import Scorer

logger = logging.getLogger(__name__)


def run_ray(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: Callable[[ShardReport], None] | None = None,
    *,
    on_start: Callable[[int, str], None] | None = None,
    options: RayOptions = RayOptions(),  # noqa: B008  (it is frozen)
) -> list[ShardReport]:
    """Score every shard that is handed in, on a Ray cluster.

    The scores are those of `run_local`, bit by bit if the scorer's are the same twice; what is not
    said here means what it does there. `make_scorer` is picklable; relative paths mean in a worker
    what they mean here, where it sees them. The job's `threads` and `has_gpu` become those of a
    worker. Raises `ConnectionError` if no cluster answers at the address, `ValueError` if it asks
    for no token or has other versions than this driver, and `RuntimeError` if every worker keeps
    dying before it is ready, or the cluster is lost.
    """
    if not shards:
        return []
    reports = Reports(replace(job, out=absolute(job.out)), on_report)
    tell = {"report": reports.add, "start": on_start or (lambda *_: None)}
    work = (shards, partial(_made_in, os.getcwd(), make_scorer), reports.job, options)
    try:
        call_apart(_called, "cluster.ray_runner:drive", *work, tell=tell, address=options.address)
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
    return [reports.by_index[shard.index] for shard in shards]


def describe_on_ray(
    make_scorer: Callable[[int], Scorer],
    what: Callable[[Any], Any],
    out: str,
    options: RayOptions,
) -> Any:  # noqa: ANN401
    """Return what a function says of the scorer that a worker makes; this process makes none.

    Both functions are picklable; `out` is the folder or URL of the run, which every node must see.
    Raises `ConnectionError` and `ValueError` as `run_ray` does, `RuntimeError` if the cluster or
    the worker is lost, and whatever making the scorer raises.
    """
    work = (partial(_made_in, os.getcwd(), make_scorer), what, absolute(out), options)
    try:
        where = "cluster.ray_runner:describe"
        return call_apart(_called, where, *work, tell={}, address=options.address)
    except ProcessLost as error:
        raise RuntimeError(
            f"the Ray cluster was lost ({error}); run the same command again once it is back"
        ) from error


def gpus_of_cluster(address: str, *, is_open_allowed: bool) -> int:
    """Count the GPUs of the nodes that a cluster has now.

    Raises `ConnectionError` if no cluster answers at the address; `ValueError` if the cluster asks
    for no token, and that is not allowed.
    """
    work = ("cluster.ray_cluster:count_gpus", address, is_open_allowed)
    return call_apart(_called, *work, tell={}, address=address)


def _called(where: str, *arguments: Any) -> Any:  # noqa: ANN401
    """Call a function by its module and name, in the process that may import Ray."""
    return resolve_name(where)(*arguments)


def _made_in(folder: str, make_scorer: Callable[[int], Scorer], threads: int) -> Scorer:
    """Make a scorer in a worker, which Ray has not started in the folder of this process."""
    with suppress(OSError):  # a node that does not see it
        os.chdir(folder)
    return make_scorer(threads)
