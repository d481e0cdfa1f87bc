"""What only those who scored a shard know of it: how often it was tried, where, how long, why not.

It is kept small in memory, and written into `run.json` now and then while a run goes on, and when
it ends. Whether a shard is done says its scores file alone; `totals` asks these for all else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from cluster.manifest import Manifest
from cluster.parts import ShardReport
from cluster.scores_files import committed

_MEASURED = ("node", "processor", "seconds", "cpu_seconds", "stage_seconds", "counters", "attempts")

Record: TypeAlias = dict[str, Any]
"""What became of a shard: a part of its `ShardReport`, as JSON."""


class History:
    """What became of every shard."""

    def __init__(self) -> None:
        self._lines: dict[int, bytes] = {}  # as JSON: a tenth of what the objects need
        self.errors: dict[int, str] = {}  # why a shard failed, by its place in the plan
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
        record = {name: getattr(report, name) for name in ("index", *_MEASURED, "error")}
        text = json.dumps(record, ensure_ascii=False)
        self._lines[report.index] = text.encode("utf-8", "surrogateescape")
        if report.error is not None:
            self.errors[report.index] = report.error
            return
        self.n_rows += report.n_rows
        self.counters.update(report.counters)

    def records(self) -> Iterator[Record]:
        """Return what is known of every shard, in the order of the plan."""
        for index in sorted(self._lines):
            yield json.loads(self._lines[index])

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` can write."""
        return {"shards": list(self.records())}


def read_history(out: str, manifest: Manifest, result: Mapping[str, Any]) -> History:
    """Return what is known of the shards that earlier runs have scored, as `result` tells.

    Of a shard that was scored after `run.json` was last written, only that it is done is known.
    """
    history = History()
    known = {one["index"]: one for one in result.get("shards", ()) if one["error"] is None}
    done = committed(out, manifest.shards, manifest.fingerprint)
    for shard in (shard for shard in manifest.shards if shard.index in done):
        record = known.get(shard.index, {})
        measured = {name: record[name] for name in _MEASURED if name in record}
        history.add(ShardReport(index=shard.index, n_rows=shard.n_rows, **measured))
    return history
