"""Reads the rows of one shard, a batch at a time, as the canonical table.

A row that cannot be read stays a row: its cells are null and it has a reason.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from cluster.ahead import mapped_ahead
from cluster.inputs import is_unchanged
from cluster.records import (
    FindEnds,
    csv_ends,
    first_byte,
    has_no_stray_quote,
    has_stray_quote,
    iter_records,
    line_ends,
)
from cluster.schema import (
    CANDIDATE,
    IDS,
    LISTS,
    canonical_table,
    resolve_columns,
    text_list_or_none,
    written_list,
)
from cluster.store import is_url, open_input
from sms.naming import AnyPath

if TYPE_CHECKING:
    from cluster.shards import Piece, Shard

_READ_BYTES = 4 << 20
_FILES_AHEAD = 16
_PEEK_BYTES = 1 << 20
_PEEK_RECORDS = 1_000
_BRACKET = r"^\s*(array\s*\(\s*)?\["
_BEGINS_OBJECT = re.compile(rb"\s*\{").match

_Cells = dict[str, Any]  # file's column name -> value of one row


class _RawBatch(NamedTuple):
    """Some rows as they were read."""

    table: pa.Table
    """The needed columns under the file's names."""
    reasons: pa.Array | None
    """Why a row could not be read, null where it could; None if all could."""


_Parser: TypeAlias = Callable[[list[bytes], list[int]], _RawBatch]  # records, their first bytes


def column_names(path: AnyPath, format: str) -> list[str]:
    """List the columns of a file.

    Parameters
    ----------
    path : path or URL
    format : str
        One of `parquet`, `jsonl`, `csv`. JSONL has the keys of its first thousand readable lines.

    Raises
    ------
    ValueError
        If the file cannot be read as what it claims to be.
    """
    path = os.fspath(path)
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
    sentence_end: str | None = None,
) -> Iterator[pa.Table]:
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
    sentence_end : str, optional
        As in `schema.canonical_table`.

    Returns
    -------
    iterator of pyarrow.Table
        As `schema.canonical_table` makes them.

    Raises
    ------
    ValueError
        If a file lacks a column, or has not the rows that the plan says.
    """

    def read(piece: Piece) -> Iterator[pa.Table]:
        return _piece_batches(piece, needed, columns, batch_rows, use_threads, sentence_end)

    is_far = len(shard.pieces) > 1 and is_url(shard.pieces[0].path)
    tables: Iterator[Iterable[pa.Table]] = map(read, shard.pieces)
    if is_far:  # small files of a store: each is mostly waiting for the answer
        tables = mapped_ahead(
            lambda piece: list(read(piece)), shard.pieces, threads=_FILES_AHEAD, most=_FILES_AHEAD
        )
    return _even(chain.from_iterable(tables), batch_rows)


def text_layout(stream: pa.NativeFile, format: str, path: str) -> tuple[int, FindEnds]:
    """Say at which byte the rows of a JSONL or CSV file begin, and what tells where they end."""
    if format == "csv":
        names, start = _csv_header(stream, path)
        return start, csv_ends(len(names))
    return first_byte(stream), line_ends


def _piece_batches(
    piece: Piece,
    needed: Sequence[str],
    columns: Mapping[str, str],
    batch_rows: int,
    use_threads: bool,
    sentence_end: str | None,
) -> Iterator[pa.Table]:
    n_rows = 0
    _check_unchanged(piece)
    if piece.format == "parquet":
        batches = _parquet_batches(piece, needed, columns, batch_rows, use_threads)
    else:
        batches = _line_batches(piece, needed, columns, batch_rows, sentence_end is not None)
    for raw in batches:
        n_rows += raw.table.num_rows
        yield canonical_table(
            raw.table,
            needed,
            columns,
            reasons=raw.reasons,
            where=piece.path,
            sentence_end=sentence_end,
        )
    if n_rows != piece.n_rows:
        raise ValueError(
            f"{piece.path} must have {piece.n_rows} rows from row {piece.first_row} on, "
            f"got {n_rows}; it has changed since the plan was made"
        )
    _check_unchanged(piece)


def _check_unchanged(piece: Piece) -> None:
    """Check that a file is still the one the plan was made of, before and after it is read."""
    if not piece.version:
        return
    try:
        is_same = is_unchanged(piece.path, piece.version, piece.content)
    except FileNotFoundError as error:
        raise ValueError(
            f"{piece.path} has vanished since the plan was made; put it back and run the same "
            "command again"
        ) from error
    if not is_same:
        raise ValueError(
            f"{piece.path} has changed since the plan was made; run the same command again, which "
            "says whether the run can go on"
        )


def _even(tables: Iterator[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Cut again, so that the end of a file or of a row group does not end a batch."""
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


