"""One driver at a time for a folder of output, whichever machines the drivers are on.

Two drivers in one folder would do the work twice; since a shard's file has the same name and the
same bytes whoever writes it, that is all they would do, but for `--fresh`, which deletes what the
other one writes. So the lock saves work, and is not what keeps scores right.

The lock is the file `.lock` in the folder: who holds it, and a count that the holder raises every
`BEAT_S`. What decides:

- On one machine the file is held with `flock`, which ends with the process, however that comes,
  and does not end while the process is stopped.
- Where the holder is on another machine, or the folder is in an object store, the file is watched:
  a holder whose count does not move for `LEASE_S` has died. Only the watcher's own clock is read,
  so the clocks of the machines may differ by any amount. A holder that was frozen for longer
  finds its lock gone at its next beat, and stops.
- Object stores cannot be asked, through `pyarrow.fs`, to write only where nothing is. There a
  driver writes, waits for `SETTLE_S` and reads: the last to write has the lock. Two that begin
  together are told apart unless one needs longer than that between finding no lock and writing
  its own; then both run until the next beat of the one that was overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.fs as pafs

from cluster.store import (
    delete_file,
    filesystem_for,
    join,
    read_whole,
    write_whole,
)

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"
BEAT_S, LEASE_S, SETTLE_S = 10.0, 60.0, 1.0

_GAP_S = 0.2  # HDFS has no file for a moment while one is replaced
_POLLS_PER_LEASE = 30
_CANNOT_LOCK = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

logger = logging.getLogger(__name__)


class FolderInUse(OSError):
    """Another driver works in the folder."""


class LockLost(RuntimeError):
    """Another driver has taken over; this one must not write any more."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock."""

    host: str
    pid: int
    since: str
    """UTC, for people; nothing is decided by it."""
    machine: str
    """Changes with every start of the operating system."""
    process: str
    """Tells processes of one machine apart that had the same `pid`."""
    key: str
    """Unique."""
    beat: int = 0

    @classmethod
    def this_process(cls) -> Holder:
        """Describe who asks."""
        return cls(
            host=platform.node(),
            pid=os.getpid(),
            since=datetime.now(UTC).isoformat(sep=" ", timespec="seconds"),
            machine=_machine(),
            process=_process(os.getpid()),
            key=uuid.uuid4().hex,
        )

    @classmethod
    def read(cls, text: bytes) -> Holder | None:
        """Read what a lock file says; None if that makes no sense (or not yet)."""
        try:
            found = cls(**json.loads(text))
        except (ValueError, TypeError):
            return None
        kinds = {"str": str, "int": int}
        is_whole = all(isinstance(getattr(found, f.name), kinds[str(f.type)]) for f in fields(cls))
        return found if is_whole else None

    def write(self) -> bytes:
        """Return what goes into a lock file."""
        return f"{json.dumps(asdict(self))}\n".encode()

    def is_alive(self) -> bool | None:
        """Say whether the process is there; None if it is not on this machine."""
        if self.machine != _machine():
            return None
        mine, theirs = _process(os.getpid()), self.process
        if mine.partition(":")[0] != theirs.partition(":")[0]:
            return None  # of another container, whose processes cannot be seen
        return _process(self.pid) == theirs

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since.removesuffix('+00:00')} UTC"


