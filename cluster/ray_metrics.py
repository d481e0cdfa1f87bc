"""Numbers about a run for Prometheus, through Ray's own metrics endpoint on every node.

Ray adds `ray_` in front of the names, and the labels of the node and the process. Without the extra
`cluster` (which is `ray[default]`) nothing listens, and counting costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ray.util.metrics import Counter, Gauge, Histogram

from cluster.parts import ShardReport

SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Bounds of the histogram of seconds a shard took."""

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


class ShardMetrics:
    """What a worker has done, counted up shard by shard."""

    def __init__(self) -> None:
        self._seconds = Histogram(
            "assay_shard_seconds", "Seconds a shard took.", boundaries=list(SECONDS)
        )
        self._counters: dict[str, Counter] = {}

    def count(self, report: ShardReport) -> None:
        """Add what a shard's report says."""
        outcome = "done" if report.error is None else "failed"
        told = "Shards tried, by outcome: done or failed."
        self._add("assay_shards_total", told, 1, outcome=outcome)
        if report.error is not None:
            return
        self._add("assay_rows_total", "Rows scored.", report.n_rows)
        self._seconds.observe(report.seconds)
        for status, n_rows in report.n_status.items():
            # Why a row cannot be read is in `errors/`; a label must not have endless values.
            kind = status.partition(": ")[0]
            self._add("assay_rows_with_status_total", "Rows by status.", n_rows, status=kind)
        for stage, seconds in report.stage_seconds.items():
            told = "Seconds by stage; stages may overlap."
            self._add("assay_stage_seconds_total", told, seconds, stage=stage)
        for name, n in report.counters.items():  # of what a scorer counts as `PART.NAME`
            part, _, what = name.rpartition(".")
            what = _NOT_IN_A_NAME.sub("_", what.lower()).strip("_")
            told = f"What scorers count as `{what}`."
            self._add(f"assay_scorer_{what}_total", told, n, part=part)

    def _add(self, name: str, told: str, n: float, **labels: str) -> None:
        if n <= 0:
            return
        if name not in self._counters:
            self._counters[name] = Counter(name, told, tuple(labels))
        self._counters[name].inc(n, labels)


class RunMetrics:
    """How a run is going, set by its driver."""

    def __init__(self) -> None:
        self._shards = Gauge("assay_shards", "Shards of the run that are not done.", ("state",))
        self._workers = Gauge("assay_workers", "Workers of the run.", ("state",))

    def set(self, counts: Mapping[str, int]) -> None:
        """Set what is so now, by state."""
        for state in ("waiting", "running"):
            self._shards.set(counts[state], {"state": state})
        for state in ("busy", "starting", "idle"):
            self._workers.set(counts[state], {"state": state})
