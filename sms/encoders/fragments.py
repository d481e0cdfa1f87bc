"""Which words an encoder's tokeniser cuts into fragments that are too short to mean anything.

A model of word pieces knows nearly every word of its alphabet, if need be letter by letter, and
what it makes of single letters says next to nothing of a word. How many letters a piece must have
depends on how much a letter says: in an alphabet it is one sound; in scripts that leave vowels out,
or write them as marks, it is more; and where a letter is a syllable or a word, one is enough.
"""

from __future__ import annotations

import numpy as np
import regex

from sms.text import Vocabulary

LEAST_LETTERS = 3, 2, 1
"""Letters, marks included, of a word's pieces on average, at least: in alphabets, in scripts
without vowels or with vowels as marks, and where a letter is a syllable or a word."""
_ALPHABET = regex.compile(
    r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Armenian}\p{Georgian}\p{Mongolian}\p{Nko}\p{Tifinagh}]"
)
_SYLLABLES = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Ethiopic}\p{Yi}\p{Cherokee}\p{Vai}"
    r"\p{Canadian_Aboriginal}]"
)


def in_fragments(vocabulary: Vocabulary, n_pieces: np.ndarray) -> np.ndarray:
    """Tell which words of a vocabulary are in pieces that are too short; bool, (n_words,).

    `n_pieces` has the number of every word's pieces. A word in one piece is whole.
    """
    longest = vocabulary.column("most_pieces", _most_pieces)
    return np.asarray(n_pieces > longest)


def _most_pieces(words: list[str]) -> np.ndarray:
    """Return into how many pieces words may be cut, each at least into one."""
    most = [max(1, len(word) // _least_letters(word)) for word in words]
    return np.array(most, dtype=np.int64)


def _least_letters(word: str) -> int:
    in_alphabet, with_marks, in_syllables = LEAST_LETTERS
    if _ALPHABET.search(word):
        return in_alphabet
    return in_syllables if _SYLLABLES.search(word) else with_marks
