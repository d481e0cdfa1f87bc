"""Runs a function in a process of its own, which Ray may end as it likes.

When its head node or the raylet beside it dies, Ray ends the process of the driver, without an
exception and with a page of notes. Here that is one exception in the process that waits. And some
of Ray's threads outlive `ray.shutdown`: now and then one crashes a process that has done its work
and is ending, which here has given its answer by then.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

_GRACE_S = 20.0  # for stopping actors and leaving the cluster
_KEPT_BYTES = 64 << 10
_RAY_SAYS = re.compile(r"\] (?:\(\w+\) )?\w+\.(?:cc|h):\d+: +(.*)")
_SHOWN_LENGTH = 160

logger = logging.getLogger(__name__)


class ProcessLost(RuntimeError):
    """The process has ended and has not said how it went."""


class DriverProcess:
    """Another process, which has imported Ray when there is a driver to be called in it.

    As a context manager it is started on entry and ended on exit. It also ends when this process
    does, however that does. Where this process is connected to Ray already none is started, and
    the driver is called here.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._notes: IO[bytes] | None = None
        self._was_called = False

    def __enter__(self) -> DriverProcess:
        if _is_connected():
            return self
        self._connection, theirs = Pipe()
        self._notes = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "cluster.ray_process", str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._notes,
            stderr=self._notes,
            start_new_session=True,  # an interrupt from the keyboard is for this process alone
        )
        theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if self._notes is not None:
            self._notes.close()

    def call(self, function: Callable[..., Any], *arguments: Any, tell: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Call a driver there; once.

        Parameters
        ----------
        function : callable
            What it needs is pickled, by value if it cannot be imported. Its last argument is a
            callable: `say(name, *values)` calls `tell[name](*values)` in this process.
        *arguments
            The others.
        tell : mapping of str to callable

        Returns
        -------
        object
            What the function returns. What it raises is raised here.

        Raises
        ------
        ProcessLost
            If the process ends without an answer.
        """
        if self._connection is None or self._child is None or self._notes is None:
            return function(*arguments, lambda kind, *values: tell[kind](*values))
        self._was_called = True
        try:
            with suppress(ConnectionError):  # a child that is gone says nothing, either
                self._connection.send_bytes(_pickled((function, arguments)))
            kind, value = _answer(self._connection, tell)
        finally:
            self._end()
        if kind == "lost":
            raise ProcessLost(_last_words(self._notes, self._child.returncode))
        if kind == "error":
            raise value
        return value

    def _end(self) -> None:
        """Wait until the child has tidied up; it notices that nobody listens any more."""
        if self._child is None or self._connection is None:
            return
        self._connection.close()
        if not self._was_called:  # there is nothing to tidy up
            self._child.kill()
        try:
            self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def call_apart(function: Callable[..., Any], *arguments: Any, tell: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Call a driver in a `DriverProcess` of its own; see its `call`."""
    with DriverProcess() as process:
        return process.call(function, *arguments, tell=tell)


def _is_connected() -> bool:
    """Whether this process is connected to Ray, without importing it, which takes a while."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def _pickled(value: object) -> bytes:
    from cluster import ray_cluster  # noqa: F401  (sets what Ray reads when it is imported)

    import ray  # isort: skip

    pickled: bytes = ray.cloudpickle.dumps(value)
    return pickled


def _answer(connection: Connection, tell: Mapping[str, Any]) -> tuple[str, Any]:
    """Pass on what the child says until it says how it went, or nothing more."""
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


def _last_words(notes: IO[bytes], status: int) -> str:
    """Find in what Ray has written why it has ended the process."""
    size = notes.seek(0, os.SEEK_END)
    notes.seek(max(0, size - _KEPT_BYTES))
    text = notes.read().decode(errors="replace")
    logger.info("the process of the Ray driver ended with status %d: %s", status, text)
    if status < 0:
        return f"its driver was ended by {signal.Signals(-status).name}"
    found = _RAY_SAYS.findall(text)
    return found[-1].strip()[:_SHOWN_LENGTH] if found else f"its driver ended with status {status}"


class _Forward(logging.Handler):
    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("log", record.name, record.levelno, record.getMessage())


def _child(handle: int) -> None:
    connection = Connection(handle)
    lock = threading.Lock()

    def say(kind: str, *values: Any) -> None:  # noqa: ANN401
        with lock:
            connection.send_bytes(pickle.dumps((kind, *values)))

    from cluster import ray_cluster  # noqa: F401  (what every driver needs takes a while to import)

    try:
        function, arguments = pickle.loads(connection.recv_bytes())
    except EOFError:  # there was nothing to be done
        return
    logging.getLogger("cluster").addHandler(_Forward(say))
    threading.Thread(target=_stop_with_parent, args=(connection,), daemon=True).start()
    try:
        say("result", function(*arguments, say))
    except Exception as error:  # noqa: BLE001  (it is raised again on the other side)
        say("error", _sendable(error))
    except KeyboardInterrupt:  # nobody listens any more
        pass


def _stop_with_parent(connection: Connection) -> None:
    """Interrupt the main thread once the other end is closed, by its owner or by its death."""
    with suppress(OSError):
        connection.poll(None)
    os.kill(os.getpid(), signal.SIGINT)


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  (an exception's own pickling may fail in any way)
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    _child(int(sys.argv[1]))
    os._exit(0)  # all is said and tidied up; what Ray's threads do meanwhile takes time, or crashes
