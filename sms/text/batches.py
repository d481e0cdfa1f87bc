"""English sentences of many texts at once, cut as `english` cuts each.

What most marks are is told by the characters around them and the word before them, for all texts
together: a full stop after an ordinary word ends a sentence, one inside of a number does not.
`mark_kernels` finds what is to be known of each; `english` has the rules for what that leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sms.ragged import offsets_of, owners_of
from sms.text.byte_strings import SPARE_BYTES, ByteStrings, bytes_of
from sms.text.english import (
    abbreviates,
    always_ends,
    english_starts,
    is_plain,
    is_starter,
    is_title,
    is_usual,
)
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
)
from sms.text.sentences import Sentences, blocks, has_case, without_layout
from sms.text.words import attempt

MAX_WORDS = 100_000
"""Words before marks are forgotten once there are more, so that memory is bounded."""
_ALWAYS_ENDS, _IS_TITLE, _ABBREVIATES, _IS_PLAIN = 1, 2, 4, 8
_LONGEST_STARTER = 80  # bytes; 20 characters


class EnglishBatches:
    """Cuts batches of English texts, and remembers what is known of words before marks."""

    def __init__(self) -> None:
        self._words = _WordsBeforeMarks()

    def cut(self, texts: pa.StringArray) -> Sentences:
        """Cut texts, of which none is null, into sentences, which together are the texts."""
        if len(self._words) > MAX_WORDS:
            self._words = _WordsBeforeMarks()
        data, offsets = bytes_of(texts)
        paragraphs = _Paragraphs.of(texts, data, offsets)
        owner, start, is_failed = _starts(paragraphs, self._words)
        starts = np.sort(np.concatenate([paragraphs.offsets[:-1], start]))
        if data.size > paragraphs.data.size:  # as characters, they are where they were
            starts = _character_starts(data)[
                np.searchsorted(_character_starts(paragraphs.data), starts)
            ]
        bounds = pa.py_buffer(np.append(starts, offsets[-1]).astype(np.int32))
        held = pa.py_buffer(data[:-SPARE_BYTES])
        text_of = paragraphs.owners
        return Sentences(
            pa.StringArray.from_buffers(starts.size, bounds, held).to_pylist(),
            np.bincount(np.concatenate([text_of, text_of[owner]]), minlength=len(texts)),
            np.bincount(text_of, is_failed, minlength=len(texts)) > 0,
        )


@dataclass(frozen=True, slots=True)
class _Paragraphs:
    """What texts are cut into by lines and tags, in order."""

    texts: pa.StringArray
    owners: np.ndarray
    """The number of the text that each is of."""
    shown: pa.StringArray
    """Each without line ends and tags, spaces in their place."""
    data: np.ndarray
    offsets: np.ndarray
    """Their bytes, and where each starts in them and the last one ends."""
    is_cased: np.ndarray
    """Whether capitals mean something in the text of each; bool."""
    is_usual: np.ndarray
    """Whether `sentencex` goes by words and marks alone; bool."""
    has_backtick: np.ndarray
    n_marks: int
    """How many marks there are at most."""

    @classmethod
    def of(cls, texts: pa.StringArray, data: np.ndarray, offsets: np.ndarray) -> _Paragraphs:
        """Cut texts, of which these are the bytes (`bytes_of`)."""
        traits, n_marks = _traits(data, offsets)
        is_cased = traits & IS_CASED > 0
        doubtful = np.flatnonzero(~is_cased & (traits & HAS_WIDE > 0))
        is_cased[doubtful] = [*map(has_case, _taken(texts, doubtful))]
        is_broken = traits & (HAS_BREAK | HAS_BRACKET) > 0
        shown, owners = texts, np.arange(len(texts))
        if is_broken.any():
            shown, owners = _blocks(texts, is_broken)
            data, offsets = bytes_of(shown)
            traits, n_marks = _traits(data, offsets)
        usual = np.ones(traits.size, dtype=bool)
        doubtful = np.flatnonzero(traits & (HAS_WIDE | HAS_BRACKET))
        usual[doubtful] = [*map(is_usual, _taken(shown, doubtful))]
        has_backtick = traits & HAS_BACKTICK > 0
        return cls(
            texts, owners, shown, data, offsets, is_cased[owners], usual, has_backtick, n_marks
        )


def _taken(texts: pa.StringArray, numbers: np.ndarray) -> list[str]:
    """Return some texts; mostly none."""
    taken: list[str] = texts.take(pa.array(numbers)).to_pylist() if numbers.size else []
    return taken


def _traits(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, int]:
    from sms.text.mark_kernels import find_traits

    traits = np.empty(offsets.size - 1, np.uint8)
    return traits, find_traits(data, offsets, traits)


def _blocks(texts: pa.StringArray, is_broken: np.ndarray) -> tuple[pa.StringArray, np.ndarray]:
    """Cut texts with lines or tags where these end sentences.

    Returned are the paragraphs as the rules see them, and the number of the text of each.
    """
    cut = [
        [*map(without_layout, blocks(text))] if broken else [text]
        for text, broken in zip(texts.to_pylist(), is_broken.tolist(), strict=True)
    ]
    owners = owners_of(np.fromiter(map(len, cut), np.int64, len(cut)))
    return pa.array([block for of_text in cut for block in of_text], pa.string()), owners


def _character_starts(data: np.ndarray) -> np.ndarray:
    """Return where the characters of UTF-8 start, and where the last one ends."""
    return np.append(np.flatnonzero(data & 0xC0 != 0x80), data.size)


class _Marks(NamedTuple):
    """The marks of paragraphs that may end a sentence; arrays with a value for each."""

    owner: np.ndarray
    """The number of the paragraph."""
    kind: np.ndarray
    """What decides about it, as `mark_kernels` says."""
    at: np.ndarray
    """Its place in the bytes of all paragraphs."""
    next: np.ndarray
    """Where the next sentence starts, if one ends."""
    first: np.ndarray
    """Where the first word of that starts."""
    word_start: np.ndarray
    """Where the word before the mark starts, if that decides."""
    word_stop: np.ndarray

    @classmethod
    def of(cls, paragraphs: _Paragraphs) -> _Marks:
        from sms.text.mark_kernels import find_marks

        columns = np.empty((len(cls._fields), paragraphs.n_marks), np.int64)
        n_marks = find_marks(paragraphs.data, paragraphs.offsets, *columns)
        return cls(*columns[:, :n_marks])


class _WordsBeforeMarks:
    """What is known of the words before marks: asked once for each."""

    def __init__(self) -> None:
        self._words = ByteStrings()
        self._known = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self._words)

    def look_up(self, data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Return what is known of the words between places; bits."""
        numbers = self._words.number(data, starts, stops)
        new = self._words.texts(self._known.size)
        if new:
            self._known = np.append(self._known, np.array([*map(_known_of, new)], np.uint8))
        return self._known[numbers]


