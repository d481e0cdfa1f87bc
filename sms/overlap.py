"""ROUGE between pairs of texts: n-grams, longest common subsequences, their union and weighting.

Texts come as packed token ids, pairs as index arrays into the texts (int64, shape (n_pairs,));
every score of a batch is one compiled call that releases the GIL. `rouge_n`, `rouge_l` and
`rouge_lsum` return what the package rouge-score returns. Which tokens there are is in `rouge`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sms.overlap_kernels import (
    BLOCK,
    count_shared,
    counts_of_values_in,
    lcs_lengths,
    number,
    union_lcs_hits,
    weighted_lcs,
)
from sms.ragged import Ragged, ranges


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
    hits = count_shared(ngrams.values, ngrams.offsets, candidate, reference, n_distinct)
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
    """Give each distinct n-gram of a batch a number; return each text's, and how many."""
    token_numbers, n_distinct_tokens = number(tokens.values)
    numbers, n_distinct = token_numbers, n_distinct_tokens
    for extra in range(1, n):
        # Runs over the ends of texts too; `starts` leaves those n-grams out.
        numbers, n_distinct = number(numbers[:-1] * n_distinct_tokens + token_numbers[extra:])
    lengths = np.maximum(tokens.lengths - (n - 1), 0)
    starts = ranges(tokens.offsets[:-1], lengths)
    return Ragged.from_lengths(numbers[starts], lengths), n_distinct


def counts_in(rows: Ragged, n_distinct: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Count how often each value of the row `first` is in the row `second`; int64, flat."""
    return counts_of_values_in(rows.values, rows.offsets, first, second, n_distinct)


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
