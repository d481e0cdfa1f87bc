"""Inputs that can be read only once, standard input and pipes, kept while this process runs.

Everything else here reads its files as often as it likes, at any position. What comes through a
pipe is therefore put into a temporary file the first time somebody asks for it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from pathlib import Path
from threading import Lock

STANDARD_INPUT = "/dev/stdin"

_DEVICES = "/dev/"


def input_name(path: str) -> str:
    """Return what an input is called: `-` is standard input."""
    return STANDARD_INPUT if path == "-" else path


def is_pipe(path: str) -> bool:
    """Say whether an input can be read only once."""
    try:
        mode = os.fstat(0).st_mode if path == STANDARD_INPUT else os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    is_terminal = path == STANDARD_INPUT and stat.S_ISCHR(mode)
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or is_terminal


def is_nameless(path: str) -> bool:
    """Say whether an input has no name that tells its format, such as `/dev/fd/63`."""
    return path.startswith(_DEVICES) or is_pipe(path)


def is_gone(path: str) -> bool:
    """Say whether an input was a pipe of an earlier process, which nobody can read again."""
    return path.startswith(_DEVICES) and path not in _FILES


def readable_path(path: str) -> str:
    """Return where the bytes of a local input can be read: itself, or for a pipe a file."""
    return _kept(path) if is_pipe(path) else path


def _kept(path: str) -> str:
    """Put what comes through a pipe into a file, once.

    Raises `ValueError` if a person would have to type it.
    """
    with _LOCK:
        if path not in _FILES:
            if path == STANDARD_INPUT and os.isatty(0):
                raise ValueError(
                    "standard input must be a file or a pipe, got a terminal; name a file, or "
                    "write `COMMAND | assay ...`"
                )
            handle, file = tempfile.mkstemp(prefix="assay-pipe-")
            _FILES[path] = file
            # Standard input is read by its handle: if it is a socket, its name cannot be opened.
            is_open = path == STANDARD_INPUT
            with (
                open(0 if is_open else path, "rb", closefd=not is_open) as source,
                open(handle, "wb") as sink,
            ):
                shutil.copyfileobj(source, sink)
        return _FILES[path]


def _delete(owner: int) -> None:
    if os.getpid() == owner:  # a fork ends, too, and did not make them
        for file in _FILES.values():
            Path(file).unlink(missing_ok=True)


_FILES: dict[str, str] = {}
_LOCK = Lock()
atexit.register(_delete, os.getpid())
