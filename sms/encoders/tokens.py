"""What a BERT-like model is given: the tokens of sentences, laid out in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sms.encoders.pieces import PieceCutter, Windows
from sms.ragged import offsets_of, ranges
from sms.text import SegmentedTexts


class Block(NamedTuple):
    """What goes through the model together."""

    windows: np.ndarray  # their numbers, the longest first
    ids: np.ndarray
    lengths: np.ndarray
    kept: np.ndarray  # numbers of kept words
    word_rows: np.ndarray  # tokens of kept words, word after word
    word_lengths: np.ndarray


@dataclass(frozen=True, slots=True)
class SentenceTokens:
    """Sentences that are sorted and encoded together."""

    ids: np.ndarray
    """All pieces, special tokens left out."""
    windows: Windows
    lengths: np.ndarray
    """Tokens of every window, special ones included."""
    word_first: np.ndarray
    """First piece of every kept word, relative to its window."""
    word_count: np.ndarray
    """Pieces of every kept word."""
    words_of_window: np.ndarray
    """Where each window's kept words begin, and the end; int64, (n_windows + 1,)."""

    @classmethod
    def of(
        cls,
        texts: SegmentedTexts,
        wanted: np.ndarray,
        kept: np.ndarray,
        cutter: PieceCutter,
        max_pieces: int,
    ) -> SentenceTokens:
        """Cut the sentences of these numbers into windows of `max_pieces`, or raise `CannotSplit`.

        `kept` says which of their words need a vector; special tokens do not count as pieces.
        """
        pieces = cutter.cut(texts, wanted, max_pieces)
        windows = pieces.windows(max_pieces)
        first, count = pieces.first[kept], pieces.count[kept]
        window = np.searchsorted(windows.first, first, side="right") - 1
        first = first - windows.first[window]
        return cls(
            ids=pieces.ids.values,
            windows=windows,
            lengths=windows.lengths + cutter.n_special,
            word_first=first,
            word_count=np.minimum(count, windows.lengths[window] - first),
            words_of_window=np.searchsorted(window, np.arange(windows.first.size + 1)),
        )

    def block(self, chosen: np.ndarray, cutter: PieceCutter) -> Block:
        """Lay out the tokens of some windows and say which are those of kept words."""
        lengths, n_pieces = self.lengths[chosen], self.windows.lengths[chosen]
        starts = offsets_of(lengths)
        body = starts[:-1] + cutter.prefix.size
        ids = np.empty(starts[-1], dtype=np.int64)
        ids[ranges(body, n_pieces)] = self.ids[ranges(self.windows.first[chosen], n_pieces)]
        for place, token in enumerate(cutter.prefix):
            ids[starts[:-1] + place] = token
        for place, token in enumerate(cutter.suffix[::-1], start=1):
            ids[starts[1:] - place] = token
        first_kept = self.words_of_window[chosen]
        n_kept = self.words_of_window[chosen + 1] - first_kept
        kept = ranges(first_kept, n_kept)
        counts = self.word_count[kept]
        rows = ranges(self.word_first[kept] + np.repeat(body, n_kept), counts)
        return Block(chosen, ids, lengths, kept, rows, counts)
