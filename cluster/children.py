"""Starts processes that call one function of ours, with a connection to this process.

They import what this process imports, and nothing from the working directory.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pkgutil import resolve_name
from typing import IO

_PROGRAM = "import sys; from cluster.children import serve; serve(sys.argv[1], int(sys.argv[2]))"


def start_child(
    function: str,
    environment: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    output: int | IO[bytes] | None = None,
) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a process that calls `MODULE:FUNCTION` with a connection; return it and our end.

    `output` gets what it writes to the standard output and, if that is a file, to standard error.
    """
    ours, theirs = Pipe()
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, function, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": import_path(), **environment},
            pass_fds=[theirs.fileno()],
            stdin=stdin,
            stdout=output,
            stderr=None if isinstance(output, int) else output,
            start_new_session=True,  # an interrupt from the keyboard is for this process alone
        )
    return child, ours


def serve(function: str, handle: int) -> None:
    """Be such a process."""
    with suppress(EOFError, ConnectionError):  # nobody listens any more
        resolve_name(function)(Connection(handle))
    os._exit(0)  # all is said; what threads of libraries do meanwhile takes time, or crashes


def import_path() -> str:
    """Return for `PYTHONPATH` what this process imports from, without the working directory.

    An empty item means that directory, whatever lies in it, to any process that reads the variable.
    """
    folders = [os.path.abspath(folder) for folder in sys.path if folder]
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.pathsep.join(folders if ours in folders else [ours, *folders])


def sendable(error: Exception) -> Exception:
    """Return an exception, or one that says the same if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  (an exception's own pickling may fail in any way)
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
