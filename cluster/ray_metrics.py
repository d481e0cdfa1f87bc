"""Numbers about a run for Prometheus, through Ray's own metrics endpoint on every node.

Ray adds `ray_` in front of the names, and the labels of the node and the process. Without the extra
`cluster` (which is `ray[default]`) nothing listens, and counting costs next to nothing.
"""

from __future__ import annotations

import re

from ray.util.metrics import Counter, Gauge, Histogram

from cluster.parts import ShardReport

SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Bounds of the histogram of seconds a shard took."""

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


class ShardMetrics:
    """What a worker has done, counted up shard by shard."""

    def __init__(self) -> None:
        self._rows = Counter("assay_rows_total", "Rows scored.")
        self._shards = Counter(
            "assay_shards_total", "Shards tried, by outcome: done or failed.", ("outcome",)
        )
        self._statuses = Counter("assay_rows_with_status_total", "Rows by status.", ("status",))
        self._stages = Counter(
            "assay_stage_seconds_total", "Seconds by stage; stages may overlap.", ("stage",)
        )
        self._seconds = Histogram(
            "assay_shard_seconds", "Seconds a shard took.", boundaries=list(SECONDS)
        )
        self._counted: dict[str, Counter] = {}

    def count(self, report: ShardReport) -> None:
        """Add what a shard's report says."""
        if report.error is not None:
            self._shards.inc(1, {"outcome": "failed"})
            return
        self._shards.inc(1, {"outcome": "done"})
        self._rows.inc(report.n_rows)
        self._seconds.observe(report.seconds)
        for status, n_rows in report.n_status.items():
            # Why a row cannot be read is in `errors/`; a label must not have endless values.
            self._statuses.inc(n_rows, {"status": status.partition(": ")[0]})
        for stage, seconds in report.stage_seconds.items():
            if seconds > 0:
                self._stages.inc(seconds, {"stage": stage})
        for name, n in report.counters.items():
            if n > 0:
                self._count(name, n)

    def _count(self, name: str, n: int) -> None:
        """Count what a scorer counts as `PART.NAME`."""
        part, _, what = name.rpartition(".")
        what = _NOT_IN_A_NAME.sub("_", what.lower()).strip("_")
        if what not in self._counted:
            self._counted[what] = Counter(
                f"assay_scorer_{what}_total", f"What scorers count as `{what}`.", ("part",)
            )
        self._counted[what].inc(n, {"part": part})


class RunMetrics:
    """How a run is going, set by its driver."""

    def __init__(self) -> None:
        self._shards = Gauge("assay_shards", "Shards of the run that are not done.", ("state",))
        self._workers = Gauge("assay_workers", "Workers of the run.", ("state",))

    def set(self, *, n_waiting: int, n_running: int, n_starting: int, n_idle: int) -> None:
        """Set what is so now."""
        self._shards.set(n_waiting, {"state": "waiting"})
        self._shards.set(n_running, {"state": "running"})
        self._workers.set(n_running, {"state": "busy"})
        self._workers.set(n_starting, {"state": "starting"})
        self._workers.set(n_idle, {"state": "idle"})
