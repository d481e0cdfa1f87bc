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
from typing import Any, TypeAlias

import pyarrow as pa

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
_REASON = "\0"  # in place of the cells of a row; no column is called so
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_Row: TypeAlias = dict[str, Any] | str
"""What a file calls each value of a row, and the value; a text says why there is no row."""


def text_columns(path: str, format: str) -> list[str]:
    """List the columns of a JSONL or CSV file; JSONL has the keys of its first readable lines."""
    with _opened(path) as blocks:
        return _names_and_rows(blocks, path, format)[0]


def text_tables(
    path: str, format: str, wanted: Wanted, limit: int | None = None
) -> Iterator[pa.Table]:
    """Read a JSONL or CSV file as `schema.canonical_table` makes tables, without ids it lacks.

    With a `limit` only the first rows. Of JSONL, kept values that are no text are JSON. Raises
    `ValueError` if a column is missing, or the file is not what it claims to be.
    """
    with _opened(path) as blocks:
        names, rows = _names_and_rows(blocks, path, format)
        first = next(rows, None)
        if format == "jsonl" and not names:
            if first is None:
                return
            raise ValueError(f"no line of {path} is a JSON object with columns")
        theirs = resolve_columns(names, wanted.needed, wanted.columns, keep=wanted.keep, where=path)
        depth = dict.fromkeys(theirs, 0)
        """How many lists may be around a text of a column."""
        for name in theirs.keys() - IDS:
            depth[name] = (name in LISTS) + (format == "jsonl" and wanted.sentence_end is not None)
        types = {theirs[name]: _nested(depth[name]) for name in theirs}
        types |= {kept_name(name): pa.binary() for name in wanted.keep}
        types[_REASON] = pa.string()

        def read(row: _Row) -> dict[str, Any]:
            return _cells(row, theirs, wanted.keep, depth, is_csv=format == "csv")

        given = chain([] if first is None else [first], rows)
        for batch in _batches(islice(given, limit)):
            cells = list(map(read, batch))
            columns = {
                name: pa.array([row.get(name) for row in cells], kind)
                for name, kind in types.items()
            }
            reasons = columns.pop(_REASON)
            yield canonical_table(pa.table(columns), wanted, reasons=reasons, where=path)


def _names_and_rows(
    blocks: Iterator[bytes], path: str, format: str
) -> tuple[list[str], Iterator[tuple[int, _Row]]]:
    """Return the columns of a file, and its rows with their sizes."""
    if format == "csv":
        records = _csv_records(blocks, path)
        _, header = next(records, (0, None))
        if header is None:
            raise ValueError(
                f"a CSV file must begin with its column names, got an empty file: {path}"
            )
        names = [] if isinstance(header, str) else [name.strip() for name in header]
        return names, (
            (size, cells if isinstance(cells, str) else dict(zip(names, cells, strict=True)))
            for size, cells in records
        )
    rows = ((len(line), _json_object(line)) for line in _lines(blocks, path))
    first: list[tuple[int, _Row]] = []
    keys: dict[str, None] = {}
    n_bytes = 0
    for size, row in islice(rows, _PEEK_RECORDS):
        first.append((size, row))
        keys.update(dict.fromkeys(row if isinstance(row, dict) else ()))
        n_bytes += size
        if keys and n_bytes > _PEEK_BYTES:
            break
    return list(keys), chain(first, rows)


def _nested(depth: int) -> pa.DataType:
    return pa.binary() if depth == 0 else pa.list_(_nested(depth - 1))


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


def _batches(rows: Iterable[tuple[int, _Row]]) -> Iterator[list[_Row]]:
    held: list[_Row] = []
    n_bytes = 0
    for size, row in rows:
        if held and (len(held) == GROUP_ROWS or n_bytes + size > GROUP_BYTES):
            yield held
            held, n_bytes = [], 0
        held.append(row)
        n_bytes += size
    if held:
        yield held


# Cells


def _cells(
    row: _Row,
    wanted: Mapping[str, str],
    keep: Sequence[str],
    depth: Mapping[str, int],
    *,
    is_csv: bool,
) -> dict[str, Any]:
    """Return the bytes of the wanted texts of a row, and what is kept as text; or the reason."""
    if isinstance(row, str):
        return {_REASON: row}
    cells: dict[str, Any] = {}
    for name, theirs in wanted.items():
        try:
            value = row.get(theirs)
            cells[theirs] = _cell(
                name, _listed(name, row[theirs]) if is_csv else value, depth[name]
            )
        except UnicodeEncodeError:
            return {_REASON: f"`{theirs}` is not valid UTF-8"}
        except (TypeError, ValueError) as error:
            return {_REASON: f"`{theirs}` {error}"}
    for name in keep:
        value = row.get(name)
        is_text = value is None or isinstance(value, str)
        text = value if is_text else json.dumps(value, ensure_ascii=False)
        cells[kept_name(name)] = text and text.encode("utf-8", "replace")
    return cells


