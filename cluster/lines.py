"""Reads JSONL and CSV, compressed or not, from beginning to end, as canonical tables.

A row that cannot be read stays a row: its cells are null and it has a reason. A record is a line
that is not blank; in CSV a line break inside quotes does not end one.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from cluster.inputs import COMPRESSIONS
from cluster.schema import (
    CANDIDATE,
    IDS,
    LISTS,
    Wanted,
    canonical_table,
    kept_name,
    resolve_columns,
    text_list_or_none,
    written_list,
)
from cluster.store import base_name, open_input

MAX_RECORD_BYTES = 64 << 20
"""A longer record is taken for a mistake."""
GROUP_ROWS, GROUP_BYTES = 2_000, 8 << 20
"""No table has more rows, nor, unless one row does, more text."""

_BLOCK_BYTES = 4 << 20
_PEEK_BYTES = 1 << 20
_PEEK_RECORDS = 1_000
_RECORD_LINES = 20  # of which most are records themselves make no record of so many lines
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BEGINS_OBJECT = re.compile(rb"\s*\{").match

_Cells = dict[str, Any]  # file's column name -> value of one row


def text_columns(path: str, format: str) -> list[str]:
    """List the columns of a JSONL or CSV file; JSONL has the keys of its first readable lines."""
    with _records(path, format) as records:
        if format == "csv":
            return _header(records, path)
        return _keys(records)


def text_tables(
    path: str, format: str, wanted: Wanted, limit: int | None = None
) -> Iterator[pa.Table]:
    """Read a JSONL or CSV file as `schema.canonical_table` makes tables, without ids it lacks.

    With a `limit` only the first rows. Of JSONL, kept values that are no text are JSON. Raises
    `ValueError` if a column is missing, or the file is not what it claims to be.
    """
    with _records(path, format) as records:
        if format == "csv":
            names = _header(records, path)
        else:
            first = list(islice(records, _PEEK_RECORDS))
            records = chain(first, records)
            names = _keys(first)
            if not first:
                return
            if not names:
                raise ValueError(f"no line of {path} is a JSON object with columns")
        theirs = resolve_columns(names, wanted.needed, wanted.columns, keep=wanted.keep, where=path)
        parse = (
            _CsvTables(names, theirs, wanted.keep)
            if format == "csv"
            else _JsonTables(theirs, wanted.keep, wanted.sentence_end is not None)
        )
        for batch in _batches(islice(records, limit)):
            table, reasons = parse(batch)
            yield canonical_table(table, wanted, reasons=reasons, where=path)


@contextmanager
def _records(path: str, format: str) -> Iterator[Iterator[Any]]:
    """Give out the records of a file: bytes of JSONL, of CSV cells or why there are none."""
    with _opened(path) as blocks:
        yield _csv_rows(blocks, path) if format == "csv" else _lines(blocks, path)


@contextmanager
def _opened(path: str) -> Iterator[Iterator[bytes]]:
    """Give out the bytes of a file, uncompressed."""
    try:
        with open_input(path) as file:
            kind = COMPRESSIONS.get(os.path.splitext(base_name(path).lower())[1])
            stream = file if kind is None else pa.CompressedInputStream(file, kind)
            with stream:
                yield _blocks(stream, path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def _blocks(stream: pa.NativeFile, path: str) -> Iterator[bytes]:
    block = stream.read(_BLOCK_BYTES).removeprefix(_BYTE_ORDER_MARK)
    if block.startswith(_UTF_16):  # as spreadsheets write "Unicode text"
        raise ValueError(f"{path} must be UTF-8, got UTF-16; save it again as UTF-8")
    while block:
        yield block
        block = stream.read(_BLOCK_BYTES)


def _lines(blocks: Iterable[bytes], path: str) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from (line for line in lines if line.strip())
        _check_length(len(rest), path)
    if rest.strip():
        yield rest


def _check_length(n_bytes: int, path: str) -> None:
    if n_bytes > MAX_RECORD_BYTES:
        raise ValueError(
            f"a record of {path} is longer than {MAX_RECORD_BYTES >> 20} MiB; is each on its own "
            "line?"
        )


def _batches(records: Iterator[Any]) -> Iterator[list[Any]]:
    held: list[Any] = []
    n_bytes = 0
    for record in records:
        size = len(record) if isinstance(record, bytes | str) else sum(map(len, record))
        if held and (len(held) == GROUP_ROWS or n_bytes + size > GROUP_BYTES):
            yield held
            held, n_bytes = [], 0
        held.append(record)
        n_bytes += size
    if held:
        yield held


def _table(
    rows: Sequence[_Cells | str], types: Mapping[str, pa.DataType]
) -> tuple[pa.Table, pa.Array]:
    """Make a table of rows read one by one; a text in place of a row says why there is none."""
    reasons = pa.array([row if isinstance(row, str) else None for row in rows], pa.string())
    cells: list[_Cells] = [{} if isinstance(row, str) else row for row in rows]
    arrays = {
        name: pa.array([row.get(name) for row in cells], kind) for name, kind in types.items()
    }
    return pa.table(arrays), reasons


def _bytes_if_broken(text: str) -> bytes:
    """Undo `surrogateescape`, so that what was not UTF-8 is found (and named) later."""
    return text.encode("utf-8", "surrogateescape")


# JSONL


def _keys(lines: Iterable[bytes]) -> list[str]:
    keys: dict[str, None] = {}
    n_bytes = 0
    for line in islice(lines, _PEEK_RECORDS):
        row = _json_object(line)
        keys.update(dict.fromkeys(row if isinstance(row, dict) else ()))
        n_bytes += len(line)
        if keys and n_bytes > _PEEK_BYTES:
            break
    return list(keys)


def _json_object(line: bytes) -> _Cells | str:
    """Read one line as an object, or say why it is none."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return "malformed JSON"
    return row if isinstance(row, dict) else "not a JSON object"


