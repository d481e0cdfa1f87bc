"""The folder of a training.

It is new, or has a run to go on with; a wrong request leaves it as it was.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cluster.output import Output
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from reffree.naming import SCORER_FILE
from sms.naming import AnyPath

TRAINING_FOLDER = "training"  # what is needed to go on, in the folder of the result
PAIRS_FOLDER = "pairs"
RAY_FOLDER = "ray"


def stages(on_progress: Callable[[Progress], None] | None) -> Callable[[str], None]:
    """Return what tells of a stage, if anybody listens."""

    def tell(stage: str) -> None:
        if on_progress is not None:
            on_progress(Progress(stage=stage))

    return tell


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
