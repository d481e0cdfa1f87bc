"""What the verbs that read pairs share: the pairs, the machines that train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from sms.settings import Settings


@dataclass(frozen=True, kw_only=True)
class PairSettings(Settings):
    """How pairs are read."""

    columns: Mapping[str, str] | None = None
    """Read Assay's column OURS from your column THEIRS, for example source=article. Repeat
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
    """Join a Ray cluster without a token. Anyone who can reach its ports can run code on it."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Train on this device; only for one worker without Ray."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.workers}")
        if self.gpus_per_worker < 0:
            raise ValueError(f"`gpus_per_worker` must not be negative, got {self.gpus_per_worker}")

    @property
    def uses_ray(self) -> bool:
        """Whether the work is not done in this process."""
        return self.workers > 1 or self.gpus_per_worker > 0 or self.address is not None

    @property
    def own_device(self) -> str:
        """What this process computes on."""
        return "cpu" if self.uses_ray else chosen_device(self.device)


def chosen_device(device: str) -> str:
    """Decide what `auto` means: a GPU where there is one."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ValueError("`device` must be cpu or auto on a machine without a GPU, got 'cuda'")
    return "cuda" if has_gpu and device != "cpu" else "cpu"
