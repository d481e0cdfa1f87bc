"""The compiled transportation simplex: one problem at a time, nothing allocated, exact.

`transport` is the public face; this file is the inner loop it calls millions of times.

The method is the primal simplex on the transportation polytope (Dantzig 1951), arranged so
that every long loop runs over contiguous integers and is vectorised by the compiler:

- **Exact arithmetic.** Costs are scaled to 64-bit integers (a power of two brings the largest
  to about 2**50), masses are integers. No tolerance decides anything. The plan is optimal for
  the rounded costs and its cost is read with the true ones: it exceeds the optimum by at most
  2**-48 of the largest cost per unit of mass, and is exact where costs are small integers.
- **No cycling.** Every supply is raised by one unit and the last demand by the number of
  rows, in units finer than any sum of true masses can resolve (Charnes 1952). No proper
  subset of supplies then equals a subset of demands, so no basis is degenerate, every pivot
  moves a positive mass at a negative reduced cost, the integer objective falls strictly, and
  no basis can return: the method ends. The value is read with the unperturbed masses.
- **A good start.** Vogel's approximation on costs reduced by column potentials, with costs
  rounded to a few bits and the column number in the low bits of the key, so that one
  vectorised minimum yields the cheapest column. It roughly halves the pivots. The smallest
  problems start from the cheapest column of each row, which takes less than the pivots saved.
- **The basis tree as bit sets.** For each node the set of rows below it. A pivot changes the
  sets of the nodes on its cycle only, and the potentials of a whole subtree are shifted by
  masked arithmetic instead of a walk over its nodes.

Rows are the smaller side; `transport` turns a problem round when it has more rows.
"""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel
from sms.simplex_start import BIG, highest_bit, padded, row_minimum_start, vogel_start

COST_BITS = 50
"""The largest scaled cost lies in [2**(COST_BITS - 1), 2**COST_BITS]; fewer bits are used
where more than 2**9 nodes could make a potential overflow."""
LARGEST = 1e280
"""Costs, weights and squared norms stay below this, so that their products stay finite."""
MASS_BITS = 60
"""Total mass times the perturbation scale stays below 2**MASS_BITS."""

_I = np.int64
_U = np.uint64
_ONE = np.uint64(1)
_PAD_COST = np.int64(1) << np.int64(60)
_LARGEST_BITS = np.int64(np.float64(LARGEST).view(np.int64))
_SMALL_CELLS = 64  # up to here a plain start costs less
_PRICED_ROWS = 6  # rows priced before the best candidate among them enters
_PRICED_CELLS = 6_144  # and fewer rows where they have more cells than that


@kernel(inner=True, forceinline=True)
def _power_of_two(exponent):
    return _I((exponent + 1023) << 52).view(np.float64)


@kernel(inner=True)
def allocate(n, m, cells):
    """Make the work arrays for problems up to `n` rows, `m` columns and `cells` padded cells."""
    mp = padded(m)
    words = (n + 63) >> 6
    return (
        np.empty(cells, np.int64),  # 0 scaled costs
        np.empty(cells, np.int32),  # 1 keys of the start
        np.empty(mp, np.int32),  # 2 column offsets of the start
        np.empty(padded(n), np.int32),  # 3 regret of each row
        np.empty(n, np.uint64),  # 4 cheapest column of each row
        np.empty(mp * words, np.uint64),  # 5 rows whose two cheapest hold a column
        np.empty(n + m, np.uint64),  # 6 order in which nodes were exhausted
        np.empty(n + m, np.uint64),  # 7 parent
        np.empty(n + m, np.int64),  # 8 flow to the parent
        np.empty(n, np.int64),  # 9 row potentials
        np.empty(mp, np.int64),  # 10 column potentials
        np.empty((n + m) * words, np.uint64),  # 11 rows below each node
        np.empty(words, np.uint64),  # 12 rows of the moving subtree
        np.empty(words * 64, np.int64),  # 13 change of the row potentials
        np.empty(2 * (n + m), np.uint64),  # 14 nodes on the cycle
        np.empty(n, np.int64),  # 15 supplies
        np.empty(m, np.int64),  # 16 demands
    )


@kernel(inner=True)
def _row_minimum(cost, i, mp, v):
    best = BIG
    for j in range(mp):
        best = min(best, cost[i, j] - v[j])
    return best


@kernel(inner=True)
def _find_column(cost, i, m, v, value):
    for j in range(m):
        if cost[i, j] - v[j] == value:
            return j
    return -1


