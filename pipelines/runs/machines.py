"""Where a run is computed: in this process, several or on Ray; with which threads and devices."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cluster import (
    Job,
    RayOptions,
    Scorer,
    Shard,
    ShardReport,
    Workers,
    run_local,
    run_processes,
    run_ray,
)
from cluster.on_ray import describe_on_ray, gpus_of_cluster
from cluster.ray_options import cluster_address
from cluster.worker import processor_kind
from pipelines.settings.score import ScoreSettings
from sms.encoders import EncoderRuntime
from sms.naming import counted

Runner: TypeAlias = Callable[
    [Sequence[Shard], Job, Callable[[ShardReport], None], Callable[[int, str], None]],
    Sequence[ShardReport],
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Where the work is done."""

    settings: ScoreSettings
    gpus_per_worker: float
    address: str | None
    """Of the Ray cluster, which `RAY_ADDRESS` may name, too."""
    n_gpus: int = 0
    """GPUs that the run could use, as far as somebody looked for them."""

    @classmethod
    def of(cls, settings: ScoreSettings, *, is_neural: bool) -> Machines:
        """Read the settings of a run and `RAY_ADDRESS`; look for GPUs if a neural model runs."""
        asked = settings.gpus_per_worker
        machines = cls(
            settings=settings,
            gpus_per_worker=0.0 if asked == "auto" else asked,
            address=settings.address if settings.local else cluster_address(settings.address),
        )
        if is_neural and settings.device != "cpu":
            n_gpus = machines.found_gpus(is_asked_for=asked == "auto")
            machines = replace(machines, n_gpus=n_gpus)
            if asked == "auto" and not machines.is_local:
                machines = replace(machines, gpus_per_worker=machines.share_of_gpus)
        machines.check_device()
        return machines

    def found_gpus(self, *, is_asked_for: bool) -> int:
        """Count the GPUs here, or, if that has to be known, those of the cluster."""
        if self.address is None:
            if not may_have_gpu():  # as torch takes seconds to import
                return 0
            from sms.encoders.devices import count_gpus  # brings torch

            return count_gpus()
        if not is_asked_for:
            return 0
        return gpus_of_cluster(self.address, is_open_allowed=self.settings.insecure_cluster)

    @property
    def share_of_gpus(self) -> float:
        """GPUs of a worker where the workers share out all there are, a whole one at most."""
        if not self.n_gpus:
            return 0.0
        n_workers = self.settings.workers if isinstance(self.settings.workers, int) else self.n_gpus
        return 1 / -(-n_workers // self.n_gpus)

    @property
    def n_idle_gpus(self) -> int:
        """GPUs that the run could use and does not."""
        if self.is_local:
            n_used = 1
        elif not self.gpus_per_worker or not isinstance(self.settings.workers, int):
            n_used = self.n_gpus if self.gpus_per_worker else 0
        elif self.gpus_per_worker > 1:
            n_used = round(self.settings.workers * self.gpus_per_worker)
        else:
            n_used = -(-self.settings.workers // int(1 / self.gpus_per_worker + 1e-9))
        return max(0, self.n_gpus - n_used)

    def warn_of_idle_gpus(self) -> None:
        """Say which GPUs the run could use and does not, and what would change that."""
        if n_idle := self.n_idle_gpus:
            logger.warning(
                "%d of %s %s idle; %s",
                n_idle,
                counted(self.n_gpus, "GPU"),
                "stays" if n_idle == 1 else "stay",
                "add `--workers auto`, which gives each a worker"
                if self.is_local or self.gpus_per_worker
                else "leave out `--gpus-per-worker 0` to use them",
            )

    def found(self, *, may_use_bf16: bool) -> str:
        """Say in a line with what the run computes; nothing of the nodes of a cluster."""
        if self.address is not None:
            return ""
        from sms.compiled import available_threads

        text = f"Found: {counted(available_threads(), 'core')}"
        if may_use_bf16 and self.settings.device != "cpu":
            text += f", {counted(self.n_gpus, 'GPU') if self.n_gpus else 'no GPU'}"
        runs_on_cores = self.n_idle_gpus == self.n_gpus
        if may_use_bf16 and runs_on_cores and "amx_bf16" in processor_kind():
            text += (
                '; this processor has AMX: `precision = "bf16"` in the `--config` file makes '
                "encoders about three times as fast"
            )
        return text

    def __post_init__(self) -> None:
        self.ray_options()  # checks the numbers
        if self.settings.local and (self.address is not None or self.gpus_per_worker):
            raise ValueError(
                "`--local` scores in one process without Ray; leave out `--address` and "
                "`--gpus-per-worker`, or `--local`"
            )

    def check_device(self) -> None:
        """Refuse a GPU for workers that have none."""
        if not self.is_local and self.settings.device == "cuda" and not self.gpus_per_worker:
            raise ValueError(
                "`--device cuda` needs GPUs for the workers; add `--gpus-per-worker 1`, or a "
                "fraction"
            )

    @property
    def is_local(self) -> bool:
        """Whether this process scores, without Ray."""
        is_one = self.settings.workers in (None, 1)
        uses_ray = self.address is not None or self.gpus_per_worker > 0
        return self.settings.local or (is_one and not uses_ray)

    @property
    def is_on_ray(self) -> bool:
        """Whether workers are Ray's: on a cluster, or where it hands out GPUs."""
        return not self.is_local and (self.address is not None or self.gpus_per_worker > 0)

    @property
    def n_workers(self) -> int:
        """Processes of this machine that score: as many as were asked for, or as fill it."""
        from sms.compiled import available_threads  # brings the compiler, which takes a moment

        if isinstance(self.settings.workers, int):
            return self.settings.workers
        return max(1, available_threads() // self.worker_threads)

    @property
    def worker_threads(self) -> int:
        """Threads of a worker process of this machine."""
        return self.settings.cpus_per_worker or 1

    @property
    def worker_device(self) -> str:
        """Where a worker's encoders run; Ray hides from a worker the GPUs it was not given."""
        if self.is_local or self.settings.device != "auto":
            return self.settings.device
        return "cuda" if self.gpus_per_worker else "cpu"

    @property
    def uses_gpu(self) -> bool:
        """Whether neural encoders run on a GPU."""
        if not self.is_local:
            return self.worker_device == "cuda"
        from sms.encoders.devices import Machine  # brings torch

        return Machine.choose(EncoderRuntime(device=self.settings.device)).device.type == "cuda"

    @property
    def driver_device(self) -> str:
        """Where the driver's encoders run, which on Ray only have to name themselves."""
        return self.settings.device if self.is_local else "cpu"

    @property
    def driver_threads(self) -> int:
        """As many as the workers that are asked for would have together, else all there are."""
        from sms.compiled import available_threads  # brings the compiler, which takes a moment

        n_cpus = available_threads()
        if not self.is_local:
            return n_cpus
        if self.settings.workers is None:
            return self.settings.cpus_per_worker or n_cpus
        return self.n_workers * self.worker_threads

    @property
    def precision(self) -> str:
        """What `auto` means here for neural encoders: the scores depend on it."""
        if self.is_local:
            from sms.encoders.devices import Machine  # brings torch

            return Machine.choose(EncoderRuntime(device=self.settings.device)).precision
        return "bf16" if self.worker_device == "cuda" else "fp32"

    def ray_options(self) -> RayOptions:
        """Return what Ray is asked for."""
        return RayOptions(
            workers=None if self.settings.workers == "auto" else self.settings.workers,
            cpus_per_worker=self.settings.cpus_per_worker,
            gpus_per_worker=self.gpus_per_worker,
            address=self.address,
            is_open_allowed=self.settings.insecure_cluster,
        )

    def described(
        self,
        make_scorer: Callable[[int], Scorer],
        what: Callable[[Any], Any],
        out: str,
        versions: Mapping[str, str],
    ) -> Any:  # noqa: ANN401
        """Return what a function says of the scorer that a worker of the cluster makes."""
        options = replace(self.ray_options(), versions=versions)
        return describe_on_ray(make_scorer, what, out, options)

    def runner(
        self,
        make_scorer: Callable[[int], Scorer],
        versions: Mapping[str, str],
        started: Workers | None = None,
    ) -> Runner:
        """Return what scores shards, given them, a job and whom to tell of each.

        `started` are the processes of this machine that have been started already.
        """
        if self.is_local:
            threads = self.driver_threads
            return lambda shards, job, on_report, on_start: run_local(
                shards, make_scorer, replace(job, threads=threads), on_report, on_start=on_start
            )
        if not self.is_on_ray:
            return lambda shards, job, on_report, on_start: run_processes(
                shards,
                make_scorer,
                replace(job, threads=self.worker_threads),
                on_report,
                on_start=on_start,
                n_workers=self.n_workers,
                started=started,
            )
        options = replace(self.ray_options(), versions=versions)
        return lambda shards, job, on_report, on_start: run_ray(
            shards, make_scorer, job, on_report, on_start=on_start, options=options
        )


def may_have_gpu() -> bool:
    """Say whether this machine has a driver of GPUs that torch can use."""
    drivers = ("nvidiactl", "nvmap", "kfd", "dxg")  # NVIDIA, its small boards, AMD, WSL
    return sys.platform != "linux" or any(os.path.exists(f"/dev/{name}") for name in drivers)
