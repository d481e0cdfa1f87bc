"""What is asked for: which cluster, how many workers, with what; and what fits where."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


def cluster_address(asked: str | None) -> str | None:
    """Return which cluster to join: the one asked for, else that of `RAY_ADDRESS`, if any.

    Ray sets the variable in the jobs it is handed by `ray job submit`. A URL in it names a
    dashboard that jobs are handed to, not a cluster that is joined.
    """
    variable = os.environ.get("RAY_ADDRESS", "")
    return asked if asked or variable in ("", "local") or "://" in variable else variable


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """Where the workers of a run are, and how many."""

    workers: int | None = None
    """Number of actors; None fills the cluster, and goes on doing so when nodes join."""
    cpus_per_worker: int | None = None
    """Cores, and threads, of one worker; None is 1, and beside a GPU its share of the node's."""
    gpus_per_worker: float = 0.0
    """GPUs of one worker; may be a fraction."""
    address: str = "auto"
    """Of the head node; ``"auto"`` is the cluster that this machine is part of. A connection that
    this process already has is used as it is."""
    is_open_allowed: bool = False
    """Join a cluster that asks for no token."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """What this driver has, by distribution, and every node of a cluster must have too."""
    max_attempts: int = 3
    """After so many failures a shard is given up."""

    def __post_init__(self) -> None:
        for name in ("workers", "cpus_per_worker"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        gpus = self.gpus_per_worker
        if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
            raise ValueError(
                f"`gpus_per_worker` must be a fraction of one GPU or a whole number, got {gpus:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one worker takes of a node."""

    cpus: int
    gpus: float
    """May be a fraction below 1; whole above."""

    @classmethod
    def of(cls, options: RayOptions, nodes: Iterable[Mapping[str, float]]) -> Needs:
        """Read what is asked for, on nodes with these resources."""
        gpus = options.gpus_per_worker
        return cls(cpus=options.cpus_per_worker or _cpus_beside(gpus, nodes), gpus=gpus)

    def room_on(self, resources: Mapping[str, float]) -> int:
        """Count the workers that fit on a node with these resources.

        >>> Needs(cpus=2, gpus=0.3).room_on({"CPU": 16, "GPU": 2})
        6
        """
        room = int(resources.get("CPU", 0) // self.cpus)
        return min(room, self.room_on_gpus(int(resources.get("GPU", 0)))) if self.gpus else room

    def room_on_gpus(self, n_gpus: int) -> int:
        """Count the workers that fit on so many GPUs of a node."""
        if self.gpus > 1:
            return int(n_gpus // self.gpus)
        # A fraction is taken of one GPU; 1 / 0.1 is 10, though 0.1 is a little more than that.
        return n_gpus * int(1 / self.gpus + 1e-9)

    def __str__(self) -> str:
        cpus = f"{self.cpus} CPU{'' if self.cpus == 1 else 's'}"
        return f"{cpus} and {self.gpus:g} GPU" if self.gpus else cpus


def _cpus_beside(gpus: float, nodes: Iterable[Mapping[str, float]]) -> int:
    """Return how many cores a worker gets that takes so many GPUs: its share of the node's.

    One core cannot keep a GPU busy: it cuts the text, and others solve the transport of what the
    GPU encodes. On the node where GPUs have the fewest cores every worker still finds its share.
    """
    if not gpus:
        return 1
    rooms = [(node.get("CPU", 0), Needs(cpus=1, gpus=gpus).room_on(node)) for node in nodes]
    return min((int(cpus // n_workers) for cpus, n_workers in rooms if n_workers), default=1)
