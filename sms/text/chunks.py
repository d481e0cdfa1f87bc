"""Whitespace-separated chunks of texts, each with a number that it keeps.

Texts are read as Arrow has them, bytes of UTF-8 one after the other: a chunk is hashed where it
stands, and only one that was never seen before becomes a string of Python. (Arrow's own
`utf8_split_whitespace` now and then takes a space for a chunk where several of different kinds
stand together.)
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sms.ragged import Ragged

_LEAST = 1024


class _Table(NamedTuple):
    """An open-addressing hash table, of which a kernel fills the arrays in place.

    A call of a kernel cannot be interrupted, so the arrays agree at all times.
    """

    slots: np.ndarray
    """The number of a chunk, -1 where none is; int64, twice as many as there is room for chunks."""
    hashes: np.ndarray
    """By number, uint64; as many as there is room for."""
    starts: np.ndarray
    """Where the chunk of each number starts in `bytes`, and the last one ends; int64."""
    bytes: np.ndarray
    """All chunks one after the other, uint8."""
    sizes: np.ndarray
    """How many chunks there are, int64, shape (1,)."""

    @classmethod
    def empty(cls) -> _Table:
        return cls(
            np.full(2 * _LEAST, -1, np.int64),
            np.empty(_LEAST, np.uint64),
            np.zeros(_LEAST + 1, np.int64),
            np.empty(8 * _LEAST, np.uint8),
            np.zeros(1, np.int64),
        )

    def doubled(self) -> _Table:
        """Return a table with twice the room."""
        from sms.text.chunk_kernels import place_all

        slots = np.full(2 * self.slots.size, -1, np.int64)
        place_all(slots, self.hashes, self.sizes)
        more = [np.resize(array, 2 * array.size) for array in (self.hashes, self.bytes)]
        starts = np.resize(self.starts, 2 * self.hashes.size + 1)
        return _Table(slots, more[0], starts, more[1], self.sizes)


class Chunks:
    """The chunks seen so far, by number in order of appearance."""

    def __init__(self) -> None:
        self._table = _Table.empty()

    def __len__(self) -> int:
        return int(self._table.sizes[0])

    def number(self, texts: pa.StringArray) -> Ragged:
        """Return the numbers of every text's chunks, new ones for chunks never seen before.

        No text is null.
        """
        from sms.text.chunk_kernels import number_chunks

        bounds = np.zeros(len(texts) + 1, np.int64)
        _, offsets, data = texts.buffers()
        if offsets is None or data is None:  # there is no character
            return Ragged(np.empty(0, np.int64), bounds)
        held = np.frombuffer(data, np.uint8)
        starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + bounds.size]
        # between two chunks is at least one byte
        numbers = np.empty((held.size + len(texts)) // 2 + 1, np.int64)
        n_done = 0
        while n_done < len(texts):
            n_done = number_chunks(held, starts, n_done, self._table, numbers, bounds)
            if n_done < len(texts):
                self._table = self._table.doubled()
        return Ragged(numbers[: bounds[-1]].copy(), bounds)

    def texts(self, first: int) -> list[str]:
        """Return the chunks from a number on."""
        table, n_chunks = self._table, len(self)
        bounds = table.starts[first : n_chunks + 1]
        held = table.bytes[bounds[0] : bounds[-1]].tobytes()
        places = (bounds - bounds[0]).tolist()
        return [held[start:stop].decode() for start, stop in pairwise(places)]
