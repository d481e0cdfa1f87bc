"""The transportation simplex: many problems in one compiled loop, exact, nothing allocated.

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
- **A good start** (`start`), which roughly halves the pivots. Where the first rows and columns of
  a problem are a problem of their own, its head, the whole starts from the plan of that. Its root
  is then always the last row, so that the last bits do not depend on whether the head was solved.
- **The basis tree as bit sets.** For each node the set of rows below it. A pivot changes the
  sets of the nodes on its cycle only, and the potentials of a whole subtree are shifted by
  masked arithmetic instead of a walk over its nodes.

Rows are the smaller side: a problem with more rows than columns is turned round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from sms.compiled import kernel
from sms.compiling import SOLVER, wait_for_compiler
from sms.transport.start import BIG, highest_bit, join_rest, padded, row_minimum_start, vogel_start

COST_BITS = 50
"""The largest scaled cost lies in [2**(COST_BITS - 1), 2**COST_BITS]; fewer bits are used
where more than 2**9 nodes could make a potential overflow."""
MASS_BITS = 60
"""Total mass times the perturbation scale stays below 2**MASS_BITS."""

_I = np.int64
_U = np.uint64
_ONE = np.uint64(1)
_PAD_COST = np.int64(1) << np.int64(60)
_SMALL_CELLS = 64  # up to here a plain start costs less
_PRICED_ROWS = 6  # rows priced before the best candidate among them enters
_PRICED_CELLS = 6_144  # and fewer rows where they have more cells than that


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """Transport problems; of each, the places of its costs and masses in larger arrays."""

    costs: np.ndarray
    """Not negative and finite; float64, those of a problem row by row."""
    first_cost: np.ndarray
    row_stride: np.ndarray
    """From a row's cost to that below it."""
    n_rows: np.ndarray
    n_columns: np.ndarray
    masses: np.ndarray
    """Positive integers, with the same sum over the rows and columns of a problem; see
    `room_for_mass`."""
    first_supply: np.ndarray
    first_demand: np.ndarray
    n_head_rows: np.ndarray
    n_head_columns: np.ndarray
    """Size of the head: first rows with the same mass as the first columns; 0 where none is known.
    If the problem before is the head, its plan is where the solver starts. All but costs int64; of
    problems, shape (n_problems,)."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What came of many problems."""

    costs: np.ndarray
    """Least sum of mass times cost, float64, shape (n_problems,)."""
    parents: np.ndarray
    """Of the rows and then the columns in the tree that is the last problem's plan; the root is its
    own. A problem of more rows than columns was turned round."""
    flows: np.ndarray
    """Mass between each of these and its parent."""
    n_rows: int
    """Of the last problem, as it was solved."""
    is_turned: bool

    def cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, columns and masses of the cells that carry mass in the last problem's plan.

        All int64, shape (n_cells,).
        """
        above, at = self.parents.astype(np.int64), np.arange(self.parents.size)
        at = at[(above != at) & (self.flows > 0)]
        rows, columns = np.minimum(at, above[at]), np.maximum(at, above[at]) - self.n_rows
        if self.is_turned:
            rows, columns = columns, rows
        return rows, columns, self.flows[at]


def room_for_mass(n_rows: int) -> int:
    """Bits of total mass that a problem with that many rows has room for."""
    bits = MASS_BITS - 2
    while (1 << (MASS_BITS - 2 - bits)) < 2 * n_rows + 2:
        bits -= 1
    return bits


def compile_here() -> None:
    """Compile the loop by solving a problem."""
    one, zero = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    solve(Problems(
        costs=np.ones(1), first_cost=zero, row_stride=one, n_rows=one, n_columns=one,
        masses=one, first_supply=zero, first_demand=zero, n_head_rows=zero, n_head_columns=zero,
    ))  # fmt: skip


def solve(problems: Problems) -> Solution:
    """Solve problems one after the other, in one compiled call."""
    wait_for_compiler(SOLVER)
    is_turned = problems.n_rows > problems.n_columns

    def turned(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(is_turned, columns, rows), np.where(is_turned, rows, columns)

    sizes = turned(problems.n_rows, problems.n_columns)
    (n, m), costs = (int(size.max()) for size in sizes), np.empty(is_turned.size)
    mp, cells = (m + 7) & ~7, int((sizes[0] * ((sizes[1] + 7) & ~7)).max())
    words, nodes = (n + 63) >> 6, max(n + mp, 1)  # where nothing is left to move, too
    ints, bits = partial(np.empty, dtype=np.int64), partial(np.empty, dtype=np.uint64)
    keys, parent, flow = partial(np.empty, dtype=np.int32), bits(nodes), ints(nodes)
    solve_problems(
        problems.costs, problems.costs.view(np.int64), problems.first_cost,
        *turned(problems.row_stride, np.ones_like(problems.row_stride)), *sizes,
        problems.masses, *turned(problems.first_supply, problems.first_demand),
        *turned(problems.n_head_rows, problems.n_head_columns),
        ints(cells), keys(cells), keys(mp), keys(n + 7), bits(n), bits(mp * words), bits(nodes),
        parent, flow, ints(n), ints(mp), bits(nodes * words), bits(words), bits(words),
        ints(words * 64), bits(2 * nodes), ints(n), ints(mp), costs,
    )  # fmt: skip
    n, m = (int(size[-1]) for size in sizes)
    return Solution(costs, parent[: n + m], flow[: n + m], n, bool(is_turned[-1]))


@kernel(inner=True)
def _raise(masses, first_supply, n, first_demand, m, shift, a, b):
    """Fill in supplies, each raised by a unit, and demands, of which the last is raised by all."""
    for i in range(n):
        a[i] = (masses[first_supply + i] << shift) + 1
    for j in range(m):
        b[j] = masses[first_demand + j] << shift
    b[m - 1] += n


@kernel(inner=True)
def _row_minimum(cost, i, mp, v):
    best = BIG
    for j in range(mp):
        best = min(best, cost[i, j] - v[j])
    return best


@kernel(inner=True)
def _find_column(cost, i, m, v, value):
    """Return the first column of that value; without a branch, so that it is vectorised."""
    found = BIG
    for j in range(m):
        found = min(found, _I(j) if cost[i, j] - v[j] == value else BIG)
    return found


@kernel(inner=True)
def _pivot(
    cost, n, m, mp, order, parent, flow, u, v, below_memory, moving, passed, change, cycle,
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
        # which is the first node above the row that has the column below it. Edges lose and gain
        # mass in turn; the scarcest loser leaves (never a tie, see above)
        p = _U(row)
        q = first_column + _U(column)
        above = parent[q]
        word, bit = above >> _U(6), above & _U(63)
        mass = BIG
        leaving_at = 0
        n_row_side = 0
        x = p
        while x != q and ((below[x, word] >> bit) & _ONE) == _U(0):
            f = BIG if n_row_side & 1 else flow[x]
            if f < mass:
                mass = f
                leaving_at = n_row_side
            cycle[n_row_side] = x
            n_row_side += 1
            x = parent[x]
        ancestor = x
        x = q
        n_cycle = n_row_side
        while x != ancestor:
            f = BIG if (n_cycle - n_row_side) & 1 else flow[x]
            if f < mass:
                mass = f
                leaving_at = n_cycle
            cycle[n_cycle] = x
            n_cycle += 1
            x = parent[x]
        leaving = cycle[leaving_at]
        if leaving_at < n_row_side:
            attach, shift = q, best
            own_start, own_end, other_start, other_end = 0, n_row_side, n_row_side, n_cycle
        else:
            attach, shift = p, -best
            own_start, own_end, other_start, other_end = n_row_side, n_cycle, 0, n_row_side

        # potentials of the subtree that hangs at the leaving edge
        for k in range(words):
            bits = below[leaving, k]
            moving[k] = bits
            passed[k] = 0
            first = k << 6
            for t in range(min(n - first, 64)):
                change[first + t] = shift & -_I((bits >> _U(t)) & _ONE)
                u[first + t] += change[first + t]
        for j in range(m):  # a column moves with its parent
            v[j] -= change[parent[n + j]]
        if leaving >= first_column:
            v[leaving - first_column] -= shift

        # flows and the rows below the nodes of the cycle. The path from the entering to the leaving
        # edge is turned round: a node has what hung there, but for what was below the node before
        new_parent, new_flow = attach, mass
        change_of_flow = -mass
        for t in range(own_start, leaving_at + 1):
            x = cycle[t]
            old_flow = flow[x] + change_of_flow
            change_of_flow = -change_of_flow
            parent[x] = new_parent
            flow[x] = new_flow
            new_parent, new_flow = x, old_flow
            for k in range(words):
                bits = below[x, k]
                below[x, k] = moving[k] & ~passed[k]
                passed[k] = bits
        for t in range(leaving_at + 1, own_end):
            x = cycle[t]
            flow[x] += change_of_flow
            change_of_flow = -change_of_flow
            for k in range(words):
                below[x, k] &= ~moving[k]
        change_of_flow = -mass
        for t in range(other_start, other_end):
            x = cycle[t]
            flow[x] += change_of_flow
            change_of_flow = -change_of_flow
            for k in range(words):
                below[x, k] |= moving[k]


@kernel()
def solve_problems(
    costs, costs_as_int, first_cost, row_strides, column_strides, n_rows, n_columns,
    masses, first_supply, first_demand, n_head_rows, n_head_columns,
    scaled_memory, key_memory, w, regret, cheapest, user_memory, order, parent, flow, u, v,
    below_memory, moving, passed, change, cycle, a, b, values,
):  # fmt: skip
    """Solve problems one after the other; `parent` and `flow` are left as the last one's plan.

    Cell (i, j) costs `costs[first + i * row_stride + j * column_stride]`, where one stride is 1.
    `costs_as_int` is the same memory seen as integers: for floats that are not negative the order
    is the same, and integer maxima are vectorised. The third line and the fourth are memory to
    work in, passed one by one, since taking them out of a tuple costs more than solving a small
    problem: scaled costs; of the start, keys of cells, what columns are lessened by, regret and
    cheapest column of rows, and bits of the rows whose two cheapest have a column; nodes in the
    order in which they were exhausted, their parents and the flow to them; potentials of rows and
    columns; bits of the rows below each node, of those of a moving subtree, and of those that were
    below the last node; changes of potentials; nodes of a cycle; supplies; demands.
    """
    for p in range(n_rows.size):
        n, m, first = n_rows[p], n_columns[p], first_cost[p]
        row_stride, column_stride = row_strides[p], column_strides[p]
        value = 0.0
        if n <= 1:
            for j in range(n * m):
                demand = masses[first_demand[p] + j]
                value += demand * costs[first + j * column_stride]
                parent[n + j], flow[n + j] = _U(0), demand
            parent[0] = _U(0)
            values[p] = value
            continue

        is_turned = column_stride != 1
        n_lines, n_in_line, line_stride = (m, n, column_stride) if is_turned else (n, m, row_stride)
        largest = _I(0)
        for line in range(n_lines):
            at = _U(first + line * line_stride)  # unsigned: no index counts from the end
            for k in range(n_in_line):
                largest = max(largest, costs_as_int[at + _U(k)])
        if largest == 0:
            largest = _I(1023) << 52  # all costs are zero: any scale will do
        cost_bits = min(COST_BITS, 58 - highest_bit(n + m))
        # 2**exponent brings the largest cost, in [2**e, 2**(e+1)), to [2**(bits-1), 2**bits]; in
        # two steps, since the factor itself may leave the range of a float
        exponent = cost_bits - 1 - ((largest >> 52) - 1023)
        up = _I(((exponent >> 1) + 1023) << 52).view(np.float64)
        down = _I((exponent - (exponent >> 1) + 1023) << 52).view(np.float64)
        mp = padded(m)
        scaled = scaled_memory[: n * mp].reshape(n, mp)
        for line in range(n_lines):  # by whole vectors, as lines are contiguous in `costs`
            at = _U(first + line * line_stride)
            if is_turned:
                for k in range(n_in_line):
                    change[k] = _I(np.rint(costs[at + _U(k)] * up * down))
                for k in range(n_in_line):
                    scaled[k, line] = change[k]
            else:
                for k in range(n_in_line):
                    scaled[line, k] = _I(np.rint(costs[at + _U(k)] * up * down))
        for i in range(n):
            for j in range(m, mp):
                scaled[i, j] = _PAD_COST

        shift = highest_bit(2 * n + 1) + 1
        n_head, m_head = n_head_rows[p], n_head_columns[p]
        has_head = 0 < n_head < n
        n_first, m_first = (n_head, m_head) if has_head else (n, m)
        is_solved = (
            has_head
            and p > 0
            and (first_cost[p - 1], n_rows[p - 1], n_columns[p - 1]) == (first, n_head, m_head)
            and column_strides[p - 1] == column_stride
        )
        if is_solved:
            for j in range(m_head - 1, -1, -1):  # its nodes get the numbers that they have here
                parent[n + j], flow[n + j] = parent[n_head + j], flow[n_head + j]
            for i in range(n_head):
                if parent[i] != _U(i):
                    parent[i] += _U(n - n_head)
        else:
            _raise(masses, first_supply[p], n_first, first_demand[p], m_first, shift, a, b)
            if m_first == 1 or n_first * m_first <= _SMALL_CELLS:
                row_minimum_start(scaled, 0, n_first, 0, m_first, n, 0, order, parent, flow, a, b)
            else:
                vogel_start(
                    scaled, n_first, m_first, n, cost_bits,
                    key_memory, w, regret, cheapest, user_memory, order, parent, flow, a, b,
                )  # fmt: skip
        if has_head:
            _raise(masses, first_supply[p], n, first_demand[p], m, shift, a, b)
            join_rest(scaled, n_head, n, m_head, m, cycle, order, parent, flow, a, b)
        _pivot(
            scaled, n, m, mp, order, parent, flow, u, v, below_memory, moving, passed, change, cycle
        )
        half_unit = _I(1) << (shift - 1)
        for x in range(n + m):
            above = _I(parent[x])
            if above == x:
                continue
            i, j = (x, above - n) if x < n else (above, x - n)
            flow[x] = (flow[x] + half_unit) >> shift
            value += flow[x] * costs[first + i * row_stride + j * column_stride]
        values[p] = value
