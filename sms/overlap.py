"""ROUGE between pairs of texts: n-grams, longest common subsequences, their union and weighting.

Texts come as packed token ids, pairs as index arrays into the texts (int64, shape (n_pairs,));
every score of a batch is one compiled call that releases the GIL. `rouge_n`, `rouge_l` and
`rouge_lsum` return what the package rouge-score returns. Which tokens there are is in `rouge`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sms.compiled import kernel
from sms.ragged import Ragged, ranges
from sms.subsequences import BLOCK, lcs_lengths, union_lcs_hits, weighted_lcs

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: Knuth's multiplier for hashing integers."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of each candidate is in its reference and the other way round, in [0, 1].

    NaN where the candidate or the reference has no token; arrays of shape (n_pairs,).
    """

    precision: np.ndarray
    recall: np.ndarray
    f: np.ndarray
    """Harmonic mean of the two, 0 where both are 0."""


def rouge_n(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray, n: int) -> Overlap:
    """Score each candidate by the n-grams it shares with its reference (Lin 2004, section 2).

    An n-gram matches as often as it occurs in both texts. A pair where a text has tokens but
    fewer than `n` scores 0, as in rouge-score.
    """
    ngrams, n_distinct = number_ngrams(tokens, n)
    hits = _count_shared(ngrams.values, ngrams.offsets, candidate, reference, n_distinct)
    n_ngrams = np.maximum(ngrams.lengths, 1)
    has_tokens = (tokens.lengths[candidate] > 0) & (tokens.lengths[reference] > 0)
    return _overlap(hits / n_ngrams[candidate], hits / n_ngrams[reference], has_tokens)


def rouge_l(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray) -> Overlap:
    """Score each candidate by its longest common subsequence with the reference (section 3.1)."""
    numbers, n_distinct = number(tokens.values)
    n_candidate, n_reference = tokens.lengths[candidate], tokens.lengths[reference]
    longest = n_candidate.max(initial=0)
    hits = lcs_lengths(numbers, tokens.offsets, candidate, reference, n_distinct, longest)
    return _overlap_of_matched_tokens(hits, n_candidate, n_reference)


