"""What a training run leaves behind so that it can go on: one file, there whole or not at all.

A checkpoint holds all that the rest of the run depends on: weights, the optimiser, the place in
the data, the best figure so far and every process's random numbers. It carries a fingerprint of
the request, so that another request does not go on with it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

CHECKPOINT_FILE = "checkpoint.pt"


def write_checkpoint(folder: Path, payload: Mapping[str, Any], fingerprint: str) -> None:
    """Replace the checkpoint of a folder."""

    def write(path: Path) -> None:
        torch.save({**payload, "fingerprint": fingerprint}, path)

    replace_file(folder / CHECKPOINT_FILE, write)


def read_checkpoint(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """Read the checkpoint of a folder; None if there is none.

    Raises
    ------
    ValueError
        If it is damaged or of another request.
    """
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    try:
        payload: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"`{path}` must be a whole checkpoint, got {type(error).__name__} when reading it; "
            "delete the folder and train again"
        ) from error
    if payload.get("fingerprint") != fingerprint:
        raise ValueError(
            f"`{path}` must belong to the same request, got one of other data, options or number "
            "of workers; give those again, or train into another folder"
        )
    return payload


def replace_file(path: Path, write: Any) -> None:  # noqa: ANN401  (a function of a path)
    """Write a file aside, flush it to the disk and put it in the place of another."""
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    try:
        write(partial)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
