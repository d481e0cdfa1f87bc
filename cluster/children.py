"""Starts processes that call one function of ours, with a connection to this process.

They import what this process imports, and nothing from the working directory. `call_child` calls a
function in one as if it were called here.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pkgutil import resolve_name
from typing import IO, Any

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_GRACE_S = 20.0  # for what a child has to tidy up, such as the actors of a cluster
_PROGRAM = "import sys; from cluster.children import serve; serve(sys.argv[1], int(sys.argv[2]))"


def start_child(
    function: str,
    environment: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    output: IO[bytes] | None = None,
) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a process that calls `MODULE:FUNCTION` with a connection; return it and our end.

    `output` is the file that gets what the process writes to its standard output and error.
    """
    ours, theirs = Pipe()
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, function, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": import_path(), **environment},
            pass_fds=[theirs.fileno()],
            stdin=stdin,
            stdout=output,
            stderr=output,
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


def worker_environment(n_threads: int, *, is_local: bool) -> dict[str, str]:
    """Pin the thread pools of a worker; on this machine it also imports from where we do."""
    path = {"PYTHONPATH": import_path()} if is_local else {}
    return dict.fromkeys(_THREAD_VARIABLES, str(n_threads)) | path


def sendable(error: Exception) -> Exception:
    """Return an exception, or one that says the same if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  (an exception's own pickling may fail in any way)
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# Calls


class ProcessLost(RuntimeError):
    """The process has ended without an answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def call_child(
    function: Callable[..., Any],
    *arguments: Any,  # noqa: ANN401
    tell: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> Any:  # noqa: ANN401
    """Call a function in another process, which ends when this one does.

    What it returns is returned, and what it raises is raised here. It can be imported, and its
    arguments can be pickled; one more is a callable: `say(name, *values)` calls
    `tell[name](*values)` in this process. The rest is as in `start_child`.

    Raises `ProcessLost` if the process ends without an answer.
    """
    child, ours = start_child("cluster.children:answer", environment or {}, output=output)
    try:
        with suppress(ConnectionError):  # a child that is gone says nothing, either
            ours.send_bytes(pickle.dumps((function, arguments)))
        kind, value = _answer_of(ours, tell)
    finally:
        ours.close()  # the child notices that nobody listens any more
        _wait_for(child)
    if kind == "lost":
        status = child.returncode
        by = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        raise ProcessLost(f"a child process was ended {by}", status=status)
    if kind == "error":
        raise value
    return value


def _answer_of(connection: Connection, tell: Mapping[str, Any]) -> tuple[str, Any]:
    """Pass on what the child says until it gives its answer or ends."""
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionError):
            return "lost", None
        kind, *values = pickle.loads(message)  # what our own child has written
        if kind in ("result", "error"):
            return kind, values[0]
        if kind == "log":
            logging.getLogger(values[0]).log(values[1], "%s", values[2])
        else:
            tell[kind](*values)


def _wait_for(child: subprocess.Popen[bytes]) -> None:
    """Wait until the child has tidied up."""
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    _end_session(child.pid)


def _end_session(number: int) -> None:
    """Kill what a child has left in its session, such as agents of a cluster that wait for ever."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(ValueError, ProcessLookupError):
            if os.getsid(int(name)) == number:
                os.kill(int(name), signal.SIGKILL)


class _Forward(logging.Handler):
    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("log", record.name, record.levelno, record.getMessage())


def answer(connection: Connection) -> None:
    """Be the process that is called."""
    # A background job ignores interrupts from its start, but an interrupt must end this process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lock = threading.Lock()

    def say(kind: str, *values: Any) -> None:  # noqa: ANN401
        with lock:
            connection.send_bytes(pickle.dumps((kind, *values)))

    function, arguments = pickle.loads(connection.recv_bytes())
    logging.getLogger("cluster").addHandler(_Forward(say))
    threading.Thread(target=_stop_with_parent, args=(connection,), daemon=True).start()
    try:
        say("result", function(*arguments, say))
    except Exception as error:  # noqa: BLE001  (it is raised again on the other side)
        say("error", sendable(error))
    except KeyboardInterrupt:  # nobody listens any more
        pass


def _stop_with_parent(connection: Connection) -> None:
    """Interrupt the main thread once the other end is closed, by its owner or by its death."""
    with suppress(OSError):
        connection.poll(None)
    os.kill(os.getpid(), signal.SIGINT)
