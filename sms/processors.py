"""How many processors this process may use."""

from __future__ import annotations

import os


def n_processors() -> int:
    """Return how many processors this process may use; its machine may have more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
