"""Reads the rows of one shard, a batch at a time, under the names the file gives its columns.

A row that cannot be read stays a row: its cells are null and it has a reason.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from cluster.records import first_byte, iter_records
from cluster.schema import IDS, LISTS, TEXT_LIST, resolve_columns, text_list_or_none
from cluster.store import open_input

if TYPE_CHECKING:
    from cluster.shards import Shard

_PEEK_BYTES = 1 << 20
_PEEK_RECORDS = 1_000

_Cells = dict[str, Any]  # file's column name -> value of one row


class RawBatch(NamedTuple):
    """Some rows as they were read."""

    table: pa.Table
    """The needed columns under the file's names."""
    reasons: pa.Array | None
    """Why a row could not be read, null where it could; None if all could."""


def column_names(path: str, format: str) -> list[str]:
    """List the columns of a file.

    Parameters
    ----------
    path : str
        File or URL.
    format : str
        One of `parquet`, `jsonl`, `csv`. JSONL has the keys of its first thousand readable lines.

    Raises
    ------
    ValueError
        If the file cannot be read as what it claims to be.
    """
    with open_input(path) as stream:
        if format == "parquet":
            return list(pq.read_schema(stream).names)
        if format == "csv":
            return _csv_header(stream, path)[0]
        return _jsonl_keys(stream)


def read_batches(
    shard: Shard,
    needed: Sequence[str],
    columns: Mapping[str, str],
    batch_rows: int,
    *,
    use_threads: bool = False,
) -> Iterator[RawBatch]:
    """Read a shard's rows in order, at most `batch_rows` at a time.

    Parameters
    ----------
    shard : Shard
        What to read.
    needed : sequence of str
        Canonical columns; only these and the ids are read.
    columns : mapping of str to str
        Our name to the file's name, where they differ.
    batch_rows : int
        Rows in a batch; only the last may have fewer.
    use_threads : bool
        Whether Parquet columns are decoded in parallel.
    """
    names = column_names(shard.path, shard.format)
    wanted = resolve_columns(names, needed, columns, where=shard.path)
    if shard.format == "parquet":
        yield from _parquet_batches(shard, wanted, batch_rows, use_threads)
        return
    parse = _csv_parser(names, wanted) if shard.format == "csv" else _jsonl_parser(wanted)
    for records in _record_batches(shard, batch_rows):
        yield parse(records)


def text_start(stream: pa.NativeFile, format: str, path: str) -> int:
    """Say at which byte the rows of a JSONL or CSV file begin."""
    return _csv_header(stream, path)[1] if format == "csv" else first_byte(stream)


# Parquet


def _parquet_batches(
    shard: Shard, wanted: Mapping[str, str], batch_rows: int, use_threads: bool
) -> Iterator[RawBatch]:
    with open_input(shard.path) as stream:
        batches = pq.ParquetFile(stream).iter_batches(
            batch_size=batch_rows,
            row_groups=list(shard.row_groups),
            columns=list(dict.fromkeys(wanted.values())),
            use_threads=use_threads,
        )
        rows = _row_range(batches, shard.skip_rows, shard.n_rows)
        for table in _even(rows, batch_rows):
            yield RawBatch(table, None)


def _row_range(batches: Iterator[pa.RecordBatch], skip: int, n_rows: int) -> Iterator[pa.Table]:
    for batch in batches:
        kept = batch.slice(skip, n_rows)
        skip = max(0, skip - batch.num_rows)
        n_rows -= kept.num_rows
        if kept.num_rows:
            yield pa.Table.from_batches([kept])
        if not n_rows:
            return