class _JsonTables:
    """Makes tables of lines: all at once by Arrow where they are alike, else one by one."""

    def __init__(self, wanted: Mapping[str, str], keep: Sequence[str], has_sentences: bool) -> None:
        self._wanted, self._keep = wanted, keep
        self._depth = {
            name: 0 if name in IDS else (name in LISTS) + has_sentences for name in wanted
        }
        """How many lists may be around a text of a column."""

    def __call__(self, lines: list[bytes]) -> tuple[pa.Table, pa.Array | None]:
        table = None if self._keep else self._at_once(lines)
        if table is not None:
            return table, None
        types: dict[str, pa.DataType] = {}
        for name, theirs in self._wanted.items():
            types[theirs] = pa.binary()
            for _ in range(self._depth[name]):
                types[theirs] = pa.list_(types[theirs])
        types |= {kept_name(name): pa.binary() for name in self._keep}
        return _table(list(map(self._cells, lines)), types)

    def _at_once(self, lines: list[bytes]) -> pa.Table | None:
        # A block that begins with `null` kills Arrow 26, and the whole process with it.
        if not all(map(_BEGINS_OBJECT, lines)):
            return None
        block = b"\n".join(lines) + b"\n"
        # Told the types: Arrow would otherwise read text that looks like a date as a date.
        types = pajson.ParseOptions(
            explicit_schema=self._schema_like(lines[0]), unexpected_field_behavior="ignore"
        )
        reading = pajson.ReadOptions(use_threads=False, block_size=len(block))
        try:
            table = pajson.read_json(pa.BufferReader(block), reading, types)
        except (pa.ArrowException, UnicodeDecodeError, OverflowError):
            return None
        return table if table.num_rows == len(lines) else None

    def _schema_like(self, line: bytes) -> pa.Schema:
        """Guess the types of a batch from its first line; a wrong guess costs time, not rows."""
        row = _json_object(line)
        first = row if isinstance(row, dict) else {}
        types = {}
        for name, theirs in self._wanted.items():
            value = first.get(theirs)
            is_int = name in IDS and isinstance(value, int) and not isinstance(value, bool)
            types[theirs] = pa.int64() if is_int else pa.string()
            for _ in range(self._depth[name]):
                if isinstance(value, list):
                    types[theirs] = pa.list_(types[theirs])
                    value = next(iter(value), None)
        return pa.schema(types)

    def _cells(self, line: bytes) -> _Cells | str:
        row = _json_object(line)
        if isinstance(row, str):
            return row
        cells: _Cells = {}
        for name, theirs in self._wanted.items():
            try:
                cells[theirs] = _json_cell(name, row.get(theirs), self._depth[name])
            except TypeError as error:
                return f"`{theirs}` {error}"
            except UnicodeEncodeError:
                return f"`{theirs}` is not valid UTF-8"
        for name in self._keep:
            value = row.get(name)
            is_text = value is None or isinstance(value, str)
            text = value if is_text else json.dumps(value, ensure_ascii=False)
            cells[kept_name(name)] = text and text.encode("utf-8", "replace")
        return cells


