"""ROUGE between pairs of texts: n-grams, longest common subsequences, their union and weighting.

Texts come as packed token ids, pairs as index arrays into the texts; every score of a batch is
one compiled call that releases the GIL. `rouge_n`, `rouge_l` and `rouge_lsum` return what the
package rouge-score returns. Making ids from tokens, and sentences from texts, is not done here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from sms.compiled import kernel
from sms.ragged import Ragged, ranges

if TYPE_CHECKING:
    from rouge_score.tokenizers import DefaultTokenizer

_WORD = 64
"""Bits that one step of the bit-parallel LCS works on."""
_ONE = np.uint64(1)
_NO_BITS = np.uint64(0)
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: Knuth's multiplier for hashing integers."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of each candidate is in its reference and the other way round, in [0, 1].

    NaN where the candidate or the reference has no token.
    """

    precision: np.ndarray
    """Share of the candidate that is matched, shape (n_pairs,)."""
    recall: np.ndarray
    """Share of the reference that is matched, shape (n_pairs,)."""
    f: np.ndarray
    """Harmonic mean of the two, 0 where both are 0, shape (n_pairs,)."""


def rouge_tokens(chunk: str, stem: bool) -> list[str]:
    """Return rouge-score's tokens of a piece of text.

    A token never crosses white space, so the tokens of a text are those of its white-space
    chunks, one chunk after the other: a caller may tokenise each distinct chunk only once.

    Parameters
    ----------
    chunk : str
        A word with its punctuation, or any longer text.
    stem : bool
        Whether tokens of more than three characters are cut to their Porter stem.

    Returns
    -------
    list of str
        Lower-cased runs of ``a-z0-9``; none if the chunk has no such character.

    Examples
    --------
    >>> rouge_tokens("Well-founded!", stem=True)
    ['well', 'found']
    """
    tokens: list[str] = _tokenizer(stem).tokenize(chunk)
    return tokens


def rouge_n(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray, n: int) -> Overlap:
    """Score each candidate by the n-grams it shares with its reference (Lin 2004, section 2).

    An n-gram matches as often as it occurs in both texts. A pair where a text has tokens but
    fewer than `n` scores 0, as in rouge-score.

    Parameters
    ----------
    tokens : Ragged, int64
        Token ids of each distinct text.
    candidate, reference : ndarray of int64, shape (n_pairs,)
        Text numbers of each pair.
    n : int
        Tokens in an n-gram.

    Returns
    -------
    Overlap
        Precision, recall and F of each pair.

    Raises
    ------
    ValueError
        If `n` is less than 1, a text number is out of range or the pairs differ in shape.

    Examples
    --------
    >>> tokens = Ragged.from_rows([[1, 2, 3], [1, 2, 4]])
    >>> rouge_n(tokens, np.array([0]), np.array([1]), n=2).f
    array([0.5])
    """
    if n < 1:
        raise ValueError(f"`n` must be at least 1, got {n}; ROUGE-2 is `n=2`")
    candidate, reference = check_pairs(len(tokens), candidate=candidate, reference=reference)
    ngrams, n_distinct = number_ngrams(tokens, n)
    hits = _count_shared(ngrams.values, ngrams.offsets, candidate, reference, n_distinct)
    n_ngrams = np.maximum(ngrams.lengths, 1)
    has_tokens = (tokens.lengths[candidate] > 0) & (tokens.lengths[reference] > 0)
    return _overlap(hits / n_ngrams[candidate], hits / n_ngrams[reference], has_tokens)


def rouge_l(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray) -> Overlap:
    """Score each candidate by its longest common subsequence with the reference.

    Each text is one sequence (Lin 2004, section 3.1).

    Parameters
    ----------
    tokens : Ragged, int64
        Token ids of each distinct text.
    candidate, reference : ndarray of int64, shape (n_pairs,)
        Text numbers of each pair.

    Returns
    -------
    Overlap
        Precision, recall and F of each pair.

    Raises
    ------
    ValueError
        If a text number is out of range or the pairs differ in shape.

    Examples
    --------
    >>> tokens = Ragged.from_rows([[1, 9, 2, 3], [1, 2, 3, 4]])
    >>> rouge_l(tokens, np.array([0]), np.array([1])).recall
    array([0.75])
    """
    candidate, reference = check_pairs(len(tokens), candidate=candidate, reference=reference)
    numbers, n_distinct = number(tokens.values)
    n_candidate, n_reference = tokens.lengths[candidate], tokens.lengths[reference]
    hits = _lcs_lengths(
        numbers, tokens.offsets, candidate, reference, n_distinct, n_candidate.max(initial=0)
    )
    return _overlap_of_matched_tokens(hits, n_candidate, n_reference)


