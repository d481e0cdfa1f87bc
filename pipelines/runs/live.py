"""Writes what a run is doing into `progress.json` while it goes on; `assay status` reads it.

The file is small, replaced every few seconds, and gone when the run has ended and `run.json` says
the rest. One that is left behind tells of a driver that died.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from cluster import ShardReport, write_whole
from cluster.lock import LockLost
from cluster.seals import sealed_json
from cluster.store import delete_file, join
from cluster.worker import node_name
from pipelines.runs.history import HistoryWriter, delete_history
from pipelines.runs.manifest import PROGRESS_FILE, Manifest
from pipelines.runs.progress import Pace, Progress

BEAT_EVERY_S = 5.0
KEPT_ERRORS = 5

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Node:
    """What came from one machine."""

    n_shards: int = 0
    n_rows: int = 0
    seconds: float = 0.0
    n_failures: int = 0


class LiveReport:
    """Keeps `progress.json` and `history/` up to date in a thread of its own.

    Parameters
    ----------
    out : str
        Folder or URL of the run.
    manifest : Manifest
        The run's plan.
    progress : Progress
        How far it is at the start.
    """

    def __init__(self, out: str, manifest: Manifest, progress: Progress) -> None:
        self._out = out
        self._path = join(out, PROGRESS_FILE)
        self._fingerprint = manifest.fingerprint
        self._history = HistoryWriter(out, manifest.fingerprint)
        self._lock = threading.Lock()
        self._progress = progress
        self._pace = Pace()
        self._pace.update(progress)
        self._running: dict[int, tuple[str, float]] = {}
        self._nodes: dict[str, _Node] = {}
        self._errors: deque[str] = deque(maxlen=KEPT_ERRORS)
        self._started = time.time()
        self._beats = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="progress", daemon=True)

    def __enter__(self) -> LiveReport:
        self.write()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Whatever has ended the run, `run.json` has been written by now and says all that is here.
        self._stop.set()
        self._thread.join()
        if isinstance(error, LockLost):  # the files are those of the driver that took over
            return
        delete_file(self._path)
        delete_history(self._out)

    def started(self, index: int, node: str) -> None:
        """Take note that a node has begun a shard."""
        with self._lock:
            self._running[index] = (node, time.time())

    def reported(self, report: ShardReport, progress: Progress) -> None:
        """Take note of a shard's report, and of how far the run is with it."""
        self._history.add(report)
        with self._lock:
            began_on, _ = self._running.pop(report.index, ("", 0.0))
            node = self._nodes.setdefault(report.node or began_on, _Node())
            if report.error is None:
                node.n_shards += 1
                node.n_rows += report.n_rows
                node.seconds += report.seconds
            else:
                node.n_failures += 1
                self._errors.append(f"shard {report.index}: {report.error}")
            self._progress = progress
            self._pace.update(progress)

    def _keep_writing(self) -> None:
        while not self._stop.wait(BEAT_EVERY_S):
            try:
                self.write()
                self._history.write_if_due()
            except OSError:  # storage that is away for a while; the scores themselves matter more
                logger.warning("cannot write %s", self._path, exc_info=True)

    def write(self) -> None:
        """Write `progress.json` now."""
        with self._lock:
            self._beats += 1
            values = self._values()
        write_whole(self._path, sealed_json(json.dumps(values, ensure_ascii=False), PROGRESS_FILE))

    def _values(self) -> dict[str, Any]:
        progress = self._progress
        return {
            "fingerprint": self._fingerprint,
            "host": node_name(),
            "pid": os.getpid(),
            "started": self._started,
            "time": time.time(),
            "beat": self._beats,
            "beat_every_s": BEAT_EVERY_S,
            "n_rows": progress.n_rows,
            "n_done_rows": progress.n_done,
            "n_earlier_rows": progress.n_earlier,
            "n_failed_shards": progress.n_failed_shards,
            "rows_per_s": self._pace.rows_per_s,
            "seconds_left": self._pace.seconds_left(),
            "running": [
                {"shard": index, "node": node, "since": since}
                for index, (node, since) in self._running.items()
            ],
            "nodes": {name: asdict(node) for name, node in sorted(self._nodes.items())},
            "errors": list(self._errors),
        }
