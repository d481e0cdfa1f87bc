"""Compiled loops over pairs of packed rows: what they share, and longest common subsequences.

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
def _next_column(column, mask, carry):
    matches = column & mask
    partial = column + matches
    total = partial + carry
    carry_out = _ONE if partial < column or total < partial else _NO_BITS
    return total | (column ^ matches), carry_out


@kernel(inner=True)
def _set_masks(masks, block):
    for k in range(block.size):
        masks[block[k]] |= _ONE << np.uint64(k)


@kernel(inner=True)
def _clear(masks, block):
    for k in range(block.size):  # an array as the index takes a second to compile
        masks[block[k]] = _NO_BITS


@kernel(inner=True)
def _lcs_length(pattern, text, masks, carries):
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
def lcs_lengths(values, offsets, candidate, reference, n_distinct, longest_candidate):
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
def _mark_lcs(pattern, text, masks, carries, columns, in_union):
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
    values, sentence_offsets, text_offsets, candidate, reference, n_distinct, n_columns,
    longest_candidate, longest_reference,
):  # fmt: skip
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
def weighted_lcs(values, offsets, candidate, reference, f):
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


@kernel()
def counts_of_values_in(values, offsets, first, second, n_distinct):
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


@kernel()
def count_shared(values, offsets, candidate, reference, n_distinct):
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


@kernel()
def next_occurrences(values, offsets, n_distinct):
    """Where each value comes next in its row; past the row's end where it does not."""
    following = np.empty(values.size, np.int64)
    latest = np.full(n_distinct, values.size, np.int64)
    # What `latest` has from rows further on is past the end of this one.
    for position in range(offsets[-1] - 1, -1, -1):
        following[position] = latest[values[position]]
        latest[values[position]] = position
    return following


@kernel()
def sum_fragments(values, offsets, following, candidate, source, n_distinct):
    """Run the algorithm of Grusky et al. 2018, looking at matching words only."""
    sum_of_lengths = np.zeros(candidate.size, np.int64)
    sum_of_squares = np.zeros(candidate.size, np.int64)
    first = np.full(n_distinct, values.size, np.int64)
    for pair in range(candidate.size):
        begin, end = offsets[source[pair]], offsets[source[pair] + 1]
        for j in range(end - 1, begin - 1, -1):
            first[values[j]] = j
        i, i_end = offsets[candidate[pair]], offsets[candidate[pair] + 1]
        while i < i_end:
            longest = 0
            j = first[values[i]]
            while j < end:
                n_matched = 1
                while (
                    i + n_matched < i_end
                    and j + n_matched < end
                    and values[i + n_matched] == values[j + n_matched]
                ):
                    n_matched += 1
                longest = max(longest, n_matched)
                behind = j + n_matched
                while j < behind:
                    j = following[j]
            sum_of_lengths[pair] += longest
            sum_of_squares[pair] += longest * longest
            i += max(longest, 1)
        for j in range(begin, end):
            first[values[j]] = values.size
    return sum_of_lengths, sum_of_squares
