"""Says in `progress.json` how a run is going, and keeps a second driver out of its folder.

While a driver lives it writes `progress.json` every few seconds; one that is left behind, for
`assay status` to read, tells of a driver that died. A second driver stops when it sees that the
first one lives: on the same machine by its process, on another one because the file changes, so
that no two machines' clocks are compared.

In a local folder, looking for another driver and writing `progress.json` are one step, under a lock
of the folder: of drivers that begin at once, one goes on. Object stores have no lock, nor have some
network filesystems. There two that begin within the same second may both go on; so may one that was
frozen for long, anywhere. Then work is wasted, and one that is `--fresh` deletes files that the
other has written, but no score is wrong: a shard's file is the same whoever writes it, and a run
that misses one says so.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from cluster.manifest import PROGRESS_FILE, refusing_damage
from cluster.progress import Pace, Progress
from cluster.store import delete_file, join, naming, read_whole, write_whole
from cluster.worker import node_name
from sms.urls import is_url

BEAT_EVERY_S = 5.0
FRESH_S = 15.0
"""Who has written `progress.json` so lately, and whose process runs, lives."""
WATCH_S = 20.0
"""A driver whose `progress.json` does not change for so long is taken for dead."""
KEPT_ERRORS = 5
_LOOK_EVERY_S = 0.5
_PROCESS = uuid4().hex

logger = logging.getLogger(__name__)


class FolderInUse(OSError):
    """Another driver works in the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverProgress:
    """What a driver tells in `progress.json`."""

    fingerprint: str
    """Of its run; empty until that has begun."""
    host: str
    pid: int
    process: str
    """Tells it from a later process of the same number."""
    time: float
    """When this was written; by its own clock, as all times here."""
    n_failed_shards: int
    errors: Sequence[str]
    """Of the shards that failed last."""
    rows_per_s: float | None
    seconds_left: float | None
    running: Sequence[Sequence[Any]]
    """Of every shard that is being scored: its index, where, and since when."""

    @property
    def driver(self) -> str:
        """Name the driver, for messages."""
        return f"process {self.pid} on {self.host}"


class LiveRun:
    """Keeps `progress.json` up to date while it is entered.

    Raises FolderInUse on entering, if another driver works in the folder.
    """

    def __init__(self, out: str, on_wait: Callable[[str], None] = lambda _: None) -> None:
        self._out, self._on_wait = out, on_wait
        self._path = join(out, PROGRESS_FILE)
        self._made: list[Path] = []
        self._left: bytes | None = None  # what an earlier driver left when it was killed
        self._fingerprint = ""
        self._progress, self._pace = Progress(stage=""), Pace()
        self._running: dict[int, tuple[str, float]] = {}
        self._errors: deque[str] = deque(maxlen=KEPT_ERRORS)
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="progress", daemon=True)

    def __enter__(self) -> LiveRun:
        if is_url(self._out):
            self._claim()
        else:
            folder = Path(self._out)
            self._made = [one for one in (folder, *folder.parents) if not one.exists()]
            with _locked(folder):
                self._claim()
        self._thread.start()
        return self

    def _claim(self) -> None:
        """Write `progress.json`, unless another driver lives."""
        other = None
        with suppress(ValueError):  # damaged: a driver that lives writes it again
            other = read_progress(self._out)
        if other is not None and is_alive(self._out, other, partial(self._wait_for, other.driver)):
            raise FolderInUse(
                f"{self._out} is in use by another run ({other.driver}); wait for it, stop it, "
                "or choose another `--out` folder"
            )
        with suppress(FileNotFoundError, NotADirectoryError):
            self._left = read_whole(self._path)
        self.write()

    def __exit__(self, *exception: object) -> None:
        # Whatever has ended the run, `run.json` has been written by now and says all that is here.
        self._is_over.set()
        self._thread.join()
        if self._left is not None and not self._fingerprint:  # refused: as it was found
            write_whole(self._path, self._left)
        else:
            delete_file(self._path)
        if self._made:
            with suppress(OSError), _locked(self._made[0]):  # not empty: there is output
                for folder in self._made:
                    folder.rmdir()

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

    def write(self) -> None:
        """Write `progress.json` now."""
        with self._lock:
            now = DriverProgress(
                fingerprint=self._fingerprint,
                host=node_name(),
                pid=os.getpid(),
                process=_PROCESS,
                time=time.time(),
                n_failed_shards=self._progress.n_failed_shards,
                errors=[*self._errors],
                rows_per_s=self._pace.rows_per_s,
                seconds_left=self._pace.seconds_left(),
                running=[(index, *begun) for index, begun in self._running.items()],
            )
        text = json.dumps(asdict(now), ensure_ascii=False)
        write_whole(self._path, text.encode("utf-8", "surrogateescape"))

    def _wait_for(self, driver: str, seconds: float) -> None:
        self._on_wait(driver)
        time.sleep(seconds)

    def _keep_writing(self) -> None:
        while not self._is_over.wait(BEAT_EVERY_S):
            try:
                self.write()
            except OSError:  # storage that is away for a while; the scores themselves matter more
                logger.warning("cannot write %s", self._path, exc_info=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep it locked; the system frees the lock of a process that dies."""
    handle = _lock(folder)
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int:
    while True:
        with naming(str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
        # A run that leaves nothing deletes the folder that it made, perhaps just now.
        with suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY)
            with suppress(OSError):  # a filesystem without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if folder.exists() and os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
            os.close(handle)


def read_progress(out: str) -> DriverProgress | None:
    """Read `progress.json`; None where there is none. A damaged one is a `ValueError`."""
    path = join(out, PROGRESS_FILE)
    try:
        data = read_whole(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with refusing_damage(path, "delete it: nobody but `assay status` reads it"):
        return DriverProgress(**json.loads(data.decode("utf-8", "surrogateescape")))


def is_alive(out: str, seen: DriverProgress, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Say whether the driver that has written `progress.json` lives.

    Where its process does not tell, the file is watched for some seconds.
    """
    if seen.host == node_name():
        if not is_running(seen):
            return False
        if abs(time.time() - seen.time) < FRESH_S:
            return True
    for _ in range(round(WATCH_S / _LOOK_EVERY_S)):
        sleep(_LOOK_EVERY_S)
        with suppress(ValueError):
            if read_progress(out) not in (None, seen):
                return True
    return False


def is_running(seen: DriverProgress) -> bool:
    """Say whether this machine has a process of a driver's number, which may be a later one."""
    if seen.pid == os.getpid():
        return seen.process == _PROCESS
    try:
        os.kill(seen.pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def shard_error(index: int, error: str) -> str:
    """Say why a shard failed."""
    return f"shard {index}: {error}"
