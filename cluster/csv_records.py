"""Records of CSV files: where each ends, and its cells.

A record is a line that is not blank; a line break inside quotation marks does not end one. A cell
with a stray quotation mark cannot be read, the others of its record can: no record is left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from cluster import text_blocks
from cluster.text_blocks import check_length

CsvRecord: TypeAlias = tuple[int, int, list[str] | str]
"""Its line, its size, and its cells, or why there are none."""

_RECORD_LINES = 20  # so many lines are not one record if most of them are records themselves
_SEPARATOR_LINE = re.compile(rb'\s*"?sep=([^\w\s"]|\t)"?[\t ;,|]*\r?(?:\n|\Z)', re.IGNORECASE)


class Stray(str):
    """Stands for a cell that cannot be read; it is the reason."""


def csv_records(
    blocks: Iterator[bytes], path: str, *, has_quotes: bool = True
) -> Iterator[CsvRecord]:
    """Read the records of a file, that of the column names first.

    A line break inside quotes belongs to a record only if every quoted text is closed and there are
    as many columns as in the header. Without `has_quotes` a quotation mark is like any other.
    Raises `ValueError` if a record is too long.
    """
    csv.field_size_limit(text_blocks.MAX_RECORD_BYTES)
    data = _with_header(blocks, path)
    line, n_columns = 1, 0
    if named := _SEPARATOR_LINE.match(data):  # what Excel writes, and obeys
        line += named[0].count(b"\n")
        data = _with_header(blocks, path, data[named.end() :])
    cutter = _Cutter(named[1].decode() if named else _separator(data), path, has_quotes)
    for record in cutter.records(data, blocks):
        for part in cutter.parts(record, n_columns):
            if part.strip():
                cells = cutter.cells(part, n_columns, line)
                if not n_columns:
                    n_columns = cutter.n_columns = len(cells) if isinstance(cells, list) else 1
                yield line, len(part), cells
        line += record.count(b"\n")


def _with_header(blocks: Iterator[bytes], path: str, data: bytes = b"") -> bytes:
    """Take blocks until they hold a whole line that is not blank."""
    while b"\n" not in data.lstrip() and (block := next(blocks, b"")):
        data += block
        if b"\n" not in data.lstrip():
            check_length(len(data), path)
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


@dataclass(slots=True)
class _Cutter:
    """Cuts a file into records, and these into cells."""

    separator: str
    path: str
    has_quotes: bool
    n_columns: int = 0
    """As in the header; 0 before it is read."""

    def records(self, data: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Cut where records end; the bytes are all there, in order."""
        blocks = iter(blocks)
        begin, is_last = 0, False
        while not is_last:
            block = next(blocks, b"")
            data, begin, is_last = data[begin:] + block, 0, not block
            while begin < len(data):
                end = data.find(b"\n", begin) + 1 or len(data)
                may_go_on = not is_last and len(data) - begin <= text_blocks.MAX_RECORD_BYTES
                if may_go_on and data[end - 1 : end] != b"\n":
                    break
                if self.has_quotes and data.find(b'"', begin, end) >= 0:
                    match = _record_pattern(self.separator, self.n_columns).match(data, begin)
                    is_cut_off = match is None or data[match.end() - 1 : match.end()] != b"\n"
                    if may_go_on and is_cut_off:
                        break
                    if match is not None and (match.end() <= end or self._is_one(match[0])):
                        end = match.end()
                check_length(end - begin, self.path)
                yield data[begin:end]
                begin = end

    def parts(self, record: bytes, n_columns: int) -> list[bytes]:
        """Cut at carriage returns alone if every part is a record by itself."""
        if b"\r" not in record[:-2] or (self.has_quotes and b'"' in record):
            return [record]
        parts = record.rstrip(b"\r\n").split(b"\r")
        mark = self.separator.encode()
        n_marks = n_columns - 1 if n_columns else parts[0].count(mark)
        return parts if all(part.count(mark) == n_marks for part in parts) else [record]

    def cells(self, record: bytes, n_columns: int, line: int) -> list[str] | str:
        """Return the cells of a record, some of them `Stray`; or why there are none."""
        text = record.decode("utf-8", "surrogateescape")
        if not (self.has_quotes and '"' in text):
            cells = text.rstrip("\r\n").split(self.separator)
            if "\r" in text.rstrip("\r\n"):
                return "malformed CSV"
        elif n_columns and _record_pattern(self.separator, 0).fullmatch(record) is None:
            reason = f"malformed CSV: a quotation mark in line {line:,} is stray"
            cells = _cells_with_strays(text.rstrip("\r\n"), self.separator, reason)
            return cells if len(cells) == n_columns else reason
        else:
            try:
                rows = list(csv.reader([text], delimiter=self.separator))
            except csv.Error:
                rows = []
            if len(rows) != 1:
                return "malformed CSV"
            cells = rows[0]
        if n_columns and len(cells) != n_columns:
            return f"malformed CSV: {n_columns} columns expected, got {len(cells)}"
        return cells

    def _is_one(self, record: bytes) -> bool:
        """Say whether a record of many lines is one, or has swallowed others."""
        lines = record.split(b"\n")[1:-1]
        if not self.n_columns or len(lines) < _RECORD_LINES:
            return True
        mark = self.separator.encode()
        return 2 * sum(line.count(mark) == self.n_columns - 1 for line in lines) <= len(lines)


def _cells_with_strays(text: str, separator: str, reason: str) -> list[str]:
    """Cut a line at its separators; a cell with a stray quotation mark is `Stray`.

    >>> _cells_with_strays('a,"b, c","d" e', ",", "stray")
    ['a', 'b, c', 'stray']
    """
    cells, at = [], 0
    pattern = _cell_pattern(separator)
    while at <= len(text):
        if match := pattern.match(text, at):
            end = match.end()
            is_quoted = text.startswith('"', at)
            cell = text[at + 1 : end - 1].replace('""', '"') if is_quoted else text[at:end]
        else:
            end = text.find(separator, at)
            end = len(text) if end < 0 else end
            cell = Stray(reason)
        cells.append(cell)
        at = end + 1
    return cells


@cache
def _cell_pattern(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    return re.compile(rf'(?:"(?:[^"]++|"")*+"|[^{mark}"][^{mark}]*+|)(?={mark}|\Z)')


@cache
def _record_pattern(separator: str, n_columns: int) -> re.Pattern[bytes]:
    """Return what a record looks like whose quoted texts are closed, with the end of its line."""
    mark = re.escape(separator.encode())
    # Possessive (`++`), so that a text is gone through once.
    opened = rb'"(?:[^"]++|"")*+'
    plain = rb'[^%b"\n][^%b\n]*+' % (mark, mark)
    cell = rb'(?:%b"(?=%b|\r?(?:\n|\Z))|%b|)' % (opened, mark, plain)
    others = b"{%d}" % (n_columns - 1) if n_columns else b"*+"
    return re.compile(rb"(?:%b%b)%b%b\r?(?:\n|\Z)" % (cell, mark, others, cell))
