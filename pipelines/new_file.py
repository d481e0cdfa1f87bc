"""Checks, before anything is read, that a Parquet file may be written where a user asks for it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cluster.store import absolute, filesystem_for


def checked_new_file(
    option: str,
    out: str | os.PathLike[str],
    inputs: Sequence[str | os.PathLike[str]],
    *,
    inputs_are: str,
) -> str:
    """Return the absolute path of an output that does not exist and is not read as input later.

    Parameters
    ----------
    option : str
        What named it, for the message.
    out : str or path
    inputs : sequence of str or path
        A folder among them may not hold the output.
    inputs_are : str
        What such a folder is, for the message.

    Raises
    ------
    ValueError
        If its name does not end in .parquet, it exists, or it lies in a folder of the inputs.
    """
    path = absolute(os.fspath(out))
    if not path.endswith(".parquet"):
        raise ValueError(f"`{option}` must end in .parquet, got {path}")
    filesystem, inner = filesystem_for(path)
    if filesystem.get_file_info(inner).type.name != "NotFound":
        raise ValueError(f"`{option}` must not exist yet, got {path}; delete it or choose another")
    folders = [absolute(os.fspath(p)).rstrip("/") for p in inputs if os.path.isdir(p)]
    if any(path.startswith(f"{folder}/") for folder in folders):
        raise ValueError(f"`{option}` must not lie inside {inputs_are}, got {path}")
    return path
