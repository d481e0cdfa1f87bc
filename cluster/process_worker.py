"""A process that scores what it is sent through a pipe; it ends when the one that sends does."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from cluster.children import sendable
from cluster.parts import ShardReport
from cluster.worker import try_shard


def work(connection: Connection) -> None:
    """Make the scorer, say what it is, and answer each shard that is sent with a report.

    After a failure the scorer is made again, since the failed shard may have left it damaged.
    """

    def say(answer: object) -> None:
        connection.send_bytes(pickle.dumps(answer))

    threading.Thread(target=_end_with_parent, daemon=True).start()
    make_scorer, describe, threads = pickle.loads(connection.recv_bytes())
    pa.set_cpu_count(threads)
    job: Any = None  # comes with the first shard
    while True:
        try:
            scorer = make_scorer(threads)
            description = describe(scorer)
        except Exception as error:  # noqa: BLE001  (it is raised again on the other side)
            say(sendable(error))
            return
        say(description)
        report = ShardReport(index=-1)
        while report.error is None:
            shard, told = pickle.loads(connection.recv_bytes())
            job = told or job
            report = try_shard(shard, scorer, job)
            say(report)
        del scorer  # before the next is made: there may be no memory for two


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the driver holds open as long as it lives."""
    sys.stdin.buffer.read()
    os._exit(1)