def _known_of(word: str) -> int:
    known = _IS_PLAIN if is_plain(word) else 0
    if always_ends(word):
        return known | _ALWAYS_ENDS
    if is_title(word):
        return known | _IS_TITLE
    return known | (_ABBREVIATES if abbreviates(word) else 0)


def _decided(
    marks: _Marks, paragraphs: _Paragraphs, words: _WordsBeforeMarks
) -> tuple[np.ndarray, np.ndarray]:
    """Tell which marks surely end a sentence, and which the rules must look at; bool each."""
    kind, owner, known = marks.kind, marks.owner, np.zeros(marks.kind.size, np.uint8)
    asked = np.flatnonzero(kind >= AFTER_WORD)
    known[asked] = words.look_up(paragraphs.data, marks.word_start[asked], marks.word_stop[asked])
    is_after_word = (kind >= AFTER_WORD) & (kind < BEFORE_QUOTE) & paragraphs.is_usual[owner]
    is_before_quote = (kind == BEFORE_QUOTE) & paragraphs.has_backtick[owner]
    is_end = (
        (kind == ENDS)
        | (is_after_word & (known & _ALWAYS_ENDS > 0))
        | (is_before_quote & (known & _IS_PLAIN > 0))
    )
    abbreviates = is_after_word & (known & _ABBREVIATES > 0)
    goes_on = (is_after_word & (kind >= AFTER_TITLE) & (known & _IS_TITLE > 0)) | (
        ((kind == IN_SPEECH) | (abbreviates & (kind == BEFORE_SMALL))) & paragraphs.is_cased[owner]
    )
    tried = np.flatnonzero(abbreviates & (kind == BEFORE_CAPITAL))
    goes_on[tried] = [not is_starter(word, 0) for word in _next_words(tried, marks, paragraphs)]
    return is_end, ~(is_end | goes_on)


