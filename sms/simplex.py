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
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sms.compiled import kernel

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
_BIG = np.int64(1) << np.int64(62)
_PAD_COST = np.int64(1) << np.int64(60)
_LARGEST_BITS = np.int64(np.float64(LARGEST).view(np.int64))
_KEY_MAX = np.int32(2**31 - 1)
_EXHAUSTED = np.int32(-(2**30))
_LANES = 8
_LOW_HALF = np.int64(2**32 - 1)
_SMALL_CELLS = 64  # up to here a plain start and pivots without a call cost less
_PRICED_ROWS = 6  # rows priced before the best candidate among them enters


@intrinsic
def _lowest_bit(typing_context, word):
    """Index of the lowest set bit of a non-zero 64-bit word."""

    def generate(context, builder, signature, arguments):
        i64, i1 = ir.IntType(64), ir.IntType(1)
        cttz = builder.module.declare_intrinsic(
            "llvm.cttz", (i64,), ir.FunctionType(i64, (i64, i1))
        )
        return builder.call(cttz, (arguments[0], ir.Constant(i1, 1)))

    return types.uint64(types.uint64), generate


@intrinsic
def _bit_length(typing_context, number):
    """Bits that a positive 64-bit integer needs."""

    def generate(context, builder, signature, arguments):
        i64, i1 = ir.IntType(64), ir.IntType(1)
        ctlz = builder.module.declare_intrinsic(
            "llvm.ctlz", (i64,), ir.FunctionType(i64, (i64, i1))
        )
        leading = builder.call(ctlz, (arguments[0], ir.Constant(i1, 1)))
        return builder.sub(ir.Constant(i64, 64), leading)

    return types.int64(types.int64), generate


