"""How many processors there are for this process."""

from __future__ import annotations

import os


def n_processors() -> int:
    """Return on how many processors this process may run, which its machine may have more of."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
