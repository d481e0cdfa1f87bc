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
    """What the files call a column, for example source=article; repeated or with commas."""
    limit: Annotated[int | None, "rare"] = None
    """Read only the first N rows."""
    split_anew: Annotated[bool, "rare"] = False
    """Split by document, whatever the files say."""
    leaks: Annotated[Literal["drop", "refuse"], "rare"] = "drop"
    """What to do where the files' own split has a text on two sides."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Told what is being done."""


@dataclass(frozen=True, kw_only=True)
class MachineSettings(Settings):
    """Where something is trained."""

    workers: int = 1
    """Processes that share every batch."""
    gpus_per_worker: Annotated[float, "rare"] = 0.0
    """GPUs of a worker."""
    address: Annotated[str | None, "auto|HOST", "rare"] = None
    """Ray cluster to join. Default: one is started on this machine where Ray is needed."""
    insecure_cluster: Annotated[bool, "rare"] = False
    """Join a Ray cluster that asks for no token: whoever reaches its ports runs code on it."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Where one worker without Ray trains."""
