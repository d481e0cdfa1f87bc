"""What the scores files of a run say later: which shards are done, their counts and their scores.

A file has the scores of one shard, or, once a run is complete, of many (see `merging`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.inputs import READERS
from cluster.parts import (
    FIELDS,
    FINGERPRINT_LENGTH,
    SCORES_FOLDER,
    STATUS,
    Job,
    ShardReport,
    report_of,
)
from cluster.schema import IDS, UNREADABLE
from cluster.seals import check_sealed_parquet, read_sealed_parquet
from cluster.shards import Shard
from cluster.store import base_name, join, list_names, open_input, reads_again
from sms.naming import AnyPath

SHARDS = "assay.shards"
"""In the metadata of a merged file: its shards as JSON, see `Member`."""
_PART_NAME = re.compile(r"part-(?P<first>\d{6,})(?:-(?P<last>\d{6,}))?-(?P<mark>[^-.]+)\.parquet")
_SIDES = ("candidate", "reference", "source")
_NO_REASON = ":undefined"


def committed(out: AnyPath, plan: Sequence[Shard], fingerprint: str) -> set[int]:
    """Find the shards of a plan whose scores are written, see `committed_parts`."""
    return set(committed_parts(out, plan, fingerprint))


def committed_parts(out: AnyPath, plan: Sequence[Shard], fingerprint: str) -> dict[int, str]:
    """Find the scores file of every shard of a plan whose scores are written, in their order.

    Files of other fingerprints, and files that were never finished, do not count. Of a shard that
    has a file of its own and is in a merged one, the merged one counts.
    """
    folder = join(os.fspath(out), SCORES_FOLDER)
    named = [name for file in list_names(folder) if (name := _PART_NAME.fullmatch(file))]
    files: dict[int, str] = {}
    for name in sorted(named, key=lambda name: name["last"] is not None):
        if name["mark"] == fingerprint[:FINGERPRINT_LENGTH]:
            shards = range(int(name["first"]), int(name["last"] or name["first"]) + 1)
            files |= dict.fromkeys(shards, join(folder, name[0]))
    return {shard.index: files[shard.index] for shard in plan if shard.index in files}


def is_part(path: str) -> bool:
    """Say whether a file is named as the scores files of a run are, which have a seal."""
    name = _PART_NAME.fullmatch(base_name(path))
    return name is not None and len(name["mark"]) == FINGERPRINT_LENGTH


def is_merged(path: str) -> bool:
    """Say whether a file is named as those that have the scores of several shards."""
    name = _PART_NAME.fullmatch(base_name(path))
    return name is not None and name["last"] is not None


def check_parts(paths: Iterable[str]) -> dict[int, str]:
    """Check that scores files are as they were written, all of their bytes.

    Returns the seal that each shard's scores had when they were written. Raises `ValueError` if one
    is damaged or was changed.
    """

    def check(path: str) -> dict[int, str]:
        footer, seal = check_sealed_parquet(path)
        told: Mapping[bytes, bytes] = {}
        if is_merged(path):
            told = pq.read_metadata(pa.BufferReader(b"PAR1" + footer)).metadata
        return {one.index: one.seal for one in _members(path, told, seal=seal)}

    with ThreadPoolExecutor(READERS) as pool:
        return {index: seal for seals in pool.map(check, paths) for index, seal in seals.items()}


def reports_from_file(path: AnyPath) -> list[ShardReport]:
    """Count and sum the scores of the shards that an earlier run committed in a file.

    The reports are those of the run that wrote them, but for times and attempts. Raises
    `ValueError` if the file is damaged or was changed.
    """
    path = os.fspath(path)
    if _PART_NAME.fullmatch(base_name(path)) is None:
        raise ValueError(f"`path` must be a scores file `part-SHARD-FINGERPRINT.parquet`: {path}")
    data, seal = read_sealed_parquet(path)
    file = pq.ParquetFile(pa.BufferReader(data))
    scores, told = file.read(), file.metadata.metadata or {}
    fields = json.loads(told.get(FIELDS.encode(), b"[]"))
    reports, first = [], 0
    for one in _members(path, told, scores.num_rows, len(data), seal):
        report = report_of(one.index, scores.slice(first, one.n_rows), fields)
        reports.append(replace(report, n_bytes=one.n_bytes, seal=one.seal))
        first += one.n_rows
    return reports


@dataclass(frozen=True, slots=True)
class Member:
    """A shard whose scores are in a file."""

    index: int
    n_rows: int
    n_bytes: int
    """Of the file it had for itself; likewise the seal."""
    seal: str


def read_part(path: str) -> tuple[pa.Table, Member]:
    """Read the scores file of one shard, all of whose bytes are checked."""
    data, seal = read_sealed_parquet(path)
    scores = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    (member,) = _members(path, {}, scores.num_rows, len(data), seal)
    return scores, member


@reads_again
def read_shard(path: str, index: int) -> pa.Table:
    """Read the scores of one shard; of a merged file, which was checked before, no more than that.

    Raises `ValueError` or `OSError` if the file is damaged.
    """
    if not is_merged(path):
        return read_part(path)[0]
    with open_input(path) as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        members = _members(path, file.metadata.metadata)
        first = sum(one.n_rows for one in members if one.index < index)
        n_rows = next(one.n_rows for one in members if one.index == index)
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        begin, end = np.searchsorted(ends, [first, first + n_rows - 1], side="right")
        rows = file.read_row_groups(range(begin, end + 1))
        return rows.slice(first - (ends[begin] - sizes[begin]), n_rows)


def _members(
    path: str,
    told: Mapping[bytes, bytes] | None,
    n_rows: int = 0,
    n_bytes: int = 0,
    seal: str = "",
) -> list[Member]:
    """Return which shards are in a file; of a file of one shard the rest says what it is."""
    if is_merged(path):
        return [Member(*values) for values in json.loads((told or {})[SHARDS.encode()])]
    name = _PART_NAME.fullmatch(base_name(path))
    return [Member(int(name["first"]) if name else 0, n_rows, n_bytes, seal)]


def with_earlier(scores: pa.Table, shard: Shard, job: Job) -> pa.Table:
    """Put the columns that an earlier run has computed beside those that were missing."""
    path = job.base[shard.index]
    earlier = read_shard(path, shard.index)
    if not all(earlier[name].equals(scores[name]) for name in IDS):
        raise ValueError(f"{path} must have the rows of {shard}; use `--fresh` to score all again")
    is_readable = pc.is_null(scores[UNREADABLE])
    columns = {name: scores[name] for name in IDS}
    for name in job.fields:
        # Columns that come along are computed again, perhaps of the added metrics' texts alone.
        source = earlier if name in earlier.column_names else scores
        columns[name] = pc.if_else(is_readable, source[name], pa.scalar(None, pa.float64()))
    told = zip(earlier[STATUS].to_pylist(), scores[STATUS].to_pylist(), strict=True)
    joined = pa.array([joined_status(was, now) for was, now in told], pa.string())
    columns[STATUS] = pc.if_else(is_readable, joined, scores[STATUS])
    columns |= {name: scores[name] for name in scores.column_names if name not in columns}
    return pa.table(columns).combine_chunks()


def joined_status(*statuses: str | None) -> str | None:
    """Join what several metrics say of a row, in the order in which one run says it.

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
