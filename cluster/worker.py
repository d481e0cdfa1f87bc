"""Scores one shard: reads it, hands its rows to a scorer batch by batch, writes one whole file.

The same function runs in one process and on Ray. `score_tables` is its middle, without files, for
rows in memory.
"""

from __future__ import annotations

import logging
import platform
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.ahead import gathered, made_ahead, mapped_ahead
from cluster.parts import STATUS, Job, ShardReport, write_scores
from cluster.reading import read_batches
from cluster.schema import IDS, TEXTS, UNREADABLE, Wanted
from cluster.scores_files import with_earlier
from cluster.shards import Shard
from cluster.shared_scorer import SharedScorer, Spoiled
from cluster.store import StorageFull
from sms.scorers import Scorer
from sms.urls import redacted

_UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""What products of matrices are computed with on x86, as Linux calls it."""
GPU_BATCH_BYTES = 4 << 20
"""Distinct text that a GPU gets at a time, about a million tokens: sixteen blocks of
`sms.encoders.bert.BLOCK_TOKENS`, of which only the last is not full."""
_HAND_OFF = 2  # batches that are being compared or wait for it
_T = TypeVar("_T")

logger = logging.getLogger(__name__)


def score_shard(shard: Shard, scorer: Scorer | SharedScorer, job: Job) -> ShardReport:
    """Score a shard and commit its file; rows keep their order.

    A row that cannot be read is not shown to the scorer: its scores are null, its status says why,
    and `errors/` says which row of the file it was. Raises `ValueError` if the file lacks a column,
    or has not the rows the plan says; `RuntimeError` if the scorer does not return what it
    promised.
    """
    clock = Clock()
    shared = scorer if isinstance(scorer, SharedScorer) else SharedScorer(scorer)
    wanted = job.wanted or Wanted(needed=shared.input_columns)
    tables = clock.each(
        "read", read_batches(shard, wanted, job.batch_rows, use_threads=job.threads > 1)
    )
    results = score_tables(tables, shared, overlaps=job.overlaps, has_gpu=job.has_gpu, clock=clock)
    try:
        scores = pa.concat_tables(results).combine_chunks()
        shared.check()
    except Spoiled:
        if clock.failure is not None:  # the cause
            raise clock.failure from None
        raise
    finally:
        clock.failure = None  # its frames would keep the scorer in memory
    fields = shared.score_fields
    if job.base:
        scores, fields = with_earlier(scores, shard, job), job.fields
    with clock.stage("write"):
        write_scores(scores, fields, shard, job)
    counters, seconds, cpu_seconds = shared.take_counts(clock.started)
    return ShardReport(
        index=shard.index,
        n_rows=scores.num_rows,
        n_status=Counter(scores[STATUS].drop_null().to_pylist()),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        stage_seconds=dict(clock.seconds),
        counters=counters,
        node=node_name(),
        processor=processor_kind(),
    )


def score_tables(
    tables: Iterable[pa.Table],
    scorer: Scorer,
    *,
    overlaps: bool = False,
    has_gpu: bool = False,
    clock: Clock | None = None,
) -> Iterator[pa.Table]:
    """Score canonical tables, one after the other; rows keep their order.

    A row comes out with its ids, if it has any, its scores, `status`, and what else the table has
    besides texts. Where steps overlap, a table is made and another one prepared while a third is
    compared. For a GPU, tables are joined until it has enough to do.
    """
    clock = clock or Clock()
    if has_gpu:
        tables = gathered(tables, GPU_BATCH_BYTES)
    if overlaps:
        tables = made_ahead(iter(tables))
    prepared = (_prepared(rows, scorer, clock) for rows in tables)
    finish = partial(_finished, scorer=scorer, clock=clock)
    if overlaps:
        return mapped_ahead(finish, prepared, threads=1, most=_HAND_OFF)
    return map(finish, prepared)


def try_shard(shard: Shard, scorer: Scorer | SharedScorer, job: Job) -> ShardReport:
    """Score a shard; a failure becomes the report's `error` instead of an exception.

    Raises `Spoiled` if another shard has failed on the same scorer.
    """
    try:
        return score_shard(shard, scorer, job)
    except Spoiled:
        raise
    except Exception as error:  # one shard's failure must not stop the others
        logger.info("shard %d failed", shard.index, exc_info=True)
        reason = f"{one_line(error)} [{shard}]"
        return ShardReport(
            index=shard.index,
            error=reason,
            node=node_name(),
            is_out_of_room=isinstance(error, StorageFull),
        )


def node_name() -> str:
    """Name the machine this process runs on."""
    return socket.gethostname()


@cache
def processor_kind() -> str:
    """Name the processor, with those of its units that products of matrices are computed with."""
    facts: dict[str, str] = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:  # one block per core; `setdefault` keeps the first
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    has = {*facts.get("flags", "").split()}
    units = ", ".join(unit for unit in _UNITS if unit in has)
    name = facts.get("model name") or platform.processor() or platform.machine()
    return f"{name} ({units})" if units else name


def one_line(error: BaseException) -> str:
    """Say what went wrong in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {redacted(lines[0])}" if lines else type(error).__name__


