r"""Where the words of a summary come from: its document's nearest sentences, and a copy model.

Texts come as packed numbers, pairs as index arrays into the texts (int64, shape (n_pairs,)), as in
`sms.metrics.overlap`. What is said of sentences or words comes back flat, pair by pair.

The copy model is a language model that knows nothing but one text. In it a word w after the words
u, v has the probability

.. math:: \lambda_0 \epsilon + \lambda_1 \frac{c(w)}{N} + \lambda_2 \frac{c(vw)}{c(v)}
          + \lambda_3 \frac{c(uvw)}{c(uv)}

where c counts in the other text of N words (Jelinek and Mercer 1980). The four shares are fitted
to pairs by expectation maximisation.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from sms.compiled import kernel
from sms.metrics.overlap import counts_in, number, number_ngrams
from sms.ragged import Ragged, places_of

NO_WORD = -1.0  # share of a sentence that has no word
UNKNOWN = 1e-5
"""Probability of any word where nothing is known: about one of the words of a newspaper."""
FIRST_SHARES = (0.1, 0.2, 0.3, 0.4)
LEAST_SHARE = 1e-3
"""Of each order, so that no word is impossible though all texts it was fitted to are copies."""

_STEPS = 30
_Packed: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]
"""Words by number and offsets of sentences, sentences and offsets of texts, distinct words."""


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
    return _best_sentences(_packed(sentence_words, text_sentences), first, second)


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
    linked, n = _count_linked(_packed(sentence_words, text_sentences), first, second)
    return np.divide(linked, n, out=np.full(n.size, np.nan), where=n > 0)


def components(words: Ragged, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return what each order of the model says of every word of `first`, given `second`.

    Shape (n words of all pairs, 4), from the unknown to three words.

    Examples
    --------
    >>> components(Ragged.from_rows([[1, 2], [1, 2, 1, 3]]), np.array([0]), np.array([1]))
    array([[1.0e-05, 5.0e-01, 0.0e+00, 0.0e+00],
           [1.0e-05, 2.5e-01, 5.0e-01, 0.0e+00]])
    """
    lengths = words.lengths[first]
    n = int(lengths.sum())
    places = places_of(lengths)
    probabilities = np.zeros((n, 4))
    probabilities[:, 0] = UNKNOWN
    # The denominators of the formula above: N, then c(v), then c(uv).
    before = np.repeat(words.lengths[second], lengths)
    for order in (1, 2, 3):
        ngrams, n_distinct = number_ngrams(words, order)
        counts = np.zeros(n, dtype=np.int64)
        counts[places >= order - 1] = counts_in(ngrams, n_distinct, first, second)
        np.divide(
            counts, before, out=probabilities[:, order], where=(before > 0) & (places >= order - 1)
        )
        before = np.append(0, counts[:-1])
    return probabilities


def fit_shares(parts: np.ndarray) -> tuple[float, ...]:
    """Find the shares under which words are most likely; `parts` come from `components`."""
    shares = np.array(FIRST_SHARES)
    for _ in range(_STEPS):
        weighted = parts * shares
        shares = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        shares = np.maximum(shares, LEAST_SHARE)
    return tuple(shares.round(4).tolist())


def _packed(sentence_words: Ragged, text_sentences: Ragged) -> _Packed:
    words, n_distinct = number(sentence_words.values)
    return words, sentence_words.offsets, text_sentences.values, text_sentences.offsets, n_distinct


@kernel()
def _best_sentences(
    texts: _Packed, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    words, word_offsets, sentences, text_offsets, n_distinct = texts
    total = 0
    for text in first:
        total += text_offsets[text + 1] - text_offsets[text]
    shares, places = np.full(total, NO_WORD), np.zeros(total, np.int64)
    # By word: the sentence of `first` it was last seen in, and the comparison it last counted in.
    seen_at, hit = np.full(n_distinct, -1, np.int64), np.full(n_distinct, -1, np.int64)
    at = n_looks = 0
    for pair in range(first.size):
        begin, end = text_offsets[second[pair]], text_offsets[second[pair] + 1]
        for k in range(text_offsets[first[pair]], text_offsets[first[pair] + 1]):
            n_words = 0
            for w in range(word_offsets[sentences[k]], word_offsets[sentences[k] + 1]):
                n_words += seen_at[words[w]] != at
                seen_at[words[w]] = at
            best = -1
            for j in range(begin, end if n_words else begin):
                n_shared = 0
                for w in range(word_offsets[sentences[j]], word_offsets[sentences[j] + 1]):
                    if seen_at[words[w]] == at and hit[words[w]] != n_looks:
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
    texts: _Packed, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    words, word_offsets, sentences, text_offsets, n_distinct = texts
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
