"""Finds where the records of a JSONL or CSV file begin and end, a few MiB at a time.

Planning counts records with it and reading cuts them with it, so the two cannot disagree.
A record is a line that is not blank; in CSV a line break inside quotes does not end one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

BLOCK_BYTES = 4 << 20
"""How much is read at once."""
MAX_RECORD_BYTES = 64 << 20
"""A longer record is taken for a mistake (usually a quote that is never closed)."""

_NEWLINE, _RETURN, _QUOTE, _COMMA = b"\n"[0], b"\r"[0], b'"'[0], b","[0]
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
    stream: pa.NativeFile, start: int, stop: int, *, quoted: bool
) -> Iterator[Records]:
    """Cut a byte range into records, as many at a time as fit into memory comfortably.

    Parameters
    ----------
    stream : pyarrow.NativeFile
        The open file.
    start, stop : int
        Byte range; `start` must be where a record begins.
    quoted : bool
        Whether line breaks inside double quotes belong to the record (CSV).

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
        ends = _quoted_line_ends(data) if quoted else _line_ends(np.frombuffer(data, np.uint8))
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
                + ("look for a quote that is never closed" if quoted else "is it one per line?")
            )


def first_byte(stream: pa.NativeFile) -> int:
    """Say where text begins: after the byte order mark, if there is one."""
    stream.seek(0)
    mark = len(_BYTE_ORDER_MARK)
    return mark if stream.read(mark) == _BYTE_ORDER_MARK else 0


def _line_ends(data: np.ndarray) -> np.ndarray:
    return np.flatnonzero(data == _NEWLINE) + 1


def _quoted_line_ends(data: bytes) -> np.ndarray:
    """Positions just after the line breaks outside quotes; `data` begins outside quotes."""
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == _QUOTE)
    ends = _line_ends(codes)
    if not len(quotes):
        return ends
    toggles = quotes if _parity_tells(codes, quotes) else _toggles(codes, quotes)
    return ends[np.searchsorted(toggles, ends) % 2 == 0]


def _parity_tells(codes: np.ndarray, quotes: np.ndarray) -> bool:
    """Whether an odd number of quotes so far always means "inside".

    True when every opening quote begins a field or is the second of an escaped pair. A quote in
    the middle of a bare field (5" screen) is a plain character and breaks the rule.
    """
    opening = quotes[::2]
    before = codes[np.maximum(opening - 1, 0)]
    begins_field = (opening == 0) | np.isin(before, [_COMMA, _NEWLINE, _RETURN])
    closing_before = np.concatenate([[-2], quotes[1::2]])[: len(opening)]
    return bool(np.all(begins_field | (closing_before == opening - 1)))


def _toggles(codes: np.ndarray, quotes: np.ndarray) -> np.ndarray:
    """Walk over the quotes one by one and return those that open or close a field."""
    toggles: list[int] = []
    is_inside, skipped = False, -1
    for at in quotes.tolist():
        if at == skipped:
            continue
        if not is_inside:
            is_inside = at == 0 or codes[at - 1] in (_COMMA, _NEWLINE, _RETURN)
            if is_inside:
                toggles.append(at)
        elif at + 1 < len(codes) and codes[at + 1] == _QUOTE:
            skipped = at + 1
        else:
            is_inside = False
            toggles.append(at)
    return np.asarray(toggles, dtype=np.int64)


def _not_blank(data: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    is_record = np.ones(len(starts), dtype=bool)
    codes = np.frombuffer(data, np.uint8)
    # Only a line that begins with white space can be blank; few do.
    for i in np.flatnonzero(np.isin(codes[starts], _SPACES)).tolist():
        is_record[i] = bool(data[starts[i] : ends[i]].strip())
    return is_record
