"""The folder of a training, and where it runs.

The folder is new, or has a run to go on with; a wrong request leaves it as it was.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.output import Output
from cluster.store import local_folder
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from reffree.naming import SCORER_FILE
from sms.naming import AnyPath

TRAINING_FOLDER = "training"  # what is needed to go on, in the folder of the result
PAIRS_FOLDER = "pairs"
RAY_FOLDER = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Where something is trained."""

    workers: int = 1  # processes that share every batch; more than one needs Ray
    gpus_per_worker: float = 0
    address: str | None = None
    """Ray cluster to join; without, one is started on this machine."""
    is_open_allowed: bool = False  # join a cluster that asks for no token
    device: str = "auto"  # `auto`, `cpu` or `cuda`, for one process

    def __post_init__(self) -> None:
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


def stages(on_progress: Callable[[Progress], None] | None) -> Callable[[str], None]:
    """Return what tells of a stage, if anybody listens."""

    def tell(stage: str) -> None:
        if on_progress is not None:
            on_progress(Progress(stage=stage))

    return tell


def local_cache(folder: AnyPath | None) -> str | None:
    """Return the folder of `embedding_cache`, which must be on this machine."""
    return None if folder is None else str(local_folder("embedding_cache", folder))


def chosen_device(device: str) -> str:
    """Decide what `auto` means: a GPU where there is one."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ValueError("`device` must be cpu or auto on a machine without a GPU, got 'cuda'")
    return "cuda" if has_gpu and device != "cpu" else "cpu"


def fingerprint_of(asked: Mapping[str, Any]) -> str:
    """Hash all that a training's result depends on; a run only goes on with the same."""
    named = {**asked, "versions": library_versions()}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def checked_folder(
    out: AnyPath,
    *,
    result: str = SCORER_FILE,
    called: str = "a trained scorer",
    begun: str = "",
    is_resumed: bool = False,
) -> Path:
    """Check that a folder is new or empty, or has a run that can go on.

    Such a run has the file `begun` in `training/`, or only that subfolder; it is deleted unless
    `is_resumed`. A finished run has the file `result`, and messages call it `called`.
    """
    output = Output.named("--out", out)
    folder = output.local
    output.check_folder()
    if not folder.exists():
        return folder
    if (folder / result).exists():
        raise ValueError(f"`--out` must not have {called} yet, got {folder}; choose another folder")
    is_run = (folder / TRAINING_FOLDER / begun).exists()
    if is_run and not is_resumed:
        shutil.rmtree(folder / TRAINING_FOLDER)
    elif not is_run and any(folder.iterdir()):
        raise ValueError(f"`--out` must be a new or empty folder, got {folder}")
    return folder


@contextmanager
def undone_if_wrong(folder: Path, is_begun: Callable[[], bool]) -> Iterator[None]:
    """Delete what a request that turns out wrong has left, unless there is a run to go on with.

    The folder goes too if it was not there.
    """
    was_there = folder.exists()
    try:
        yield
    except (ValueError, OSError):
        if not is_begun():
            shutil.rmtree(folder / TRAINING_FOLDER, ignore_errors=True)
            if not was_there:
                with suppress(OSError):
                    folder.rmdir()
        raise
