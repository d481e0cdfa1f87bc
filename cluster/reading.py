"""Reads rows as canonical tables: of a shard, which is Parquet, or of whole files of any format.

JSON, CSV and what comes through a pipe are turned into Parquet once, before anything runs:
`parquet_copy`. The copy has the columns that are needed under our names, a row for every row of the
file, and why a row cannot be read. Its name says what is in it, so what a run has turned it need
not turn again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.ahead import mapped_ahead
from cluster.inputs import InputFile, is_unchanged, read_outline
from cluster.partitions import partition_columns
from cluster.rows import BATCH_ROWS, Rows, read_parquet, read_rows
from cluster.schema import UNREADABLE, canonical_table, resolve_columns, with_ids
from cluster.schema import Wanted as Wanted  # what the callers of `read_files` ask with
from cluster.store import check_no_links, join, list_names, move_whole
from cluster.text_cells import corpus_arrays
from sms.urls import is_url

if TYPE_CHECKING:
    from cluster.shards import Piece, Shard

COPIES_FOLDER = "inputs"
"""Where a run has the copies of its inputs that are not Parquet."""
_FILES_AHEAD = 16
_BATCH_ROWS = 1_000


def read_files(
    files: Sequence[InputFile],
    wanted: Wanted,
    *,
    limit: int | None = None,
    batch_rows: int = _BATCH_ROWS,
) -> Iterator[pa.Table]:
    """Read whole files of any format, in order, as `schema.canonical_table` makes tables.

    No table has more than `batch_rows` rows; with a `limit` only the first rows of all are read.
    Raises `ValueError` if a file lacks a column, or is not what it claims to be.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1, got {limit}")

    def cut() -> Iterator[pa.Table]:
        number = 0
        for file in files:
            for table in _tables_of(file, wanted, batch_rows):
                kept = table if limit is None else table.slice(0, limit - number)
                yield with_ids(kept, number, wanted.system)
                number += kept.num_rows
                if number == limit:
                    return

    return _even(cut(), batch_rows)


def read_batches(
    shard: Shard, wanted: Wanted, batch_rows: int, *, use_threads: bool = False
) -> Iterator[pa.Table]:
    """Read a shard's rows in order, at most `batch_rows` at a time; only the last has fewer.

    With `use_threads` columns are decoded in parallel. Raises `ValueError` if a file lacks a
    column, or has not the rows that the plan says.
    """

    def read(piece: Piece) -> Iterator[pa.Table]:
        return _piece_tables(piece, wanted, batch_rows, use_threads)

    tables: Iterator[Iterable[pa.Table]] = map(read, shard.pieces)
    if len(shard.pieces) > 1 and is_url(shard.pieces[0].path):
        # Small files of a store: each is mostly waiting for the answer.
        tables = mapped_ahead(
            lambda piece: list(read(piece)), shard.pieces, threads=_FILES_AHEAD, most=_FILES_AHEAD
        )
    return _even(chain.from_iterable(tables), batch_rows)


def parquet_copy(
    file: InputFile, folder: str, wanted: Wanted, limit: int | None = None
) -> InputFile:
    """Turn JSON, CSV or a pipe into Parquet, unless that has been done; return it with its copy.

    `file` comes from `with_content`; any other Parquet file is returned as it is. `folder` is the
    folder or URL of the run. With a `limit` only the first rows are turned. Raises `ValueError` if
    a column is missing, or the file is not what it claims to be, or not the one any more that was
    listed.
    """
    if not file.needs_copy:
        return file
    asked: list[Any] = [file.content, wanted.needed, dict(wanted.columns), wanted.keep]
    asked += [wanted.sentence_end, file.format, partition_columns(file.path)]
    digest = hashlib.sha256(json.dumps([*asked, limit], sort_keys=True).encode())
    name = f"{digest.hexdigest()[:32]}.parquet"
    check_no_links(folder, COPIES_FOLDER)
    inside = join(folder, COPIES_FOLDER)
    copy = join(inside, name)
    if name not in list_names(inside):
        with tempfile.TemporaryDirectory(prefix="assay-") as work:
            partial = Path(work, name)
            if not is_url(folder):  # on the same disk
                Path(inside).mkdir(parents=True, exist_ok=True)
                partial = Path(inside, f"{name}.{os.urandom(8).hex()}.partial")
            try:
                _write(file, partial, wanted, limit)
                if not is_unchanged(file.path, file.version, file.content):
                    raise ValueError(
                        f"{file.path} changed while it was read; run the same command again"
                    )
                move_whole(partial, copy)
            finally:
                partial.unlink(missing_ok=True)
    return replace(file, copy=copy, outline=read_outline(copy))


