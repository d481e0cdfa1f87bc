"""Not a benchmark: a made-up device of known speed, in the place of a GPU that is not there."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from sms.cutting import TextReader


class StandIn:
    """A made-up device that encodes so many tokens a second, by sleeping, and how busy it is."""

    input_columns = ("candidate", "references")
    score_fields = ("tokens",)

    def __init__(self, reader: TextReader, tokens_per_s: float) -> None:
        self._reader, self._tokens_per_s = reader, tokens_per_s
        self.turns: list[tuple[float, float]] = []

    def reader(self) -> TextReader:
        """Return what text processes read with."""
        return self._reader

    def counters(self) -> dict[str, int]:
        """Count nothing."""
        return {}

    def prepare(self, rows: pa.Table, read: Any = None) -> tuple[int, int]:
        """Sleep for as long as the device would take."""
        plan, _, _ = (read or self._reader.read(rows)).plans["minilm"]
        n_tokens = int(plan[1].lengths.sum())
        started = time.perf_counter()
        time.sleep(n_tokens / self._tokens_per_s)
        self.turns.append((started, time.perf_counter()))
        return rows.num_rows, n_tokens

    def compare(self, prepared: tuple[int, int]) -> pa.Table:
        """Return the tokens of the batch as the score of each row."""
        n_rows, n_tokens = prepared
        columns = {"tokens": [float(n_tokens)] * n_rows, "status": [None] * n_rows}
        return pa.table(columns, schema=pa.schema({"tokens": "f8", "status": "string"}))

    def busy_share(self) -> float:
        """Return the share of the time after its first batch that it was at work."""
        (_, begin), (_, end) = self.turns[0], self.turns[-1]
        return sum(b - a for a, b in self.turns[1:]) / (end - begin)
