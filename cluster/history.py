"""What became of each shard of a run: kept small in memory, and told in `run.json`.

`run.json` is written now and then while a run goes on, and when it ends. A shard's scores file
alone says whether the shard is done: what is said here of a shard without one does not count.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from cluster.inputs import READERS
from cluster.manifest import Manifest
from cluster.parts import ShardReport
from cluster.scores_files import check_parts, committed_parts, reports_from_file

_MEASURED = ("node", "processor", "seconds", "cpu_seconds", "stage_seconds", "counters", "attempts")
"""What only the run that scored a shard knows of it."""
_KEPT = ("index", "n_rows", "n_bytes", "seal", "n_status", *_MEASURED, "error")

Record: TypeAlias = dict[str, Any]
"""What became of a shard: its `ShardReport` as JSON, without the sums."""
Total: TypeAlias = list[float]
"""How many numbers are in a sum, then floats that do not overlap and are together that sum.

They are few, however many numbers are added (Shewchuk 1997, *Adaptive precision floating-point
arithmetic*).
"""


class ScoreSums:
    """Sums of scores without rounding, so that no order or grouping of shards changes a mean."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[str, Total]] = {}
        """By system, then by column; what `json.dumps` can write without loss."""

    def add(self, system: str, column: str, count: float, values: Iterable[float]) -> None:
        """Add numbers that together are the sum of `count` scores."""
        total = self.totals.setdefault(system, {}).setdefault(column, [0])
        total[0] += count
        for value in values:
            total[1:] = _added(total[1:], value)

    def means(self) -> dict[str, dict[str, float]]:
        """Average, rounding once, over all scores of a system; NaN of none. Systems are sorted."""
        return {
            system: {
                column: math.fsum(parts) / count if count else math.nan
                for column, (count, *parts) in self.totals[system].items()
            }
            for system in sorted(self.totals)
        }

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the scores of a system; systems are sorted."""
        return {
            system: {column: int(total[0]) for column, total in self.totals[system].items()}
            for system in sorted(self.totals)
        }


def _added(parts: list[float], value: float) -> list[float]:
    """Add a number to floats that do not overlap."""
    kept = []
    for part in parts:
        larger, smaller = (value, part) if abs(value) >= abs(part) else (part, value)
        value = larger + smaller
        rest = smaller - (value - larger)
        if rest and math.isfinite(rest):
            kept.append(rest)
    return [*kept, value] if value else kept


class History:
    """Every shard's report but for its sums, which are added up."""

    def __init__(self) -> None:
        self._lines: dict[int, bytes] = {}  # as JSON: a tenth of what the objects need
        self.sums = ScoreSums()
        self.errors: dict[int, str] = {}  # why a shard failed, by its place in the plan
        self.statuses: Counter[str] = Counter()  # rows by status
        self.counters: Counter[str] = Counter()  # what the scorers counted
        self.n_rows = 0  # that are scored

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, index: int) -> bool:
        return index in self._lines

    @property
    def n_done(self) -> int:
        """Shards that are scored."""
        return len(self._lines) - len(self.errors)

    def add(self, report: ShardReport) -> None:
        """Take note of what became of a shard."""
        self.add_record({name: getattr(report, name) for name in _KEPT})
        for system, by_column in report.sums.items():
            for column, value in by_column.items():
                self.sums.add(system, column, report.counts[system][column], [value])

    def add_record(self, record: Record) -> None:
        """Take note of a shard whose sums are added by themselves."""
        index = record["index"]
        text = json.dumps(record, ensure_ascii=False)
        self._lines[index] = text.encode("utf-8", "surrogateescape")
        if record["error"] is not None:
            self.errors[index] = record["error"]
            return
        self.n_rows += record["n_rows"]
        self.statuses.update(record["n_status"])
        self.counters.update(record["counters"])

    def records(self) -> Iterator[Record]:
        """Return what is known of every shard, in the order of the plan."""
        for index in sorted(self._lines):
            yield json.loads(self._lines[index])

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` can write."""
        return {"shards": list(self.records()), "sums": self.sums.totals}


def read_history(out: str, manifest: Manifest, result: Mapping[str, Any]) -> History:
    """Gather what is known of the shards that earlier runs have scored; `result` says what is told.

    Only shards whose scores file is there, as it was written, are taken as scored. The scores
    themselves are counted of shards that `result` does not tell of, as a driver was killed since,
    and of all shards if its sums have one that is not there any more.

    Raises ValueError if a scores file is damaged or was changed.
    """
    history = History()
    parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    there = check_parts(dict.fromkeys(parts.values()))
    told = {one["index"]: one for one in result.get("shards", ()) if one["error"] is None}
    if told and all(there.get(index) == record["seal"] for index, record in told.items()):
        for record in told.values():
            history.add_record(record)
        history.sums.totals = result["sums"]
    unknown = dict.fromkeys(part for index, part in parts.items() if index not in history)
    with ThreadPoolExecutor(READERS) as pool:
        for report in chain.from_iterable(pool.map(reports_from_file, unknown)):
            if report.index not in history:
                known = told.get(report.index, {})
                measured = {name: known[name] for name in _MEASURED if name in known}
                history.add(replace(report, **measured))
    return history
