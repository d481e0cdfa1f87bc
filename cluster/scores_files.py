"""Scores files: which shards are in them, and how they are opened and read.

A file has the scores of one shard, or, once a run is complete, of many (see `merging`). Its name
and its metadata say of which run and which shards; its pages have checksums, which whoever reads
them checks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.parts import (
    FIELDS,
    FINGERPRINT,
    FINGERPRINT_LENGTH,
    SCORES_FOLDER,
    SHARDS,
    STATUS,
    Job,
    ShardReport,
)
from cluster.schema import IDS, UNREADABLE
from cluster.shards import Shard
from cluster.store import OnOpen, base_name, join, list_names, open_input, reads_again
from sms.naming import AnyPath
from sms.urls import is_url

_PART_NAME = re.compile(r"part-(?P<first>\d{6,})(?:-(?P<last>\d{6,}))?-(?P<mark>[^-.]+)\.parquet")
_READ_BYTES = 4 << 20
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
    """Say whether a file is named as the scores files of a run are."""
    name = _PART_NAME.fullmatch(base_name(path))
    return name is not None and len(name["mark"]) == FINGERPRINT_LENGTH


def is_merged(path: str) -> bool:
    """Say whether a file is named as those that have the scores of several shards."""
    name = _PART_NAME.fullmatch(base_name(path))
    return name is not None and name["last"] is not None


@contextmanager
def open_parquet(path: str, on_open: OnOpen | None = None) -> Iterator[pq.ParquetFile]:
    """Open any Parquet file, and check its pages as they are read, if they have checksums.

    A scores file must be the one that its name says. Raises `FileNotFoundError` if there is no such
    file; `ValueError` if it is damaged.
    """
    with open_input(path) as stream:
        try:
            if on_open is not None:
                on_open(stream)
            # A row group may be a whole file: its columns are read piece by piece, not at once.
            file = pq.ParquetFile(
                stream,
                pre_buffer=False,
                buffer_size=_READ_BYTES,
                page_checksum_verification=True,
            )
            if is_part(path):
                _check_identity(path, file.metadata)
            yield file
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            if _is_of_storage(error, path):
                raise
            raise _damaged(path, str(error).partition("\n")[0]) from error


def check_rows(n_rows: int, expected: int) -> None:
    """Raise `pa.ArrowInvalid` if rows were read that are not as many as the footer says.

    The header of a page has no checksum: one that is damaged may be taken for none.
    """
    if n_rows != expected:
        raise pa.ArrowInvalid(f"{n_rows} rows can be read of {expected}")


def read_all(file: pq.ParquetFile) -> pa.Table:
    """Read a file that `open_parquet` has opened."""
    rows = file.read(use_threads=False)  # threads may abort a script that ends right after it
    check_rows(rows.num_rows, file.metadata.num_rows)
    return rows


def fields_of(file: pq.ParquetFile) -> list[str]:
    """Name the columns of a scores file that are scores."""
    return list(json.loads(file.metadata.metadata[FIELDS.encode()]))


def shards_in(file: pq.ParquetFile) -> dict[int, int]:
    """Say how many rows each shard has in a scores file, in their order."""
    return dict(json.loads(file.metadata.metadata[SHARDS.encode()]))


def check_part(path: str) -> None:
    """Check that the footer of a scores file can be read, and tells of what the file's name says.

    Raises `ValueError` if not.
    """
    with open_parquet(path):
        pass


def reports_from_file(path: AnyPath) -> list[ShardReport]:
    """Report the shards that an earlier run, or a worker that is lost, has committed in a file.

    Their times and attempts are not known. Raises `ValueError` if the file is damaged.
    """
    path = os.fspath(path)
    if not is_part(path):
        raise ValueError(f"`path` must be a scores file `part-SHARD-FINGERPRINT.parquet`: {path}")
    with open_parquet(path) as file:
        return [ShardReport(index=i, n_rows=n_rows) for i, n_rows in shards_in(file).items()]


@reads_again
def read_scores(path: str) -> pa.Table:
    """Read all of a scores file; raises `ValueError` if it is damaged."""
    with open_parquet(path) as file:
        return read_all(file)


@reads_again
def read_shard(path: str, index: int) -> pa.Table:
    """Read the scores of one shard; of a merged file no more than the row groups it is in.

    Raises `ValueError` or `OSError` if the file is damaged.
    """
    with open_parquet(path) as file:
        n_rows = shards_in(file)
        first = sum(n for i, n in n_rows.items() if i < index)
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        begin, end = np.searchsorted(ends, [first, first + n_rows[index] - 1], side="right")
        rows = file.read_row_groups(range(begin, end + 1), use_threads=False)
        check_rows(rows.num_rows, sum(sizes[begin : end + 1]))
        return rows.slice(first - (ends[begin] - sizes[begin]), n_rows[index])


def _check_identity(path: str, footer: pq.FileMetaData) -> None:
    """Refuse a file that was written for other shards, or by another run, than its name says."""
    name = _PART_NAME.fullmatch(base_name(path))
    metadata = footer.metadata or {}
    try:
        shards = dict(json.loads(metadata[SHARDS.encode()]))
        fingerprint = metadata[FINGERPRINT.encode()].decode()
        is_right = (
            name is not None
            and fingerprint.startswith(name["mark"])
            and [min(shards), max(shards)]
            == [int(name["first"]), int(name["last"] or name["first"])]
            and sum(shards.values()) == footer.num_rows
        )
    except (KeyError, ValueError, TypeError):
        is_right = False
    if not is_right:
        raise _damaged(path, "it is not the file that its name says")


def _is_of_storage(error: Exception, path: str) -> bool:
    """Say whether it is not the file that is at fault, but how it is reached."""
    if not isinstance(error, OSError) or "CRC checksum" in str(error):
        return False
    return is_url(path) or error.errno is not None


def _damaged(path: str, reason: str) -> ValueError:
    if not is_part(path):
        return ValueError(f"cannot read {path}: {reason}")
    return ValueError(
        f"scores file {path} is damaged ({reason}); delete it to have its rows scored again by the "
        "same `assay score`"
    )


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
    statuses = zip(earlier[STATUS].to_pylist(), scores[STATUS].to_pylist(), strict=True)
    joined = pa.array([joined_status(was, now) for was, now in statuses], pa.string())
    columns[STATUS] = pc.if_else(is_readable, joined, scores[STATUS])
    columns |= {name: scores[name] for name in scores.column_names if name not in columns}
    return pa.table(columns).combine_chunks()


def joined_status(*statuses: str | None) -> str | None:
    """Join what several metrics say of a row, in the order in which one run says it.

    >>> joined_status("reference:empty; candidate:cut@a", "candidate:empty; reference:empty")
    'candidate:empty; reference:empty; candidate:cut@a'
    """
    distinct = dict.fromkeys(part for status in statuses if status for part in status.split("; "))
    reasons = [part for part in distinct if not part.endswith(_NO_REASON)]
    is_null = any(":cut@" not in part for part in reasons)

    def order(part: str) -> tuple[bool, int]:
        side = part.partition(":")[0]
        return ":cut@" in part, _SIDES.index(side) if side in _SIDES else len(_SIDES)

    return "; ".join(sorted(reasons if is_null else distinct, key=order)) or None
