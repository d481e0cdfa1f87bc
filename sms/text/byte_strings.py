"""Distinct strings of bytes, each with a number that it keeps.

They are found by compiled loops over texts as Arrow has them; only those that were never seen
before become strings of Python.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

_LEAST = 1024
SPARE_BYTES = 8
"""Bytes are read in eights."""


class _Table(NamedTuple):
    """An open-addressing hash table, of which a kernel fills the arrays in place.

    A call of a kernel cannot be interrupted, so the arrays agree at all times.
    """

    slots: np.ndarray
    """The number of a string, -1 where none is; int64, twice as many as there is room for."""
    hashes: np.ndarray
    """By number, uint64; as many as there is room for."""
    starts: np.ndarray
    """Where the string of each number starts in `bytes`, and the last one ends; int64."""
    bytes: np.ndarray
    """All strings one after the other, uint8."""
    sizes: np.ndarray
    """How many strings there are, int64, shape (1,)."""

    @classmethod
    def empty(cls) -> _Table:
        """Return a table without strings."""
        return cls(
            np.full(2 * _LEAST, -1, np.int64),
            np.empty(_LEAST, np.uint64),
            np.zeros(_LEAST + 1, np.int64),
            np.empty(8 * _LEAST, np.uint8),
            np.zeros(1, np.int64),
        )

    def doubled(self) -> _Table:
        """Return a table with twice the room."""
        from sms.text.byte_kernels import place_all

        slots = np.full(2 * self.slots.size, -1, np.int64)
        place_all(slots, self.hashes, self.sizes)
        more = [np.resize(array, 2 * array.size) for array in (self.hashes, self.bytes)]
        starts = np.resize(self.starts, 2 * self.hashes.size + 1)
        return _Table(slots, more[0], starts, more[1], self.sizes)


class ByteStrings:
    """The strings seen so far, by number in order of appearance."""

    def __init__(self) -> None:
        self._table = _Table.empty()

    def __len__(self) -> int:
        return int(self._table.sizes[0])

    def number(self, data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Return the numbers of strings, new ones for those never seen before; int64.

        They are between places in `data`, which has `SPARE_BYTES` more at its end.
        """
        from sms.text.byte_kernels import number_spans

        numbers = np.empty(starts.size, np.int64)
        n_done = 0
        while n_done < starts.size:
            n_done = number_spans(data, starts, stops, n_done, self._table, numbers)
            if n_done < starts.size:
                self._table = self._table.doubled()
        return numbers

    def texts(self, first: int) -> list[str]:
        """Return the strings from a number on."""
        bounds = self._table.starts[first : len(self) + 1]
        held = self._table.bytes[bounds[0] : bounds[-1]].tobytes()
        places = (bounds - bounds[0]).tolist()
        return [held[start:stop].decode() for start, stop in pairwise(places)]


def bytes_of(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of texts, then `SPARE_BYTES`, and where each starts and the last one ends.

    Arrays of uint8 and int64; no text is null.
    """
    _, offsets, data = texts.buffers()
    if offsets is None or data is None:  # there is no character
        return np.zeros(SPARE_BYTES, np.uint8), np.zeros(len(texts) + 1, np.int64)
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    held = np.zeros(bounds[-1] - bounds[0] + SPARE_BYTES, np.uint8)
    held[:-SPARE_BYTES] = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    return held, bounds.astype(np.int64) - bounds[0]
