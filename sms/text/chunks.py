"""Whitespace-separated chunks of texts, each with a number that it keeps.

Texts are read as Arrow has them, bytes of UTF-8 one after the other. (Arrow's own
`utf8_split_whitespace` now and then takes a space for a chunk where several of different kinds
stand together.)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sms.ragged import Ragged
from sms.text.byte_strings import ByteStrings, bytes_of


class Chunks:
    """The chunks seen so far, by number in order of appearance."""

    def __init__(self) -> None:
        self._strings = ByteStrings()

    def __len__(self) -> int:
        return len(self._strings)

    def number(self, texts: pa.StringArray) -> Ragged:
        """Return the numbers of every text's chunks, new ones for chunks never seen before.

        No text is null.
        """
        from sms.text.chunk_kernels import find_chunks

        data, offsets = bytes_of(texts)
        bounds = np.zeros_like(offsets)
        # between two chunks is at least one byte
        starts, stops = np.empty((2, (data.size + len(texts)) // 2 + 1), np.int64)
        n_chunks = find_chunks(data, offsets, starts, stops, bounds)
        return Ragged(self._strings.number(data, starts[:n_chunks], stops[:n_chunks]), bounds)

    def texts(self, first: int) -> list[str]:
        """Return the chunks from a number on."""
        return self._strings.texts(first)