def rouge_lsum(
    sentence_tokens: Ragged, text_sentences: Ragged, candidate: np.ndarray, reference: np.ndarray
) -> Overlap:
    """Score each candidate by the union LCS of the reference's sentences with its own.

    Every reference sentence keeps the tokens that are in its LCS with *some* candidate sentence
    (Lin 2004, section 3.2). Not in the paper but in ROUGE 1.5.5 and rouge-score: a token counts
    at most as often as the candidate has it. Of several LCS, rouge-score's is taken.
    """
    sentences = sentence_tokens.take(text_sentences.values)
    numbers, n_distinct = number(sentences.values)
    n_tokens = np.diff(sentences.offsets[text_sentences.offsets])
    longest = _longest_rows(sentences.lengths, text_sentences.offsets)
    # One table for all pairs; as large as the pair that needs most.
    n_blocks = -(-longest[reference] // BLOCK)
    hits = union_lcs_hits(
        numbers,
        sentences.offsets,
        text_sentences.offsets,
        candidate,
        reference,
        n_distinct,
        (n_blocks * longest[candidate]).max(initial=0),
        longest[candidate].max(initial=0),
        longest[reference].max(initial=0),
    )
    return _overlap_of_matched_tokens(hits, n_tokens[candidate], n_tokens[reference])


def rouge_w(
    tokens: Ragged, candidate: np.ndarray, reference: np.ndarray, weight: float = 1.2
) -> Overlap:
    r"""Score each candidate by a common subsequence that rewards consecutive matches.

    The weighted LCS of Lin 2004, section 4, with :math:`f(k) = k^w` and beta = 1:

    .. math:: P = f^{-1}\left(\frac{WLCS}{f(n)}\right), \quad
              R = f^{-1}\left(\frac{WLCS}{f(m)}\right)

    for a candidate of n and a reference of m tokens. The recurrence is the paper's: it takes
    every match it meets, so the value may lie below the best over all common subsequences.
    A `weight` w of 1 is ROUGE-L; ROUGE 1.5.5 is usually run with 1.2.

    Examples
    --------
    Lin's example: A B C D E F G against A B C D H I K.

    >>> tokens = Ragged.from_rows([[1, 2, 3, 4, 8, 9, 11], [1, 2, 3, 4, 5, 6, 7]])
    >>> rouge_w(tokens, np.array([0]), np.array([1]), weight=2.0).f.round(3)
    array([0.571])
    """
    n_candidate, n_reference = tokens.lengths[candidate], tokens.lengths[reference]
    longest = max(n_candidate.max(initial=1), n_reference.max(initial=1))
    f = np.arange(longest + 1, dtype=np.float64) ** weight
    wlcs = weighted_lcs(tokens.values, tokens.offsets, candidate, reference, f)
    has_tokens = (n_candidate > 0) & (n_reference > 0)
    # Rounding may carry a sum of f(k) an ulp past f of the sum.
    precision = np.minimum(wlcs / f[np.maximum(n_candidate, 1)], 1.0) ** (1 / weight)
    recall = np.minimum(wlcs / f[np.maximum(n_reference, 1)], 1.0) ** (1 / weight)
    return _overlap(precision, recall, has_tokens)


def number_ngrams(tokens: Ragged, n: int) -> tuple[Ragged, int]:
    """Give each distinct n-gram of a batch a number; return each text's, and how many there are.

    They are in order, int64; a text with fewer than `n` tokens has none.
    """
    token_numbers, n_distinct_tokens = number(tokens.values)
    numbers, n_distinct = token_numbers, n_distinct_tokens
    for extra in range(1, n):
        # Runs over the ends of texts too; `starts` leaves those n-grams out.
        numbers, n_distinct = number(numbers[:-1] * n_distinct_tokens + token_numbers[extra:])
    lengths = np.maximum(tokens.lengths - (n - 1), 0)
    starts = ranges(tokens.offsets[:-1], lengths)
    return Ragged.from_lengths(numbers[starts], lengths), n_distinct


@kernel()
def number(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Give distinct int64 keys numbers from 0, in order of appearance; also return how many.

    Open addressing with linear probing: several times faster than sorting the keys.
    """
    numbers = np.empty(keys.size, np.int64)
    distinct = np.empty(keys.size, np.int64)
    n_distinct = 0
    n_bits = 10
    slots = np.full(1 << n_bits, -1, np.int64)
    for position in range(keys.size):
        key = keys[position]
        slot = _find_slot(key, slots, distinct, n_bits)
        if slots[slot] < 0:
            slots[slot] = n_distinct
            distinct[n_distinct] = key
            n_distinct += 1
        numbers[position] = slots[slot]
        if 2 * n_distinct > slots.size:
            n_bits += 2
            slots = np.full(1 << n_bits, -1, np.int64)
            for known in range(n_distinct):
                slots[_find_slot(distinct[known], slots, distinct, n_bits)] = known
    return numbers, n_distinct


@kernel(inner=True)
def _find_slot(key: int, slots: np.ndarray, distinct: np.ndarray, n_bits: int) -> np.int64:
    """Slot that holds `key`'s number, or the empty one where it belongs."""
    slot = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(64 - n_bits))
    while slots[slot] >= 0 and distinct[slots[slot]] != key:
        slot = (slot + 1) & (slots.size - 1)
    return slot


def counts_in(rows: Ragged, n_distinct: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Count how often each value of the row `first` is in the row `second`; int64, flat."""
    return _counts_in(rows.values, rows.offsets, first, second, n_distinct)


@kernel()
def _counts_in(
    values: np.ndarray,
    offsets: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    n_distinct: int,
) -> np.ndarray:
    total = 0
    for row in first:
        total += offsets[row + 1] - offsets[row]
    counted = np.zeros(total, np.int64)
    counts = np.zeros(n_distinct, np.int64)
    at = 0
    for pair in range(first.size):
        begin, end = offsets[second[pair]], offsets[second[pair] + 1]
        for k in range(begin, end):
            counts[values[k]] += 1
        for k in range(offsets[first[pair]], offsets[first[pair] + 1]):
            counted[at] = counts[values[k]]
            at += 1
        for k in range(begin, end):
            counts[values[k]] = 0
    return counted


def _longest_rows(lengths: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Greatest of `lengths` in each row between two `offsets`; 0 in an empty row."""
    if offsets.size == 1:
        return np.empty(0, np.int64)
    # `reduceat` wants every start inside the array and gives an empty row what comes next.
    greatest = np.maximum.reduceat(np.append(lengths, 0), offsets[:-1])
    return np.where(np.diff(offsets) > 0, greatest, 0)


def _overlap_of_matched_tokens(
    n_matched: np.ndarray, n_candidate: np.ndarray, n_reference: np.ndarray
) -> Overlap:
    precision = n_matched / np.maximum(n_candidate, 1)
    recall = n_matched / np.maximum(n_reference, 1)
    return _overlap(precision, recall, (n_candidate > 0) & (n_reference > 0))


def _overlap(precision: np.ndarray, recall: np.ndarray, has_tokens: np.ndarray) -> Overlap:
    total = precision + recall
    f = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return Overlap(*(np.where(has_tokens, share, np.nan) for share in (precision, recall, f)))


@kernel()
def _count_shared(
    values: np.ndarray,
    offsets: np.ndarray,
    candidate: np.ndarray,
    reference: np.ndarray,
    n_distinct: int,
) -> np.ndarray:
    """Size of the multiset intersection of each pair of rows; `values` are below `n_distinct`."""
    shared = np.zeros(candidate.size, np.int64)
    unmatched = np.zeros(n_distinct, np.int32)
    for pair in range(candidate.size):
        begin, end = offsets[candidate[pair]], offsets[candidate[pair] + 1]
        for k in range(begin, end):
            unmatched[values[k]] += 1
        for k in range(offsets[reference[pair]], offsets[reference[pair] + 1]):
            if unmatched[values[k]] > 0:
                unmatched[values[k]] -= 1
                shared[pair] += 1
        for k in range(begin, end):
            unmatched[values[k]] = 0
    return shared
