"""Asks one worker of a cluster what its scorer is, so that the driver needs no models."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from cluster.process_runner import worker_environment
from cluster.ray_cluster import HeadWatch
from cluster.ray_options import RayOptions
from cluster.ray_runner import LOOK_AROUND_EVERY_S, NO_ROOM, cause_of, joined_cluster, needs_of
from cluster.worker import one_line
from sms.scorers import Scorer

import ray  # isort: skip  (what it reads when it is imported is set by now)
from ray.exceptions import RayError, RayTaskError  # isort: skip

logger = logging.getLogger(__name__)


def describe(
    make_scorer: Callable[[int], Scorer],
    what: Callable[[Scorer], Any],
    out: str,
    options: RayOptions,
    say: Callable[..., None],
) -> Any:  # noqa: ANN401
    """Return what a function says of the scorer that a worker makes."""
    with joined_cluster(options, out):
        needs, head = needs_of(options), HeadWatch()
        if not needs.room():
            logger.warning(NO_ROOM, needs)
        environment = worker_environment(needs.cpus, is_local=options.address is None)
        # its process ends with it, and leaves the memory of the model to the workers
        task = ray.remote(max_calls=1)(_described).options(
            num_cpus=needs.cpus, num_gpus=needs.gpus, runtime_env={"env_vars": environment}
        )
        asked = task.remote(make_scorer, what, needs.cpus)
        while not ray.wait([asked], timeout=LOOK_AROUND_EVERY_S)[0]:
            head.check()
        try:
            return ray.get(asked)
        except RayTaskError as error:
            raise cause_of(error) from None
        except RayError as error:
            lost = f"the worker that loaded the models was lost ({one_line(error)})"
            raise RuntimeError(lost) from error


def _described(
    make_scorer: Callable[[int], Scorer], what: Callable[[Scorer], Any], threads: int
) -> Any:  # noqa: ANN401
    return what(make_scorer(threads))
