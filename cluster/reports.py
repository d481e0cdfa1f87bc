"""The reports of a run whose workers are other processes; its scores files count more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from cluster.parts import Job, ShardReport, part_path
from cluster.scores_files import committed, reports_from_file
from cluster.shards import Shard


class Reports:
    """The reports of a run so far."""

    def __init__(self, job: Job, on_report: Callable[[ShardReport], None] | None) -> None:
        self.job = job
        self._on_report = on_report
        self.by_index: dict[int, ShardReport] = {}

    def add(self, report: ShardReport) -> None:
        """Pass on a report; where a failed shard is committed after all, one made from its file."""
        if report.error is not None:
            # a worker may have been lost just after it committed
            with suppress(OSError, ValueError):
                report = self._from_file(report.index)
        if self._on_report is not None:
            self._on_report(report)
            report = report.without_sums()
        self.by_index[report.index] = report

    def add_committed(self, shards: Sequence[Shard]) -> bool:
        """Add reports of committed shards that nobody reported; say if all shards have one now."""
        left = [shard for shard in shards if shard.index not in self.by_index]
        for index in sorted(committed(self.job.out, left, self.job.fingerprint)):
            self.add(self._from_file(index))
        return len(self.by_index) == len(shards)

    def _from_file(self, index: int) -> ShardReport:
        (report,) = reports_from_file(part_path(self.job.out, index, self.job.fingerprint))
        return report
