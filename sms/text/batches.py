"""English sentences of many texts at once, cut as `english` cuts each.

What most marks are is told by a few characters around them, for all texts together: a full stop
after an ordinary word ends a sentence, one inside of a number does not. `english` has the rules for
the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sms.ragged import offsets_of, owners_of
from sms.text.english import (
    MARKS,
    abbreviates,
    always_ends,
    english_starts,
    is_plain,
    is_starter,
    is_title,
    is_usual,
    word_before,
)
from sms.text.sentences import Sentences, blocks, has_breaks, has_case, without_layout
from sms.text.words import attempt


def _table(characters: str) -> np.ndarray:
    """Tell which bytes are among some characters; bool, shape (256,)."""
    table = np.zeros(256, dtype=bool)
    table[[*characters.encode()]] = True
    return table


_CAPITALS, _DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_FULL_STOP, _EXCLAMATION, _QUESTION, _SPACE, _BACKTICK, _APOSTROPHE = b".!? `'"
_IS_SMALL, _IS_CAPITAL, _IS_DIGIT = _table(_CAPITALS.lower()), _table(_CAPITALS), _table(_DIGITS)
_IS_ALNUM = _IS_SMALL | _IS_CAPITAL | _IS_DIGIT
_IS_CLOSING, _IS_OPENING = _table("\"')]}*_"), _table("\"'(`")
_IS_ROMAN = _table("ivxIVX")
_NEAR_END = 8
"""So few characters before the end of a paragraph it is quicker to look for a word there."""
_WORD_CHARACTER = re.compile(r"\w")
_LOOKAHEAD = " " * 8
"""Stands after the last text, so that looking ahead stays inside of the array."""


def english_batch(texts: Sequence[str]) -> Sentences:
    """Cut texts, of which there is at least one, into sentences, which together are the texts."""
    paragraphs = _Paragraphs.of(texts)
    owner, local, is_failed = _starts(paragraphs)
    starts = np.sort(np.concatenate([paragraphs.places, paragraphs.places[owner] + local])).tolist()
    joined = "".join(texts)
    stops = [*starts[1:], len(joined)]
    pieces = [joined[start:stop] for start, stop in zip(starts, stops, strict=True)]
    text_of = paragraphs.owners
    lengths = np.bincount(np.concatenate([text_of, text_of[owner]]), minlength=len(texts))
    is_failed = np.bincount(text_of, is_failed, minlength=len(texts)) > 0
    return Sentences(pieces, lengths, is_failed)


@dataclass(frozen=True, slots=True)
class _Paragraphs:
    """What texts are cut into by lines and tags, in order."""

    shown: Sequence[str]
    """Each without line ends and tags."""
    wholes: Sequence[str]
    """The text of each."""
    owners: np.ndarray
    """The number of that text."""
    places: np.ndarray
    """Where each starts in the joined texts."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> _Paragraphs:
        breaks = [*map(has_breaks, texts)]
        if not any(breaks):
            sizes = np.fromiter(map(len, texts), np.int64, len(texts))
            return cls(texts, texts, np.arange(len(texts)), offsets_of(sizes)[:-1])
        cut = [
            blocks(text) if broken else [text] for text, broken in zip(texts, breaks, strict=True)
        ]
        flat = [block for blocks_of_text in cut for block in blocks_of_text]
        owners = owners_of(np.fromiter(map(len, cut), np.int64, len(cut)))
        wholes = [texts[number] for number in owners.tolist()]
        sizes = np.fromiter(map(len, flat), np.int64, len(flat))
        shown = [
            without_layout(block) if breaks[number] else block
            for block, number in zip(flat, owners.tolist(), strict=True)
        ]
        return cls(shown, wholes, owners, offsets_of(sizes)[:-1])


