"""Where a run is computed: in this process or on Ray, with how many threads, on which device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cluster import Job, RayOptions, Scorer, Shard, ShardReport, run_local, run_ray
from cluster.ray_options import cluster_address
from pipelines.settings.score import ScoreSettings
from sms.encoders import EncoderRuntime

Runner: TypeAlias = Callable[
    [Sequence[Shard], Job, Callable[[ShardReport], None], Callable[[int, str], None]],
    Sequence[ShardReport],
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Where the work is done."""

    workers: int | Literal["auto"] | None
    cpus_per_worker: int | None
    gpus_per_worker: float
    address: str | None
    is_open_allowed: bool
    asks_for_local: bool
    device: str
    """Where encoders run: `auto`, `cpu` or `cuda`."""

    @classmethod
    def of(cls, settings: ScoreSettings) -> Machines:
        """Read the settings of a run, and `RAY_ADDRESS`."""
        local, address = settings.local, settings.address
        return cls(
            workers=settings.workers,
            cpus_per_worker=settings.cpus_per_worker,
            gpus_per_worker=settings.gpus_per_worker,
            address=address if local else cluster_address(address),
            is_open_allowed=settings.insecure_cluster,
            asks_for_local=local,
            device=settings.device,
        )

    def __post_init__(self) -> None:
        EncoderRuntime(device=self.device)
        self.ray_options()  # checks the numbers
        if self.asks_for_local and (self.address is not None or self.gpus_per_worker):
            raise ValueError(
                "`--local` scores in one process without Ray; leave out `--address` and "
                "`--gpus-per-worker`, or `--local`"
            )
        if not self.is_local and self.device == "cuda" and not self.gpus_per_worker:
            raise ValueError(
                "`--device cuda` needs GPUs for the workers; add `--gpus-per-worker 1`, or a "
                "fraction"
            )

    @property
    def is_local(self) -> bool:
        """Whether this process scores, without Ray."""
        if self.asks_for_local:
            return True
        return self.address is None and not self.gpus_per_worker and self.workers in (None, 1)

    @property
    def worker_device(self) -> str:
        """Where a worker's encoders run; Ray hides from a worker the GPUs it was not given."""
        if self.is_local or self.device != "auto":
            return self.device
        return "cuda" if self.gpus_per_worker else "cpu"

    @property
    def driver_device(self) -> str:
        """Where the driver's encoders run, which on Ray only have to name themselves."""
        return self.device if self.is_local else "cpu"

    @property
    def driver_threads(self) -> int:
        """As many as the workers that are asked for would have together, else all there are."""
        from sms.compiled import available_threads  # brings the compiler, which takes a moment

        n_cpus = available_threads()
        if not self.is_local:
            return n_cpus
        if self.workers is None:
            return self.cpus_per_worker or n_cpus
        cpus = self.cpus_per_worker or 1
        n_workers = max(1, n_cpus // cpus) if self.workers == "auto" else self.workers
        return n_workers * cpus

    @property
    def precision(self) -> str:
        """What `auto` means here for neural encoders: the scores depend on it."""
        if self.is_local:
            from sms.encoders.devices import Machine  # brings torch

            return Machine.choose(EncoderRuntime(device=self.device)).precision
        return "bf16" if self.worker_device == "cuda" else "fp32"

    def ray_options(self) -> RayOptions:
        """Return what Ray is asked for."""
        return RayOptions(
            workers=None if self.workers == "auto" else self.workers,
            cpus_per_worker=self.cpus_per_worker,
            gpus_per_worker=self.gpus_per_worker,
            address=self.address,
            is_open_allowed=self.is_open_allowed,
        )

    def runner(self, make_scorer: Callable[[int], Scorer], versions: Mapping[str, str]) -> Runner:
        """Return what scores shards, given them, a job and whom to tell of each."""
        if self.is_local:
            threads = self.driver_threads
            return lambda shards, job, on_report, on_start: run_local(
                shards, make_scorer, replace(job, threads=threads), on_report, on_start=on_start
            )
        options = replace(self.ray_options(), versions=versions)
        return lambda shards, job, on_report, on_start: run_ray(
            shards, make_scorer, job, on_report, on_start=on_start, options=options
        )