# Parquet


def _parquet_batches(
    piece: Piece,
    needed: Sequence[str],
    columns: Mapping[str, str],
    batch_rows: int,
    use_threads: bool,
) -> Iterator[_RawBatch]:
    if piece.row_groups is None:
        raise ValueError(f"{piece} must have `row_groups`")
    with open_input(piece.path) as stream:
        # A row group may be a whole file: its columns are read piece by piece, not at once.
        file = pq.ParquetFile(stream, pre_buffer=False, buffer_size=_READ_BYTES)
        wanted = resolve_columns(file.schema_arrow.names, needed, columns, where=piece.path)
        batches = file.iter_batches(
            batch_size=batch_rows,
            row_groups=list(range(*piece.row_groups)),
            columns=list(dict.fromkeys(wanted.values())),
            use_threads=use_threads,
        )
        for table in _even(_row_range(batches, piece.skip_rows, piece.n_rows), batch_rows):
            yield _RawBatch(table, None)


def _row_range(batches: Iterator[pa.RecordBatch], skip: int, n_rows: int) -> Iterator[pa.Table]:
    for batch in batches:
        kept = batch.slice(skip, n_rows)
        skip = max(0, skip - batch.num_rows)
        n_rows -= kept.num_rows
        if kept.num_rows:
            yield pa.Table.from_batches([kept])
        if not n_rows:
            return


# Lines


def _line_batches(
    piece: Piece,
    needed: Sequence[str],
    columns: Mapping[str, str],
    batch_rows: int,
    has_sentences: bool,
) -> Iterator[_RawBatch]:
    names = column_names(piece.path, piece.format)
    wanted = resolve_columns(names, needed, columns, where=piece.path)
    if piece.format == "csv":
        parse, find_ends = _csv_parser(piece.path, names, wanted), csv_ends(len(names))
    else:
        parse, find_ends = _jsonl_parser(wanted, has_sentences), line_ends
    for records, offsets in _record_batches(piece, batch_rows, find_ends):
        yield parse(records, offsets)


def _record_batches(
    piece: Piece, batch_rows: int, find_ends: FindEnds
) -> Iterator[tuple[list[bytes], list[int]]]:
    """Return records, and at which byte of the file each begins."""
    if piece.byte_range is None:
        raise ValueError(f"{piece} must have a `byte_range`")
    held: list[bytes] = []
    offsets: list[int] = []
    with open_input(piece.path) as stream:
        for records in iter_records(stream, *piece.byte_range, find_ends):
            starts = (records.offset + records.starts).tolist()
            for i in range(len(records)):
                held.append(records[i])
                offsets.append(starts[i])
                if len(held) == batch_rows:
                    yield held, offsets
                    held, offsets = [], []
    if held:
        yield held, offsets


def _table(rows: Sequence[_Cells | str], schema: pa.Schema) -> _RawBatch:
    """Make a batch of rows read one by one; a text in place of a row says why there is none."""
    reasons = pa.array([row if isinstance(row, str) else None for row in rows], pa.string())
    cells: list[_Cells] = [{} if isinstance(row, str) else row for row in rows]
    arrays = [pa.array([row.get(f.name) for row in cells], f.type) for f in schema]
    return _RawBatch(pa.Table.from_arrays(arrays, schema=schema), reasons)


def _bytes_if_broken(text: str) -> bytes:
    """Undo `surrogateescape`, so that what was not UTF-8 is found (and named) later."""
    return text.encode("utf-8", "surrogateescape")