def _json_cell(name: str, value: Any, depth: int) -> Any:  # noqa: ANN401  (any JSON)
    if depth == 2 and isinstance(value, list) and any(isinstance(item, list) for item in value):
        return [_json_cell(CANDIDATE, item, 1) for item in value if item is not None]
    if depth:
        texts = text_list_or_none(value)
        listed = None if texts is None else [_bytes_if_broken(text) for text in texts]
        return listed if listed is None or depth == 1 else [listed]
    if name in IDS and isinstance(value, int | float):
        value = json.dumps(value)  # as Arrow writes it: true, 7, 0.5
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"must be text, got {type(value).__name__}")
    return _bytes_if_broken(value)


# CSV


def _header(rows: Iterator[list[str] | str], path: str) -> list[str]:
    """Take the column names off the rows."""
    names = next(rows, None)
    if names is None:
        raise ValueError(f"a CSV file must begin with its column names, got an empty file: {path}")
    return [] if isinstance(names, str) else [name.strip() for name in names]


def _csv_rows(blocks: Iterator[bytes], path: str) -> Iterator[list[str] | str]:
    """Return the cells of each record, the header's first, or say why there are none.

    A line break inside quotes belongs to a record only if every quoted text is closed and there are
    as many columns as in the header. Otherwise the line of the stray quotation mark alone is lost.
    """
    csv.field_size_limit(MAX_RECORD_BYTES)
    n_columns: int | None = None
    data, begin, line = b"", 0, 1
    first = _with_header(blocks)
    patterns = _patterns(_separator(first))
    block: bytes | None = first
    whole = patterns.record(None)
    while block is not None:
        data, begin = data[begin:] + block, 0
        block = next(blocks, None)
        is_last = block is None
        while end := data.find(b"\n", begin) + 1 or len(data) * (is_last and begin < len(data)):
            if data.find(b'"', begin, end) >= 0:
                match = whole(data, begin)
                may_go_on = not is_last and len(data) - begin <= MAX_RECORD_BYTES
                if may_go_on and _goes_on(data, begin, match, patterns):
                    break
                if match is not None and (
                    match.end() <= end or _is_one(match[0], n_columns, patterns.separator)
                ):
                    end = match.end()
            record = data[begin:end]
            if record.strip():
                cells = _csv_cells(record, n_columns, line, patterns)
                yield cells
                if n_columns is None:
                    n_columns = len(cells) if isinstance(cells, list) else 0
                    whole = patterns.record(n_columns)
            line += record.count(b"\n")
            begin = end
        _check_length(len(data) - begin, path)


def csv_separator(path: str) -> str:
    """Return what separates the cells of a CSV file: a comma, a semicolon or a tab."""
    with _opened(path) as blocks:
        return _separator(_with_header(blocks))


def _with_header(blocks: Iterator[bytes]) -> bytes:
    """Take blocks until they hold a whole line that is not blank."""
    data = b""
    for block in blocks:
        data += block
        if b"\n" in data.lstrip() or len(data) > MAX_RECORD_BYTES:
            break
    return data


def _separator(data: bytes) -> str:
    r"""Return the separator by the header: a comma if one parts it, else a semicolon or a tab.

    >>> _separator(b"a,b;c\n"), _separator(b"a;b\n"), _separator(b"a\tb\n"), _separator(b"a\n")
    (',', ';', '\t', ',')
    """
    header = next((line for line in data.splitlines() if line.strip()), b"")
    text = header.decode("utf-8", "replace")
    cells = {mark: len(next(csv.reader([text], delimiter=mark), [])) for mark in ",;\t"}
    return "," if cells[","] > 1 else max(cells, key=cells.__getitem__)