# Inlined, a 4x4 problem takes a fifth less.
@kernel(inner=True, forceinline=True)
def _pivot(
    cost, n, m, mp, order, parent, flow, u, v, below_memory, moving, change, cycle,
):  # fmt: skip
    """Pivot from a feasible basis tree to the optimum; parents, flows and potentials are left."""
    words = (n + 63) >> 6
    nodes = n + m
    below = below_memory[: nodes * words].reshape(nodes, words)
    first_column = _U(n)

    for j in range(mp):
        v[j] = 0
    u[order[nodes - 1]] = 0
    for t in range(nodes - 2, -1, -1):
        x = order[t]
        above = parent[x]
        if x < first_column:
            u[x] = cost[x, above - first_column] - v[above - first_column]
        else:
            v[x - first_column] = cost[above, x - first_column] - u[above]
    for x in range(nodes):
        for k in range(words):
            below[x, k] = 0
    for i in range(n):
        below[i, i >> 6] = _ONE << _U(i & 63)
    for t in range(nodes - 1):
        x = order[t]
        above = parent[x]
        for k in range(words):
            below[above, k] |= below[x, k]

    n_priced = max(1, min(_PRICED_ROWS, _PRICED_CELLS // mp))
    next_row = 0
    rows_clean = 0
    while True:
        # the entering cell: the most negative reduced cost among a few rows, taken in turn
        best = _I(0)
        row = -1
        priced = 0
        i = next_row
        while rows_clean < n:
            reduced = _row_minimum(cost, i, mp, v) - u[i]
            if reduced < best:
                best = reduced
                row = i
            i += 1
            if i == n:
                i = 0
            rows_clean += 1
            priced += 1
            if priced >= n_priced and row >= 0:
                break
        next_row = i
        if row < 0:
            return
        rows_clean = 0
        column = _find_column(cost, row, m, v, best + u[row])

        # its cycle: from the row and from the column up to their nearest common ancestor,
        # which is the first node above the row that has the column below it
        p = _U(row)
        q = first_column + _U(column)
        above = parent[q]
        word, bit = above >> _U(6), above & _U(63)
        x = p
        n_row_side = 0
        while x != q and ((below[x, word] >> bit) & _ONE) == _U(0):
            cycle[n_row_side] = x
            n_row_side += 1
            x = parent[x]
        ancestor = x
        x = q
        n_cycle = n_row_side
        while x != ancestor:
            cycle[n_cycle] = x
            n_cycle += 1
            x = parent[x]

        # edges lose and gain mass in turn; the scarcest loser leaves (never a tie, see above)
        mass = BIG
        leaving_at = 0
        for t in range(0, n_row_side, 2):
            f = flow[cycle[t]]
            if f < mass:
                mass = f
                leaving_at = t
        for t in range(n_row_side, n_cycle, 2):
            f = flow[cycle[t]]
            if f < mass:
                mass = f
                leaving_at = t
        for t in range(0, n_row_side, 2):
            flow[cycle[t]] -= mass
        for t in range(1, n_row_side, 2):
            flow[cycle[t]] += mass
        for t in range(n_row_side, n_cycle, 2):
            flow[cycle[t]] -= mass
        for t in range(n_row_side + 1, n_cycle, 2):
            flow[cycle[t]] += mass
        leaving = cycle[leaving_at]
        if leaving_at < n_row_side:
            root, attach, shift = p, q, best
            own_start, own_end, other_start, other_end = 0, n_row_side, n_row_side, n_cycle
        else:
            root, attach, shift = q, p, -best
            own_start, own_end, other_start, other_end = n_row_side, n_cycle, 0, n_row_side

        # potentials of the subtree that hangs at the leaving edge
        for k in range(words):
            bits = below[leaving, k]
            moving[k] = bits
            first = k << 6
            for t in range(min(n - first, 64)):
                change[first + t] = shift & -_I((bits >> _U(t)) & _ONE)
                u[first + t] += change[first + t]
        if words == 1:  # a column moves with its parent; up to 128 rows the set fits registers
            bits = moving[0]
            for j in range(m):
                v[j] -= shift & -_I((bits >> (parent[n + j] & _U(63))) & _ONE)
        elif words == 2:
            bits, more_bits = moving[0], moving[1]
            for j in range(m):
                above = parent[n + j]
                half = bits if above < _U(64) else more_bits
                v[j] -= shift & -_I((half >> (above & _U(63))) & _ONE)
        else:
            for j in range(m):
                v[j] -= change[parent[n + j]]
        if leaving >= first_column:
            v[leaving - first_column] -= shift

        # rows below the nodes of the cycle
        if words == 1:
            bits = moving[0]
            for t in range(other_start, other_end):
                below[cycle[t], 0] |= bits
            for t in range(leaving_at, own_start, -1):
                below[cycle[t], 0] = bits & ~below[cycle[t - 1], 0]
            below[root, 0] = bits
            for t in range(leaving_at + 1, own_end):
                below[cycle[t], 0] &= ~bits
        else:
            for t in range(other_start, other_end):
                x = cycle[t]
                for k in range(words):
                    below[x, k] |= moving[k]
            for t in range(leaving_at, own_start, -1):
                x = cycle[t]
                y = cycle[t - 1]
                for k in range(words):
                    below[x, k] = moving[k] & ~below[y, k]
            for k in range(words):
                below[root, k] = moving[k]
            for t in range(leaving_at + 1, own_end):
                x = cycle[t]
                for k in range(words):
                    below[x, k] &= ~moving[k]

        # the path from the entering to the leaving edge is turned round
        new_parent, new_flow = attach, mass
        for t in range(own_start, leaving_at + 1):
            x = cycle[t]
            old_flow = flow[x]
            parent[x] = new_parent
            flow[x] = new_flow
            new_parent, new_flow = x, old_flow


@kernel(inner=True)
def solve(
    cost, cost_as_int, start, row_stride, column_stride, n, m,
    plan, plan_at,
    scaled_memory, key_memory, w, regret, cheapest, user_memory, order, parent, flow, u, v,
    below_memory, moving, change, cycle, a, b,
):  # fmt: skip
    """Solve one problem with supplies `a` and demands `b`, which are used up.

    Cell (i, j) is `cost[start + i * row_stride + j * column_stride]`, where one stride is 1 and `1
    <= n <= m`. `cost_as_int` is the same memory seen as integers: for non-negative floats the order
    is the same, integer maxima are vectorised, and what is negative or no number shows. From
    `plan_at` on, unless that is negative, `plan` is filled with the row, column and mass of the
    cells that carry mass. The rest are work arrays from `allocate`, passed one by one, since taking
    them out of a tuple costs more than solving a small problem.

    Returns the sum of integer mass times cost, and the number of plan cells; -1 if a cost is
    negative (be it -0.0), NaN or too large, and nothing was solved.
    """
    turned = column_stride != 1
    n_lines, n_in_line, line_stride = (m, n, column_stride) if turned else (n, m, row_stride)
    largest = smallest = _I(0)
    for line in range(n_lines):
        first = _U(start + line * line_stride)  # unsigned: no index counts from the end
        for k in range(n_in_line):
            bits = cost_as_int[first + _U(k)]
            largest = max(largest, bits)
            smallest = min(smallest, bits)
    if smallest < 0 or largest > _LARGEST_BITS:
        return np.nan, -1

    value = 0.0
    n_cells = 0
    if n == 1:
        for j in range(m):
            value += b[j] * cost[start + j * column_stride]
        if plan_at >= 0:
            for j in range(m):
                plan[0, plan_at + j], plan[1, plan_at + j], plan[2, plan_at + j] = 0, j, b[j]
            n_cells = m
        return value, n_cells

    mp = padded(m)
    scaled = scaled_memory[: n * mp].reshape(n, mp)
    if largest == 0:
        largest = _I(1023) << 52  # all costs are zero: any scale will do
    cost_bits = min(COST_BITS, 58 - highest_bit(n + m))
    # 2**exponent brings the largest cost, in [2**e, 2**(e+1)), to [2**(bits-1), 2**bits]; in two
    # steps, since the factor itself may leave the range of a float
    exponent = cost_bits - 1 - ((largest >> 52) - 1023)
    half = exponent >> 1
    up, down = _power_of_two(half), _power_of_two(exponent - half)
    # lines are contiguous in `cost`, so that they are scaled by whole vectors
    for line in range(n_lines):
        first = _U(start + line * line_stride)
        if turned:
            for k in range(n_in_line):
                change[k] = _I(np.rint(cost[first + _U(k)] * up * down))
            for k in range(n_in_line):
                scaled[k, line] = change[k]
        else:
            for k in range(n_in_line):
                scaled[line, k] = _I(np.rint(cost[first + _U(k)] * up * down))
    for i in range(n):
        for j in range(m, mp):
            scaled[i, j] = _PAD_COST

    shift = highest_bit(2 * n + 1) + 1
    for i in range(n):
        a[i] = (a[i] << shift) + 1
    for j in range(m):
        b[j] <<= shift
    b[m - 1] += n
    if n * m <= _SMALL_CELLS:
        row_minimum_start(scaled, n, m, order, parent, flow, a, b)
    else:
        vogel_start(
            scaled, n, m, mp, cost_bits,
            key_memory, w, regret, cheapest, user_memory, order, parent, flow, a, b,
        )  # fmt: skip
    _pivot(scaled, n, m, mp, order, parent, flow, u, v, below_memory, moving, change, cycle)
    half_unit = _I(1) << (shift - 1)
    for x in range(n + m):
        above = _I(parent[x])
        if x < n:
            if above == x:
                continue
            i, j = x, above - n
        else:
            i, j = above, x - n
        mass = (flow[x] + half_unit) >> shift
        value += mass * cost[start + i * row_stride + j * column_stride]
        if plan_at >= 0 and mass > 0:
            cell = plan_at + n_cells
            plan[0, cell], plan[1, cell], plan[2, cell] = i, j, mass
            n_cells += 1
    return value, n_cells
