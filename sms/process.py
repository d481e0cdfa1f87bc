"""How many processors and how much memory a process may use, and its threads lost in a fork.

Only the thread that forks lives on in the new process. A pool of threads that a library made before
looks whole there, and whoever gives it work waits for ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LIBRARIES = ("polars", "torch")
"""Those that do not make new threads by themselves, as pyarrow and NumPy do."""
_FORKED = 0x40  # PF_FORKNOEXEC in Linux's `sched.h`

_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says what a container may use; versions 2 and 1 of its control groups."""

_lost: set[str] = set()
_to_forget: list[Callable[[], object]] = []


def n_processors() -> int:
    """Return how many processors this process may use; its machine may have more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_threads() -> int:
    """Return `OMP_NUM_THREADS`, in Ray a worker's share, or the number of processors."""
    declared = os.environ.get("OMP_NUM_THREADS", "")
    if declared.isdigit() and int(declared) > 0:
        return int(declared)
    return n_processors()


def memory_bytes() -> int:
    """Return the memory of this machine, or of the container that this process is in."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


def has_lost_threads(*libraries: str) -> bool:
    """Tell whether this process was forked from one that had loaded one of these libraries."""
    return not _lost.isdisjoint(libraries or LIBRARIES)


def forget_in_forks(forget: Callable[[], object]) -> None:
    """Have a function called in every process that is forked from this one."""
    _to_forget.append(forget)


def _begin() -> None:
    """Begin as a forked process."""
    for forget in _to_forget:
        forget()
    _lost.update(sys.modules.keys() & set(LIBRARIES))
    if "torch" in _lost:
        sys.modules["torch"].set_num_threads(1)


def _is_forked() -> bool:
    """Tell whether this process runs the program of the one it was forked from; Linux says it."""
    with suppress(OSError, ValueError, IndexError):
        _, _, after_name = Path("/proc/self/stat").read_text().rpartition(")")
        return bool(int(after_name.split()[6]) & _FORKED)
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)
    if _is_forked():  # before `register_at_fork` was called
        _begin()
