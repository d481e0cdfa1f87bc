"""One scorer for the two shards that a worker with a GPU has under way.

While one shard is compared and written, the text of the next is read and encoded. The two use the
scorer in turns, batch by batch; each report counts what the scorer did since the report before.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from sms.scorers import Scorer


class Spoiled(Exception):
    """Another shard has failed on the scorer, which may give wrong scores since."""


class SharedScorer:
    """A scorer that several threads use in turns."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.input_columns = tuple(scorer.input_columns)
        self.score_fields = tuple(scorer.score_fields)
        self.counters = scorer.counters
        self._preparing, self._comparing = threading.Lock(), threading.Lock()
        self._counting = threading.Lock()
        self._counted = self._count()
        self._is_spoiled = False

    def prepare(self, rows: pa.Table) -> Any:  # noqa: ANN401
        """Prepare a batch when it is its turn."""
        with self._turn(self._preparing):
            return self._scorer.prepare(rows)

    def compare(self, prepared: Any) -> pa.Table:  # noqa: ANN401
        """Compare a batch when it is its turn."""
        with self._turn(self._comparing):
            return self._scorer.compare(prepared)

    def take_counts(self, started: float) -> tuple[dict[str, int], float, float]:
        """Return what was done since it was last asked, so that each thing is reported once.

        That is the counters, seconds by the clock (since `started` at most), processor seconds.
        """
        with self._counting:
            counters, seconds, cpu_seconds = self._count()
            before, begun, cpu_before = self._counted
            self._counted = counters, seconds, cpu_seconds
            done = {name: n - before[name] for name, n in counters.items()}
            return done, seconds - max(started, begun), cpu_seconds - cpu_before

    def _count(self) -> tuple[Counter[str], float, float]:
        return Counter(self._scorer.counters()), time.perf_counter(), time.process_time()

    def check(self) -> None:
        """Raise `Spoiled` if a batch of any shard has failed."""
        if self._is_spoiled:
            raise Spoiled

    def spoil(self) -> None:
        """Stop every thread that uses the scorer at its next turn."""
        self._is_spoiled = True

    @contextmanager
    def _turn(self, lock: threading.Lock) -> Iterator[None]:
        with lock:
            self.check()
            try:
                yield
            except BaseException:
                self.spoil()
                raise
