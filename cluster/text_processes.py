"""Processes that handle text for a worker whose GPU would wait for a single one.

Rows go in as an Arrow stream. What comes back is pickled with its arrays out of band: numbers
travel as the buffers they are, and are not copied again.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import pyarrow as pa

from cluster.children import start_child

Read: TypeAlias = Callable[[pa.Table], Any]
"""What is done with the text of some rows; it can be pickled."""

_GRACE_S = 5.0  # for a process that nobody listens to any more


class Spoiled(Exception):
    """Another shard has failed on the scorer, which may give wrong scores since."""


class ProcessEnded(RuntimeError):
    """A text process ended over the rows it was given."""


class TextProcesses:
    """Processes that each call `read` for one batch at a time, and end with this process.

    As many threads may call `read` at once.
    """

    def __init__(self, read: Read, n_processes: int) -> None:
        self._free: queue.SimpleQueue[Connection | None] = queue.SimpleQueue()
        """Connections to idle processes; holds None once a process has ended."""
        self.n_processes = n_processes
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        self._all = [
            start_child("cluster.text_processes:serve", hidden, output=subprocess.DEVNULL)
            for _ in range(n_processes)
        ]
        for _, connection in self._all:
            connection.send_bytes(pickle.dumps(read))
            self._free.put(connection)

    def read(self, rows: pa.Table) -> tuple[Any, float]:
        """Have some rows read by a process that is free; return its answer, and its seconds.

        Raises `ProcessEnded` if the process ends without an answer; `Spoiled` if one has ended
        before, over other rows.
        """
        connection = self._free.get()
        if connection is None:
            self._free.put(None)
            raise Spoiled
        try:
            connection.send_bytes(_stream(rows))
            answer, seconds = _receive(connection)
        except (EOFError, OSError) as error:
            self._free.put(None)
            raise ProcessEnded(
                "a process that handles text has ended; is there memory enough for "
                f"{self.n_processes} of them?"
            ) from error
        self._free.put(connection)
        if isinstance(answer, _Failed):
            raise RuntimeError(answer.reason)
        return answer, seconds

    def close(self) -> None:
        """End the processes."""
        for _, connection in self._all:
            connection.close()
        for process, _ in self._all:
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True, slots=True)
class _Failed:
    reason: str


def _stream(rows: pa.Table) -> pa.Buffer:
    """Write rows so that of a slice only its own part is sent."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _send(connection: Connection, value: object) -> None:
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    connection.send_bytes(pickle.dumps((head, [view.nbytes for view in views])))
    for view in views:
        if view.nbytes:
            connection.send_bytes(view)


def _receive(connection: Connection) -> Any:  # noqa: ANN401
    """Receive what our own child has sent."""
    head, sizes = pickle.loads(connection.recv_bytes())
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        if buffer:
            connection.recv_bytes_into(buffer)
    return pickle.loads(head, buffers=buffers)


def serve(connection: Connection) -> None:
    """Be such a process."""
    read: Read = pickle.loads(connection.recv_bytes())
    while True:
        rows = pa.ipc.open_stream(connection.recv_bytes()).read_all()
        started = time.perf_counter()
        try:
            answer = read(rows)
        except Exception as error:  # noqa: BLE001  (it is raised again on the other side)
            answer = _Failed(f"{type(error).__name__}: {error}")
        _send(connection, (answer, time.perf_counter() - started))
