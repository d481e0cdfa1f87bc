"""The scores file of a shard: its name, what is written into it, and what it says later.

A `Job` is what is the same for every shard of a run, a `ShardReport` what became of one.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.inputs import READERS
from cluster.schema import DOCUMENT_ID, IDS, SYSTEM_ID, UNREADABLE, Wanted, user_name
from cluster.seals import read_sealed_parquet, sealed_parquet
from cluster.shards import Shard
from cluster.store import base_name, check_no_links, join, list_names, write_whole
from sms.naming import AnyPath

STATUS = "status"
INPUT_FILE, INPUT_ROW = "input_file", "input_row"
"""The row's place: path of its file, and which row of that it is, from 0."""
PLACE = (INPUT_FILE, INPUT_ROW)
SCORES_FOLDER = "scores"
ERRORS_FOLDER = "errors"
FINGERPRINT_LENGTH = 12
"""Characters of the fingerprint that a file's name carries."""
_FIELDS = "assay.scores"
_SIDES = ("candidate", "reference", "source")
_NO_REASON = ":undefined"
_PART_NAME = re.compile(r"part-(\d{6,})-([^-.]+)\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is the same for every shard of a run."""

    out: str
    """Folder or URL of the run; a path becomes text."""
    fingerprint: str
    """Of everything the scores depend on; its first 12 characters name the files."""
    wanted: Wanted | None = None
    """What is read of every row; without, what the scorer reads."""
    base: str = ""
    """Fingerprint of the run whose scores files have the columns that are not computed again."""
    fields: tuple[str, ...] = ()
    """All score columns in their order, where some are taken from `base`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Goes into every scores file: signatures, versions."""
    batch_rows: int = 1024
    """Rows the scorer gets at a time."""
    threads: int = 1
    """Of the scorer."""
    has_gpu: bool = False
    """Whether encoders run on a GPU, which waits for nobody while it computes."""

    @property
    def overlaps(self) -> bool:
        """Whether one batch is read and another prepared while a third is compared.

        Not with a single thread and no GPU: three would only take turns.
        """
        return self.threads > 1 or self.has_gpu

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", os.fspath(self.out))
        if self.batch_rows < 1 or self.threads < 1:
            raise ValueError(
                "`batch_rows` and `threads` must be at least 1, "
                f"got {self.batch_rows} and {self.threads}"
            )
        if not re.fullmatch(r"[0-9A-Za-z]+", self.fingerprint):
            raise ValueError(
                f"`fingerprint` must be letters and digits (it names files), "
                f"got {self.fingerprint!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """What became of one shard."""

    index: int
    n_rows: int = 0
    """Rows written; 0 if the shard failed."""
    n_status: Mapping[str, int] = field(default_factory=dict)
    """Rows by status; rows that are fine have none."""
    sums: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Sum of the scores there are, by system, then by metric. No system id is ``""``."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of the scores there are, by system, then by metric."""
    seconds: float = 0.0
    """All of it; less than the sum of the stages where they overlap."""
    cpu_seconds: float = 0.0
    """Seconds of all cores together that the process was busy meanwhile."""
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    """By stage: `read`, `prepare`, `compare`, `write`."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What the scorer counted while it scored this shard."""
    attempts: int = 1
    node: str = ""
    """Where it was scored."""
    processor: str = ""
    """By what kind of processor; scores by another kind may differ in their last digits."""
    n_bytes: int = 0
    """Size of its scores file."""
    seal: str = ""
    """Of its scores file, see `cluster.seals`."""
    error: str | None = None
    """Why the shard failed; None if its file is committed."""

    is_out_of_room: bool = False
    """Whether it failed since there was no room for its file, which others would not have either.
    """

    def without_sums(self) -> ShardReport:
        """Return the part whose size does not depend on the number of systems."""
        return replace(self, sums={}, counts={})


def part_path(out: AnyPath, index: int, fingerprint: str) -> str:
    """Name the scores file of a shard; that it exists is the commit."""
    return join(os.fspath(out), SCORES_FOLDER, f"{_part_stem(index, fingerprint)}.parquet")


def committed(out: AnyPath, plan: Sequence[Shard], fingerprint: str) -> set[int]:
    """Find the shards of a plan whose scores are written.

    Files of other fingerprints, and files that were never finished, do not count.
    """
    there = set(list_names(join(os.fspath(out), SCORES_FOLDER)))
    names = {shard.index: f"{_part_stem(shard.index, fingerprint)}.parquet" for shard in plan}
    return {index for index, name in names.items() if name in there}


def is_part(path: str) -> bool:
    """Say whether a file is named as the scores files of a run are, which have a seal."""
    name = _PART_NAME.fullmatch(base_name(path))
    return name is not None and len(name[2]) == FINGERPRINT_LENGTH


def check_parts(paths: Sequence[str]) -> list[str]:
    """Check that scores files are as they were written, all of their bytes; return their seals.

    Raises
    ------
    ValueError
        If one is damaged or was changed.
    """
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda path: read_sealed_parquet(path)[1], paths))


def report_from_file(path: AnyPath) -> ShardReport:
    """Count and sum the scores of a shard that an earlier run committed.

    Returns
    -------
    ShardReport
        Equal to the one of the run that wrote the file, but for times and attempts.

    Raises
    ------
    ValueError
        If the file is damaged or was changed.
    """
    path = os.fspath(path)
    name = _PART_NAME.fullmatch(base_name(path))
    if name is None:
        raise ValueError(f"`path` must be a scores file `part-SHARD-FINGERPRINT.parquet`: {path}")
    data, seal = read_sealed_parquet(path)
    scores = pq.read_table(pa.BufferReader(data))
    fields = json.loads((scores.schema.metadata or {}).get(_FIELDS.encode(), b"[]"))
    return replace(report_of(int(name[1]), scores, fields), n_bytes=len(data), seal=seal)


