"""Scores shards on Ray, by a driver in another process: what it is asked, and what it reports.

The driver and its workers are in `ray_runner`. This process never imports Ray.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from cluster.parts import (
    Job,
    ShardReport,
    committed,
    part_path,
    report_from_file,
)
from cluster.ray_options import RayOptions
from cluster.ray_process import ProcessLost, call_apart
from cluster.shards import Shard
from cluster.store import absolute
from cluster.worker import Scorer

logger = logging.getLogger(__name__)


def run_ray(
    shards: Sequence[Shard],
    make_scorer: Callable[[int], Scorer],
    job: Job,
    on_report: Callable[[ShardReport], None] | None = None,
    *,
    on_start: Callable[[int, str], None] | None = None,
    options: RayOptions | None = None,
) -> list[ShardReport]:
    """Score every shard that is handed in, on a Ray cluster.

    The scores are those of `run_local`, bit by bit if the scorer's are the same twice. Shards
    committed before an interruption stay.

    Parameters
    ----------
    shards : sequence of Shard
        Those still to do (`committed` says which are done).
    make_scorer : callable
        Picklable. Given the number of threads, returns the scorer; relative paths mean in a worker
        what they mean here, where it sees them. What it raises is raised here.
    job : Job
        What is the same for all of them; `threads` and `has_gpu` become those of a worker.
    on_report : callable, optional
        Called here, in the driver, with each report as soon as there is one.
    on_start : callable, optional
        Called here with the index of each shard that is handed out, and the worker's node.
    options : RayOptions, optional

    Returns
    -------
    list of ShardReport
        One per shard, in the order of `shards`; without their sums if `on_report` has had those.

    Raises
    ------
    ConnectionError
        If no cluster answers at the address.
    ValueError
        If the cluster asks for no token, or has other versions than this driver.
    RuntimeError
        If every worker keeps dying before it is ready, or the cluster is lost.
    """
    options = options or RayOptions()
    if not shards:
        return []
    job = replace(job, out=absolute(job.out))
    reports: dict[int, ShardReport] = {}

    def keep(report: ShardReport) -> None:
        if report.error is not None:
            with suppress(
                OSError, ValueError
            ):  # a worker may have been lost just after it committed
                report = report_from_file(part_path(job.out, report.index, job.fingerprint))
        if on_report is not None:
            on_report(report)
            report = report.without_sums()
        reports[report.index] = report

    tell: dict[str, Callable[..., None]] = {"report": keep, "start": on_start or _nobody_listens}
    make_scorer = partial(_made_in, os.getcwd(), make_scorer)
    try:
        call_apart(_drive, shards, make_scorer, job, options, tell=tell, address=options.address)
    except RuntimeError as error:  # whatever became of the cluster, the files say what is done
        left = [shard for shard in shards if shard.index not in reports]
        for index in sorted(committed(job.out, left, job.fingerprint)):
            keep(report_from_file(part_path(job.out, index, job.fingerprint)))
        if len(reports) == len(shards):
            logger.warning("all shards were committed before the cluster was lost: %s", error)
        elif isinstance(error, ProcessLost):
            raise RuntimeError(
                f"the Ray cluster was lost ({error}); what is committed stays, the same "
                "command goes on from there once the cluster is back"
            ) from error
        else:
            raise
    return [reports[shard.index] for shard in shards]


def _drive(*arguments: Any) -> None:  # noqa: ANN401
    """Be the driver, in the process that may import Ray."""
    from cluster.ray_runner import drive

    drive(*arguments)


def _made_in(folder: str, make_scorer: Callable[[int], Scorer], threads: int) -> Scorer:
    """Make a scorer in a worker, which Ray has not started in the folder of this process."""
    with suppress(OSError):  # a node that does not see it
        os.chdir(folder)
    return make_scorer(threads)


def _nobody_listens(index: int, node: str) -> None:
    pass
