"""Finds where the records of a JSONL or CSV file begin and end, a few MiB at a time.

Planning counts records with it and reading cuts them with it, so the two cannot disagree.
A record is a line that is not blank; in CSV a line break inside quotes does not end one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

BLOCK_BYTES = 4 << 20
"""How much is read at once."""
MAX_RECORD_BYTES = 64 << 20
"""A longer record is taken for a mistake."""

FindEnds: TypeAlias = Callable[[bytes, bool], np.ndarray]
"""Given data that begins with a record, and whether it is the last, says where records end."""

_NEWLINE, _RETURN, _QUOTE, _COMMA = b"\n"[0], b"\r"[0], b'"'[0], b","[0]
_RECORD_LINES = 20  # of which most are records themselves make no record of so many lines
_SPACES = np.frombuffer(b" \t\r\n\v\f", dtype=np.uint8)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Records:
    """Some whole records, one after the other."""

    data: bytes
    offset: int
    """Where `data` begins in the file, in bytes."""
    starts: np.ndarray
    """Where each record begins in `data`, shape (n,)."""
    ends: np.ndarray
    """Where each record ends in `data`, its line break included, shape (n,)."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.ends[i]]


def iter_records(
    stream: pa.NativeFile, start: int, stop: int, find_ends: FindEnds
) -> Iterator[Records]:
    """Cut a byte range into records, as many at a time as fit into memory comfortably.

    Parameters
    ----------
    stream : pyarrow.NativeFile
        The open file.
    start, stop : int
        Byte range; `start` must be where a record begins.
    find_ends : callable
        `line_ends`, or `csv_ends` of the number of columns.

    Raises
    ------
    ValueError
        If a record is longer than `MAX_RECORD_BYTES`.
    """
    stream.seek(start)
    offset, position, rest = start, start, b""
    while True:
        fresh = stream.read(min(BLOCK_BYTES, stop - position))
        position += len(fresh)
        data = rest + fresh
        is_last = not fresh or position >= stop
        ends = find_ends(data, is_last)
        if is_last and len(data) and (not len(ends) or ends[-1] < len(data)):
            ends = np.append(ends, len(data))
        starts = np.concatenate([np.zeros(1, ends.dtype), ends[:-1]]) if len(ends) else ends
        is_record = _not_blank(data, starts, ends)
        yield Records(data, offset, starts[is_record], ends[is_record])
        if is_last:
            return
        cut = int(ends[-1]) if len(ends) else 0
        rest, offset = data[cut:], offset + cut
        if len(rest) > MAX_RECORD_BYTES:
            raise ValueError(
                f"the record at byte {offset} is longer than {MAX_RECORD_BYTES >> 20} MiB; "
                "is it one per line?"
            )


def first_byte(stream: pa.NativeFile) -> int:
    """Say where text begins: after the byte order mark, if there is one."""
    stream.seek(0)
    mark = len(_BYTE_ORDER_MARK)
    return mark if stream.read(mark) == _BYTE_ORDER_MARK else 0


