"""What is asked of Ray: which cluster, how many workers, with what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


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
    address: str | None = None
    """None starts a cluster on this machine and stops it at the end; ``"auto"`` or a host joins
    one. A connection this process already has is used as it is."""
    is_open_allowed: bool = False
    """Join a cluster that asks for no token."""
    versions: Mapping[str, str] | None = None
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