def _next_words(numbers: np.ndarray, marks: _Marks, paragraphs: _Paragraphs) -> Iterator[str]:
    """Give what follows marks, of which these are the numbers: the next word and a little more."""
    first, stop = marks.first[numbers], paragraphs.offsets[marks.owner[numbers] + 1]
    last = np.minimum(first + _LONGEST_STARTER, stop)
    for start, end in zip(first.tolist(), last.tolist(), strict=True):
        yield paragraphs.data[start:end].tobytes().decode(errors="ignore")


def _starts(
    paragraphs: _Paragraphs, words: _WordsBeforeMarks
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where sentences start, but for the first of each paragraph: the paragraph, the byte.

    Also return which paragraphs cannot be cut.
    """
    marks = _Marks.of(paragraphs)
    is_end, is_open = _decided(marks, paragraphs, words)
    if not is_open.any():
        return marks.owner[is_end], marks.next[is_end], np.zeros(len(paragraphs.shown), dtype=bool)
    is_left = np.zeros(len(paragraphs.shown), dtype=bool)
    is_left[marks.owner[is_open]] = True
    is_done = is_end & ~is_left[marks.owner]
    owners, starts, is_failed = _starts_by_rules(paragraphs, marks, is_end, is_open, is_left)
    return (
        np.concatenate([marks.owner[is_done], owners]),
        np.concatenate([marks.next[is_done], starts]),
        is_failed,
    )


def _starts_by_rules(
    paragraphs: _Paragraphs,
    marks: _Marks,
    is_end: np.ndarray,
    is_open: np.ndarray,
    is_left: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same for the paragraphs that are left, of which some marks are open."""
    is_known = is_end & is_left[marks.owner]
    begins = paragraphs.offsets[marks.owner]
    known, places = (marks.next - begins)[is_known].tolist(), (marks.at - begins)[is_open].tolist()
    known_bounds, bounds = (
        offsets_of(np.bincount(marks.owner[chosen], minlength=is_left.size)).tolist()
        for chosen in (is_known, is_open)
    )
    left = np.flatnonzero(is_left)
    texts, owners_left = _taken(paragraphs.shown, left), paragraphs.owners[left].tolist()
    distinct = [*dict.fromkeys(owners_left)]  # one string for each text
    of_owners = dict(zip(distinct, _taken(paragraphs.texts, np.array(distinct)), strict=True))
    wholes = [of_owners[owner] for owner in owners_left]
    owners: list[int] = []
    starts: list[int] = []
    is_failed = np.zeros(is_left.size, dtype=bool)
    for number, text, whole in zip(left.tolist(), texts, wholes, strict=True):
        found = _english_starts(
            text,
            whole,
            places[bounds[number] : bounds[number + 1]],
            known[known_bounds[number] : known_bounds[number + 1]],
        )
        if found is None:
            is_failed[number] = True
            continue
        owners += [number] * len(found)
        starts += found
    owner = np.array(owners, np.int64)
    return owner, paragraphs.offsets[owner] + np.array(starts, np.int64), is_failed


def _english_starts(text: str, whole: str, marks: list[int], known: list[int]) -> list[int] | None:
    """Return what `english_starts` does, places in bytes; None where it fails."""
    if text.isascii():
        return attempt(partial(english_starts, whole=whole, marks=marks, known=known), text)
    characters = _character_starts(np.frombuffer(text.encode(), np.uint8))
    marks, known = (np.searchsorted(characters, places).tolist() for places in (marks, known))
    found = attempt(partial(english_starts, whole=whole, marks=marks, known=known), text)
    return None if found is None else characters[found].tolist()