def _starts(paragraphs: _Paragraphs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where sentences start inside of paragraphs: the paragraph, the character in it.

    Also return which paragraphs cannot be cut.
    """
    shown = paragraphs.shown
    marks = _Marks(shown, paragraphs.wholes)
    is_failed = np.zeros(len(shown), dtype=bool)
    if not marks.open_places.size:
        return marks.owner[marks.is_end], marks.start[marks.is_end], is_failed
    is_open = np.zeros(len(shown), dtype=bool)
    is_open[marks.open_owner] = True
    is_known = marks.is_end & is_open[marks.owner]
    known_bounds = offsets_of(np.bincount(marks.owner[is_known], minlength=len(shown))).tolist()
    open_bounds = offsets_of(np.bincount(marks.open_owner, minlength=len(shown))).tolist()
    known, places = marks.start[is_known].tolist(), marks.open_places.tolist()
    owners: list[int] = []
    starts: list[int] = []
    for number in np.flatnonzero(is_open).tolist():
        cut = partial(
            english_starts,
            whole=paragraphs.wholes[number],
            marks=places[open_bounds[number] : open_bounds[number + 1]],
            known=known[known_bounds[number] : known_bounds[number + 1]],
        )
        found = attempt(cut, shown[number])
        if found is None:
            is_failed[number] = True
            continue
        starts += found
        owners += [number] * len(found)
    is_done = marks.is_end & ~is_open[marks.owner]
    return (
        np.concatenate([marks.owner[is_done], np.array(owners, np.int64)]),
        np.concatenate([marks.start[is_done], np.array(starts, np.int64)]),
        is_failed,
    )


class _Cased(dict[int, bool]):
    """In which paragraphs capitals mean something; found where it is asked."""

    def __init__(self, wholes: Sequence[str]) -> None:
        self._wholes = wholes

    def __missing__(self, number: int) -> bool:
        self[number] = has_case(self._wholes[number])
        return self[number]


class _Marks:
    """The marks of paragraphs: those that surely end a sentence, and those that may.

    An array with a value for each mark has the name of that value. Each `_decide` is about one kind
    of marks, of which it finds those that surely end a sentence, and those that surely do not.
    """

    def __init__(self, shown: Sequence[str], wholes: Sequence[str]) -> None:
        padded = [*shown, _LOOKAHEAD]
        self._shown, self._is_cased = shown, _Cased(wholes)
        self._joined = " ".join(padded)
        # characters outside ASCII become question marks, so that the rules look at them
        self._codes = codes = np.frombuffer(
            b" ".join([text.encode("ascii", "replace") for text in padded]), np.uint8
        )
        sizes = np.fromiter(map(len, shown), np.int64, len(shown))
        stops = np.cumsum(sizes + 1) - 1
        self._at = at = np.flatnonzero(
            (codes == _FULL_STOP) | (codes == _QUESTION) | (codes == _EXCLAMATION)
        )
        self.owner = np.searchsorted(stops, at, side="right")
        begin, self._stop = (stops - sizes)[self.owner], stops[self.owner]
        self._mark, self._before, self._behind = codes[at], codes[at - 1], codes[at + 1]
        self._look_ahead(begin)

        self.is_end = np.zeros(at.size, dtype=bool)
        self._goes_on = np.zeros(at.size, dtype=bool)
        self._decide_after_words()
        self._decide_before_quotes_apart()
        self._decide_inside_speech()
        self._decide_questions()

        is_open = self._are_open()
        self.start = self._next - begin
        """Where the next sentence starts in the paragraph, if one does."""
        self.open_owner = self.owner[is_open]
        """The paragraph of each mark that may end a sentence."""
        self.open_places = (at - begin)[is_open]
        """Where that mark is in the paragraph."""

    def _look_ahead(self, begin: np.ndarray) -> None:
        """Find what closes the sentence, one or two spaces, and what opens the next one."""
        codes = self._codes
        self._has_closing = _IS_CLOSING[self._behind]
        space = self._at + 1 + self._has_closing
        has_space = codes[space] == _SPACE
        self._next = start = space + has_space + (has_space & (codes[space + 1] == _SPACE))
        is_backtick_apart = (codes[start] == _BACKTICK) & (codes[start + 1] == _SPACE)
        self._first = start + _IS_OPENING[codes[start]] + is_backtick_apart
        next_code = codes[self._first]
        self._is_small, self._is_digit = _IS_SMALL[next_code], _IS_DIGIT[next_code]
        self._is_apart = self._before == _SPACE
        self._word_end = self._at - self._is_apart
        self._is_before_word = (
            has_space & (self._first < self._stop) & (self._word_end > begin) & _IS_ALNUM[next_code]
        )

    def _decide_after_words(self) -> None:
        """Look at the word before a full stop, as in `it rained.`, `Mr. Smith`, `the U.S. army`."""
        usual = np.fromiter(map(is_usual, self._shown), bool, len(self._shown))
        tried = np.flatnonzero(
            self._is_before_word
            & (self._mark == _FULL_STOP)
            & ~(self._has_closing & self._is_small)
            & ~(self._is_apart & self._is_digit)
            & usual[self.owner]
        )
        words = [word_before(self._joined, end) for end in self._word_end[tried].tolist()]
        self.is_end[tried] = [*map(always_ends, words)]
        for k in np.flatnonzero(~self.is_end[tried] & ~self._has_closing[tried]).tolist():
            self._goes_on[tried[k]] = self._is_abbreviation(tried[k], words[k])

    def _is_abbreviation(self, k: int, word: str) -> bool:
        """Tell whether a full stop abbreviates the word before it, and no sentence follows."""
        if is_title(word):
            return True
        if self._is_apart[k] or self._is_digit[k] or not abbreviates(word):
            return False
        if self._is_small[k]:
            return self._is_cased[self.owner[k]]
        return not is_starter(self._joined, self._first[k])

    def _decide_before_quotes_apart(self) -> None:
        """Look at `he left . ' Nobody`, where backticks open quotations."""
        codes, at = self._codes, self._at
        tried = np.flatnonzero(
            self._is_apart
            & (self._mark == _FULL_STOP)
            & (self._behind == _SPACE)
            & (codes[at + 2] == _APOSTROPHE)
            & (codes[at + 3] == _SPACE)
            & _IS_CAPITAL[codes[at + 4]]
            & (at + 4 < self._stop)
        )
        self._next[tried] = at[tried] + 4
        places = zip(self.owner[tried].tolist(), self._word_end[tried].tolist(), strict=True)
        self.is_end[tried] = [
            "`" in self._shown[owner] and is_plain(word_before(self._joined, end))
            for owner, end in places
        ]

    def _decide_inside_speech(self) -> None:
        """Look at `"Who?" he said`; behind two letters it is no enumerator's mark."""
        before_that = self._codes[self._at - 2]
        is_behind_word = (_IS_SMALL & ~_IS_ROMAN)[self._before] & _IS_SMALL[before_that]
        tried = np.flatnonzero(
            self._is_before_word
            & self._has_closing
            & self._is_small
            & _IS_ALNUM[self._before]
            & ((self._mark == _FULL_STOP) | is_behind_word)
        )
        self._goes_on[tried] = [self._is_cased[owner] for owner in self.owner[tried].tolist()]

    def _decide_questions(self) -> None:
        """Look at `Who? Nobody.`; the mark may be another character outside ASCII."""
        tried = np.flatnonzero(
            self._is_before_word
            & (self._mark != _FULL_STOP)
            & ~self._has_closing
            & _IS_ALNUM[self._codes[self._word_end - 1]]
            & (self._is_apart | ~self._is_small)
        )
        self.is_end[tried] = [self._joined[place] in "!?" for place in self._at[tried].tolist()]

    def _are_open(self) -> np.ndarray:
        """Tell which marks the rules must look at."""
        at, stop, behind = self._at, self._stop, self._behind
        is_last = self._next >= stop
        # `3.5`, `cnn.com`, `U.S`
        is_inside = (self._mark != _QUESTION) & (
            (_IS_ALNUM & ~_IS_CAPITAL)[behind]
            | (_IS_CAPITAL[behind] & (_IS_ALNUM & ~_IS_SMALL)[self._before])
        )
        is_open = ~(self.is_end | self._goes_on | is_last | is_inside)
        near_end = np.flatnonzero(is_open & (stop - at <= _NEAR_END))
        is_open[near_end] = [
            _WORD_CHARACTER.search(self._joined, place + 1, end) is not None
            for place, end in zip(at[near_end].tolist(), stop[near_end].tolist(), strict=True)
        ]
        tried = np.flatnonzero(is_open & (self._mark == _QUESTION))
        is_open[tried] = [self._joined[place] in MARKS for place in at[tried].tolist()]
        return is_open
