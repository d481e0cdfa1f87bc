"""How usual the order of words is: a small model of which class of word follows which.

The commonest words of a language are classes of their own, all others are told apart by their
endings. So a model is small, and swapped, missing and invented words, broken sentences and strings
of names stand out wherever a text comes from: copied or not, in capitals or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sms.ragged import Ragged

N_COMMON = 60
"""Words that are classes of their own."""
ENDINGS = ("ing", "ed", "ly", "s", "er", "ion")
FEWEST_LETTERS = 3
"""Before an ending; a shorter word is what it is."""

_BEGIN, _END, _NUMBER, _ENDINGS, _OTHER = 0, 1, 2, 3, 3 + len(ENDINGS)
_COMMON = _OTHER + 1
_PRIOR = 2.0  # how many words of any text count as much as the model
_HUNDREDTHS = 100


def classes_of(words: Sequence[str], common: Sequence[str]) -> np.ndarray:
    """Return the class of each lower-cased word, int64."""
    own = {word: _COMMON + k for k, word in enumerate(common)}
    return np.array([own.get(word, _class_of(word)) for word in words], dtype=np.int64)


def _class_of(word: str) -> int:
    if word[:1].isdigit():
        return _NUMBER
    for k, ending in enumerate(ENDINGS):
        if word.endswith(ending) and len(word) >= len(ending) + FEWEST_LETTERS:
            return _ENDINGS + k
    return _OTHER


def steps(sentences: Ragged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the class before and after every step, and its sentence; the ends are steps too.

    Examples
    --------
    >>> before, after, sentence = steps(Ragged.from_rows([[12, 9], [], [5]]))
    >>> before.tolist(), after.tolist(), sentence.tolist()
    ([0, 12, 9, 0, 5], [12, 9, 1, 5, 1], [0, 0, 0, 2, 2])
    """
    filled = np.flatnonzero(sentences.lengths)
    lengths = sentences.lengths[filled]
    after = np.full(int(lengths.sum()) + filled.size, _END)
    after[np.arange(sentences.values.size) + np.repeat(np.arange(filled.size), lengths)] = (
        sentences.values
    )
    before = np.append(_BEGIN, after[:-1])
    before[before == _END] = _BEGIN
    return before, after, np.repeat(filled, lengths + 1)


def commonest(words: Sequence[str], counts: np.ndarray) -> tuple[str, ...]:
    """Return the words that are classes of their own, by how often each is there."""
    counted = Counter(dict(zip(words, counts.tolist(), strict=True)))
    return tuple(sorted(counted, key=lambda word: (-counted[word], word))[:N_COMMON])


def fit_order(sentences: Ragged, n_common: int) -> tuple[str, ...]:
    """Learn which class follows which, from the classes of sentences.

    Gives a row of hundredths for every class before: the logarithm of how much likelier each class
    is after it than anywhere.
    """
    n = _COMMON + n_common
    before, after, _ = steps(sentences)
    counts = np.zeros((n, n))
    np.add.at(counts, (before, after), 1)
    anywhere = (counts.sum(axis=0) + 1) / (counts.sum() + n)
    after_each = (counts + _PRIOR * anywhere) / (counts.sum(axis=1, keepdims=True) + _PRIOR)
    hundredths = np.rint(_HUNDREDTHS * np.log(after_each / anywhere)).astype(np.int64)
    return tuple(" ".join(map(str, row)) for row in hundredths.tolist())


def read_order(rows: Sequence[str]) -> np.ndarray:
    """Return the logarithms that `fit_order` wrote, by the class before and after."""
    return np.array([row.split() for row in rows], dtype=np.float64) / _HUNDREDTHS
