"""Compiled loops over pairs of packed rows: what they share, and weighted common subsequences."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel


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
