"""The compiled loops over a batch of transport problems; `transport` checks what goes in."""

from __future__ import annotations

import math

import numpy as np

from sms.compiled import kernel
from sms.ground_costs import (
    SPARE_COLUMNS,
    SPARE_ROWS,
    bring,
    cost_block,
    gather,
    padded_dimension,
)
from sms.simplex import LARGEST, MASS_BITS, allocate, solve

MASS_RTOL = 1e-9
"""Two masses that differ by less than this share of the larger count as equal."""

WORDS, SENTENCES, JOINT = 1, 2, 4
"""The problems of a pair of texts, to be added up: words, sentences, their union."""

_AHEAD = 2  # so many points after the one that is gathered are asked for


@kernel()
def integer_masses(a, a_offsets, b, b_offsets, masses_a, masses_b, totals, true_totals):
    """Check the weights of every problem and fill in integer masses with equal sums.

    Integers stay as they are where they fit; others are scaled, which moves no mass by more than
    about 1e-15 of the total. Returns the first problem that breaks a rule, -1 if none does.
    """
    for p in range(a_offsets.size - 1):
        first_a, end_a = a_offsets[p], a_offsets[p + 1]
        first_b, end_b = b_offsets[p], b_offsets[p + 1]
        sum_a = sum_b = 0.0
        n_wrong = n_fractions = 0
        for i in range(first_a, end_a):
            sum_a += a[i]
            n_wrong += not 0 < a[i] <= LARGEST
            n_fractions += a[i] != np.floor(a[i])
        for j in range(first_b, end_b):
            sum_b += b[j]
            n_wrong += not 0 < b[j] <= LARGEST
            n_fractions += b[j] != np.floor(b[j])
        if n_wrong or first_a == end_a or first_b == end_b:
            return p
        if not abs(sum_a - sum_b) <= MASS_RTOL * max(sum_a, sum_b):
            return p
        true_totals[p] = (sum_a + sum_b) / 2
        bits = room_for_mass(min(end_a - first_a, end_b - first_b))
        totals[p] = np.int64(1) << bits
        if n_fractions == 0 and sum_a == sum_b and sum_a <= totals[p]:
            totals[p] = np.int64(sum_a)
            for i in range(first_a, end_a):
                masses_a[i] = np.int64(a[i])
            for j in range(first_b, end_b):
                masses_b[j] = np.int64(b[j])
        else:
            scale_weights(a, first_a, end_a, sum_a, totals[p], masses_a)
            scale_weights(b, first_b, end_b, sum_b, totals[p], masses_b)
    return -1


@kernel()
def room_for_mass(rows):
    """Bits of total mass that a problem with that many rows has room for."""
    bits = MASS_BITS - 2
    while (1 << (MASS_BITS - 2 - bits)) < 2 * rows + 2:
        bits -= 1
    return bits


@kernel()
def scale_weights(weights, first, end, total, integer_total, into):
    """Round weights to positive integers with a given sum; the largest bears the rounding."""
    excess = -integer_total
    largest = first
    for k in range(first, end):
        into[k] = max(np.int64(np.rint(weights[k] / total * integer_total)), 1)
        excess += into[k]
        if into[k] > into[largest]:
            largest = k
    into[largest] -= excess


@kernel()
def solve_matrices(
    costs, costs_as_int, cost_offsets, a, a_offsets, b, b_offsets, totals, first, last, n_most,
    m_most, cells_most, out, plan, counts,
):  # fmt: skip
    (
        scaled, keys, offsets_of_start, regret, cheapest, users, order, parent, flow, u, v,
        below, moving, change, cycle, supplies, demands,
    ) = allocate(n_most, m_most, cells_most)  # fmt: skip
    start = 0 if plan.size else -1
    for p in range(first, last):
        n = a_offsets[p + 1] - a_offsets[p]
        m = b_offsets[p + 1] - b_offsets[p]
        turned = n > m  # the solver's rows are the smaller side
        if turned:
            _copy(b, b_offsets[p], m, supplies)
            _copy(a, a_offsets[p], n, demands)
            n, m, row_stride, column_stride = m, n, 1, m
        else:
            _copy(a, a_offsets[p], n, supplies)
            _copy(b, b_offsets[p], m, demands)
            row_stride, column_stride = m, 1
        value, n_cells = solve(
            costs, costs_as_int, cost_offsets[p], row_stride, column_stride, n, m,
            plan, start,
            scaled, keys, offsets_of_start, regret, cheapest, users, order, parent, flow, u, v,
            below, moving, change, cycle, supplies, demands,
        )  # fmt: skip
        if turned and start >= 0:
            for cell in range(n_cells):
                plan[0, cell], plan[1, cell] = plan[1, cell], plan[0, cell]
        out[p] = value / totals[p]
        counts[p] = n_cells


@kernel(inner=True, forceinline=True)
def _copy(values, first, n, into):
    for k in range(n):
        into[k] = values[first + k]


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
        shared = math.gcd(totals[cloud_x], totals[cloud_y])
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
                    if part == 0 and i + _AHEAD < i_end:
                        bring(word_points, members[i + _AHEAD])
                    mass_i = weights[i] * factor_x
                    i += 1
                if take_j:
                    if part == 0 and j + _AHEAD < j_end:
                        bring(word_points, members[j + _AHEAD])
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


@kernel(inner=True)
def _sorted(row):
    """Shell's sort with Ciura's gaps: as fast as `np.sort`, which takes 1.5 s to compile."""
    ordered = row.copy()
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, ordered.size):
            value = ordered[i]
            j = i - gap
            while j >= 0 and ordered[j] > value:
                ordered[j + gap] = ordered[j]
                j -= gap
            ordered[j + gap] = value
    return ordered


@kernel()
def fill_clouds(
    words, word_offsets, sentences, sentence_offsets, sentence_weights, members, weights,
    splits, ends,
):  # fmt: skip
    at = 0
    for text in range(splits.size):
        ordered = _sorted(words[word_offsets[text] : word_offsets[text + 1]])
        first = at
        for word in ordered:
            if at > first and members[at - 1] == word:
                weights[at - 1] += 1
            else:
                members[at] = word
                weights[at] = 1
                at += 1
        splits[text] = first = at
        ordered = _sorted(sentences[sentence_offsets[text] : sentence_offsets[text + 1]])
        for sentence in ordered:
            if sentence_weights[sentence] == 0:
                continue
            if at > first and members[at - 1] == sentence:
                weights[at - 1] += sentence_weights[sentence]
            else:
                members[at] = sentence
                weights[at] = sentence_weights[sentence]
                at += 1
        ends[text] = at
