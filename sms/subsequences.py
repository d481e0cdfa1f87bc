"""Compiled longest common subsequences of pairs of packed rows: their lengths, union and weighting.

The LCS is bit-parallel (Crochemore et al. 2001; Hyyrö 2004). Let t[i, j] be the length of the LCS
of the pattern's first i and the text's first j tokens. Column j of t is one bit per i, 0 where
t[i, j] = t[i - 1, j] + 1, and one addition turns a column into the next. A pattern of more than 64
tokens is worked through in blocks of 64; `carries` hold what the addition for text token j
carries out of one block into the next.
"""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel

BLOCK = 64
"""Tokens that one step of the LCS works on."""
_ONE = np.uint64(1)
_NO_BITS = np.uint64(0)
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel(inner=True)
def _next_column(
    column: np.uint64, mask: np.uint64, carry: np.uint64
) -> tuple[np.uint64, np.uint64]:
    matches = column & mask
    partial = column + matches
    total = partial + carry
    carry_out = _ONE if partial < column or total < partial else _NO_BITS
    return total | (column ^ matches), carry_out


@kernel(inner=True)
def _set_masks(masks: np.ndarray, block: np.ndarray) -> None:
    for k in range(block.size):
        masks[block[k]] |= _ONE << np.uint64(k)


@kernel(inner=True)
def _clear(masks: np.ndarray, block: np.ndarray) -> None:
    for k in range(block.size):  # an array as the index takes a second to compile
        masks[block[k]] = _NO_BITS


@kernel(inner=True)
def _lcs_length(
    pattern: np.ndarray, text: np.ndarray, masks: np.ndarray, carries: np.ndarray
) -> int:
    """LCS length of two rows; `masks`, one per token, are 0 before and after."""
    carries[: text.size] = _NO_BITS
    length = 0
    for start in range(0, pattern.size, BLOCK):
        block = pattern[start : start + BLOCK]
        _set_masks(masks, block)
        column = _ALL_BITS
        for j in range(text.size):
            column, carries[j] = _next_column(column, masks[text[j]], carries[j])
        steps = ~column
        while steps != _NO_BITS:
            steps &= steps - _ONE
            length += 1
        _clear(masks, block)
    return length


@kernel()
def lcs_lengths(
    values: np.ndarray,
    offsets: np.ndarray,
    candidate: np.ndarray,
    reference: np.ndarray,
    n_distinct: int,
    longest_candidate: int,
) -> np.ndarray:
    """Length of the LCS of each pair of rows; `values` are below `n_distinct`."""
    lengths = np.zeros(candidate.size, np.int64)
    masks = np.zeros(n_distinct, np.uint64)
    carries = np.empty(longest_candidate, np.uint64)
    for pair in range(candidate.size):
        text = values[offsets[candidate[pair]] : offsets[candidate[pair] + 1]]
        pattern = values[offsets[reference[pair]] : offsets[reference[pair] + 1]]
        lengths[pair] = _lcs_length(pattern, text, masks, carries)
    return lengths


@kernel(inner=True)
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
    for start in range(0, pattern.size, BLOCK):
        block = pattern[start : start + BLOCK]
        _set_masks(masks, block)
        column, first = _ALL_BITS, start // BLOCK * n
        for j in range(n):
            column, carries[j] = _next_column(column, masks[text[j]], carries[j])
            columns[first + j] = column
        _clear(masks, block)
    i, j = pattern.size - 1, n - 1
    while i >= 0 and j >= 0:
        if pattern[i] == text[j]:
            in_union[i] = True
            i -= 1
            j -= 1
        # rouge-score asks whether t[i, j - 1] > t[i - 1, j]. Where the tokens differ, t[i, j] is
        # the greater of the two, so that is whether t grew from i - 1 to i: the bit is 0.
        elif (columns[i // BLOCK * n + j] >> np.uint64(i % BLOCK)) & _ONE == _NO_BITS:
            j -= 1
        else:
            i -= 1


@kernel()
def union_lcs_hits(
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
        for token in candidate_tokens:
            unmatched[token] = 0
    return hits


@kernel()
def weighted_lcs(
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