def _even(tables: Iterator[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Cut again, so that the end of a row group does not end a batch."""
    held: list[pa.Table] = []
    n_held = 0
    for table in tables:
        held.append(table)
        n_held += table.num_rows
        if n_held >= batch_rows:
            joined = pa.concat_tables(held)
            yield joined.slice(0, batch_rows)
            held, n_held = [joined.slice(batch_rows)], n_held - batch_rows
    if n_held:
        yield pa.concat_tables(held)


# Lines


def _record_batches(shard: Shard, batch_rows: int) -> Iterator[list[bytes]]:
    if shard.byte_range is None:
        raise ValueError(f"shard {shard.index} of {shard.path} must have a `byte_range`")
    held: list[bytes] = []
    with open_input(shard.path) as stream:
        for records in iter_records(stream, *shard.byte_range, quoted=shard.format == "csv"):
            for i in range(len(records)):
                held.append(records[i])
                if len(held) == batch_rows:
                    yield held
                    held = []
    if held:
        yield held


def _table(rows: Sequence[_Cells | str], schema: pa.Schema) -> RawBatch:
    """Make a batch of rows read one by one; a text in place of a row says why there is none."""
    reasons = pa.array([row if isinstance(row, str) else None for row in rows], pa.string())
    cells: list[_Cells] = [{} if isinstance(row, str) else row for row in rows]
    arrays = [pa.array([row.get(f.name) for row in cells], f.type) for f in schema]
    return RawBatch(pa.Table.from_arrays(arrays, schema=schema), reasons)


def _bytes_if_broken(text: str) -> bytes:
    """Undo `surrogateescape`, so that what was not UTF-8 is found (and named) later."""
    return text.encode("utf-8", "surrogateescape")


# JSONL


def _jsonl_keys(stream: pa.NativeFile) -> list[str]:
    keys: dict[str, None] = {}
    start = first_byte(stream)
    for records in iter_records(stream, start, stream.size(), quoted=False):
        for i in range(min(len(records), _PEEK_RECORDS)):
            row = _json_object(records[i])
            keys.update(dict.fromkeys(row if isinstance(row, dict) else ()))
            if keys and records.ends[i] > _PEEK_BYTES:
                break
        if keys:
            break
    return list(keys)


def _json_object(line: bytes) -> _Cells | str:
    """Read one line as an object, or say why it is none."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return "malformed JSON"
    return row if isinstance(row, dict) else "not a JSON object"


def _jsonl_parser(wanted: Mapping[str, str]) -> Callable[[list[bytes]], RawBatch]:
    def parse(lines: list[bytes]) -> RawBatch:
        block = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
        # Told the types: Arrow would otherwise read text that looks like a date as a date.
        types = pajson.ParseOptions(
            explicit_schema=_schema_like(lines[0], wanted), unexpected_field_behavior="ignore"
        )
        reading = pajson.ReadOptions(use_threads=False, block_size=len(block))
        try:
            table = pajson.read_json(pa.BufferReader(block), reading, types)
        except (pa.ArrowException, UnicodeDecodeError, OverflowError):
            table = None
        if table is not None and table.num_rows == len(lines):
            return RawBatch(table, None)
        rows = [_json_cells(line, wanted) for line in lines]
        return _table(rows, _binary_schema(wanted))

    return parse


def _schema_like(line: bytes, wanted: Mapping[str, str]) -> pa.Schema:
    """Guess the types of a batch from its first line; a wrong guess costs time, not rows."""
    row = _json_object(line)
    first = row if isinstance(row, dict) else {}
    types = {}
    for name, theirs in wanted.items():
        value = first.get(theirs)
        is_int = name in IDS and isinstance(value, int) and not isinstance(value, bool)
        is_list = name in LISTS and isinstance(value, list)
        types[theirs] = pa.int64() if is_int else TEXT_LIST if is_list else pa.string()
    return pa.schema(types)


def _binary_schema(wanted: Mapping[str, str]) -> pa.Schema:
    types = {
        theirs: pa.list_(pa.binary()) if name in LISTS else pa.binary()
        for name, theirs in wanted.items()
    }
    return pa.schema(types)


def _json_cells(line: bytes, wanted: Mapping[str, str]) -> _Cells | str:
    row = _json_object(line)
    if isinstance(row, str):
        return row
    cells: _Cells = {}
    for name, theirs in wanted.items():
        try:
            cells[theirs] = _json_cell(name, row.get(theirs))
        except (TypeError, UnicodeEncodeError) as error:
            is_text = isinstance(error, UnicodeEncodeError)
            return f"`{theirs}` {'is not valid UTF-8' if is_text else error}"
    return cells


def _json_cell(name: str, value: Any) -> bytes | list[bytes] | None:  # noqa: ANN401  (any JSON)
    if name in LISTS:
        texts = text_list_or_none(value)
        return None if texts is None else [_bytes_if_broken(text) for text in texts]
    if name in IDS and isinstance(value, int | float):
        value = json.dumps(value)  # as Arrow writes it: true, 7, 0.5
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"must be text, got {type(value).__name__}")
    return _bytes_if_broken(value)


# CSV


def _csv_header(stream: pa.NativeFile, path: str) -> tuple[list[str], int]:
    """Return the column names, and the byte after them."""
    start = first_byte(stream)
    for records in iter_records(stream, start, stream.size(), quoted=True):
        if len(records):
            names = _csv_cells(records[0]) or []
            return [name.strip() for name in names], records.offset + int(records.ends[0])
    raise ValueError(f"a CSV file must begin with its column names, got an empty file: {path}")


def _csv_cells(record: bytes) -> list[str] | None:
    text = record.decode("utf-8", "surrogateescape")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=False))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _csv_parser(names: list[str], wanted: Mapping[str, str]) -> Callable[[list[bytes]], RawBatch]:
    theirs = list(dict.fromkeys(wanted.values()))
    places = {name: names.index(name) for name in theirs}
    quoting = pacsv.ParseOptions(newlines_in_values=True)
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(theirs, pa.string()),
        include_columns=theirs,
        strings_can_be_null=False,
    )

    def parse(records: list[bytes]) -> RawBatch:
        block = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in records)
        reading = pacsv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=names
        )
        try:
            table = pacsv.read_csv(pa.BufferReader(block), reading, quoting, convert)
        except (pa.ArrowException, UnicodeDecodeError, OverflowError):
            table = None
        if table is not None and table.num_rows == len(records):
            return RawBatch(table, None)
        rows = [_csv_row(record, len(names), places) for record in records]
        return _table(rows, pa.schema(dict.fromkeys(theirs, pa.binary())))

    return parse


def _csv_row(record: bytes, n_columns: int, places: Mapping[str, int]) -> _Cells | str:
    cells = _csv_cells(record)
    if cells is None:
        return "malformed CSV"
    if len(cells) != n_columns:
        return f"malformed CSV: {n_columns} columns expected, got {len(cells)}"
    return {name: _bytes_if_broken(cells[place]) for name, place in places.items()}
