"""What the verbs that read pairs share: the pairs, the machines that train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.form import Settings


@dataclass(frozen=True, kw_only=True)
class PairSettings(Settings):
    """How pairs are read."""

    columns: Mapping[str, str] | None = None
    """Read our column OURS from the column THEIRS of the files, for example source=article. Repeat
    the option or separate pairs by commas."""
    limit: Annotated[int | None, "rare"] = None
    """Read only the first N rows."""
    split_anew: Annotated[bool, "rare"] = False
    """Split by document, even if the files have a split."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage."""


@dataclass(frozen=True, kw_only=True)
class MachineSettings(Settings):
    """Machines to train on."""

    workers: int = 1
    """Train with N processes, which share every batch."""
    gpus_per_worker: Annotated[float, "rare"] = 0.0
    """Give each worker G GPUs."""
    address: Annotated[str | None, "auto|HOST", "rare"] = None
    """Join this Ray cluster. Default: Ray is started on this machine if it is needed."""
    insecure_cluster: Annotated[bool, "rare"] = False
    """Join a Ray cluster that asks for no token. Whoever reaches its ports can run code on it."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Train on this device, if one worker trains without Ray."""
