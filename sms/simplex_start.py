"""A feasible basis tree from which the simplex starts.

Vogel's approximation, or for the smallest problems the cheapest columns of each row; `simplex`
says why. Loops run over contiguous integers, which the compiler makes vectors of.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sms.compiled import kernel

BIG = np.int64(1) << np.int64(62)
_I = np.int64
_U = np.uint64
_ONE = np.uint64(1)
_KEY_MAX = np.int32(2**31 - 1)
_EXHAUSTED = np.int32(-(2**30))
_LANES = 8
_LOW_HALF = np.int64(2**32 - 1)


@kernel(inner=True, forceinline=True)
def highest_bit(number):
    """Place of the highest bit of a positive number below 2**53, or of a power of two."""
    return ((np.float64(_I(number)).view(np.int64) >> 52) & 0x7FF) - 1023


@intrinsic
def _two_smallest(typing_context, keys, lessened, n_vectors):
    """Return the two smallest of `keys - lessened`, the second one in the upper half.

    Both are addresses of int32, `n_vectors` times eight of each. The compiler makes no single pass
    of a plain loop.
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


@kernel(inner=True)
def padded(n):
    """Round a row length up to whole vectors."""
    return (n + 7) & ~7


@kernel(inner=True)
def vogel_start(
    cost, n, m, mp, cost_bits,
    key_memory, w, regret, cheapest, user_memory, order, parent, flow, a, b,
):  # fmt: skip
    """Fill parents, flows and the order of exhaustion with a feasible basis tree.

    Each allocation exhausts one row or column, which becomes a child of the other; the root is
    last.
    """
    keys = key_memory[: n * mp].reshape(n, mp)
    words = (n + 63) >> 6
    users = user_memory[: mp * words].reshape(mp, words)
    first_column = _U(n)
    column_bits = highest_bit(mp - 1) + 1
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
                    bit = bits & ~(bits - _ONE)
                    i = highest_bit(bit) + (word << 6)
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


@kernel(inner=True, forceinline=True)
def row_minimum_start(cost, n, m, order, parent, flow, a, b):
    """Fill parents, flows and the order of exhaustion: each row takes its cheapest columns."""
    k = _U(0)
    for i in range(n - 1):
        while True:
            least = BIG
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