class FolderLock:
    """Holds a folder of output while it is entered.

    Parameters
    ----------
    out : str
        Folder or URL; it is made when missing, and removed again if nothing else came into it.
    on_wait : callable, optional
        Called with the holder's description before waiting to see whether it is alive.
    beat_s, lease_s, settle_s : float
        As `BEAT_S`, `LEASE_S`, `SETTLE_S`; all drivers must use the same.

    Raises
    ------
    FolderInUse
        On entering, if another driver holds it, saying which.
    """

    def __init__(
        self,
        out: str,
        on_wait: Callable[[str], None] | None = None,
        *,
        beat_s: float = BEAT_S,
        lease_s: float = LEASE_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._out = out
        self._on_wait = on_wait
        self._beat_s, self._lease_s, self._settle_s = beat_s, lease_s, settle_s
        self._me = Holder.this_process()
        self._file: _HeldFile | _StoredFile = _StoredFile(join(out, LOCK_FILE))
        self._is_over = threading.Event()
        self._loss: str | None = None
        self._thread = threading.Thread(target=self._keep, name="assay lock", daemon=True)

    def __enter__(self) -> FolderLock:
        self._file = _lock_file(self._out)
        try:
            self._take()
        except BaseException:
            self._file.close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # a lock that stays is taken over by the next run
            if self._loss is None and self._is_mine():
                self._file.delete()
        self._file.close()

    def check(self) -> None:
        """Go on only while the lock is held.

        Raises
        ------
        LockLost
            If it is not.
        """
        if self._loss is not None:
            raise LockLost(
                f"{self._out} was taken over by {self._loss}, since this process had not been "
                f"heard of for {self._lease_s:g} s; what it has committed stays"
            )

    def _take(self) -> None:
        found = self._file.read()
        if found is not None:
            self._make_sure_it_is_dead(found)
        self._file.write(self._me.write())
        if self._file.is_exclusive and (found is None or self._is_left_here(found)):
            return
        time.sleep(self._settle_s)
        if not self._is_mine():
            raise in_use(self._out, self._file.read())

    def _make_sure_it_is_dead(self, found: bytes) -> None:
        holder = Holder.read(found)
        if self._is_left_here(found):
            return
        is_alive = None if holder is None else holder.is_alive()
        if is_alive:
            raise in_use(self._out, found)
        if is_alive is None:
            if self._on_wait is not None:
                self._on_wait(str(holder or "another process"))
            self._watch(found)

    def _is_left_here(self, found: bytes | None) -> bool:
        """Whether the holder died on this machine: then its `flock` would still be there."""
        holder = None if found is None else Holder.read(found)
        return self._file.is_exclusive and holder is not None and holder.machine == _machine()

    def _watch(self, found: bytes) -> None:
        end = time.monotonic() + self._lease_s
        while time.monotonic() < end:
            time.sleep(self._lease_s / _POLLS_PER_LEASE)
            now = self._file.read()
            if now is None:
                return
            if now != found:
                raise in_use(self._out, now)

    def _is_mine(self) -> bool:
        found = self._file.read()
        holder = None if found is None else Holder.read(found)
        return holder is not None and holder.key == self._me.key

    def _keep(self) -> None:
        """Show that the holder is alive, and notice if another one has taken over."""
        while not self._is_over.wait(self._beat_s):
            try:
                found = self._file.read()
                holder = None if found is None else Holder.read(found)
                if holder is None or holder.key != self._me.key:
                    self._loss = str(holder or "somebody who deleted its lock")
                    return
                self._me = replace(self._me, beat=self._me.beat + 1)
                self._file.write(self._me.write())
            except OSError as error:  # the next beat may come through
                logger.warning("lock of %s: %s", self._out, error)


def in_use(out: str, found: bytes | None) -> FolderInUse:
    """Say who holds a folder."""
    holder = None if found is None else Holder.read(found)
    return FolderInUse(
        f"{out} is in use by another run ({holder or 'it has just begun'}); wait for it, stop it, "
        "or choose another `--out` folder"
    )


class _StoredFile:
    """A lock file that is read and written whole, and that others can overwrite."""

    is_exclusive = False

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> bytes | None:
        for is_last in (False, True):
            try:
                return read_whole(self._path)
            except FileNotFoundError:
                if not is_last:
                    time.sleep(_GAP_S)
        return None

    def write(self, text: bytes) -> None:
        write_whole(self._path, text)

    def delete(self) -> None:
        delete_file(self._path)

    def close(self) -> None:
        pass


class _HeldFile:
    """A lock file that this process has locked; it is written in place, for a rename unlocks."""

    is_exclusive = True

    def __init__(self, path: Path, handle: int, made: list[Path], *, is_new: bool) -> None:
        self._path, self._handle, self._made = path, handle, made
        self._is_new = is_new

    def read(self) -> bytes | None:
        """Read it anew by its name, as other machines must; None if it is gone or just made."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return None
        return None if self._is_new and not text else text

    def write(self, text: bytes) -> None:
        os.pwrite(self._handle, text, 0)
        os.ftruncate(self._handle, len(text))
        if not self._is_new:  # the first time nobody can be waiting for it
            os.fsync(self._handle)
        self._is_new = False

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._handle)
        for folder in self._made:
            with contextlib.suppress(OSError):  # not empty: there is output
                folder.rmdir()


def _lock_file(out: str) -> _HeldFile | _StoredFile:
    """Lock the file where the filesystem can, and find out who has done so otherwise."""
    stored = _StoredFile(join(out, LOCK_FILE))
    filesystem, inner = filesystem_for(out)
    if fcntl is None or not isinstance(filesystem, pafs.LocalFileSystem):
        return stored
    path = Path(inner, LOCK_FILE)
    made = _make_folders(path.parent)
    while True:
        handle, is_new = _open(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one who had it may have deleted the file in between.
            if _is_same(handle, path):
                return _HeldFile(path, handle, made, is_new=is_new)
        except BlockingIOError:
            found = os.pread(handle, 1 << 16, 0)
            os.close(handle)
            raise in_use(out, found) from None
        except OSError as error:
            os.close(handle)
            if error.errno not in _CANNOT_LOCK:
                raise
            if is_new:
                path.unlink(missing_ok=True)
            return stored
        os.close(handle)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those it is in; return the new ones, innermost first."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    if missing:
        missing[0].mkdir(parents=True, exist_ok=True)
    return missing


def _open(path: Path) -> tuple[int, bool]:
    """Open a file that must not be a link; say whether it is new."""
    flags = os.O_RDWR | os.O_NOFOLLOW
    while True:
        with contextlib.suppress(FileExistsError):
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644), True
        try:
            return os.open(path, flags), False
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ValueError(f"{path} must not be a link; remove it") from error
            raise


def _is_same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{platform.node()}-{uuid.getnode():x}"


def _process(pid: int) -> str:
    """Name the space of process numbers and when a process of it began; empty if it is gone."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
        # The name before the last bracket may hold anything; the start is the 20th after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{space}:{fields[19]}" if fields[0] not in "ZX" else f"{space}:"
    except FileNotFoundError:
        return "" if Path("/proc/self").exists() else _process_without_proc(pid)


def _process_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "0:"