# JSONL


def _jsonl_keys(stream: pa.NativeFile) -> list[str]:
    keys: dict[str, None] = {}
    start = first_byte(stream)
    for records in iter_records(stream, start, stream.size(), line_ends):
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


def _jsonl_parser(wanted: Mapping[str, str], has_sentences: bool) -> _Parser:
    def parse(lines: list[bytes], _offsets: list[int]) -> _RawBatch:
        block = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
        # Told the types: Arrow would otherwise read text that looks like a date as a date.
        types = pajson.ParseOptions(
            explicit_schema=_schema_like(lines[0], wanted, has_sentences),
            unexpected_field_behavior="ignore",
        )
        reading = pajson.ReadOptions(use_threads=False, block_size=len(block))
        try:
            # A block that begins with `null` kills Arrow 26, and the whole process with it.
            are_objects = all(map(_BEGINS_OBJECT, lines))
            table = (
                pajson.read_json(pa.BufferReader(block), reading, types) if are_objects else None
            )
        except (pa.ArrowException, UnicodeDecodeError, OverflowError):
            table = None
        if table is not None and table.num_rows == len(lines):
            return _RawBatch(table, None)
        rows = [_json_cells(line, wanted, has_sentences) for line in lines]
        return _table(rows, _binary_schema(wanted, has_sentences))

    return parse


def _schema_like(line: bytes, wanted: Mapping[str, str], has_sentences: bool) -> pa.Schema:
    """Guess the types of a batch from its first line; a wrong guess costs time, not rows."""
    row = _json_object(line)
    first = row if isinstance(row, dict) else {}
    types = {}
    for name, theirs in wanted.items():
        value = first.get(theirs)
        is_int = name in IDS and isinstance(value, int) and not isinstance(value, bool)
        types[theirs] = pa.int64() if is_int else pa.string()
        for _ in range(_depth(name, has_sentences)):
            if isinstance(value, list):
                types[theirs] = pa.list_(types[theirs])
                value = next(iter(value), None)
    return pa.schema(types)


def _depth(name: str, has_sentences: bool) -> int:
    """Return how many lists may be around a text of a column."""
    return 0 if name in IDS else (name in LISTS) + has_sentences


def _binary_schema(wanted: Mapping[str, str], has_sentences: bool) -> pa.Schema:
    types = {}
    for name, theirs in wanted.items():
        types[theirs] = pa.binary()
        for _ in range(_depth(name, has_sentences)):
            types[theirs] = pa.list_(types[theirs])
    return pa.schema(types)


def _json_cells(line: bytes, wanted: Mapping[str, str], has_sentences: bool) -> _Cells | str:
    row = _json_object(line)
    if isinstance(row, str):
        return row
    cells: _Cells = {}
    for name, theirs in wanted.items():
        try:
            cells[theirs] = _json_cell(name, row.get(theirs), has_sentences)
        except (TypeError, UnicodeEncodeError) as error:
            is_text = isinstance(error, UnicodeEncodeError)
            return f"`{theirs}` {'is not valid UTF-8' if is_text else error}"
    return cells


def _json_cell(name: str, value: Any, has_sentences: bool) -> Any:  # noqa: ANN401  (any JSON)
    if _depth(name, has_sentences) == 2 and _is_nested(value):
        return [_json_cell(CANDIDATE, item, True) for item in value if item is not None]
    if _depth(name, has_sentences):
        texts = text_list_or_none(value)
        listed = None if texts is None else [_bytes_if_broken(text) for text in texts]
        return listed if listed is None or _depth(name, has_sentences) == 1 else [listed]
    if name in IDS and isinstance(value, int | float):
        value = json.dumps(value)  # as Arrow writes it: true, 7, 0.5
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"must be text, got {type(value).__name__}")
    return _bytes_if_broken(value)


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, list) for item in value)


# CSV


def _csv_header(stream: pa.NativeFile, path: str) -> tuple[list[str], int]:
    """Return the column names, and the byte after them."""
    start = first_byte(stream)
    for records in iter_records(stream, start, stream.size(), csv_ends(None)):
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