def rouge_lsum(
    sentence_tokens: Ragged, text_sentences: Ragged, candidate: np.ndarray, reference: np.ndarray
) -> Overlap:
    """Score each candidate by the union LCS of the reference's sentences with its own.

    Every reference sentence keeps the tokens that are in its LCS with *some* candidate sentence
    (Lin 2004, section 3.2). Not in the paper but in ROUGE 1.5.5 and rouge-score: a token counts
    at most as often as the candidate has it. Of several LCS, rouge-score's is taken.

    Parameters
    ----------
    sentence_tokens : Ragged, int64
        Token ids of each distinct sentence.
    text_sentences : Ragged, int64
        Sentence numbers of each distinct text, in reading order.
    candidate, reference : ndarray of int64, shape (n_pairs,)
        Text numbers of each pair.

    Returns
    -------
    Overlap
        Precision, recall and F of each pair.

    Raises
    ------
    ValueError
        If a text number is out of range or the pairs differ in shape.

    Examples
    --------
    Lin's example, w1 to w5 against w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5:

    >>> sentences = Ragged.from_rows([[1, 2, 3, 4, 5], [1, 2, 6, 7, 8], [1, 3, 8, 9, 5]])
    >>> texts = Ragged.from_rows([[0], [1, 2]])
    >>> rouge_lsum(sentences, texts, np.array([1]), np.array([0])).recall
    array([0.8])
    """
    candidate, reference = check_pairs(
        len(text_sentences), candidate=candidate, reference=reference
    )
    sentences = sentence_tokens.take(text_sentences.values)
    numbers, n_distinct = number(sentences.values)
    n_tokens = np.diff(sentences.offsets[text_sentences.offsets])
    longest = _longest_rows(sentences.lengths, text_sentences.offsets)
    # One table for all pairs; as large as the pair that needs most.
    n_blocks = -(-longest[reference] // _WORD)
    hits = _union_lcs_hits(
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

    Parameters
    ----------
    tokens : Ragged, int64
        Token ids of each distinct text.
    candidate, reference : ndarray of int64, shape (n_pairs,)
        Text numbers of each pair.
    weight : float
        The exponent w. 1 is ROUGE-L; ROUGE 1.5.5 is usually run with 1.2.

    Returns
    -------
    Overlap
        Precision, recall and F of each pair.

    Raises
    ------
    ValueError
        If `weight` is less than 1, a text number is out of range or the pairs differ in shape.

    Examples
    --------
    Lin's example: A B C D E F G against A B C D H I K.

    >>> tokens = Ragged.from_rows([[1, 2, 3, 4, 8, 9, 11], [1, 2, 3, 4, 5, 6, 7]])
    >>> rouge_w(tokens, np.array([0]), np.array([1]), weight=2.0).f.round(3)
    array([0.571])
    """
    if not 1 <= weight < np.inf:
        raise ValueError(
            f"`weight` must be at least 1, got {weight:g}; less would reward broken matches"
        )
    candidate, reference = check_pairs(len(tokens), candidate=candidate, reference=reference)
    n_candidate, n_reference = tokens.lengths[candidate], tokens.lengths[reference]
    longest = max(n_candidate.max(initial=1), n_reference.max(initial=1))
    f = np.arange(longest + 1, dtype=np.float64) ** weight
    wlcs = _weighted_lcs(tokens.values, tokens.offsets, candidate, reference, f)
    has_tokens = (n_candidate > 0) & (n_reference > 0)
    # Rounding may carry a sum of f(k) an ulp past f of the sum.
    precision = np.minimum(wlcs / f[np.maximum(n_candidate, 1)], 1.0) ** (1 / weight)
    recall = np.minimum(wlcs / f[np.maximum(n_reference, 1)], 1.0) ** (1 / weight)
    return _overlap(precision, recall, has_tokens)


def check_pairs(n_texts: int, **sides: np.ndarray) -> list[np.ndarray]:
    """Return the sides of the pairs as int64 arrays, having checked shapes and range."""
    checked: list[np.ndarray] = []
    for name, side in sides.items():
        # Text numbers with nulls arrive as floats, which this cast refuses.
        texts = np.ascontiguousarray(np.asarray(side).astype(np.int64, casting="same_kind"))
        if texts.ndim != 1:
            raise ValueError(f"`{name}` must have shape (n_pairs,), got {texts.shape}")
        if checked and texts.shape != checked[0].shape:
            raise ValueError(
                f"`{name}` must have one text per pair, got {texts.size} for {checked[0].size}"
                f" in `{next(iter(sides))}`"
            )
        is_outside = (texts < 0) | (texts >= n_texts)
        if is_outside.any():
            pair = int(is_outside.argmax())
            raise ValueError(
                f"`{name}` must be text numbers below {n_texts}, got {texts[pair]} at pair {pair}"
            )
        checked.append(texts)
    return checked


def number_ngrams(tokens: Ragged, n: int) -> tuple[Ragged, int]:
    """Give each distinct n-gram of a batch a number.

    Returns
    -------
    ngrams : Ragged, int64
        Numbers of each text's n-grams in order; a text with fewer than `n` tokens has none.
    n_distinct : int
        Every number is below it.
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

    Open addressing with linear probing: several times faster than sorting the keys. The table
    grows with the distinct keys, which are few, so that it stays in the processor's cache.
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


@kernel()
def _find_slot(key: int, slots: np.ndarray, distinct: np.ndarray, n_bits: int) -> np.int64:
    """Slot that holds `key`'s number, or the empty one where it belongs."""
    slot = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(64 - n_bits))
    while slots[slot] >= 0 and distinct[slots[slot]] != key:
        slot = (slot + 1) & (slots.size - 1)
    return slot


@cache
def _tokenizer(stem: bool) -> DefaultTokenizer:
    from rouge_score.tokenizers import DefaultTokenizer  # a second: it imports NLTK, and that SciPy

    return DefaultTokenizer(use_stemmer=stem)


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


# The LCS is bit-parallel (Crochemore et al. 2001; Hyyrö 2004). Let t[i, j] be the length of the
# LCS of the pattern's first i and the text's first j tokens. Column j of t is one bit per i,
# 0 where t[i, j] = t[i - 1, j] + 1, and one addition turns a column into the next. A pattern of
# more than 64 tokens is worked through in blocks of 64; `carries` hold what the addition for
# text token j carries out of one block into the next.


@kernel()
def _next_column(
    column: np.uint64, mask: np.uint64, carry: np.uint64
) -> tuple[np.uint64, np.uint64]:
    matches = column & mask
    partial = column + matches
    total = partial + carry
    carry_out = _ONE if partial < column or total < partial else _NO_BITS
    return total | (column ^ matches), carry_out


@kernel()
def _set_masks(masks: np.ndarray, block: np.ndarray) -> None:
    for k in range(block.size):
        masks[block[k]] |= _ONE << np.uint64(k)


@kernel()
def _lcs_length(
    pattern: np.ndarray, text: np.ndarray, masks: np.ndarray, carries: np.ndarray
) -> int:
    """LCS length of two rows; `masks`, one per token, are 0 before and after."""
    carries[: text.size] = _NO_BITS
    length = 0
    for start in range(0, pattern.size, _WORD):
        block = pattern[start : start + _WORD]
        _set_masks(masks, block)
        column = _ALL_BITS
        for j in range(text.size):
            column, carries[j] = _next_column(column, masks[text[j]], carries[j])
        steps = ~column
        while steps != _NO_BITS:
            steps &= steps - _ONE
            length += 1
        masks[block] = _NO_BITS
    return length


@kernel()
def _lcs_lengths(
    values: np.ndarray,
    offsets: np.ndarray,
    candidate: np.ndarray,
    reference: np.ndarray,
    n_distinct: int,
    longest_candidate: int,
) -> np.ndarray:
    lengths = np.zeros(candidate.size, np.int64)
    masks = np.zeros(n_distinct, np.uint64)
    carries = np.empty(longest_candidate, np.uint64)
    for pair in range(candidate.size):
        text = values[offsets[candidate[pair]] : offsets[candidate[pair] + 1]]
        pattern = values[offsets[reference[pair]] : offsets[reference[pair] + 1]]
        lengths[pair] = _lcs_length(pattern, text, masks, carries)
    return lengths


@kernel()
def _mark_lcs(
    pattern: np.ndarray,
    text: np.ndarray,
    masks: np.ndarray,
    carries: np.ndarray,
    columns: np.ndarray,
    in_union: np.ndarray,
) -> None:
    """Set `in_union` at the pattern's positions in the LCS that rouge-score reads out."""
    n = text.size
    carries[:n] = _NO_BITS
    for start in range(0, pattern.size, _WORD):
        block = pattern[start : start + _WORD]
        _set_masks(masks, block)
        column, first = _ALL_BITS, start // _WORD * n
        for j in range(n):
            column, carries[j] = _next_column(column, masks[text[j]], carries[j])
            columns[first + j] = column
        masks[block] = _NO_BITS
    i, j = pattern.size - 1, n - 1
    while i >= 0 and j >= 0:
        if pattern[i] == text[j]:
            in_union[i] = True
            i -= 1
            j -= 1
        # rouge-score asks whether t[i, j - 1] > t[i - 1, j]. Where the tokens differ, t[i, j] is
        # the greater of the two, so that is whether t grew from i - 1 to i: the bit is 0.
        elif (columns[i // _WORD * n + j] >> np.uint64(i % _WORD)) & _ONE == _NO_BITS:
            j -= 1
        else:
            i -= 1


@kernel()
def _union_lcs_hits(
    values: np.ndarray,
    sentence_offsets: np.ndarray,
    text_offsets: np.ndarray,
    candidate: np.ndarray,
    reference: np.ndarray,
    n_distinct: int,
    n_columns: int,
    longest_candidate: int,
    longest_reference: int,
) -> np.ndarray:
    """Clipped size of the union LCS of each pair of texts."""
    hits = np.zeros(candidate.size, np.int64)
    masks = np.zeros(n_distinct, np.uint64)
    unmatched = np.zeros(n_distinct, np.int32)
    columns = np.empty(n_columns, np.uint64)
    carries = np.empty(longest_candidate, np.uint64)
    in_union = np.empty(longest_reference, np.bool_)
    for pair in range(candidate.size):
        begin, end = text_offsets[candidate[pair]], text_offsets[candidate[pair] + 1]
        candidate_tokens = values[sentence_offsets[begin] : sentence_offsets[end]]
        for token in candidate_tokens:
            unmatched[token] += 1
        for r in range(text_offsets[reference[pair]], text_offsets[reference[pair] + 1]):
            pattern = values[sentence_offsets[r] : sentence_offsets[r + 1]]
            in_union[: pattern.size] = False
            for s in range(begin, end):
                text = values[sentence_offsets[s] : sentence_offsets[s + 1]]
                _mark_lcs(pattern, text, masks, carries, columns, in_union)
            for i in range(pattern.size):
                # rouge-score clips by the reference's count as well. The union has a position
                # of the reference at most once, so that never bites.
                if in_union[i] and unmatched[pattern[i]] > 0:
                    unmatched[pattern[i]] -= 1
                    hits[pair] += 1
        unmatched[candidate_tokens] = 0
    return hits


@kernel()
def _weighted_lcs(
    values: np.ndarray,
    offsets: np.ndarray,
    candidate: np.ndarray,
    reference: np.ndarray,
    f: np.ndarray,
) -> np.ndarray:
    """WLCS of each pair (Lin 2004, section 4); `f[k]` is the worth of k matches in a row.

    Where the paper adds f(k + 1) - f(k) at each match, a run here remembers the value it began
    with, so that rounding does not add up and identical texts get exactly f(n).
    """
    wlcs = np.zeros(candidate.size, np.float64)
    best = np.empty(f.size, np.float64)
    before_run = np.empty(f.size, np.float64)
    run = np.empty(f.size, np.int64)
    for pair in range(candidate.size):
        x = values[offsets[reference[pair]] : offsets[reference[pair] + 1]]
        y = values[offsets[candidate[pair]] : offsets[candidate[pair] + 1]]
        best[: y.size + 1] = 0.0
        run[: y.size + 1] = 0
        for i in range(x.size):
            diagonal_best, diagonal_before, diagonal_run = 0.0, 0.0, 0
            for j in range(1, y.size + 1):
                above_best, above_before, above_run = best[j], before_run[j], run[j]
                if x[i] == y[j - 1]:
                    run[j] = diagonal_run + 1
                    before_run[j] = diagonal_before if diagonal_run > 0 else diagonal_best
                    best[j] = before_run[j] + f[run[j]]
                else:
                    run[j] = 0
                    best[j] = max(above_best, best[j - 1])
                diagonal_best, diagonal_before, diagonal_run = above_best, above_before, above_run
        wlcs[pair] = best[y.size]
    return wlcs
