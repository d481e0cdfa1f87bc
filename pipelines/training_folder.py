"""The folder of a training: new, or with a run to go on with; left as it was by a wrong request."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from cluster.output import Output
from sms.naming import AnyPath

TRAINING_FOLDER = "training"
"""What is needed to go on, in the folder of the result."""


def checked_folder(
    out: AnyPath, *, result: str, called: str, begun: str = "", is_resumed: bool
) -> Path:
    """Check that a folder is new or empty, or has the run that is to go on.

    Parameters
    ----------
    out : str or path
    result : str
        File that a finished run has.
    called : str
        What a finished run is, for the message.
    begun : str
        File in `training/` that a run has which can go on; none if the subfolder says it.
    is_resumed : bool

    Raises
    ------
    ValueError
        If it is neither.
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
        raise ValueError(
            f"`--out` must be a new folder, got {folder} with an interrupted training; go on with "
            "`--resume`, or choose another folder"
        )
    if not is_run and any(folder.iterdir()):
        raise ValueError(f"`--out` must be a new or empty folder, got {folder}")
    return folder


def forget(folder: Path, *, keeps_folder: bool) -> None:
    """Delete what a request that was wrong has left, and the folder if it was not there."""
    shutil.rmtree(folder / TRAINING_FOLDER, ignore_errors=True)
    if not keeps_folder:
        with suppress(OSError):
            folder.rmdir()