@intrinsic
def _as_float(typing_context, bits):
    """Return the float64 with these 64 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def _two_smallest(typing_context, keys, lessened, n_vectors):
    """Return the two smallest of `keys - lessened`, the second one in the upper half.

    Both are addresses of int32, `n_vectors` times eight of each. One pass: of what a lane has met
    it keeps the two smallest, which the compiler does not make of a plain loop.
    """

    def generate(context, builder, signature, arguments):
        i32, i64 = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(i32, _LANES)
        pointer = vector.as_pointer()
        module = builder.module
        pairwise = ir.FunctionType(vector, (vector, vector))
        smin = module.declare_intrinsic("llvm.smin.v8i32", (), pairwise)
        smax = module.declare_intrinsic("llvm.smax.v8i32", (), pairwise)
        least = module.declare_intrinsic(
            "llvm.vector.reduce.smin.v8i32", (), ir.FunctionType(i32, (vector,))
        )

        def splat(value):
            lanes = builder.insert_element(
                ir.Constant(vector, ir.Undefined), value, ir.Constant(i32, 0)
            )
            zeros = ir.Constant(ir.VectorType(i32, _LANES), [0] * _LANES)
            return builder.shuffle_vector(lanes, ir.Constant(vector, ir.Undefined), zeros)

        most = ir.Constant(vector, [int(_KEY_MAX)] * _LANES)
        first_block = builder.basic_block
        loop = builder.append_basic_block("two_smallest")
        done = builder.append_basic_block("two_smallest.done")
        one = builder.inttoptr(arguments[0], pointer)
        other = builder.inttoptr(arguments[1], pointer)
        builder.branch(loop)
        builder.position_at_end(loop)
        k, lowest, second = builder.phi(i64), builder.phi(vector), builder.phi(vector)
        key = builder.load(builder.gep(one, [k]), align=4)
        less = builder.load(builder.gep(other, [k]), align=4)
        value = builder.sub(key, less)
        next_second = builder.call(smin, (second, builder.call(smax, (lowest, value))))
        next_lowest = builder.call(smin, (lowest, value))
        next_k = builder.add(k, ir.Constant(i64, 1))
        for phi, start, later in (
            (k, ir.Constant(i64, 0), next_k),
            (lowest, most, next_lowest),
            (second, most, next_second),
        ):
            phi.add_incoming(start, first_block)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", next_k, arguments[2]), loop, done)
        builder.position_at_end(done)
        smallest = builder.call(least, (next_lowest,))
        is_it = builder.icmp_signed("==", next_lowest, splat(smallest))
        others = builder.select(is_it, most, next_lowest)
        runner_up = builder.call(least, (builder.call(smin, (next_second, others)),))
        upper = builder.shl(builder.sext(runner_up, i64), ir.Constant(i64, 32))
        return builder.or_(upper, builder.zext(smallest, i64))

    return types.int64(types.int64, types.int64, types.int64), generate


@kernel(forceinline=True)
def _power_of_two(exponent):
    return _as_float((exponent + 1023) << 52)


@kernel()
def padded(n):
    """Round a row length up to whole vectors."""
    return (n + 7) & ~7


@kernel()
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


@kernel()
def _row_minimum(cost, i, mp, v):
    best = _BIG
    for j in range(mp):
        best = min(best, cost[i, j] - v[j])
    return best


@kernel()
def _find_column(cost, i, m, v, value):
    for j in range(m):
        if cost[i, j] - v[j] == value:
            return j
    return -1


@kernel()
def _vogel_start(
    cost, n, m, mp, cost_bits,
    key_memory, w, regret, cheapest, user_memory, order, parent, flow, a, b,
):  # fmt: skip
    """Fill parents, flows and the order of exhaustion with a feasible basis tree.

    Each allocation exhausts one row or one column, which becomes a child of the other: the
    order of exhaustion lists every node before its parent, the root last.
    """
    keys = key_memory[: n * mp].reshape(n, mp)
    words = (n + 63) >> 6
    users = user_memory[: mp * words].reshape(mp, words)
    first_column = _U(n)
    column_bits = _bit_length(mp - 1)
    shift = max(cost_bits - (29 - column_bits), 0)  # keys stay below 2**30
    low = np.int32((1 << column_bits) - 1)
    first_key, first_w = keys.ctypes.data, w.ctypes.data
    row_bytes, n_vectors = 4 * mp, mp // _LANES

    for j in range(mp):
        w[j] = _KEY_MAX
        for k in range(words):
            users[j, k] = 0
    for i in range(n):
        for j in range(mp):
            keys[i, j] = np.int32(((cost[i, j] >> shift) << column_bits) | j)
        for j in range(m, mp):
            keys[i, j] = _KEY_MAX
        smallest = _KEY_MAX
        for j in range(mp):
            smallest = min(smallest, keys[i, j])
        smallest = smallest & ~low
        for j in range(mp):
            w[j] = min(w[j], np.int32(keys[i, j] - smallest))
    for j in range(mp):
        w[j] = w[j] & ~low
    for j in range(m, mp):
        w[j] = 0

    rows_padded = padded(n)
    for i in range(n, rows_padded):
        regret[i] = -2
    for i in range(n):
        both = _two_smallest(first_key + i * row_bytes, first_w, n_vectors)
        key, second = np.int32(both & _LOW_HALF), np.int32(both >> 32)
        cheapest[i] = _U(key & low)
        bit = _ONE << _U(i & 63)
        users[_U(key & low), i >> 6] |= bit
        users[_U(second & low), i >> 6] |= bit
        regret[i] = ((second - key) & ~low) | np.int32(i)

    k = 0
    rows_left = n
    while rows_left > 1:
        best = np.int32(-1)
        for i in range(rows_padded):
            best = max(best, regret[i])
        i = _I(best & low)
        j = cheapest[i]
        if b[j] < a[i]:  # the column is exhausted and hangs below the row
            parent[first_column + j] = _U(i)
            flow[first_column + j] = b[j]
            order[k] = first_column + j
            a[i] -= b[j]
            w[j] = _EXHAUSTED
            column = j
            for word in range(words):
                bits = users[column, word]
                while bits != _U(0):
                    i = _I(_lowest_bit(bits)) + (word << 6)
                    bit = bits & ~(bits - _ONE)
                    bits ^= bit
                    if regret[i] >= 0:
                        both = _two_smallest(first_key + i * row_bytes, first_w, n_vectors)
                        key, second = np.int32(both & _LOW_HALF), np.int32(both >> 32)
                        cheapest[i] = _U(key & low)
                        users[_U(key & low), word] |= bit
                        users[_U(second & low), word] |= bit
                        regret[i] = ((second - key) & ~low) | np.int32(i)
        else:
            parent[i] = first_column + j
            flow[i] = a[i]
            order[k] = _U(i)
            b[j] -= a[i]
            regret[i] = -2
            rows_left -= 1
        k += 1
    # the last row takes every column that is left and is the root
    i = 0
    while regret[i] < 0:
        i += 1
    for j in range(m):
        if w[j] != _EXHAUSTED:
            parent[n + j] = _U(i)
            flow[n + j] = b[j]
            order[k] = _U(n + j)
            k += 1
    order[k] = _U(i)
    parent[i] = _U(i)


@kernel(forceinline=True)
def _row_minimum_start(cost, n, m, order, parent, flow, a, b):
    """Fill parents, flows and the order of exhaustion: each row takes its cheapest columns."""
    k = _U(0)
    for i in range(n - 1):
        while True:
            least = _BIG
            j = 0
            for column in range(m):
                if b[column] > 0 and cost[i, column] < least:
                    least = cost[i, column]
                    j = column
            if b[j] > a[i]:
                break
            parent[n + j] = _U(i)
            flow[n + j] = b[j]
            order[k] = _U(n + j)
            a[i] -= b[j]
            b[j] = 0
            k += _U(1)
        parent[i] = _U(n + j)
        flow[i] = a[i]
        order[k] = _U(i)
        b[j] -= a[i]
        k += _U(1)
    for j in range(m):
        if b[j] > 0:
            parent[n + j] = _U(n - 1)
            flow[n + j] = b[j]
            order[k] = _U(n + j)
            k += _U(1)
    order[k] = _U(n - 1)
    parent[n - 1] = _U(n - 1)


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
            if priced >= _PRICED_ROWS and row >= 0:
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
        mass = _BIG
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


# Inlined, a 4x4 problem takes a fifth less; but the loops of Vogel's start, inlined with it, are
# no longer vectorised.
_pivot_inlined = kernel(forceinline=True)(_pivot)
_pivot_apart = kernel()(_pivot)


@kernel()
def _simplex(
    cost, n, m, mp, cost_bits,
    key_memory, w, regret, cheapest, user_memory, order, parent, flow, u, v, below_memory,
    moving, change, cycle, a, b,
):  # fmt: skip
    _vogel_start(
        cost, n, m, mp, cost_bits,
        key_memory, w, regret, cheapest, user_memory, order, parent, flow, a, b,
    )  # fmt: skip
    _pivot_apart(cost, n, m, mp, order, parent, flow, u, v, below_memory, moving, change, cycle)


@kernel()
def solve(
    cost, cost_as_int, start, row_stride, column_stride, n, m,
    plan, plan_at,
    scaled_memory, key_memory, w, regret, cheapest, user_memory, order, parent, flow, u, v,
    below_memory, moving, change, cycle, a, b,
):  # fmt: skip
    """Solve one problem with supplies `a` and demands `b`, which are used up.

    Parameters
    ----------
    cost : ndarray of float64, flat
        Cell (i, j) is `cost[start + i * row_stride + j * column_stride]`. One of the strides is 1.
    cost_as_int : ndarray of int64, flat
        The same memory as `cost`, seen as integers: for non-negative floats the order is
        the same, integer maxima are vectorised, and what is negative or no number shows.
    n, m : int
        Rows and columns, `1 <= n <= m`; supplies and demands are positive integers with
        equal sums.
    plan : ndarray of int64, shape (3, n_cells)
        From `plan_at` on filled with the row, column and mass of the cells that carry mass, unless
        that is negative.
    scaled_memory, ..., cycle : ndarray
        Work arrays from `allocate`, in its order. They are passed one by one, since taking
        them out of a tuple costs more than solving a small problem.

    Returns
    -------
    cost : float
        Sum of integer mass times cost; divide by the total mass.
    n_cells : int
        Number of plan cells written; -1 if a cost is negative (be it -0.0), NaN or too large, and
        nothing was solved.
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
    cost_bits = min(COST_BITS, 59 - _bit_length(n + m))
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

    shift = _bit_length(2 * n + 1)
    for i in range(n):
        a[i] = (a[i] << shift) + 1
    for j in range(m):
        b[j] <<= shift
    b[m - 1] += n
    if n * m <= _SMALL_CELLS:
        _row_minimum_start(scaled, n, m, order, parent, flow, a, b)
        _pivot_inlined(
            scaled, n, m, mp, order, parent, flow, u, v, below_memory, moving, change, cycle
        )
    else:
        _simplex(
            scaled, n, m, mp, cost_bits,
            key_memory, w, regret, cheapest, user_memory, order, parent, flow, u, v, below_memory,
            moving, change, cycle, a, b,
        )  # fmt: skip
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