def line_ends(data: bytes, _is_last: bool) -> np.ndarray:
    """Positions just after the line breaks."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1


def csv_ends(n_columns: int | None) -> FindEnds:
    """Return what finds the ends of records of so many columns; None is any number.

    A line break inside quotes belongs to a record only if that is whole: every quoted text is
    closed, a comma or a line end follows it, and there are as many columns as the header has.
    Otherwise a quotation mark is stray: its line is a record by itself, which cannot be read, and
    the next line is not lost.
    """
    cells = _CELLS + (b"*+" if n_columns is None else b"{%d}" % (n_columns - 1))
    whole = re.compile(cells + _CELL + rb"\r?(?:\n|\Z)").match

    def find_ends(data: bytes, is_last: bool) -> np.ndarray:
        known = _ends_at_a_glance(data, n_columns, is_last=is_last)
        if known is not None:
            return known
        ends: list[int] = []
        begin = 0
        while end := data.find(b"\n", begin) + 1:
            if data.find(b'"', begin, end) >= 0:
                found = whole(data, begin)
                may_go_on = not is_last and len(data) - begin <= MAX_RECORD_BYTES
                if may_go_on and _goes_on(data, begin, found):
                    break
                if found is not None and (found.end() <= end or _is_one(found[0], n_columns)):
                    end = found.end()
            ends.append(end)
            begin = end
        return np.asarray(ends, dtype=np.int64)

    return find_ends


def has_no_stray_quote(block: bytes, ends: np.ndarray) -> bool:
    """Say whether all quotes of records pair at a glance; if not, ask for each record.

    Parameters
    ----------
    block : bytes
        The records, one after the other.
    ends : ndarray, shape (n,)
        Where each ends.
    """
    quotes = _paired_quotes(np.frombuffer(block, np.uint8))
    return quotes is not None and bool(np.all(np.searchsorted(quotes, ends) % 2 == 0))


def has_stray_quote(record: bytes) -> bool:
    """Say whether a quoted text of a CSV record is not closed, or goes on after its end."""
    return b'"' in record and _WELL_QUOTED(record) is None


def _ends_at_a_glance(data: bytes, n_columns: int | None, *, is_last: bool) -> np.ndarray | None:
    """Find the ends of records; None where a quotation mark may be stray."""
    codes = np.frombuffer(data, np.uint8)
    quotes = _paired_quotes(codes)
    must_end = is_last or len(data) > MAX_RECORD_BYTES
    if quotes is None or (len(quotes) % 2 and must_end):
        return None
    breaks = line_ends(data, is_last)
    ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    if is_last and len(data) and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    starts = np.append(0, ends[:-1])[: len(ends)]
    n_inside = np.searchsorted(breaks, ends) - np.searchsorted(breaks, starts, side="right")
    if n_columns is not None and n_inside.any():
        commas = np.flatnonzero(codes == _COMMA)
        commas = commas[np.searchsorted(quotes, commas) % 2 == 0]
        n_commas = np.searchsorted(commas, ends) - np.searchsorted(commas, starts)
        many = np.flatnonzero(n_inside >= _RECORD_LINES).tolist()
        if (n_commas[n_inside > 0] != n_columns - 1).any() or not all(
            _is_one(data[starts[i] : ends[i]], n_columns) for i in many
        ):
            return None
    return ends


def _is_one(record: bytes, n_columns: int | None) -> bool:
    """Say whether a record of many lines is one, or has swallowed others."""
    lines = record.split(b"\n")[1:-1]
    if n_columns is None or len(lines) < _RECORD_LINES:
        return True
    return 2 * sum(line.count(b",") == n_columns - 1 for line in lines) <= len(lines)


def _goes_on(data: bytes, begin: int, found: re.Match[bytes] | None) -> bool:
    """Say whether the record that begins there may end in data that is still to come."""
    if found is None:
        return _BEGUN(data, begin) is not None
    return found.end() == len(data) and not data.endswith(b"\n")


# Possessive (`++`), so that a text is gone through once.
_OPEN = rb'"(?:[^"]++|"")*+'
_CELL = rb"(?:" + _OPEN + rb'"(?=,|\r?(?:\n|\Z))|[^,"\n][^,\n]*+|)'
_CELLS = rb"(?:" + _CELL + rb",)"
_WELL_QUOTED = re.compile(_CELLS + rb"*+" + _CELL + rb"\r?\n?\Z").match
_BEGUN = re.compile(_CELLS + rb"*+(?:" + _OPEN + rb'"?|' + _CELL + rb")\r?\Z").match


def _paired_quotes(codes: np.ndarray) -> np.ndarray | None:
    """Return the places of quotes, the first opens a text, the second closes it, and so on.

    None unless each is at an edge of a cell or doubled.
    """
    quotes = np.flatnonzero(codes == _QUOTE)
    opening, closing = quotes[::2], quotes[1::2]
    is_doubled = closing[: max(0, len(opening) - 1)] + 1 == opening[1:]
    begins = np.isin(codes[opening - 1], (_COMMA, _NEWLINE)) | (opening == 0)
    padded = np.append(codes, (_NEWLINE, _NEWLINE))
    ends = np.isin(padded[closing + 1], (_COMMA, _NEWLINE)) | (
        (padded[closing + 1] == _RETURN) & (padded[closing + 2] == _NEWLINE)
    )
    begins[1:] |= is_doubled
    ends[: len(is_doubled)] |= is_doubled
    return quotes if begins.all() and ends.all() else None


def _not_blank(data: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    is_record = np.ones(len(starts), dtype=bool)
    codes = np.frombuffer(data, np.uint8)
    # Only a line that begins with white space can be blank; few do.
    for i in np.flatnonzero(np.isin(codes[starts], _SPACES)).tolist():
        is_record[i] = bool(data[starts[i] : ends[i]].strip())
    return is_record
