"""Holds the folder of a run while it goes on, and says in `progress.json` how it is going.

Two drivers in one folder would do the work twice, and `--fresh` deletes what the other one writes.
On this machine a file lock, which ends with its process, keeps them apart. Drivers on other
machines see each other by `progress.json`: while a run goes on it changes every few seconds, and
only the clock of the one who watches counts. A driver that finds another one's id in it stops. The
scores do not depend on any of this: a shard's file is the same whoever writes it. A `progress.json`
that is left behind, for `assay status` to read, tells of a driver that died.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout

from cluster.manifest import PROGRESS_FILE
from cluster.progress import Pace, Progress
from cluster.seals import read_sealed_json, sealed_json
from cluster.store import check_no_links, delete_file, join, read_whole, write_whole
from cluster.worker import node_name
from sms.urls import is_url

LOCK_FILE = ".lock"
BEAT_EVERY_S = 5.0
WATCH_S = 20.0
"""A driver whose `progress.json` does not change for so long is taken for dead."""
KEPT_ERRORS = 5
_LOOK_EVERY_S = 0.5

logger = logging.getLogger(__name__)


class FolderInUse(OSError):
    """Another driver works in the folder."""


class LockLost(RuntimeError):
    """Another driver has taken over; this one must not write any more."""


class LiveRun:
    """Holds a folder while it is entered, and keeps `progress.json` up to date.

    Raises FolderInUse on entering, if another driver holds it.
    """

    def __init__(self, out: str, on_wait: Callable[[str], None] = lambda _: None) -> None:
        self._out, self._on_wait = out, on_wait
        self._path = join(out, PROGRESS_FILE)
        self._run = uuid4().hex
        self._file_lock: FileLock | None = None
        self._made: list[Path] = []
        self._loss = ""
        self._left: bytes | None = None  # what an earlier driver left when it was killed
        self._fingerprint = ""
        self._lock = threading.Lock()
        self._progress = Progress(stage="")
        self._pace = Pace()
        self._running: dict[int, tuple[str, float]] = {}
        self._errors: deque[str] = deque(maxlen=KEPT_ERRORS)
        self._beats = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="progress", daemon=True)

    def __enter__(self) -> LiveRun:
        try:
            self._take()
            self.write()
        except BaseException:
            self._release()
            raise
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        # Whatever has ended the run, `run.json` has been written by now and says all that is here.
        self._stop.set()
        self._thread.join()
        try:
            if not self._fingerprint and self._left is not None:  # refused: as it was found
                write_whole(self._path, self._left)
            elif not self._loss:
                delete_file(self._path)
        finally:
            self._release()

    def begin(self, fingerprint: str, progress: Progress) -> None:
        """Say which run goes on, once its `run.json` is written."""
        with self._lock:
            self._fingerprint, self._progress = fingerprint, progress
            self._pace.update(progress)
        self.write()

    def started(self, index: int, node: str) -> None:
        """Take note that a node has begun a shard."""
        with self._lock:
            self._running[index] = (node, time.time())

    def reported(self, index: int, error: str | None, progress: Progress) -> None:
        """Take note of a shard's end, and of how far the run is with it."""
        with self._lock:
            self._running.pop(index, None)
            if error is not None:
                self._errors.append(shard_error(index, error))
            self._progress = progress
            self._pace.update(progress)

    def check(self, *, looks: bool = False) -> None:
        """Raise `LockLost` if another driver has taken the folder over, as known or as one looks.

        Whoever writes what that driver has written looks: a driver that was frozen does not know.
        """
        if looks:
            self._look()
        if self._loss:
            raise LockLost(
                f"{self._out} was taken over by {self._loss}; what this run has committed is kept"
            )

    def write(self) -> None:
        """Write `progress.json` now."""
        with self._lock:
            self._beats += 1
            values = {
                "run": self._run,
                "fingerprint": self._fingerprint,
                "host": node_name(),
                "pid": os.getpid(),
                "time": time.time(),
                "beat": self._beats,
                "n_rows": self._progress.n_rows,
                "n_done_rows": self._progress.n_done,
                "n_failed_shards": self._progress.n_failed_shards,
                "errors": list(self._errors),
                "rows_per_s": self._pace.rows_per_s,
                "seconds_left": self._pace.seconds_left(),
                "running": [
                    {"shard": index, "node": node, "since": since}
                    for index, (node, since) in self._running.items()
                ],
            }
        write_whole(self._path, sealed_json(json.dumps(values, ensure_ascii=False), PROGRESS_FILE))

    def _take(self) -> None:
        check_no_links(self._out, LOCK_FILE)
        other = _sound_progress(self._out)
        if not is_url(self._out):
            folder = Path(self._out)
            self._made = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / LOCK_FILE)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise _in_use(self._out, other) from None
            self._file_lock = lock
        with suppress(FileNotFoundError):
            self._left = read_whole(self._path)
        is_here = other is not None and other["host"] == node_name()
        if other is None or (is_here and (self._file_lock or not is_running(other["pid"]))):
            return
        self._on_wait(driver_of(other))
        if shows_life(self._out, other):
            raise _in_use(self._out, other)

    def _release(self) -> None:
        if self._file_lock is not None:
            with suppress(OSError):  # it ends with this process anyway
                self._file_lock.release()
            with suppress(OSError):
                Path(self._out, LOCK_FILE).unlink(missing_ok=True)
        for folder in self._made:
            with suppress(OSError):  # not empty: there is output
                folder.rmdir()

    def _look(self) -> None:
        now = _sound_progress(self._out)
        if now is not None and now["run"] != self._run:
            self._loss = driver_of(now)

    def _keep_writing(self) -> None:
        while not self._stop.wait(BEAT_EVERY_S):
            try:
                self._look()
                if self._loss:
                    return
                self.write()
            except OSError:  # storage that is away for a while; the scores themselves matter more
                logger.warning("cannot write %s", self._path, exc_info=True)


def read_progress(out: str) -> dict[str, Any] | None:
    """Read `progress.json`; None where there is none. A damaged one is a `ValueError`."""
    remedy = "delete it: nobody but `assay status` reads it"
    with suppress(FileNotFoundError, NotADirectoryError):
        return read_sealed_json(join(out, PROGRESS_FILE), PROGRESS_FILE, remedy)
    return None


def _sound_progress(out: str) -> dict[str, Any] | None:
    with suppress(ValueError):
        return read_progress(out)
    return None


def shows_life(
    out: str, seen: Mapping[str, Any], sleep: Callable[[float], None] = time.sleep
) -> bool:
    """Watch `progress.json` for some seconds, and say whether its driver changes it."""
    for _ in range(round(WATCH_S / _LOOK_EVERY_S)):
        sleep(_LOOK_EVERY_S)
        now = _sound_progress(out)
        if now is not None and (now["run"], now["beat"]) != (seen["run"], seen["beat"]):
            return True
    return False


def is_running(pid: int) -> bool:
    """Say whether this machine has a process of that number."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def shard_error(index: int, error: str) -> str:
    """Say why a shard failed."""
    return f"shard {index}: {error}"


def driver_of(values: Mapping[str, Any]) -> str:
    """Name the driver that has written a `progress.json`."""
    return f"process {values['pid']} on {values['host']}"


def _in_use(out: str, other: Mapping[str, Any] | None) -> FolderInUse:
    who = driver_of(other) if other else "it has just begun"
    return FolderInUse(
        f"{out} is in use by another run ({who}); wait for it, stop it, or choose another `--out` "
        "folder"
    )