def _write(file: InputFile, path: Path, wanted: Wanted, limit: int | None) -> None:
    tables = _tables_of(file, wanted, BATCH_ROWS, limit)
    first = next(tables, pa.table({UNREADABLE: pa.array([], pa.string())}))
    # Without dictionaries, sizes in the footer are the sizes of the texts.
    with pq.ParquetWriter(
        path,
        first.schema,
        compression="zstd",
        use_dictionary=False,
        use_compliant_nested_type=False,
    ) as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def _tables_of(
    file: InputFile, wanted: Wanted, batch_rows: int, limit: int | None = None
) -> Iterator[pa.Table]:
    """Read a whole file as `schema.canonical_table` makes tables, without ids that it lacks."""
    theirs: dict[str, str] = {}

    def choose(names: list[str]) -> list[str]:
        theirs.update(_resolved(names, wanted, file.path))
        return [*theirs.values(), *wanted.keep]

    for rows in read_rows(file.path, file.format, choose, batch_rows=batch_rows):
        rows = rows if limit is None else rows[:limit]
        yield _canonical(rows, theirs, wanted, file.path, file.format)
        limit = None if limit is None else limit - len(rows)
        if limit == 0:
            return


def _resolved(names: list[str], wanted: Wanted, where: str) -> dict[str, str]:
    return resolve_columns(names, wanted.needed, wanted.columns, keep=wanted.keep, where=where)


def _canonical(
    rows: Rows, theirs: Mapping[str, str], wanted: Wanted, where: str, format: str = "parquet"
) -> pa.Table:
    if format == "parquet":
        return canonical_table(pa.table(dict(rows.columns)), wanted, where=where)
    table, reasons = corpus_arrays(rows, theirs, wanted, is_csv=format == "csv")
    return canonical_table(table, wanted, reasons=reasons, where=where)


def _piece_tables(
    piece: Piece, wanted: Wanted, batch_rows: int, use_threads: bool
) -> Iterator[pa.Table]:
    """Read rows of a file that is, before and after it is read, the one the plan was made of."""
    n_rows = 0
    _check_unchanged(piece)
    for rows in _row_range(_piece_rows(piece, wanted, batch_rows, use_threads), piece):
        table = pa.table(dict(rows.columns))
        table = table if piece.copy else canonical_table(table, wanted, where=piece.path)
        yield with_ids(table, piece.number + n_rows, wanted.system)
        n_rows += table.num_rows
    if n_rows != piece.n_rows:
        raise ValueError(
            f"{piece.path} must have {piece.n_rows} rows from row {piece.first_row} on, "
            f"got {n_rows}; the file has changed since the run began: put the old one back, or use "
            "`--fresh`"
        )
    _check_unchanged(piece)


def _piece_rows(piece: Piece, wanted: Wanted, batch_rows: int, use_threads: bool) -> Iterator[Rows]:
    def choose(names: list[str]) -> list[str]:
        if piece.copy:
            return names
        return [*_resolved(names, wanted, piece.path).values(), *wanted.keep]

    groups = list(range(*piece.row_groups))
    path = piece.copy or piece.path
    return read_parquet(path, choose, batch_rows, row_groups=groups, use_threads=use_threads)


def _check_unchanged(piece: Piece) -> None:
    if not piece.version or piece.copy:
        return
    try:
        is_same = is_unchanged(piece.path, piece.version, piece.content)
    except FileNotFoundError as error:
        raise ValueError(
            f"{piece.path} has vanished since the run began; put it back and run the same "
            "command again"
        ) from error
    if not is_same:
        raise ValueError(
            f"{piece.path} has changed since the run began; run the same command again, which "
            "says whether the run can continue"
        )


def _even(tables: Iterator[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Cut again, so that the end of a file or of a row group does not end a batch."""
    held: list[pa.Table] = []
    n_held = 0
    for table in tables:
        held.append(table)
        n_held += table.num_rows
        while n_held >= batch_rows:
            joined = pa.concat_tables(held)
            yield joined.slice(0, batch_rows)
            held, n_held = [joined.slice(batch_rows)], n_held - batch_rows
    if n_held:
        yield pa.concat_tables(held)


def _row_range(batches: Iterator[Rows], piece: Piece) -> Iterator[Rows]:
    skip, n_left = piece.skip_rows, piece.n_rows
    for batch in batches:
        kept = batch[skip : skip + n_left]
        skip = max(0, skip - len(batch))
        n_left -= len(kept)
        if len(kept):
            yield kept
        if not n_left:
            return
