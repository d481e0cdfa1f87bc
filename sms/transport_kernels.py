"""The compiled loops over a batch of transport problems; `transport` checks what goes in."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel
from sms.ground_costs import EUCLIDEAN, cost_block, gather, padded_dimension, squared_norm
from sms.simplex import allocate, solve

WORDS, SENTENCES, JOINT = 1, 2, 4
"""The problems of a pair of texts, to be added up: words, sentences, their union."""


@kernel()
def solve_matrices(
    costs,
    costs_as_int,
    cost_offsets,
    a,
    a_offsets,
    b,
    b_offsets,
    totals,
    first,
    last,
    n_most,
    m_most,
    cells_most,
    out,
    plan_starts,
    plan_rows,
    plan_columns,
    plan_mass,
    plan_counts,
    duals,
):
    work = allocate(n_most, m_most, cells_most)
    supplies, demands = work[15], work[16]
    found_duals = np.empty(duals.size)
    for p in range(first, last):
        n = a_offsets[p + 1] - a_offsets[p]
        m = b_offsets[p + 1] - b_offsets[p]
        turned = n > m
        if turned:
            for i in range(n):
                demands[i] = a[a_offsets[p] + i]
            for j in range(m):
                supplies[j] = b[b_offsets[p] + j]
            n, m = m, n
            row_stride, column_stride = 1, n
        else:
            for i in range(n):
                supplies[i] = a[a_offsets[p] + i]
            for j in range(m):
                demands[j] = b[b_offsets[p] + j]
            row_stride, column_stride = m, 1
        start = plan_starts[p]
        end = start + n + m if start >= 0 else 0
        start = max(start, 0)
        into_rows, into_columns = plan_rows[start:end], plan_columns[start:end]
        if turned:
            into_rows, into_columns = into_columns, into_rows
        value, n_cells = solve(
            costs,
            costs_as_int,
            cost_offsets[p],
            row_stride,
            column_stride,
            n,
            m,
            work,
            into_rows,
            into_columns,
            plan_mass[start:end],
            found_duals,
        )
        out[p] = value / totals[p]
        plan_counts[p] = n_cells
        for x in range(found_duals.size):  # the kernel's rows first, then its columns
            at = (x + m if x < n else x - n) if turned else x
            duals[at] = found_duals[x]


@kernel()
def _greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@kernel()
def solve_clouds(
    word_points,
    sentence_points,
    members,
    weights,
    offsets,
    splits,
    totals,
    left,
    right,
    first,
    last,
    problems,
    kind,
    n_most,
    m_most,
    cells_most,
    out,
    plan_starts,
    plan_rows,
    plan_columns,
    plan_mass,
    plan_counts,
    pair_totals,
):
    work = allocate(n_most, m_most, cells_most)
    supplies, demands = work[15], work[16]
    d = padded_dimension(word_points.shape[1])
    x, y = np.empty((m_most, d)), np.empty((m_most, d))
    squares_x, squares_y = np.empty(m_most), np.empty(m_most)
    at_x, at_y = np.empty(m_most, np.int64), np.empty(m_most, np.int64)
    mass_x, mass_y = np.empty(m_most, np.int64), np.empty(m_most, np.int64)
    block_memory = np.empty(n_most * m_most)
    block_as_int = block_memory.view(np.int64)
    no_duals = np.empty(0)
    for p in range(first, last):
        cloud_x, cloud_y = left[p], right[p]
        shared = _greatest_common_divisor(totals[cloud_x], totals[cloud_y])
        factor_x, factor_y = totals[cloud_y] // shared, totals[cloud_x] // shared
        total = totals[cloud_x] * factor_x
        start = plan_starts[p]
        n_cells = 0

        # what is left of each side once the mass on shared points has cancelled
        n = m = n_words = m_words = 0
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
                if take_i and take_j and kind == EUCLIDEAN:  # exact for a metric only
                    same = min(mass_i, mass_j)
                    mass_i -= same
                    mass_j -= same
                    if start >= 0:
                        plan_rows[start + n_cells] = i_now - offsets[cloud_x]
                        plan_columns[start + n_cells] = j_now - offsets[cloud_y]
                        plan_mass[start + n_cells] = same
                        n_cells += 1
                if mass_i > 0:
                    _gather_one(word_points, sentence_points, part, members[i_now], x, n)
                    mass_x[n] = mass_i
                    at_x[n] = i_now - offsets[cloud_x]
                    n += 1
                if mass_j > 0:
                    _gather_one(word_points, sentence_points, part, members[j_now], y, m)
                    mass_y[m] = mass_j
                    at_y[m] = j_now - offsets[cloud_y]
                    m += 1

        block = block_memory[: n * m].reshape(n, m)
        for i in range(n):
            squares_x[i] = squared_norm(x, i)
        for j in range(m):
            squares_y[j] = squared_norm(y, j)
        for part in range(2):  # words, then sentences; or everything at once for the joint problem
            row_0 = n_words if part == 1 else 0
            column_0 = m_words if part == 1 else 0
            row_1 = n if part == 1 or problems & JOINT else n_words
            column_1 = m if part == 1 or problems & JOINT else m_words
            if part == 0 or not problems & JOINT:
                cost_block(
                    x, row_0, row_1, y, column_0, column_1, kind, squares_x, squares_y, block
                )

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
            cell_0 = row_0 * m + column_0
            at = start + n_cells if start >= 0 else 0
            end = at + n_rows + n_columns if start >= 0 else 0
            turned = n_rows > n_columns  # the solver's rows are the smaller side
            mass_n, mass_m, at_n, at_m = mass_x, mass_y, row_0, column_0
            row_stride, column_stride = m, 1
            into_rows, into_columns = plan_rows[at:end], plan_columns[at:end]
            if turned:
                mass_n, mass_m, at_n, at_m = mass_y, mass_x, column_0, row_0
                row_stride, column_stride = 1, m
                into_rows, into_columns = into_columns, into_rows
                n_rows, n_columns = n_columns, n_rows
            for i in range(n_rows):
                supplies[i] = mass_n[at_n + i]
            for j in range(n_columns):
                demands[j] = mass_m[at_m + j]
            value, n_found = solve(
                block_memory,
                block_as_int,
                cell_0,
                row_stride,
                column_stride,
                n_rows,
                n_columns,
                work,
                into_rows,
                into_columns,
                plan_mass[at:end],
                no_duals,
            )
            out[p, which] = value / (total * halves)
            if start >= 0:
                for cell in range(at, at + n_found):
                    plan_rows[cell] = at_x[row_0 + plan_rows[cell]]
                    plan_columns[cell] = at_y[column_0 + plan_columns[cell]]
                n_cells += n_found
        plan_counts[p] = n_cells


@kernel()
def _gather_one(word_points, sentence_points, part, row, into, at):
    if part == 0:
        gather(word_points, row, into, at)
    else:
        gather(sentence_points, row, into, at)
