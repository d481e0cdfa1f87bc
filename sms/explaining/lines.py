"""Lays out a sentence in lines of a given width: which words stand where, in any script.

Lines end where they may (UAX 14); in what is wider than a line, after any grapheme. Every line runs
in its order on paper (UAX 9), and nothing of the sentence is left out but spaces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sms.bidi import base_level, bidi_levels, visual_order
from sms.svg_text import text_width
from sms.writing import graphemes, unbroken


@dataclass(frozen=True, slots=True)
class Box:
    """A piece of a line: a word, or the part of one that has one direction."""

    text: str
    word: int | None
    """Which word of the sentence it belongs to; None for what is between words."""
    left: float
    """From the left end of the line."""
    width: float
    is_from_right: bool
    """Whether it runs from right to left."""


@dataclass(frozen=True, slots=True)
class _Letter:
    """A grapheme of a sentence."""

    text: str
    start: int
    word: int | None
    level: int
    width: float

    @property
    def is_space(self) -> bool:
        return self.text.isspace()


def lines_of(
    sentence: str, words: Sequence[tuple[int, int]], width: float, size: float
) -> list[list[Box]]:
    """Return the lines of a sentence, the boxes of each in the order in which they are read.

    `words` are start and stop of its words, in order; `size` is that of the font. A sentence whose
    first letter is written from the right stands at the right end of its lines.
    """
    base = base_level(sentence)
    letters = list(_letters(sentence, words, bidi_levels(sentence, base), size))
    lines = _filled(_chunks(sentence, letters), width)
    return [_boxes(line, width if base else None) for line in lines]


def _letters(
    sentence: str, words: Sequence[tuple[int, int]], levels: Sequence[int], size: float
) -> Iterator[_Letter]:
    """Cut a sentence into graphemes; one that has parts of several words belongs to the first."""
    start, word = 0, 0
    for grapheme in graphemes(sentence):
        stop = start + len(grapheme)
        while word < len(words) and words[word][1] <= start:
            word += 1
        is_word = word < len(words) and words[word][0] < stop
        yield _Letter(
            text=grapheme,
            start=start,
            word=word if is_word else None,
            level=levels[start],
            width=text_width(" " if grapheme.isspace() else grapheme, size),
        )
        start = stop


def _chunks(sentence: str, letters: Sequence[_Letter]) -> Iterator[list[_Letter]]:
    """Yield the letters between two places where a line may end."""
    remaining, stop = deque(letters), 0
    for piece in unbroken(sentence):
        stop += len(piece)
        chunk = []
        while remaining and remaining[0].start < stop:
            chunk.append(remaining.popleft())
        yield chunk


def _filled(chunks: Iterable[list[_Letter]], width: float) -> Iterator[list[_Letter]]:
    """Fill lines with as many chunks as fit, and yield those that have letters."""
    line: list[_Letter] = []
    for chunk in chunks:
        needed = _width_of(_trimmed(chunk))
        parts = [chunk] if needed <= width else [[letter] for letter in chunk]
        for part in parts:
            if _width_of(line) + _width_of(_trimmed(part)) > width:
                yield _trimmed(line)
                line = []
            line = line + part
    if line := _trimmed(line):
        yield line


def _width_of(letters: Iterable[_Letter]) -> float:
    return sum(letter.width for letter in letters)


def _trimmed(letters: Sequence[_Letter]) -> list[_Letter]:
    """Leave out the spaces at both ends."""
    seen = [k for k, letter in enumerate(letters) if not letter.is_space]
    return [*letters[seen[0] : seen[-1] + 1]] if seen else []


def _boxes(line: Sequence[_Letter], right: float | None) -> list[Box]:
    """Put the letters of a line in their places; it begins at 0, or ends at `right`."""
    grouped = groupby(line, key=lambda letter: (letter.word, letter.level, letter.is_space))
    runs = [(word, level, is_space, [*run]) for (word, level, is_space), run in grouped]
    widths = [run[0].width if is_space else _width_of(run) for _, _, is_space, run in runs]
    lefts = [0.0] * len(runs)
    left = 0.0 if right is None else right - sum(widths)
    for k in visual_order([level for _, level, _, _ in runs]):
        lefts[k] = left
        left += widths[k]
    return [
        Box("".join(letter.text for letter in run), word, lefts[k], widths[k], level % 2 == 1)
        for k, (word, level, is_space, run) in enumerate(runs)
        if not is_space
    ]
