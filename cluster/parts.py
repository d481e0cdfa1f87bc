"""The scores file of a shard: its name, and what is written into it.

A `Job` is what is the same for every shard of a run, a `ShardReport` what became of one.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.schema import IDS, UNREADABLE, Wanted, user_name
from cluster.shards import Shard
from cluster.store import check_no_links, join, write_whole
from sms.naming import AnyPath

STATUS = "status"
INPUT_FILE, INPUT_ROW = "input_file", "input_row"
"""The row's place: path of its file, and which row of that it is, from 0."""
PLACE = (INPUT_FILE, INPUT_ROW)
SCORES_FOLDER = "scores"
ERRORS_FOLDER = "errors"
FINGERPRINT_LENGTH = 12
"""Characters of the fingerprint that a file's name carries."""
_OF_CORPUS = "corpus."
FIELDS = "assay.scores"
"""In the metadata of a scores file: its score columns, as JSON."""
FINGERPRINT = "assay.fingerprint"
"""There, too: that of the run, all of it."""
SHARDS = "assay.shards"
"""There, too: pairs of a shard's index and its rows, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is the same for every shard of a run."""

    out: str
    """Folder or URL of the run; a path becomes text."""
    fingerprint: str
    """Of everything the scores depend on; its first 12 characters name the files."""
    wanted: Wanted | None = None
    """What is read of every row; without, what the scorer reads."""
    base: Mapping[int, str] = field(default_factory=dict)
    """By shard, the scores file that has the columns which are not computed again."""
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

    @property
    def shards_at_once(self) -> int:
        """Shards that a worker has under way: a GPU begins the next while one is written."""
        return 2 if self.has_gpu else 1

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
    error: str | None = None
    """Why the shard failed; None if its file is committed."""

    is_out_of_room: bool = False
    """Whether it failed for lack of storage, which would fail other shards as well."""


def kept_as(name: str, fields: Sequence[str]) -> str:
    """Name a kept column in the scores: as it is called, unless a column of ours is called so.

    >>> kept_as("year", ["sms"]), kept_as("status", ["sms"]), kept_as("sms", ["sms"])
    ('year', 'corpus.status', 'corpus.sms')
    """
    return f"{_OF_CORPUS}{name}" if name in (*IDS, *fields, STATUS, *PLACE) else name


def part_path(out: AnyPath, index: int, fingerprint: str) -> str:
    """Name the scores file of a shard; that it exists is the commit."""
    return join(os.fspath(out), SCORES_FOLDER, f"{_part_stem(index, fingerprint)}.parquet")


def merged_path(out: AnyPath, shards: range, fingerprint: str) -> str:
    """Name the scores file of neighbouring shards."""
    mark = fingerprint[:FINGERPRINT_LENGTH]
    name = f"part-{shards[0]:06d}-{shards[-1]:06d}-{mark}.parquet"
    return join(os.fspath(out), SCORES_FOLDER, name)


def write_scores(scores: pa.Table, fields: Sequence[str], shard: Shard, job: Job) -> None:
    """Write `errors/` first, then the scores, whose file says that the shard is done."""
    check_no_links(job.out, SCORES_FOLDER, ERRORS_FOLDER)
    stem = _part_stem(shard.index, job.fingerprint)
    paths, first_rows, n_rows = shard.places()
    files = pa.array(np.repeat(np.arange(len(paths), dtype=np.int32), n_rows))
    rows = [np.arange(a, a + n) for a, n in zip(first_rows, n_rows, strict=True)]
    place = {
        INPUT_FILE: pa.DictionaryArray.from_arrays(files, paths),
        INPUT_ROW: pa.array(np.concatenate(rows), pa.int64()),
    }
    errors = {"path": place[INPUT_FILE], "row": place[INPUT_ROW]}
    errors |= {name: scores[name] for name in IDS} | {"reason": scores[UNREADABLE]}
    broken = pa.table(errors).filter(pc.is_valid(scores[UNREADABLE])).to_pylist()
    if broken:
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in broken)
        write_whole(join(job.out, ERRORS_FOLDER, f"{stem}.jsonl"), text.encode())
    known = {name: scores[name] for name in (*IDS, *fields, STATUS)}
    kept = [name for name in scores.column_names if name not in (*known, UNREADABLE)]
    kept_columns = {kept_as(user_name(name), fields): scores[name] for name in kept}
    table = pa.table({**known, **place, **kept_columns})
    metadata = {
        **job.metadata,
        FINGERPRINT: job.fingerprint,
        FIELDS: json.dumps(list(fields)),
        SHARDS: json.dumps([(shard.index, len(table))]),
    }
    sink = io.BytesIO()
    table = table.replace_schema_metadata(metadata)
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    write_whole(join(job.out, SCORES_FOLDER, f"{stem}.parquet"), sink.getvalue())


def _part_stem(index: int, fingerprint: str) -> str:
    return f"part-{index:06d}-{fingerprint[:FINGERPRINT_LENGTH]}"
