"""The compiled loops over a batch of transport problems, and their blocks of distances."""

from __future__ import annotations

import numpy as np

from sms.compiled import SUMS, kernel
from sms.simplex import LARGEST, allocate, solve

WORDS, SENTENCES, JOINT = 1, 2, 4
"""The problems of a pair of texts, to be added up: words, sentences, their union."""

SPARE_ROWS, SPARE_COLUMNS = 3, 2
"""How far whole blocks reach beyond the costs that are asked for."""
_CANCELLATION = 1e-3  # below this share of the squared norms a distance is summed directly


@kernel(inner=True, forceinline=True)
def _copy(values, first, n, into):
    for k in range(n):
        into[k] = values[first + k]


@kernel(inner=True)
def _greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@kernel()
def solve_clouds(
    word_points, sentence_points, members, weights, offsets, splits, totals, left, right,
    first, last, problems, n_most, m_most, cells_most, out, plan, counts, pair_totals,
):  # fmt: skip
    (
        scaled, keys, offsets_of_start, regret, cheapest, users, order, parent, flow, u, v,
        below, moving, change, cycle, supplies, demands,
    ) = allocate(n_most, m_most, cells_most)  # fmt: skip
    d = padded_dimension(word_points.shape[1])
    x, y = np.zeros((m_most + SPARE_ROWS, d)), np.zeros((m_most + SPARE_ROWS, d))
    squares_x, squares_y = np.empty(m_most), np.empty(m_most)
    at_x, at_y = np.empty(m_most, np.int64), np.empty(m_most, np.int64)
    mass_x, mass_y = np.empty(m_most, np.int64), np.empty(m_most, np.int64)
    spare = (SPARE_ROWS + SPARE_COLUMNS) * (m_most + SPARE_ROWS)
    block_memory = np.empty(n_most * m_most + spare)
    block_as_int = block_memory.view(np.int64)
    start = 0 if plan.size else -1
    for p in range(first, last):
        cloud_x, cloud_y = left[p], right[p]
        shared = _greatest_common_divisor(totals[cloud_x], totals[cloud_y])
        factor_x, factor_y = totals[cloud_y] // shared, totals[cloud_x] // shared
        total = totals[cloud_x] * factor_x
        n_cells = 0

        # what is left of each side once the mass on shared points has cancelled
        n = m = n_words = m_words = n_wrong = np.int64(0)  # a literal 0 is a type of its own
        for part in range(2):
            i = offsets[cloud_x] if part == 0 else splits[cloud_x]
            i_end = splits[cloud_x] if part == 0 else offsets[cloud_x + 1]
            j = offsets[cloud_y] if part == 0 else splits[cloud_y]
            j_end = splits[cloud_y] if part == 0 else offsets[cloud_y + 1]
            if part == 1:
                n_words, m_words = n, m
                if problems == WORDS:
                    break
            elif problems == SENTENCES:
                continue
            while i < i_end or j < j_end:
                mass_i = mass_j = 0
                i_now, j_now = i, j
                take_i = i < i_end and (j >= j_end or members[i] <= members[j])
                take_j = j < j_end and (i >= i_end or members[j] <= members[i])
                if take_i:
                    mass_i = weights[i] * factor_x
                    i += 1
                if take_j:
                    mass_j = weights[j] * factor_y
                    j += 1
                if take_i and take_j:  # exact, since the cost is a metric
                    same = min(mass_i, mass_j)
                    mass_i -= same
                    mass_j -= same
                    if start >= 0:
                        plan[0, n_cells] = i_now - offsets[cloud_x]
                        plan[1, n_cells] = j_now - offsets[cloud_y]
                        plan[2, n_cells] = same
                        n_cells += 1
                if mass_i > 0:
                    square = _gather_one(word_points, sentence_points, part, members[i_now], x, n)
                    n_wrong += not square <= LARGEST
                    squares_x[n] = square
                    mass_x[n] = mass_i
                    at_x[n] = i_now - offsets[cloud_x]
                    n += 1
                if mass_j > 0:
                    square = _gather_one(word_points, sentence_points, part, members[j_now], y, m)
                    n_wrong += not square <= LARGEST
                    squares_y[m] = square
                    mass_y[m] = mass_j
                    at_y[m] = j_now - offsets[cloud_y]
                    m += 1

        width = m + SPARE_COLUMNS
        block = block_memory[: (n + SPARE_ROWS) * width].reshape(n + SPARE_ROWS, width)
        if n_wrong:
            counts[p] = -1
            continue
        for part in range(2):  # words, then sentences; or everything at once for the joint problem
            row_0 = n_words if part == 1 else 0
            column_0 = m_words if part == 1 else 0
            row_1 = n if part == 1 or problems & JOINT else n_words
            column_1 = m if part == 1 or problems & JOINT else m_words
            if part == 0 or not problems & JOINT:
                cost_block(x, row_0, row_1, y, column_0, column_1, squares_x, squares_y, block)

        pair_totals[p] = total
        for which in range(3):
            if not problems & (1 << which):
                continue
            row_0 = n_words if which == 1 else 0
            row_1 = n_words if which == 0 else n
            column_0 = m_words if which == 1 else 0
            column_1 = m_words if which == 0 else m
            halves = 2 if which == 2 else 1
            if which == 2:
                pair_totals[p] = 2 * total
            n_rows, n_columns = row_1 - row_0, column_1 - column_0
            if n_rows == 0:  # everything is shared
                out[p, which] = 0.0
                continue
            cell_0 = row_0 * width + column_0
            at = n_cells if start >= 0 else -1
            turned = n_rows > n_columns
            if turned:
                _copy(mass_y, column_0, n_columns, supplies)
                _copy(mass_x, row_0, n_rows, demands)
                n_rows, n_columns, row_stride, column_stride = n_columns, n_rows, 1, width
            else:
                _copy(mass_x, row_0, n_rows, supplies)
                _copy(mass_y, column_0, n_columns, demands)
                row_stride, column_stride = width, 1
            value, n_found = solve(
                block_memory, block_as_int, cell_0, row_stride, column_stride, n_rows, n_columns,
                plan, at,
                scaled, keys, offsets_of_start, regret, cheapest, users, order, parent, flow, u, v,
                below, moving, change, cycle, supplies, demands,
            )  # fmt: skip
            out[p, which] = value / (total * halves)
            if start >= 0:
                for cell in range(at, at + n_found):
                    i, j = plan[0, cell], plan[1, cell]
                    if turned:
                        i, j = j, i
                    plan[0, cell] = at_x[row_0 + i]
                    plan[1, cell] = at_y[column_0 + j]
                n_cells += n_found
        counts[p] = n_cells


