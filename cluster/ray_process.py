"""Calls a function that uses Ray in a process of its own, which Ray may end as it likes.

When its head node or the raylet beside it dies, Ray ends the driver's process without an exception.
Here the process that waits raises one instead. Some of Ray's threads outlive `ray.shutdown` and may
crash a process that is ending; here it has given its answer by then. The process that waits never
imports Ray, so the settings that Ray reads on import are those of the other one alone.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import IO, Any

from cluster.children import sendable, start_child

_GRACE_S = 20.0  # for stopping actors and leaving the cluster
_KEPT_BYTES = 64 << 10
_RAY_SAYS = re.compile(r"\] (?:\(\w+\) )?\w+\.(?:cc|h):\d+: +(.*)")
_SHOWN_LENGTH = 160

logger = logging.getLogger(__name__)


class ProcessLost(RuntimeError):
    """The process has ended without an answer."""


def call_apart(
    function: Callable[..., Any],
    *arguments: Any,  # noqa: ANN401
    tell: Mapping[str, Any],
    address: str | None,
) -> Any:  # noqa: ANN401
    """Call a function that uses Ray in another process, which ends when this one does.

    What it returns is returned, and what it raises is raised here. It can be imported, and its
    arguments can be pickled; one more is a callable: `say(name, *values)` calls
    `tell[name](*values)` in this process. `address` is of the cluster that it joins; if it is None,
    the one that it starts gets a token of its own and stays out of reach of other machines. Where
    this process is connected to Ray already, the function is called here.

    Raises `ProcessLost` if the process ends without an answer.
    """
    ray = sys.modules.get("ray")  # without importing it, which takes a while
    if ray is not None and ray.is_initialized():
        return function(*arguments, lambda kind, *values: tell[kind](*values))
    with tempfile.TemporaryFile() as notes:
        environment = _own_cluster() if address is None else {}
        child, ours = start_child("cluster.ray_process:work", environment, output=notes)
        try:
            with suppress(ConnectionError):  # a child that is gone says nothing, either
                ours.send_bytes(pickle.dumps((function, arguments)))
            kind, value = _answer(ours, tell)
        finally:
            ours.close()  # the child notices that nobody listens any more
            _wait_for(child)
        if kind == "lost":
            raise ProcessLost(_last_words(notes, child.returncode))
    if kind == "error":
        raise value
    return value


def _own_cluster() -> dict[str, str]:
    """Return what Ray reads, when it is imported, of a cluster that is for one run alone."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        # Ray is then on 127.0.0.1, as it is on macOS and Windows unless told otherwise. On Linux
        # it uses an address that others can reach, even if asked for 127.0.0.1.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def _wait_for(child: subprocess.Popen[bytes]) -> None:
    """Wait until the child has tidied up."""
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    _end_session(child.pid)


def _end_session(number: int) -> None:
    """Kill what a child's cluster has left in its session, such as agents that wait for ever."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(ValueError, ProcessLookupError):
            if os.getsid(int(name)) == number:
                os.kill(int(name), signal.SIGKILL)


def _answer(connection: Connection, tell: Mapping[str, Any]) -> tuple[str, Any]:
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


def _last_words(notes: IO[bytes], status: int) -> str:
    """Find in what Ray has written why it has ended the process."""
    size = notes.seek(0, os.SEEK_END)
    notes.seek(max(0, size - _KEPT_BYTES))
    text = notes.read().decode(errors="replace")
    logger.info("the process of the Ray driver ended with status %d: %s", status, text)
    if status < 0:
        return f"its driver was ended by {signal.Signals(-status).name}"
    reasons = _RAY_SAYS.findall(text)
    return (
        reasons[-1].strip()[:_SHOWN_LENGTH] if reasons else f"its driver ended with status {status}"
    )


class _Forward(logging.Handler):
    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("log", record.name, record.levelno, record.getMessage())


def work(connection: Connection) -> None:
    """Be the process that uses Ray."""
    # A job in the background starts with interrupts ignored; here one ends what its owner has left.
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
