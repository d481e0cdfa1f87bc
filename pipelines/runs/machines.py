"""Where a run is computed: in this process, several or a cluster; with what threads and devices."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cluster import (
    Job,
    RayOptions,
    Scorer,
    Shard,
    ShardReport,
    run_local,
    run_processes,
    run_ray,
    start_processes,
)
from cluster.driver import Driver
from cluster.facts import Description
from cluster.ray_options import Needs, cluster_address
from cluster.runners import gpus_of_cluster
from cluster.worker import processor_kind
from pipelines.settings.score import ScoreSettings
from sms.metric import Metric
from sms.naming import counted
from sms.process import available_threads, memory_bytes

logger = logging.getLogger(__name__)

ROWS_WORTH_WORKERS = 80_000
"""With so many rows workers are worth the second that they take to start."""
_ROWS_A_WORKER = 20_000
_MEMORY_A_WORKER = 1 << 30
"""Twice what one has with static vectors."""
_MOST_SHARING = 8
"""Workers that are proposed for a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Where the work is done."""

    settings: ScoreSettings
    address: str | None
    """Of the cluster, which `RAY_ADDRESS` may name; None without one."""
    ray: RayOptions
    """What workers are asked for, on this machine or a cluster."""
    n_gpus: int = 0
    """GPUs that the run could use, as far as somebody looked for them."""

    @classmethod
    def of(cls, settings: ScoreSettings, *, is_neural: bool) -> Machines:
        """Read the settings of a run and `RAY_ADDRESS`; look for GPUs if a neural model runs."""
        asked = settings.gpus_per_worker
        address = settings.address if settings.local else cluster_address(settings.address)
        ray = RayOptions(
            workers=None if settings.workers == "auto" else settings.workers,
            cpus_per_worker=settings.cpus_per_worker,
            gpus_per_worker=0.0 if asked == "auto" else asked,
            address=address or "auto",
            is_open_allowed=settings.insecure_cluster,
        )
        machines = cls(settings=settings, address=address, ray=ray)
        if settings.local and machines.needs_workers:
            raise ValueError(
                "`--local` scores in one process without Ray; leave out `--address` and "
                "`--gpus-per-worker`, or `--local`"
            )
        if is_neural and settings.device != "cpu":
            n_gpus = machines.found_gpus()
            if asked == "auto" and n_gpus and not machines.is_local:
                n_sharing = math.ceil((ray.workers or n_gpus) / n_gpus)
                ray = replace(ray, gpus_per_worker=1 / n_sharing)
            machines = replace(machines, ray=ray, n_gpus=n_gpus)
        if not machines.is_local and settings.device == "cuda" and not ray.gpus_per_worker:
            raise ValueError(
                "`--device cuda` needs GPUs for the workers; add `--gpus-per-worker 1`, or a "
                "fraction"
            )
        machines._check_room(is_neural=is_neural)
        return machines

    def suited_to(self, n_rows: int) -> Machines:
        """Return these, or workers where they are faster and nobody has said who scores.

        It is for runs without a neural model: one process finds sentences and words, which are most
        of the work there, on one core, whatever its threads.
        """
        asked = self.settings
        is_open = asked.workers is None and asked.cpus_per_worker is None and self.is_local
        if asked.local or not is_open or n_rows < ROWS_WORTH_WORKERS:
            return self
        n_workers = min(
            available_threads(), n_rows // _ROWS_A_WORKER, memory_bytes() // _MEMORY_A_WORKER
        )
        if n_workers < 2:
            return self
        settings, ray = replace(asked, workers=n_workers), replace(self.ray, workers=n_workers)
        return replace(self, settings=settings, ray=ray)

    def _check_room(self, *, is_neural: bool) -> None:
        """Check that the GPUs of this machine are enough, where workers of it share them."""
        if self.is_local or self.is_on_ray or self.worker_device != "cuda" or not is_neural:
            return
        n_workers = self.ray.workers or 1
        if self._needs.room_on_gpus(self.n_gpus) < n_workers:
            raise ValueError(
                f"this machine has no room for {counted(n_workers, 'worker')} of {self._needs}; "
                f"it has {counted(self.n_gpus, 'GPU')}; use fewer workers or GPUs, or join a "
                "cluster with `--address`"
            )

    def shares_of_limits(self, metrics: Sequence[Metric]) -> list[str]:
        """Say in lines how workers share what metrics may ask of a server at the same time.

        Raises `ValueError` if they cannot, or if nobody knows how many workers there will be.
        """
        lines = []
        for metric in metrics:
            most, n_workers = metric.most_workers, self.n_scoring
            if most is None or n_workers == 1:
                continue
            if n_workers is None:
                raise ValueError(
                    f"`--workers` must be a number on a cluster if {metric.written} is scored, "
                    f"because its `concurrency` of {most} is divided among the workers"
                )
            if n_workers > most:
                raise ValueError(
                    f"`--workers` must be at most {most}, the `concurrency` of {metric.written}, "
                    f"got {n_workers}; start fewer workers, or raise `concurrency`"
                )
            each = counted(most // n_workers, "request")
            lines.append(
                f"{metric.written}: at most {each} at a time from each of {n_workers} workers"
            )
        return lines

    def found_gpus(self) -> int:
        """Count the GPUs here, or, if the workers' share depends on them, those of the cluster."""
        if self.address is None:
            if not may_have_gpu():  # as torch takes seconds to import
                return 0
            from sms.encoders.devices import count_gpus  # brings torch

            return count_gpus()
        if self.settings.gpus_per_worker != "auto":
            return 0
        return gpus_of_cluster(self.address, is_open_allowed=self.ray.is_open_allowed)

    @property
    def n_idle_gpus(self) -> int:
        """GPUs that the run could use and does not."""
        n_workers, share = self.ray.workers, self.ray.gpus_per_worker
        if self.is_local:
            n_used = 1
        elif n_workers is None or not share:
            n_used = self.n_gpus if share else 0
        elif share > 1:
            n_used = round(n_workers * share)
        else:  # a worker's share is of one GPU
            n_used = math.ceil(n_workers / int(1 / share + 1e-9))
        return max(0, self.n_gpus - n_used)

    def warn_of_idle_gpus(self) -> None:
        """Say which GPUs the run could use and does not, and what would change that."""
        if n_idle := self.n_idle_gpus:
            remedy = "add `--workers auto`, which gives each a worker"
            if not (self.is_local or self.ray.gpus_per_worker):
                remedy = "leave out `--gpus-per-worker 0` to use them"
            logger.warning("GPUs that stay idle: %d of %d; %s", n_idle, self.n_gpus, remedy)

    def found(self, *, is_neural: bool) -> str:
        """Say in a line what this machine computes with; nothing of the nodes of a cluster."""
        if self.address is not None:
            return ""
        text = f"Found: {counted(available_threads(), 'core')}"
        if is_neural and self.settings.device != "cpu":
            text += f", {counted(self.n_gpus, 'GPU') if self.n_gpus else 'no GPU'}"
            n_cutting = min(available_threads(), _MOST_SHARING)
            if self.n_gpus and self.is_local and not self.settings.local and n_cutting > 1:
                text += f"; `--workers {n_cutting}` keeps a GPU busier than one process does"
        may_use_bf16 = is_neural and self.settings.precision == "auto"
        if may_use_bf16 and self.n_idle_gpus == self.n_gpus and "amx_bf16" in processor_kind():
            text += (
                '; this processor has AMX: `precision = "bf16"` in the file of `--config` makes '
                "encoders about three times as fast"
            )
        return text

    @property
    def needs_workers(self) -> bool:
        """Whether workers are on a cluster, or get GPUs, whatever their number."""
        return self.address is not None or self.ray.gpus_per_worker > 0

    @property
    def is_local(self) -> bool:
        """Whether this process scores."""
        return self.settings.local or (
            self.settings.workers in (None, 1) and not self.needs_workers
        )

    @property
    def is_on_ray(self) -> bool:
        """Whether workers are on a cluster."""
        return self.address is not None and not self.is_local

    @property
    def _needs(self) -> Needs:
        """What a worker takes of this machine."""
        here = {"CPU": available_threads(), "GPU": self.n_gpus}
        return Needs.of(self.ray, [here])

    @property
    def n_workers(self) -> int:
        """Processes of this machine that score: as many as were asked for, or as fill it."""
        if self.ray.workers:
            return self.ray.workers
        gpus = self.ray.gpus_per_worker if self.n_gpus else 0.0
        here = {"CPU": available_threads(), "GPU": self.n_gpus}
        return max(1, replace(self._needs, gpus=gpus).room_on(here))

    @property
    def n_scoring(self) -> int | None:
        """Processes that score, at most; None where they fill a cluster."""
        if self.is_local:
            return 1
        return self.ray.workers if self.is_on_ray else self.n_workers

    @property
    def worker_threads(self) -> int:
        """Threads of a worker process of this machine."""
        return max(1, self._needs.cpus)

    @property
    def worker_device(self) -> str:
        """Where a worker's encoders run; a worker sees only the GPUs it was given."""
        if self.is_local or self.settings.device != "auto":
            return self.settings.device
        return "cuda" if self.ray.gpus_per_worker else "cpu"

    @property
    def precision(self) -> Literal["bf16", "fp32"]:
        """What `auto` means here for neural encoders: the scores depend on it."""
        return "bf16" if self.uses_gpu else "fp32"

    @property
    def uses_gpu(self) -> bool:
        """Whether neural encoders run on a GPU."""
        if not self.is_local:
            return self.worker_device == "cuda"
        from sms.encoders.devices import uses_gpu  # brings torch

        return uses_gpu(self.settings.device)

    @property
    def driver_threads(self) -> int:
        """As many as the workers that are asked for would have together, else all there are."""
        if self.is_local and self.settings.workers is not None:
            return self.n_workers * self.worker_threads
        return (self.is_local and self.settings.cpus_per_worker) or available_threads()

    def run(
        self,
        shards: Sequence[Shard],
        make_scorer: Callable[[int], Scorer],
        job: Job,
        on_report: Callable[[ShardReport], None],
        on_start: Callable[[int, str], None],
        *,
        versions: Mapping[str, str],
        started: Driver | None,
        describe: Callable[[Any], Description],
        expected: Description,
    ) -> None:
        """Score shards, and tell of each; `started` are worker processes that run already.

        What `describe` says of every worker's scorer must be as `expected`.
        """
        tell: dict[str, Any] = {"on_report": on_report, "on_start": on_start}
        same: dict[str, Any] = {"describe": describe, "expected": expected}
        if self.is_local:
            job = replace(job, threads=self.driver_threads)
            run_local(shards, make_scorer, job, **tell, **same)
        elif self.is_on_ray:  # which sets the threads of a worker
            options = replace(self.ray, versions=versions)
            run_ray(shards, make_scorer, job, options=options, **tell, **same)
        else:
            workers = started or self.start_processes(make_scorer, **same)
            job = replace(job, threads=self.worker_threads)
            run_processes(shards, workers, job, **tell)

    def start_processes(
        self,
        make_scorer: Callable[[int], Scorer],
        **same: Any,  # noqa: ANN401
    ) -> Driver:
        """Start the processes of this machine that score; `same` is as in `run`."""
        return start_processes(
            make_scorer,
            self.n_workers,
            self.worker_threads,
            n_gpus=self.n_gpus,
            gpus_per_worker=self.ray.gpus_per_worker,
            **same,
        )


def may_have_gpu() -> bool:
    """Say whether this machine has a driver of GPUs that torch can use."""
    drivers = ("nvidiactl", "nvmap", "kfd", "dxg")  # NVIDIA, its small boards, AMD, WSL
    return sys.platform != "linux" or any(os.path.exists(f"/dev/{name}") for name in drivers)
