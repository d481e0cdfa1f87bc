"""One scorer for the two shards that a worker with a GPU has under way, and its text processes.

While one shard is compared and written, the text of the next is read and encoded. The two use the
scorer in turns, batch by batch; each report counts what the scorer did since the report before.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from cluster.text_processes import OthersEnded, ProcessEnded, TextProcesses
from sms.scorers import Scorer


class Spoiled(Exception):
    """Another shard has failed on the scorer, which may give wrong scores since."""


class Ledger:
    """Counts what the scorer did since the last report, so that each thing is reported once."""

    def __init__(self, scorer: Scorer) -> None:
        self._lock = threading.Lock()
        self._scorer = scorer
        self._counters = Counter(scorer.counters())
        self._seconds, self._cpu_seconds = time.perf_counter(), time.process_time()

    def take(self, started: float) -> tuple[dict[str, int], float, float]:
        """Return counters, seconds by the clock (since `started` at most) and processor seconds."""
        with self._lock:
            counters = Counter(self._scorer.counters())
            seconds, cpu_seconds = time.perf_counter(), time.process_time()
            done = (
                {name: n - self._counters[name] for name, n in counters.items()},
                seconds - max(started, self._seconds),
                cpu_seconds - self._cpu_seconds,
            )
            self._counters = counters
            self._seconds, self._cpu_seconds = seconds, cpu_seconds
            return done


class SharedScorer:
    """A scorer that several threads use in turns; `close` ends its text processes."""

    def __init__(self, scorer: Scorer, n_text_processes: int) -> None:
        self._scorer = scorer
        self.input_columns = tuple(scorer.input_columns)
        self.score_fields = tuple(scorer.score_fields)
        self.ledger = Ledger(scorer)
        self._preparing, self._comparing = threading.Lock(), threading.Lock()
        self._is_spoiled = False
        reader = getattr(scorer, "reader", None)
        self.text: TextProcesses | None = None
        if n_text_processes and reader is not None:
            self.text = TextProcesses(reader().read_alone, n_text_processes)

    def read(self, rows: pa.Table) -> tuple[Any, float]:
        """Have a text process read some rows; return its answer, and its seconds."""
        assert self.text is not None  # noqa: S101
        self.check()
        try:
            return self.text.read(rows)
        except ProcessEnded:
            self.spoil()
            raise
        except OthersEnded:
            raise Spoiled from None

    def prepare(self, rows: pa.Table, *read: object) -> Any:  # noqa: ANN401
        """Prepare a batch, whose text a process may have read, when it is its turn."""
        with self._turn(self._preparing):
            return self._scorer.prepare(rows, *read)

    def compare(self, prepared: Any) -> pa.Table:  # noqa: ANN401
        """Compare a batch when it is its turn."""
        with self._turn(self._comparing):
            return self._scorer.compare(prepared)

    def counters(self) -> Mapping[str, int]:
        """Return what was done so far."""
        return self._scorer.counters()

    def check(self) -> None:
        """Raise `Spoiled` if a batch of any shard has failed."""
        if self._is_spoiled:
            raise Spoiled

    def spoil(self) -> None:
        """Stop every thread that uses the scorer at its next turn."""
        self._is_spoiled = True

    def close(self) -> None:
        """End the text processes."""
        if self.text is not None:
            self.text.close()

    @contextmanager
    def _turn(self, lock: threading.Lock) -> Iterator[None]:
        with lock:
            self.check()
            try:
                yield
            except BaseException:
                self.spoil()
                raise
