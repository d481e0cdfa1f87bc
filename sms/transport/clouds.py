"""What two texts have to move, and how far apart it is: the compiled loop over pairs of texts."""

from __future__ import annotations

import math

import numpy as np

from sms.compiled import kernel
from sms.transport.distances import SPARE_COLUMNS, SPARE_ROWS, cost_block, gather

LARGEST = 1e280
"""Squared norms stay below this, so that products stay finite."""
WORDS, SENTENCES, JOINT = 1, 2, 4
"""The problems of a pair of texts, to be added up: words, sentences, their union."""


@kernel()
def lay_out(
    word_points, sentence_points, members, weights, offsets, splits, totals, left, right, problems,
    rows_x, rows_y, x, y, squares_x, squares_y, blocks_at, blocks, left_at, right_at, mass, place,
    n_words, m_words, n_points, m_points,
):  # fmt: skip
    """Cancel what pairs share, gather the other points, and fill in the blocks of their distances.

    Mass on a point that both texts have stays where it is, which is optimal since the cost is a
    metric. Of what is left of a pair, `mass` and `place` in its text stand from `left_at` and
    `right_at` on, and there are `n_points` and `m_points`, words first. Returns the first pair with
    a point that is not finite, or -1.
    """
    for p in range(left.size):
        cloud_x, cloud_y = left[p], right[p]
        shared = math.gcd(totals[cloud_x], totals[cloud_y])
        factor_x, factor_y = totals[cloud_y] // shared, totals[cloud_x] // shared
        n = m = np.int64(0)  # a literal 0 is a type of its own
        n_words[p] = m_words[p] = 0
        for part in range(2):
            if problems == (SENTENCES if part == 0 else WORDS):
                continue
            i = offsets[cloud_x] if part == 0 else splits[cloud_x]
            i_end = splits[cloud_x] if part == 0 else offsets[cloud_x + 1]
            j = offsets[cloud_y] if part == 0 else splits[cloud_y]
            j_end = splits[cloud_y] if part == 0 else offsets[cloud_y + 1]
            while i < i_end or j < j_end:
                mass_i = mass_j = np.int64(0)
                i_now, j_now = i, j
                take_i = i < i_end and (j >= j_end or members[i] <= members[j])
                take_j = j < j_end and (i >= i_end or members[j] <= members[i])
                if take_i:
                    mass_i = weights[i] * factor_x
                    i += 1
                if take_j:
                    mass_j = weights[j] * factor_y
                    j += 1
                if take_i and take_j:
                    same = min(mass_i, mass_j)
                    mass_i -= same
                    mass_j -= same
                if mass_i > 0:
                    rows_x[n] = members[i_now]
                    mass[left_at[p] + n] = mass_i
                    place[left_at[p] + n] = i_now - offsets[cloud_x]
                    n += 1
                if mass_j > 0:
                    rows_y[m] = members[j_now]
                    mass[right_at[p] + m] = mass_j
                    place[right_at[p] + m] = j_now - offsets[cloud_y]
                    m += 1
            if part == 0:
                n_words[p], m_words[p] = n, m
        n_points[p], m_points[p] = n, m
        gather(word_points, rows_x, np.int64(0), n_words[p], x, squares_x)
        gather(word_points, rows_y, np.int64(0), m_words[p], y, squares_y)
        gather(sentence_points, rows_x, n_words[p], n, x, squares_x)
        gather(sentence_points, rows_y, m_words[p], m, y, squares_y)
        n_wrong = 0
        for k in range(n):
            n_wrong += not squares_x[k] <= LARGEST
        for k in range(m):
            n_wrong += not squares_y[k] <= LARGEST
        if n_wrong:
            return p
        width = m + SPARE_COLUMNS
        end = blocks_at[p] + (n + SPARE_ROWS) * width
        block = blocks[blocks_at[p] : end].reshape(n + SPARE_ROWS, width)
        first, row, column = np.int64(0), n_words[p], m_words[p]
        if problems & JOINT:
            row, column = n, m
        # words first: whole blocks reach into what comes after them
        cost_block(x, first, row, y, first, column, squares_x, squares_y, block)
        cost_block(x, row, n, y, column, m, squares_x, squares_y, block)
    return -1