def _csv_parser(path: str, names: list[str], wanted: Mapping[str, str]) -> _Parser:
    theirs = list(dict.fromkeys(wanted.values()))
    places = {name: names.index(name) for name in theirs}
    quoting = pacsv.ParseOptions(newlines_in_values=True)
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(theirs, pa.string()),
        include_columns=theirs,
        strings_can_be_null=False,
    )
    lines = _Lines(path)

    def parse(records: list[bytes], offsets: list[int]) -> _RawBatch:
        ended = [line if line.endswith(b"\n") else line + b"\n" for line in records]
        block = b"".join(ended)
        are_stray = [False] * len(records)
        if not has_no_stray_quote(block, np.cumsum(list(map(len, ended)))):
            are_stray = list(map(has_stray_quote, records))
        # Arrow ends a line at a return, too, where `csv` and we do not.
        is_plain = not any(are_stray) and block.count(b"\r") == block.count(b"\r\n")
        table = parse_block(block) if is_plain else None
        if table is not None and table.num_rows == len(records):
            return _with_lists(_RawBatch(table, None), wanted)
        rows = [
            f"malformed CSV: a quotation mark in line {lines.at(offset):,} is stray"
            if is_stray
            else _csv_row(record, len(names), places)
            for record, offset, is_stray in zip(records, offsets, are_stray, strict=True)
        ]
        return _with_lists(_table(rows, pa.schema(dict.fromkeys(theirs, pa.binary()))), wanted)

    def parse_block(block: bytes) -> pa.Table | None:
        reading = pacsv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=names
        )
        try:
            return pacsv.read_csv(pa.BufferReader(block), reading, quoting, convert)
        except (pa.ArrowException, UnicodeDecodeError, OverflowError):
            return None

    return parse


def _with_lists(raw: _RawBatch, wanted: Mapping[str, str]) -> _RawBatch:
    """Read the lists among the cells, which CSV has no way to write, and so everyone has his."""
    table, reasons = raw
    for name in (CANDIDATE, *LISTS):
        theirs = wanted.get(name, "")
        if not theirs or not pc.any(pc.match_substring_regex(table[theirs], _BRACKET)).as_py():
            continue
        found = [_cell_or_reason(name, theirs, cell) for cell in table[theirs].to_pylist()]
        said = pa.array([cell if isinstance(cell, str) else None for cell in found], pa.string())
        reasons = said if reasons is None else pc.coalesce(reasons, said)
        if name in LISTS:
            cells = [None if isinstance(cell, str) else cell for cell in found]
            column = pa.array(cells, pa.list_(pa.binary()))
            table = table.set_column(table.column_names.index(theirs), theirs, column)
    return _RawBatch(table, reasons)


def _cell_or_reason(name: str, theirs: str, cell: str | bytes | None) -> list[bytes] | str | None:
    """Return the texts of a cell, or say why there are none."""
    if cell is None:
        return None
    raw = cell.encode() if isinstance(cell, str) else cell
    try:
        texts = written_list(raw.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        return [raw] if name == CANDIDATE else f"`{theirs}` {error}"
    if texts is None:
        return [raw]
    return (
        f"`{theirs}` must be text, got a list"
        if name == CANDIDATE
        else list(map(_bytes_if_broken, texts))
    )


class _Lines:
    """Knows the line of a file at a byte; asked for one after the other."""

    def __init__(self, path: str) -> None:
        self._path, self._offset, self._line = path, 0, 1

    def at(self, offset: int) -> int:
        with open_input(self._path) as stream:
            stream.seek(self._offset)
            while block := stream.read(min(_READ_BYTES, offset - self._offset)):
                self._offset += len(block)
                self._line += block.count(b"\n")
        return self._line


def _csv_row(record: bytes, n_columns: int, places: Mapping[str, int]) -> _Cells | str:
    cells = _csv_cells(record)
    if cells is None:
        return "malformed CSV"
    if len(cells) != n_columns:
        return f"malformed CSV: {n_columns} columns expected, got {len(cells)}"
    return {name: _bytes_if_broken(cells[place]) for name, place in places.items()}
