"""Says which shard a worker gets next: attempts, shards given up, second copies of slow ones.

Knows no Ray and no clock: the caller says what time it is, by one clock of its own, so nothing
here depends on what the clocks of other machines show.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from cluster.shards import Shard
from cluster.worker import ShardReport

SLOW_AFTER_S = 30.0
"""No shard is slow before that."""
SLOW_FACTOR = 3.0
"""A shard is slow once it has taken so many times what its rows took elsewhere."""

_REMEMBERED = 101  # finished shards that say how long a row takes


class Schedule:
    """The shards of a run, from waiting to reported.

    A shard that fails goes back to the end of the queue until it has failed `max_attempts` times.
    When none waits, a worker without work gets a copy of the shard that is most overdue: what is
    written twice is the same file, and the report that comes first counts.

    Parameters
    ----------
    shards : sequence of Shard
        In the order in which they shall be begun.
    max_attempts : int
        After so many failures a shard is given up.
    slow_after_s : float
        Seconds before which no shard is thought slow.
    """

    def __init__(self, shards: Sequence[Shard], max_attempts: int, slow_after_s: float) -> None:
        self._waiting = deque(shards)
        self._max_attempts = max_attempts
        self._slow_after_s = slow_after_s
        self._n_open = len(shards)
        self._begun: Counter[int] = Counter()
        self._failures: Counter[int] = Counter()
        self._seconds_per_row: deque[float] = deque(maxlen=_REMEMBERED)
        self._at_work: dict[int, dict[int, tuple[Shard, float]]] = {}
        """By shard, then by worker: when it began."""
        self._is_reported: set[int] = set()

    @property
    def n_open(self) -> int:
        """Shards that have no final report."""
        return self._n_open

    @property
    def n_waiting(self) -> int:
        """Shards that nobody works on."""
        return len(self._waiting)

    def take(self, worker: int, now: float) -> Shard | None:
        """Choose a shard for a worker; None if there is nothing for it to do now.

        Parameters
        ----------
        worker : int
        now : float
            Seconds, by the clock of the caller.
        """
        shard = self._waiting.popleft() if self._waiting else self._most_overdue(now)
        if shard is not None:
            self._begun[shard.index] += 1
            self._at_work.setdefault(shard.index, {})[worker] = (shard, now)
        return shard

    def put_back(self, worker: int, shard: Shard) -> None:
        """Take back a shard that the worker never began."""
        self._begun[shard.index] -= 1
        if not self._leave(worker, shard) and shard.index not in self._is_reported:
            self._waiting.appendleft(shard)

    def settle(
        self, worker: int, shard: Shard, report: ShardReport, now: float
    ) -> ShardReport | None:
        """Take note of what became of a shard; return the report if it is the final one."""
        began = self._at_work[shard.index][worker][1]
        has_copy = self._leave(worker, shard)
        if shard.index in self._is_reported:
            return None
        if report.error is None:
            self._seconds_per_row.append((now - began) / shard.n_rows)
        else:
            self._failures[shard.index] += 1
            if has_copy:
                return None
            if self._failures[shard.index] < self._max_attempts:
                self._waiting.append(shard)
                return None
        self._is_reported.add(shard.index)
        self._n_open -= 1
        return replace(report, attempts=self._begun[shard.index])

    def _leave(self, worker: int, shard: Shard) -> bool:
        """Forget a worker's copy; say whether another worker has one."""
        copies = self._at_work[shard.index]
        del copies[worker]
        if not copies:
            del self._at_work[shard.index]
        return bool(copies)

    def _most_overdue(self, now: float) -> Shard | None:
        if not self._seconds_per_row:
            return None
        usual = median(self._seconds_per_row)
        worst, worst_by = None, 0.0
        for index, copies in self._at_work.items():
            if len(copies) > 1 or index in self._is_reported:
                continue
            ((shard, began),) = copies.values()
            late = now - began - max(self._slow_after_s, SLOW_FACTOR * usual * shard.n_rows)
            if late > worst_by:
                worst, worst_by = shard, late
        return worst
