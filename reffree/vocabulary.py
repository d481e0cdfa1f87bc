"""The words that additions and replacements draw from: a bounded sample of a corpus's words."""

from __future__ import annotations

from collections.abc import Iterable

from reffree.cut_text import words_of
from reffree.hashing import hash64

MAX_WORDS = 1 << 18
"""Distinct words kept; all of them in most corpora."""
_MOST_HELD = 1.25  # of what is kept: fewer would be sorted out too often


class WordSample:
    """Collects the distinct words of texts, at most so many.

    Where there are more, those with the smallest hashes are kept: a uniform sample that depends
    on the words only, neither on the order of the texts nor on how they came in batches.

    Parameters
    ----------
    max_words : int
    """

    def __init__(self, max_words: int = MAX_WORDS) -> None:
        if max_words < 1:
            raise ValueError(f"`max_words` must be at least 1, got {max_words}")
        self._max_words = max_words
        self._hashes: dict[str, int] = {}
        self._limit = 1 << 64  # words at or above it are out

    def add(self, texts: Iterable[str]) -> None:
        """Take the words of texts; punctuation is no word."""
        chunks = {chunk for text in texts for chunk in text.split()}
        fresh = {word for chunk in chunks for word in words_of(chunk)} - self._hashes.keys()
        for word in fresh:
            if any(character.isalnum() for character in word):
                value = hash64(word)
                if value < self._limit:
                    self._hashes[word] = value
        if len(self._hashes) > _MOST_HELD * self._max_words:
            self._prune()

    def words(self) -> tuple[str, ...]:
        """Return the words, sorted."""
        self._prune()
        return tuple(sorted(self._hashes))

    def _prune(self) -> None:
        if len(self._hashes) > self._max_words:
            self._limit = sorted(self._hashes.values())[self._max_words]
            self._hashes = {w: value for w, value in self._hashes.items() if value < self._limit}