@kernel(inner=True)
def _gather_one(word_points, sentence_points, part, row, into, at):
    if part == 0:
        return gather(word_points, row, into, at)
    return gather(sentence_points, row, into, at)


# Blocks of Euclidean distances between two small sets of points


@kernel()
def padded_dimension(d):
    """Round a dimension up to whole vectors; the padding is zero."""
    return (d + 15) & ~15


@kernel(fastmath=SUMS)
def gather(points, row, into, at):
    """Copy one point as float64 into row `at` of `into`, padded with zeros; return |point|^2."""
    d = points.shape[1]
    square = 0.0
    for k in range(d):
        value = np.float64(points[row, k])
        into[at, k] = value
        square += value * value
    for k in range(d, into.shape[1]):
        into[at, k] = 0.0
    return square


@kernel(inner=True, fastmath=SUMS)
def _squared_distance(x, i, y, j, d):
    total = 0.0
    for k in range(d):
        difference = x[i, k] - y[j, k]
        total += difference * difference
    return total


@kernel(inner=True, fastmath=SUMS)
def _dots_4x3(x, i, y, j, d, into):
    # an even number of columns would be vectorised across the sums, not along the vectors,
    # which is half as fast
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = e0 = e1 = e2 = 0.0
    for k in range(d):
        p, q, r, s = x[i, k], x[i + 1, k], x[i + 2, k], x[i + 3, k]
        t = y[j, k]
        a0 += p * t
        b0 += q * t
        c0 += r * t
        e0 += s * t
        t = y[j + 1, k]
        a1 += p * t
        b1 += q * t
        c1 += r * t
        e1 += s * t
        t = y[j + 2, k]
        a2 += p * t
        b2 += q * t
        c2 += r * t
        e2 += s * t
    into[i, j], into[i, j + 1], into[i, j + 2] = a0, a1, a2
    into[i + 1, j], into[i + 1, j + 1], into[i + 1, j + 2] = b0, b1, b2
    into[i + 2, j], into[i + 2, j + 1], into[i + 2, j + 2] = c0, c1, c2
    into[i + 3, j], into[i + 3, j + 1], into[i + 3, j + 2] = e0, e1, e2


@kernel(inner=True, fastmath=SUMS)
def _dots_4x1(x, i, y, j, d, into):
    a = b = c = e = 0.0
    for k in range(d):
        t = y[j, k]
        a += x[i, k] * t
        b += x[i + 1, k] * t
        c += x[i + 2, k] * t
        e += x[i + 3, k] * t
    into[i, j], into[i + 1, j], into[i + 2, j], into[i + 3, j] = a, b, c, e


@kernel(inner=True, fastmath=SUMS)
def _dots_2x3(x, i, y, j, d, into):
    a0 = a1 = a2 = b0 = b1 = b2 = 0.0
    for k in range(d):
        p, q = x[i, k], x[i + 1, k]
        t = y[j, k]
        a0 += p * t
        b0 += q * t
        t = y[j + 1, k]
        a1 += p * t
        b1 += q * t
        t = y[j + 2, k]
        a2 += p * t
        b2 += q * t
    into[i, j], into[i, j + 1], into[i, j + 2] = a0, a1, a2
    into[i + 1, j], into[i + 1, j + 1], into[i + 1, j + 2] = b0, b1, b2


@kernel()
def cost_block(x, n0, n1, y, m0, m1, squares_x, squares_y, into):
    """Fill `into[n0:n1, m0:m1]` with the Euclidean distances between rows of `x` and `y`.

    Squared distances are `|x|^2 + |y|^2 - 2 x y`, or for near points, where that loses digits, sums
    of squared differences: accurate to about 1e-15, and equal points cost exactly 0. Whole blocks
    are computed: `x`, `y` and `into` have `SPARE_ROWS` more rows, `into` `SPARE_COLUMNS` more
    columns, whose content does not matter.
    """
    d = x.shape[1]
    for i in range(n0, n1, 4):
        if n1 - i <= 2:
            for j in range(m0, m1, 3):
                _dots_2x3(x, i, y, j, d, into)
        else:
            for j in range(m0, m1 - 1, 3):
                _dots_4x3(x, i, y, j, d, into)
            if (m1 - m0) % 3 == 1:
                _dots_4x1(x, i, y, m1 - 1, d, into)
    for i in range(n0, n1):
        n_near = 0
        for j in range(m0, m1):
            norms = squares_x[i] + squares_y[j]
            square = norms - 2.0 * into[i, j]
            n_near += square < _CANCELLATION * norms
            into[i, j] = square
        if n_near:
            for j in range(m0, m1):
                if into[i, j] < _CANCELLATION * (squares_x[i] + squares_y[j]):
                    into[i, j] = _squared_distance(x, i, y, j, d)
        for j in range(m0, m1):
            into[i, j] = np.sqrt(into[i, j])
