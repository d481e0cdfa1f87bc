"""Compiled loops over the bytes of English texts: their marks, and what stands around each."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel
from sms.text.marks import (
    AFTER_TITLE,
    AFTER_WORD,
    BEFORE_CAPITAL,
    BEFORE_QUOTE,
    BEFORE_SMALL,
    ENDS,
    HAS_BACKTICK,
    HAS_BRACKET,
    HAS_BREAK,
    HAS_WIDE,
    IN_SPEECH,
    IS_CASED,
    OPEN,
)

_FULL_STOP, _EXCLAMATION, _QUESTION, _SPACE, _BACKTICK, _APOSTROPHE = b".!? `'"
_SMALL, _CAPITAL, _DIGIT, _CLOSING, _OPENING, _ROMAN, _MAY_BE_MARK, _IN_WORD = (
    1 << k for k in range(8)
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_KINDS = np.zeros(256, np.uint8)
for _kind, _characters in (
    (_SMALL | _IN_WORD, _LETTERS),
    (_CAPITAL | _IN_WORD, _LETTERS.upper()),
    (_DIGIT | _IN_WORD, "0123456789"),
    (_IN_WORD, "_"),
    (_CLOSING, "\"')]}*_"),
    (_OPENING, "\"'(`"),
    (_ROMAN, "ivxIVX"),
    (_MAY_BE_MARK, ".!?"),
):
    _KINDS[[*_characters.encode()]] |= _kind
_KINDS[[0xD8, 0xE2, 0xE3, 0xEF]] |= _MAY_BE_MARK  # `_wide_mark` looks again
_ALNUM = _SMALL | _CAPITAL | _DIGIT
_TRAITS = np.zeros(256, np.uint8)
_TRAITS[128:] = HAS_WIDE
_TRAITS[[*b"\n\v\f\r"]] = HAS_BREAK
_TRAITS[[*b"<"]] = HAS_BRACKET
_TRAITS[[*b"`"]] = HAS_BACKTICK
_MARK_BIT = 7
_TRAITS[_KINDS & _MAY_BE_MARK > 0] |= 1 << _MARK_BIT
_SEEN = 24
_NEAR_END = 16
"""So few bytes before the end of a paragraph it is quicker to look for a word there."""


@kernel()
def find_traits(data, offsets, traits):
    """Tell what every text has; return how many marks there are in all, at most.

    A text that is not in ASCII may be cased where it is not told.
    """
    n_marks = np.int64(0)
    for text in range(offsets.size - 1):
        start, stop = offsets[text], offsets[text + 1]
        found = 0
        for at in range(start, stop):
            of_byte = _TRAITS[data[at]]
            found |= of_byte
            n_marks += of_byte >> _MARK_BIT
        if found & HAS_WIDE:
            for at in range(start, stop - 1):
                # a next line is C2 85; separators of lines and paragraphs are E2 80 A8, E2 80 A9
                if data[at] == 0xC2 and data[at + 1] == 0x85:
                    found |= HAS_BREAK
                elif data[at] == 0xE2 and data[at + 1] == 0x80:
                    found |= HAS_BREAK if data[at + 2] & 0xFE == 0xA8 else 0
        for at in range(start, stop - 1):
            if _KINDS[data[at]] & _CAPITAL and _KINDS[data[at + 1]] & _SMALL:
                found |= IS_CASED
                break
        traits[text] = found & ~(1 << _MARK_BIT)
    return n_marks


@kernel(inner=True)
def _wide_mark(data, at):
    """Return how many bytes the mark at a place has, of `english.MARKS`; 0 if it is none."""
    first, second, third = data[at], data[at + 1], data[at + 2]
    if first == 0xD8:
        return 2 if second == 0x9F else 0
    if first == 0xE2:
        return 3 if second == 0x80 and third == 0xA6 else 0
    if first == 0xE3:
        return 3 if second == 0x80 and third == 0x82 else 0
    return 3 if second == 0xBC and (third == 0x81 or third == 0x9F) else 0


@kernel(inner=True)
def _byte(data, at, begin, stop):
    """Return the byte at a place, a space outside of the paragraph."""
    return np.int64(data[at] if begin <= at < stop else _SPACE)


@kernel(inner=True)
def _has_word(data, at, stop):
    """Tell whether there may be a letter or digit."""
    while at < stop:
        if data[at] == 0xE2 and data[at + 1] == 0x80:
            at += 3  # punctuation, such as quotation marks
        elif data[at] >= 128 or _KINDS[data[at]] & _IN_WORD:
            return True
        else:
            at += 1
    return False


@kernel()
def find_marks(data, offsets, owners, kinds, places, nexts, firsts, word_starts, word_stops):
    """Find the marks of paragraphs that may end sentences; return how many there are.

    Of each: its paragraph, its kind, its place, where the next sentence starts if one ends, where
    the first word of that starts, and where the word before the mark starts and stops, if that
    decides.
    """
    n_marks = np.int64(0)
    for paragraph in range(offsets.size - 1):
        begin, stop = offsets[paragraph], offsets[paragraph + 1]
        for at in range(begin, stop):
            mark = np.int64(data[at])
            if not _KINDS[mark] & _MAY_BE_MARK:
                continue
            size = 1 if mark < 128 else _wide_mark(data, at)
            if size == 0:
                continue
            # what closes the sentence, one or two spaces, and what opens the next one
            place = at + size
            behind = _byte(data, place, begin, stop)
            has_closing = _KINDS[behind] & _CLOSING != 0
            place += has_closing
            has_space = _byte(data, place, begin, stop) == _SPACE
            place += has_space
            place += has_space and _byte(data, place, begin, stop) == _SPACE
            opening = _byte(data, place, begin, stop)
            first = place + (_KINDS[opening] & _OPENING != 0)
            first += opening == _BACKTICK and _byte(data, first, begin, stop) == _SPACE
            next_kind = _KINDS[_byte(data, first, begin, stop)]

            before = _byte(data, at - 1, begin, stop)
            is_apart = before == _SPACE
            word_stop = at - is_apart
            is_small, is_digit = next_kind & _SMALL != 0, next_kind & _DIGIT != 0
            mark_kind = OPEN
            if has_space and first < stop and word_stop > begin and next_kind & _ALNUM:
                if has_closing and is_small:
                    # `"Who?" he said`; behind two letters it is no enumerator's mark
                    is_behind_word = (
                        _KINDS[before] & _SMALL
                        and not _KINDS[before] & _ROMAN
                        and _KINDS[_byte(data, at - 2, begin, stop)] & _SMALL
                    )
                    if _KINDS[before] & _ALNUM and (mark == _FULL_STOP or is_behind_word):
                        mark_kind = IN_SPEECH
                elif mark != _FULL_STOP:
                    # `Who? Nobody.`
                    is_behind_word = _KINDS[_byte(data, word_stop - 1, begin, stop)] & _ALNUM != 0
                    if size == 1 and not has_closing and is_behind_word:
                        mark_kind = ENDS if is_apart or not is_small else OPEN
                elif has_closing:
                    mark_kind = OPEN if is_apart and is_digit else AFTER_WORD
                elif is_apart or is_digit:
                    mark_kind = OPEN if is_apart and is_digit else AFTER_TITLE
                else:
                    mark_kind = BEFORE_SMALL if is_small else BEFORE_CAPITAL
            elif (
                is_apart
                and mark == _FULL_STOP
                and behind == _SPACE
                and _byte(data, at + 2, begin, stop) == _APOSTROPHE
                and _byte(data, at + 3, begin, stop) == _SPACE
                and _KINDS[_byte(data, at + 4, begin, stop)] & _CAPITAL
            ):
                # `he left . ' Nobody`
                mark_kind, place = BEFORE_QUOTE, at + 4
            if mark_kind == OPEN:
                is_inside = (
                    mark != _QUESTION
                    and size == 1
                    and (
                        # `3.5`, `cnn.com`, `U.S`
                        _KINDS[behind] & (_SMALL | _DIGIT)
                        or (_KINDS[behind] & _CAPITAL and _KINDS[before] & (_CAPITAL | _DIGIT))
                    )
                )
                if place >= stop or is_inside:
                    continue
                if stop - at <= _NEAR_END and not _has_word(data, at + size, stop):
                    continue
            word_start, n_seen = word_stop, 0
            if mark_kind >= AFTER_WORD:
                while word_start > begin and n_seen < _SEEN and data[word_start - 1] != _SPACE:
                    word_start -= 1
                    n_seen += data[word_start] & 0xC0 != 0x80
            owners[n_marks], kinds[n_marks], places[n_marks] = paragraph, mark_kind, at
            nexts[n_marks], firsts[n_marks] = place, first
            word_starts[n_marks], word_stops[n_marks] = word_start, word_stop
            n_marks += 1
    return n_marks
