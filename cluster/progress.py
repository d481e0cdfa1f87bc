"""How far a run is, and how fast it goes on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

SCORING = "scoring"
"""The stage in which rows are counted; what comes before it has no known length."""
COMPILING = "compiling, which only the first run does"
"""The beginning of `SCORING` where nothing has been compiled yet."""
RECENT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    stage: str
    """What is being done, for people."""
    n_rows: int = 0
    """Rows of the whole plan; 0 as long as the length of what is done is not known."""
    n_done: int = 0
    """Rows whose shard is committed."""
    n_earlier: int = 0
    """Rows among them that an earlier run had committed."""
    n_failed_shards: int = 0
    unit: str = "rows"
    """What is counted as rows."""
    note: str = ""
    """With what it is done, in one line for people, who are told once."""


class Pace:
    """Rows per second of late, and the time left at that speed.

    "Of late" is the last quarter of the time since this run began, but at least `RECENT_S`: long
    enough for rows that come a shard at a time, short enough to forget loading a model or a
    node that has gone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When how many rows were done; the first is the last one before "of late".
        self._seen: deque[tuple[float, int]] = deque()
        self._started = 0.0
        self._ends_at: float | None = None
        self._stage = ""
        self.rows_per_s: float | None = None
        """None before the first rows of this stage are done."""

    def update(self, progress: Progress) -> None:
        """Take note of how far the run is now; another stage has another speed."""
        now = self._clock()
        if progress.stage != self._stage:
            self._seen.clear()
            self._stage, self._ends_at, self.rows_per_s = progress.stage, None, None
        if not self._seen:
            self._started = now
        self._seen.append((now, progress.n_done))
        recent = now - max(RECENT_S, (now - self._started) / 4)
        while len(self._seen) > 2 and self._seen[1][0] <= recent:
            self._seen.popleft()
        since, n_then = self._seen[0]
        if progress.n_done > n_then and now > since:
            self.rows_per_s = (progress.n_done - n_then) / (now - since)
            self._ends_at = now + (progress.n_rows - progress.n_done) / self.rows_per_s

    def seconds_left(self) -> float | None:
        """Estimate the time left; it runs down between updates. None before the first rows."""
        return None if self._ends_at is None else max(0.0, self._ends_at - self._clock())
