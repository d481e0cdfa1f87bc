"""What became of each shard of a run: kept small in memory, and on storage while the run goes on.

While a run goes on, its driver writes what is new into files of `history/` every now and then, each
whole; `run.json` takes all of it over at the end, or when a run that died goes on. So neither
a resumed run nor `assay status` has to open the scores files. A shard's scores file alone says
whether the shard is done: what is said here of a shard without one does not count.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias
from uuid import uuid4

from cluster import ShardReport, committed_parts, reports_from_file, write_whole
from cluster.inputs import READERS
from cluster.scores_files import check_parts
from cluster.seals import read_sealed_json, sealed_json
from cluster.store import join, list_names
from pipelines.runs.exact_sums import ScoreSums
from pipelines.runs.manifest import HISTORY_FOLDER, Manifest

WRITE_EVERY_S = 10.0
WRITE_SHARE = 0.01
"""Of the time since the start: a long run writes less often, so that its files stay few."""

_MEASURED = ("node", "processor", "seconds", "cpu_seconds", "stage_seconds", "counters", "attempts")
"""What only the run that scored a shard knows of it."""
_KEPT = ("index", "n_rows", "n_bytes", "seal", "n_status", *_MEASURED, "error")

Record: TypeAlias = dict[str, Any]
"""What became of a shard: its `ShardReport` as JSON, without the sums."""


class History:
    """Every shard's report but for its sums, which are added up."""

    def __init__(self) -> None:
        self._lines: dict[int, bytes] = {}  # as JSON: a tenth of what the objects need
        self.sums = ScoreSums()
        self.errors: dict[int, str] = {}
        """Why a shard failed, by its place in the plan."""
        self.statuses: Counter[str] = Counter()
        """Rows by status."""
        self.counters: Counter[str] = Counter()
        """What the scorers counted."""
        self.n_rows = 0
        """Rows that are scored."""

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
        self._add_record({name: getattr(report, name) for name in _KEPT})
        for system, by_column in report.sums.items():
            for column, value in by_column.items():
                self.sums.add(system, column, report.counts[system][column], [value])

    def add_group(self, records: Iterable[Record], sums: Mapping[str, Any]) -> None:
        """Take over what `to_json` returned."""
        for record in records:
            self._add_record(record)
        for system, by_column in sums.items():
            for column, (count, *values) in by_column.items():
                self.sums.add(system, column, count, values)

    def _add_record(self, record: Record) -> None:
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


class HistoryWriter:
    """Writes what is new into `history/` from time to time; may be called from any thread."""

    def __init__(self, out: str, fingerprint: str) -> None:
        self._out, self._fingerprint = out, fingerprint
        self._lock = threading.Lock()
        self._new = History()
        self._started = self._written_at = time.monotonic()

    def add(self, report: ShardReport) -> None:
        """Take note of a report; it is written later."""
        with self._lock:
            self._new.add(report)

    def write_if_due(self) -> None:
        """Write what is new if the last time is some seconds ago, or a shard has failed."""
        now = time.monotonic()
        is_due = now - self._written_at >= max(WRITE_EVERY_S, WRITE_SHARE * (now - self._started))
        if is_due or self._new.errors:
            self.write()

    def write(self) -> None:
        """Write what is new."""
        with self._lock:
            new, self._new = self._new, History()
            self._written_at = time.monotonic()
        if len(new):
            values = {"fingerprint": self._fingerprint, **new.to_json()}
            name = f"{time.time_ns():020d}-{uuid4().hex[:8]}.json"
            text = json.dumps(values, ensure_ascii=False)
            write_whole(join(self._out, HISTORY_FOLDER, name), sealed_json(text, HISTORY_FOLDER))


def read_history(out: str, manifest: Manifest, earlier: Manifest | None) -> History:
    """Gather what is known of the shards that earlier runs have scored.

    Only shards whose scores file is there, as it was written, are taken as scored. The scores
    themselves are counted only where sums would have a shard that is not there any more, and of
    shards that were scored right before a driver was killed.

    Raises ValueError if a scores file or a file of `history/` is damaged or was changed.
    """
    history = History()
    if earlier is None:
        return history
    parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    there = check_parts(dict.fromkeys(parts.values()))
    past: dict[int, Record] = {}
    for group in _groups(out, earlier):
        records = [record for record in group["shards"] if record["error"] is None]
        past |= {record["index"]: record for record in records}
        is_all_there = all(there.get(record["index"]) == record["seal"] for record in records)
        if is_all_there and not any(record["index"] in history for record in records):
            history.add_group(records, group["sums"])
    unknown = dict.fromkeys(part for index, part in parts.items() if index not in history)
    with ThreadPoolExecutor(READERS) as pool:
        for report in chain.from_iterable(pool.map(reports_from_file, unknown)):
            if report.index not in history:
                known = past.get(report.index, {})
                measured = {name: known[name] for name in _MEASURED if name in known}
                history.add(replace(report, **measured))
    return history


def last_errors(out: str, manifest: Manifest) -> dict[int, str]:
    """Return why shards failed, of those that have failed the last time they were tried."""
    errors: dict[int, str] = {}
    for record in chain.from_iterable(group["shards"] for group in _groups(out, manifest)):
        errors.pop(record["index"], None)
        if record["error"] is not None:
            errors[record["index"]] = record["error"]
    return errors


def _groups(out: str, manifest: Manifest) -> list[Mapping[str, Any]]:
    """Read what `run.json` and the files of `history/` tell of a run, in the order of writing."""

    def read(name: str) -> dict[str, Any]:
        remedy = "delete it, and what it says is counted again from the scores"
        return read_sealed_json(join(out, HISTORY_FOLDER, name), HISTORY_FOLDER, remedy)

    names = [name for name in list_names(join(out, HISTORY_FOLDER)) if name.endswith(".json")]
    with ThreadPoolExecutor(READERS) as pool:
        groups = list(pool.map(read, names))
    own: list[Mapping[str, Any]] = [
        group for group in groups if group["fingerprint"] == manifest.fingerprint
    ]
    return [manifest.result, *own] if manifest.result else own
