"""Says which shard a worker gets next: attempts, whose fault a failure was, copies of slow shards.

Knows no Ray and no clock: the caller says what time it is, by one clock of its own, so nothing
here depends on what the clocks of other machines show.

A failure has two suspects. It is the shard's fault if the worker then finishes another one, and
the worker's fault until then. So a bad worker takes a few shards that others finish, and is left
out; shards that nobody can score are given up, and the workers that tried them go on.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import median

from cluster.parts import ShardReport
from cluster.shards import Shard

SLOW_AFTER_S = 30.0
"""No shard is slow before that."""
SLOW_FACTOR = 3.0
"""A shard is slow once it has taken this many times as long as as many rows usually take."""
LIMIT_AFTER = 20.0
"""A worker keeps a shard for at least this many times `slow_after_s`."""
LIMIT_FACTOR = 10.0
"""A worker loses a shard that takes this many times as long as the longest other one."""
IN_TROUBLE_AFTER = 2
"""After this many failures in a row, others find out whose fault they were."""
LEFT_OUT_AFTER = 4
"""A worker gets no more shards once this many in a row have failed on it."""

CONTINUE = "committed shards are kept: run the same command again to continue"
"""How a message ends when no worker is left."""
OVERLONG = "not done after {:.0f} s, far longer than other shards; worker stopped"

_REMEMBERED = 101  # finished shards that say how long a row takes


class Schedule:
    """The shards of a run, from waiting to reported.

    A shard that fails is tried again once those that never failed are begun, by another worker
    where there is one, until it has failed `max_attempts` times. When none waits, a worker without
    work gets a copy of the shard that is most overdue: what is written last is the file, whole, and
    the report that comes first counts. Scores of the two may differ as far as the scorer's may
    between machines.

    Shards are begun in the order given; none counts as slow before `slow_after_s` seconds. A worker
    that `is_alone`, since there can be no other, is never left out.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        max_attempts: int,
        slow_after_s: float,
        *,
        is_alone: bool = False,
    ) -> None:
        self._fresh = deque(shards)
        self._again: deque[Shard] = deque()
        """Have failed before."""
        self._max_attempts = max_attempts
        self._slow_after_s = slow_after_s
        self._left_out_after = math.inf if is_alone else LEFT_OUT_AFTER
        self._n_open = len(shards)
        self._begun: Counter[int] = Counter()
        self._failures: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """By shard, then by worker."""
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._seconds_per_row: deque[float] = deque(maxlen=_REMEMBERED)
        self._at_work: dict[int, dict[int, tuple[Shard, float]]] = {}
        """By shard, then by worker: when it began."""
        self._n_of: Counter[int] = Counter()
        """Shards that each worker has; `take` must not look through those of all the others."""
        self._idle: set[int] = set()
        """Workers that wait for a shard."""
        self._is_reported: set[int] = set()
        self._is_at_fault: set[int] = set()
        """Shards that have failed on a worker which then finished another one."""
        self._trusted: set[int] = set()
        """Workers that have finished a shard, and have not failed or been lost since."""
        self._doubts: defaultdict[int, list[int]] = defaultdict(list)
        """By worker: shards that failed on it since it finished one, and may not be at fault."""

    @property
    def n_open(self) -> int:
        """Shards that have no final report."""
        return self._n_open

    @property
    def n_waiting(self) -> int:
        """Shards that nobody works on."""
        return len(self._fresh) + len(self._again)

    def is_left_out(self, worker: int) -> bool:
        """Say whether a worker gets no more, unless its failures turn out to be the shards'."""
        return len(set(self._doubts[worker])) >= self._left_out_after

    def take(self, worker: int, now: float) -> Shard | None:
        """Choose a shard for a worker; None if there is nothing for it to do `now`, in seconds.

        A worker may have several. One that has failed before is alone on its worker, so that no
        other shard pays for that one again.
        """
        shard = None
        if self.is_left_out(worker):
            pass
        elif self._n_of[worker]:
            at_work = (index for index, copies in self._at_work.items() if worker in copies)
            if not any(self._failures[index] for index in at_work):
                shard = self._never_failed(worker)
        else:
            shard = (
                self._needed_for_a_verdict(worker)
                or self._never_failed(worker)
                or self._failed_before(worker)
                or self._most_overdue(worker, now)
            )
        if shard is None:
            self._idle.add(worker)
        else:
            self._idle.discard(worker)
            self._begun[shard.index] += 1
            self._n_of[worker] += 1
            self._at_work.setdefault(shard.index, {})[worker] = (shard, now)
        return shard

    def leave(self, worker: int) -> None:
        """Note that a worker is lost; if it comes back, it has to show again that it works."""
        self._trusted.discard(worker)
        self._idle.discard(worker)

    def put_back(self, worker: int, shard: Shard) -> None:
        """Take back a shard that the worker never began."""
        self._begun[shard.index] -= 1
        if not self._drop(worker, shard) and shard.index not in self._is_reported:
            (self._again if self._failures[shard.index] else self._fresh).appendleft(shard)

    def settle(
        self, worker: int, shard: Shard, report: ShardReport, now: float
    ) -> ShardReport | None:
        """Take note of what became of a shard; return the report if it is the final one."""
        began = self._at_work[shard.index][worker][1]
        has_copy = self._drop(worker, shard)
        if report.error is None:
            self._trust(worker)
        elif not report.is_out_of_room:  # a full disk is no fault of worker or shard
            self._doubt(worker, shard.index)
        if shard.index in self._is_reported:
            return None
        if report.error is None:
            self._seconds.append(now - began)
            self._seconds_per_row.append((now - began) / shard.n_rows)
        else:
            failures = self._failures[shard.index]
            failures[worker] += 1
            if has_copy:
                return None
            if failures.total() < self._max_attempts and not report.is_out_of_room:
                self._again.append(shard)
                return None
        self._is_reported.add(shard.index)
        self._n_open -= 1
        return replace(report, attempts=self._begun[shard.index])

    def over_limit(self, now: float) -> list[tuple[int, Shard, float]]:
        """Find the workers that have had a shard for too long, these shards, and the seconds.

        There is no limit before some shards are finished. It doubles with each failure of the
        shard: one that takes long is not given up for that.
        """
        if not self._seconds:
            return []
        longest, longest_row = max(self._seconds), max(self._seconds_per_row)
        overlong = []
        for index, copies in self._at_work.items():
            for worker, (shard, began) in copies.items():
                usual = max(longest, longest_row * shard.n_rows)
                limit = max(LIMIT_AFTER * self._slow_after_s, LIMIT_FACTOR * usual)
                if now - began > limit * 2 ** self._failures[index].total():
                    overlong.append((worker, shard, now - began))
        return overlong

    def _trust(self, worker: int) -> None:
        """Note that a worker does its work: what failed on it before was at fault itself."""
        self._trusted.add(worker)
        self._idle.add(worker)
        if doubts := set(self._doubts[worker]):
            self._is_at_fault |= doubts
            self._acquit(doubts)

    def _doubt(self, worker: int, index: int) -> None:
        if index in self._is_at_fault:
            return
        if worker in self._trusted:  # which makes it unlikely that the others were at fault
            self._acquit({index})
        self._trusted.discard(worker)
        self._doubts[worker].append(index)

    def _acquit(self, indices: Collection[int]) -> None:
        """Hold these shards against no worker any more."""
        for doubts in self._doubts.values():
            doubts[:] = [index for index in doubts if index not in indices]

    def _drop(self, worker: int, shard: Shard) -> bool:
        """Forget a worker's copy; say whether another worker has one."""
        copies = self._at_work[shard.index]
        del copies[worker]
        self._n_of[worker] -= 1
        if not copies:
            del self._at_work[shard.index]
        return bool(copies)

    def _never_failed(self, worker: int) -> Shard | None:
        if not self._fresh:
            return None
        # After a failure, one that is unlike it: neighbours may have the same fault.
        return self._fresh.pop() if self._doubts[worker] else self._fresh.popleft()

    def _needed_for_a_verdict(self, worker: int) -> Shard | None:
        """Choose a shard that failed on a worker in trouble, to find out which is at fault."""
        if not self._again or worker not in self._trusted:
            return None
        doubtful = {
            index
            for doubts in self._doubts.values()
            if len(doubts) >= IN_TROUBLE_AFTER
            for index in doubts
        }
        return self._failed_before(worker, doubtful) if doubtful else None

    def _failed_before(self, worker: int, among: Collection[int] | None = None) -> Shard | None:
        """Choose a shard that has failed, unless a fitter worker is there to try it."""
        for shard in self._again:
            if (among is None or shard.index in among) and self._is_fittest(worker, shard):
                self._again.remove(shard)
                return shard
        return None

    def _is_fittest(self, worker: int, shard: Shard) -> bool:
        fitness = self._fitness(worker, shard)
        others = self._idle.union(*self._at_work.values())
        return not any(
            self._fitness(other, shard) > fitness for other in others if not self.is_left_out(other)
        )

    def _fitness(self, worker: int, shard: Shard) -> tuple[bool, bool, bool]:
        return (
            worker not in self._failures[shard.index],
            not self._doubts[worker],
            worker in self._trusted,
        )

    def _most_overdue(self, worker: int, now: float) -> Shard | None:
        if not self._seconds_per_row or self._doubts[worker]:
            return None
        usual = median(self._seconds_per_row)
        worst, worst_by = None, 0.0
        for index, copies in self._at_work.items():
            if len(copies) > 1 or index in self._is_reported or worker in self._failures[index]:
                continue
            ((shard, began),) = copies.values()
            late = now - began - max(self._slow_after_s, SLOW_FACTOR * usual * shard.n_rows)
            if late > worst_by:
                worst, worst_by = shard, late
        return worst
