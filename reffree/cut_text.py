"""A text as sentences of words that remember the white space before them, to be edited and joined.

Words are those of `sms.text`, punctuation included; so are the sentences.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from sms.text import split_sentences
from sms.words import split_words

_CHUNK = re.compile(r"\S+")
_MAX_CHUNKS = 1 << 16


class Token(NamedTuple):
    """A word of a text."""

    gap: str  # white space before it; empty between the words of a chunk
    word: str
    is_kept: bool = True
    """Whether it was in the text that was edited, and still stands where it stood."""


Sentence: TypeAlias = tuple[Token, ...]


def cut_text(text: str) -> tuple[Sentence, ...]:
    """Cut a text into sentences and words.

    `join` gives the text back, but for white space at its ends and invisible characters.
    """
    starts = _sentence_starts(text)
    sentences: list[list[Token]] = []
    for start, token in _tokens(text):
        while starts and start >= starts[-1]:
            starts.pop()
            sentences.append([])
        sentences[-1].append(token)
    return tuple(tuple(sentence) for sentence in sentences if sentence)


def join(sentences: Iterable[Sequence[Token]]) -> str:
    """Write sentences as a text."""
    pieces = [piece for sentence in sentences for token in sentence for piece in token[:2]]
    return "".join(pieces[1:])  # without the white space before the first word


@functools.lru_cache(_MAX_CHUNKS)
def words_of(chunk: str) -> tuple[str, ...]:
    """Return the words of a piece of text without white space, remembering recent pieces."""
    return tuple(split_words(chunk))


def count_words(sentences: Iterable[Sequence[Token]]) -> int:
    """Count the words, punctuation included."""
    return sum(map(len, sentences))


def foreign(sentence: Sequence[Token]) -> Sentence:
    """Mark the words of a sentence as coming from elsewhere."""
    return tuple(token._replace(is_kept=False) for token in sentence)


def arranged(sentences: Sequence[Sequence[Token]], gap: str) -> tuple[Sentence, ...]:
    """Put sentences one after the other that did not stand so before.

    A sentence that stood first has no white space before it and gets `gap`.
    """
    return tuple(
        (sentence[0]._replace(gap=sentence[0].gap or gap), *sentence[1:])
        for sentence in sentences
        if sentence
    )


def sentence_gap(sentences: Sequence[Sequence[Token]]) -> str:
    """Return the white space between a text's sentences: a line break in some corpora."""
    return (sentences[1][0].gap if len(sentences) > 1 else "") or " "


def _tokens(text: str) -> Iterator[tuple[int, Token]]:
    """Give the words, each with the place of its first character."""
    end = 0
    for chunk in _CHUNK.finditer(text):
        start, gap = chunk.start(), text[end : chunk.start()]
        words = words_of(chunk[0])
        for word in words:
            yield start, Token(gap, word)
            start, gap = start + len(word), ""
        end = chunk.end()


def _sentence_starts(text: str) -> list[int]:
    """Return where sentences begin, the last one first; the first is 0."""
    starts, end = [0], 0
    for piece in split_sentences(text):
        sentence = piece.strip()
        if sentence:
            start = text.index(sentence, end)
            starts.append(start)
            end = start + len(sentence)
    return starts[::-1]
