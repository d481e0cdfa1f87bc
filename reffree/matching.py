"""Which sentence of a document each sentence of a summary comes from, by words.

Texts come as packed numbers, pairs as index arrays into the texts (int64, shape (n_pairs,)), as in
`sms.overlap`. What is said of sentences comes back flat, pair by pair.
"""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel
from sms.overlap import number
from sms.ragged import Ragged

NO_WORD = -1.0
"""Share of a sentence that has no word."""


def best_sentences(
    sentence_words: Ragged, text_sentences: Ragged, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find for every sentence of `first` the sentence of `second` that has most of its words.

    Returns the share of its distinct words that this one has (`NO_WORD` if it has none), float64,
    and the place of this one in its text, int64; of equals the earliest. Both are flat, shape
    (n sentences of all pairs,).

    Examples
    --------
    >>> words = Ragged.from_rows([[1, 2, 3, 4], [1, 9], [4, 2, 3]])
    >>> texts = Ragged.from_rows([[0], [1, 2]])
    >>> best_sentences(words, texts, np.array([0]), np.array([1]))
    (array([0.75]), array([1]))
    """
    numbers, n_distinct = number(sentence_words.values)
    return _best_sentences(
        numbers, sentence_words.offsets, text_sentences.values, text_sentences.offsets,
        first, second, n_distinct,
    )  # fmt: skip


def share_linked(
    sentence_words: Ragged, text_sentences: Ragged, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Measure how many neighbouring words of `first` stand in one sentence of `second` as well.

    Neighbours are words that follow each other in a sentence. Gives the share of these pairs of
    words, shape (n_pairs,); NaN where there is none.

    Examples
    --------
    >>> words = Ragged.from_rows([[1, 2, 3], [2, 8, 1], [3]])
    >>> share_linked(words, Ragged.from_rows([[0], [1, 2]]), np.array([0]), np.array([1]))
    array([0.5])
    """
    numbers, n_distinct = number(sentence_words.values)
    linked, n = _count_linked(
        numbers, sentence_words.offsets, text_sentences.values, text_sentences.offsets,
        first, second, n_distinct,
    )  # fmt: skip
    return np.divide(linked, n, out=np.full(n.size, np.nan), where=n > 0)


@kernel()
def _best_sentences(
    words: np.ndarray,
    word_offsets: np.ndarray,
    sentences: np.ndarray,
    text_offsets: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    n_distinct: int,
) -> tuple[np.ndarray, np.ndarray]:
    total = 0
    for text in first:
        total += text_offsets[text + 1] - text_offsets[text]
    shares, places = np.full(total, NO_WORD), np.zeros(total, np.int64)
    own, hit = np.full(n_distinct, -1, np.int64), np.full(n_distinct, -1, np.int64)
    at = n_looks = 0
    for pair in range(first.size):
        begin, end = text_offsets[second[pair]], text_offsets[second[pair] + 1]
        for k in range(text_offsets[first[pair]], text_offsets[first[pair] + 1]):
            n_words = 0
            for w in range(word_offsets[sentences[k]], word_offsets[sentences[k] + 1]):
                n_words += own[words[w]] != at
                own[words[w]] = at
            best = -1
            for j in range(begin, end if n_words else begin):
                n_shared = 0
                for w in range(word_offsets[sentences[j]], word_offsets[sentences[j] + 1]):
                    if own[words[w]] == at and hit[words[w]] != n_looks:
                        hit[words[w]] = n_looks
                        n_shared += 1
                n_looks += 1
                if n_shared > best:
                    best = n_shared
                    places[at] = j - begin
            if n_words and end > begin:
                shares[at] = best / n_words
            at += 1
    return shares, places


@kernel()
def _count_linked(
    words: np.ndarray,
    word_offsets: np.ndarray,
    sentences: np.ndarray,
    text_offsets: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    n_distinct: int,
) -> tuple[np.ndarray, np.ndarray]:
    linked, n = np.zeros(first.size, np.int64), np.zeros(first.size, np.int64)
    seen = np.full(n_distinct, -1, np.int64)
    n_looks = 0
    for pair in range(first.size):
        begin, end = text_offsets[second[pair]], text_offsets[second[pair] + 1]
        n_words = 0
        for k in range(text_offsets[first[pair]], text_offsets[first[pair] + 1]):
            n_words += word_offsets[sentences[k] + 1] - word_offsets[sentences[k]]
        is_linked = np.zeros(n_words, np.bool_)
        for j in range(begin, end):
            for w in range(word_offsets[sentences[j]], word_offsets[sentences[j] + 1]):
                seen[words[w]] = n_looks
            place = 0
            for k in range(text_offsets[first[pair]], text_offsets[first[pair] + 1]):
                for w in range(word_offsets[sentences[k]] + 1, word_offsets[sentences[k] + 1]):
                    if seen[words[w]] == n_looks and seen[words[w - 1]] == n_looks:
                        is_linked[place] = True
                    place += 1
            n[pair] = place
            n_looks += 1
        linked[pair] = is_linked.sum()
    return linked, n