def _csv_cells(
    record: bytes, n_columns: int | None, line: int, patterns: _Patterns
) -> list[str] | str:
    if n_columns is not None and b'"' in record and patterns.well_quoted(record) is None:
        return f"malformed CSV: a quotation mark in line {line:,} is stray"
    text = record.decode("utf-8", "surrogateescape")
    try:
        rows = list(csv.reader([text], delimiter=patterns.separator))
    except csv.Error:
        return "malformed CSV"
    if len(rows) != 1:
        return "malformed CSV"
    if n_columns is not None and len(rows[0]) != n_columns:
        return f"malformed CSV: {n_columns} columns expected, got {len(rows[0])}"
    return rows[0]


def _is_one(record: bytes, n_columns: int | None, separator: str) -> bool:
    """Say whether a record of many lines is one, or has swallowed others."""
    lines = record.split(b"\n")[1:-1]
    if n_columns is None or len(lines) < _RECORD_LINES:
        return True
    mark = separator.encode()
    return 2 * sum(line.count(mark) == n_columns - 1 for line in lines) <= len(lines)


def _goes_on(data: bytes, begin: int, match: re.Match[bytes] | None, patterns: _Patterns) -> bool:
    """Say whether the record that begins there may end in data that is still to come."""
    if match is None:
        return patterns.begun(data, begin) is not None
    return match.end() == len(data) and not data.endswith(b"\n")


class _Patterns:
    """What a record looks like whose cells a separator parts."""

    def __init__(self, separator: str) -> None:
        self.separator = separator
        mark = separator.encode()
        # Possessive (`++`), so that a text is gone through once.
        opened = rb'"(?:[^"]++|"")*+'
        plain = rb'[^%b"\n][^%b\n]*+' % (mark, mark)
        self._cell = rb'(?:%b"(?=%b|\r?(?:\n|\Z))|%b|)' % (opened, mark, plain)
        self._cells = rb"(?:%b%b)" % (self._cell, mark)
        self.well_quoted = re.compile(self._cells + rb"*+" + self._cell + rb"\r?\n?\Z").match
        last = rb'(?:%b"?|%b)' % (opened, self._cell)
        self.begun = re.compile(self._cells + rb"*+" + last + rb"\r?\Z").match

    def record(self, n_columns: int | None) -> Any:  # noqa: ANN401  (a pattern's `match`)
        cells = self._cells + (b"*+" if n_columns is None else b"{%d}" % max(0, n_columns - 1))
        return re.compile(cells + self._cell + rb"\r?(?:\n|\Z)").match


_patterns = cache(_Patterns)


class _CsvTables:
    """Makes tables of rows, with the lists among their cells read, however they are written."""

    def __init__(
        self, names: Sequence[str], wanted: Mapping[str, str], keep: Sequence[str]
    ) -> None:
        self._wanted, self._keep = wanted, keep
        self._places = {name: names.index(name) for name in (*wanted.values(), *keep)}

    def __call__(self, rows: Sequence[list[str] | str]) -> tuple[pa.Table, pa.Array]:
        types = {
            theirs: pa.list_(pa.binary()) if name in LISTS else pa.binary()
            for name, theirs in self._wanted.items()
        }
        types |= {kept_name(name): pa.binary() for name in self._keep}
        return _table([row if isinstance(row, str) else self._cells(row) for row in rows], types)

    def _cells(self, row: list[str]) -> _Cells | str:
        cells: _Cells = {}
        for name, theirs in self._wanted.items():
            cell = row[self._places[theirs]]
            try:
                texts = None if name in IDS else written_list(cell)
            except ValueError as error:
                if name != CANDIDATE:
                    return f"`{theirs}` {error}"
                texts = None
            if texts is not None and name == CANDIDATE:
                return f"`{theirs}` must be text, got a list"
            if name in LISTS:
                listed = [cell] if texts is None else texts
                cells[theirs] = [_bytes_if_broken(text) for text in listed]
            else:
                cells[theirs] = _bytes_if_broken(cell)
        for name in self._keep:
            cells[kept_name(name)] = row[self._places[name]].encode("utf-8", "replace")
        return cells