def _listed(name: str, cell: str) -> str | list[str]:
    """Read the list that the text of a cell of CSV may be."""
    if name in IDS:
        return cell
    try:
        texts = written_list(cell)
    except ValueError:
        if name != CANDIDATE:
            raise
        return cell
    if texts is not None and name == CANDIDATE:
        raise TypeError("must be text, got a list")
    return cell if texts is None else texts


def _cell(name: str, value: Any, depth: int) -> Any:  # noqa: ANN401  (any JSON)
    if depth == 2 and isinstance(value, list) and any(isinstance(item, list) for item in value):
        return [_cell(CANDIDATE, item, 1) for item in value if item is not None]
    if depth:
        texts = text_list_or_none(value)
        listed = None if texts is None else [_bytes_if_broken(text) for text in texts]
        return listed if listed is None or depth == 1 else [listed]
    if name in IDS and isinstance(value, int | float):
        value = json.dumps(value)  # true, 7, 0.5
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"must be text, got {type(value).__name__}")
    return _bytes_if_broken(value)


def _bytes_if_broken(text: str) -> bytes:
    """Undo `surrogateescape`, so that what was not UTF-8 is found (and named) later."""
    return text.encode("utf-8", "surrogateescape")


def _json_object(line: bytes) -> _Row:
    """Read one line as an object, or say why it is none."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return "malformed JSON"
    return row if isinstance(row, dict) else "not a JSON object"


# CSV


def _csv_records(blocks: Iterator[bytes], path: str) -> Iterator[tuple[int, list[str] | str]]:
    """Return the size and the cells of each record, the header's first, or why there are none.

    A line break inside quotes belongs to a record only if every quoted text is closed and there are
    as many columns as in the header. Otherwise the line of the stray quotation mark alone is lost.
    """
    csv.field_size_limit(MAX_RECORD_BYTES)
    data, begin, line = _with_header(blocks), 0, 1
    separator = _separator(data)
    well_quoted = whole = _record_pattern(separator, None)
    n_columns: int | None = None
    is_last = False
    while not is_last:
        block = next(blocks, b"")
        data, begin, is_last = data[begin:] + block, 0, not block
        while begin < len(data):
            end = data.find(b"\n", begin) + 1 or len(data)
            may_go_on = not is_last and len(data) - begin <= MAX_RECORD_BYTES
            if may_go_on and data[end - 1 : end] != b"\n":
                break
            if data.find(b'"', begin, end) >= 0:
                match = whole.match(data, begin)
                if may_go_on and (match is None or data[match.end() - 1 : match.end()] != b"\n"):
                    break
                if match is not None and (
                    match.end() <= end or _is_one(match[0], n_columns, separator)
                ):
                    end = match.end()
            record = data[begin:end]
            _check_length(len(record), path)
            if record.strip():
                is_stray = n_columns is not None and b'"' in record
                is_stray = is_stray and well_quoted.fullmatch(record) is None
                cells = (
                    f"malformed CSV: a quotation mark in line {line:,} is stray"
                    if is_stray
                    else _csv_cells(record, n_columns, separator)
                )
                yield sum(map(len, cells)), cells
                if n_columns is None:
                    n_columns = len(cells) if isinstance(cells, list) else 0
                    whole = _record_pattern(separator, n_columns)
            line += record.count(b"\n")
            begin = end


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


def _csv_cells(record: bytes, n_columns: int | None, separator: str) -> list[str] | str:
    text = record.decode("utf-8", "surrogateescape")
    try:
        rows = list(csv.reader([text], delimiter=separator))
    except csv.Error:
        rows = []
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


@cache
def _record_pattern(separator: str, n_columns: int | None) -> re.Pattern[bytes]:
    """Return what a record looks like whose quoted texts are closed, with the end of its line."""
    mark = separator.encode()
    # Possessive (`++`), so that a text is gone through once.
    opened = rb'"(?:[^"]++|"")*+'
    plain = rb'[^%b"\n][^%b\n]*+' % (mark, mark)
    cell = rb'(?:%b"(?=%b|\r?(?:\n|\Z))|%b|)' % (opened, mark, plain)
    others = b"*+" if n_columns is None else b"{%d}" % max(0, n_columns - 1)
    return re.compile(rb"(?:%b%b)%b%b\r?(?:\n|\Z)" % (cell, mark, others, cell))