class Clock:
    """Adds up the seconds of every stage, which belongs to one thread; knows the first failure."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(("read", "prepare", "compare", "write"), 0.0)
        self.started = time.perf_counter()
        self.failure: Exception | None = None
        """What failed first."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charge a stage for what is done inside."""
        started = time.perf_counter()
        try:
            yield
        except Exception as error:
            if not isinstance(error, Spoiled):
                self.failure = self.failure or error
            raise
        finally:
            self.seconds[name] += time.perf_counter() - started

    def each(self, name: str, items: Iterator[_T]) -> Iterator[_T]:
        """Charge a stage for waiting for each item."""
        while True:
            with self.stage(name):
                item = next(items, None)
            if item is None:
                return
            yield item


def _prepared(rows: pa.Table, scorer: Scorer, clock: Clock) -> tuple[pa.Table, Any]:
    """Return rows without their texts, which are no longer needed, and what the scorer made."""
    readable, unreadable = rows.drop_columns(UNREADABLE), rows[UNREADABLE]
    if unreadable.null_count < rows.num_rows:
        readable = readable.filter(pc.is_null(unreadable))
    keys = rows.drop_columns([name for name in TEXTS if name in rows.column_names])
    prepared = None
    with clock.stage("prepare"):
        if readable.num_rows:
            prepared = scorer.prepare(readable)
    return keys, prepared


def _finished(batch: tuple[pa.Table, Any], scorer: Scorer, clock: Clock) -> pa.Table:
    keys, prepared = batch
    n_readable = keys[UNREADABLE].null_count
    with clock.stage("compare"):
        compared = scorer.compare(prepared) if n_readable else _empty_scores(scorer)
    scores = _checked(compared, n_readable, scorer)
    if n_readable < keys.num_rows:
        # Row i of the batch is the i-th readable one, or nothing.
        is_readable = np.asarray(pc.is_null(keys[UNREADABLE]))
        places = pa.array(np.cumsum(is_readable) - 1, pa.int64(), mask=~is_readable)
        scores = {name: column.take(places) for name, column in scores.items()}
        why = pc.binary_join_element_wise(UNREADABLE, keys[UNREADABLE], ": ")
        scores[STATUS] = pc.coalesce(why, scores[STATUS])
    ids = {name: keys[name] for name in IDS if name in keys.column_names}
    others = {name: keys[name] for name in keys.column_names if name not in IDS}
    return pa.table({**ids, **scores, **others})


def _checked(compared: pa.Table, n_rows: int, scorer: Scorer) -> dict[str, pa.ChunkedArray]:
    """Hold a scorer to its word, and make a score that is not a number a null with a status.

    Returned are the columns of scores, then the status.
    """
    promised = (*scorer.score_fields, STATUS)
    missing = [name for name in promised if name not in compared.column_names]
    if missing or compared.num_rows != n_rows:
        raise RuntimeError(
            f"the scorer must return {n_rows} rows of {', '.join(promised)}; got "
            f"{compared.num_rows} rows of {', '.join(compared.column_names)}"
        )
    status = _of_type(compared[STATUS], pa.string())
    columns = {}
    for name in scorer.score_fields:
        scores = _of_type(compared[name], pa.float64())
        n_undefined = np.count_nonzero(np.isnan(scores.to_numpy()))  # nulls, too
        if n_undefined > scores.null_count:
            is_nan = pc.fill_null(pc.is_nan(scores), False)
            scores = pc.if_else(is_nan, pa.scalar(None, pa.float64()), scores)
            why = pc.if_else(is_nan, f"`{name}` is not a number", pa.scalar(None, pa.string()))
            status = pc.coalesce(status, why)
        columns[name] = scores
    return {**columns, STATUS: status}


def _of_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


def _empty_scores(scorer: Scorer) -> pa.Table:
    fields = [(name, pa.float64()) for name in scorer.score_fields]
    return pa.schema([*fields, (STATUS, pa.string())]).empty_table()