def write_scores(
    scores: pa.Table, fields: Sequence[str], shard: Shard, job: Job
) -> tuple[int, str]:
    """Write what could not be read first: once the scores are there, the shard is done.

    Returns the bytes of the scores file, and its seal.
    """
    check_no_links(job.out, SCORES_FOLDER, ERRORS_FOLDER)
    stem = _part_stem(shard.index, job.fingerprint)
    paths, first_rows, n_rows = shard.places()
    files = np.repeat(np.arange(len(paths)), n_rows)
    ranges = zip(first_rows, n_rows, strict=True)
    rows = np.concatenate([np.arange(first, first + n) for first, n in ranges])
    place = {
        INPUT_FILE: pa.DictionaryArray.from_arrays(files.astype(np.int32), paths),
        INPUT_ROW: pa.array(rows, pa.int64()),
    }
    is_broken = np.flatnonzero(np.asarray(pc.is_valid(scores[UNREADABLE])))
    if is_broken.size:
        lines = [
            {
                "path": paths[files[i]],
                "row": int(rows[i]),
                DOCUMENT_ID: row[DOCUMENT_ID],
                SYSTEM_ID: row[SYSTEM_ID],
                "reason": row[UNREADABLE],
            }
            for i, row in zip(is_broken, scores.take(is_broken).to_pylist(), strict=True)
        ]
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        write_whole(join(job.out, ERRORS_FOLDER, f"{stem}.jsonl"), text.encode())
    known = {name: scores[name] for name in (*IDS, *fields, STATUS)}
    kept = {name: scores[name] for name in scores.column_names if name not in (*known, UNREADABLE)}
    table = pa.table({**known, **place, **{user_name(name): kept[name] for name in kept}})
    told = {**job.metadata, _FIELDS: json.dumps(list(fields))}
    table = table.replace_schema_metadata(told)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    payload, seal = sealed_parquet(sink.getvalue(), f"{stem}.parquet")
    write_whole(join(job.out, SCORES_FOLDER, f"{stem}.parquet"), payload)
    return len(payload), seal


def report_of(index: int, scores: pa.Table, metrics: Sequence[str]) -> ShardReport:
    """Count and sum the scores of a shard."""
    statuses = Counter(scores[STATUS].drop_null().to_pylist())
    # One thread: the order of a sum is part of its last digit.
    grouped = scores.group_by(SYSTEM_ID, use_threads=False).aggregate(
        [(name, how) for name in metrics for how in ("sum", "count")]
    )
    sums: dict[str, dict[str, float]] = defaultdict(dict)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in grouped.to_pylist():
        system = row[SYSTEM_ID] or ""
        for name in metrics:
            sums[system][name] = sums[system].get(name, 0.0) + (row[f"{name}_sum"] or 0.0)
            counts[system][name] = counts[system].get(name, 0) + row[f"{name}_count"]
    return ShardReport(
        index=index,
        n_rows=scores.num_rows,
        n_status=dict(sorted(statuses.items())),
        sums=dict(sums),
        counts=dict(counts),
    )


def with_earlier(scores: pa.Table, shard: Shard, job: Job) -> pa.Table:
    """Put the columns that an earlier run has computed beside those that were missing."""
    path = part_path(job.out, shard.index, job.base)
    earlier = pq.read_table(pa.BufferReader(read_sealed_parquet(path)[0]))
    if not all(earlier[name].equals(scores[name]) for name in IDS):
        raise ValueError(f"{path} must have the rows of {shard}; use `--fresh` to score all again")
    is_readable = pc.is_null(scores[UNREADABLE])
    columns = {name: scores[name] for name in IDS}
    for name in job.fields:
        source = scores if name in scores.column_names else earlier
        columns[name] = pc.if_else(is_readable, source[name], pa.scalar(None, pa.float64()))
    told = zip(earlier[STATUS].to_pylist(), scores[STATUS].to_pylist(), strict=True)
    joined = pa.array([joined_status(was, now) for was, now in told], pa.string())
    columns[STATUS] = pc.if_else(is_readable, joined, scores[STATUS])
    columns |= {name: scores[name] for name in scores.column_names if name not in columns}
    return pa.table(columns).combine_chunks()


def joined_status(*statuses: str | None) -> str | None:
    """Join what several metrics say of a row, in the order in which one run says it.

    Examples
    --------
    >>> joined_status("reference:empty; candidate:cut@a", "candidate:empty; reference:empty")
    'candidate:empty; reference:empty; candidate:cut@a'
    """
    told = dict.fromkeys(part for status in statuses if status for part in status.split("; "))
    reasons = [part for part in told if not part.endswith(_NO_REASON)]
    is_null = any(":cut@" not in part for part in reasons)

    def order(part: str) -> tuple[bool, int]:
        side = part.partition(":")[0]
        return ":cut@" in part, _SIDES.index(side) if side in _SIDES else len(_SIDES)

    return "; ".join(sorted(reasons if is_null else told, key=order)) or None


def _part_stem(index: int, fingerprint: str) -> str:
    return f"part-{index:06d}-{fingerprint[:FINGERPRINT_LENGTH]}"
