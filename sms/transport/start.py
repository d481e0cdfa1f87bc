"""A feasible basis tree from which the simplex starts.

Vogel's approximation, or for the smallest problems the cheapest columns of each row; `simplex`
says why. A problem with a head starts from the head's tree, to which `join_rest` adds the rest.
Loops run over contiguous integers, which the compiler makes vectors of.
"""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel

BIG = np.int64(1) << np.int64(62)
_I = np.int64
_U = np.uint64
_ONE = np.uint64(1)
_KEY_MAX = np.int32(2**31 - 1)
_EXHAUSTED = np.int32(-(2**30))


@kernel(inner=True)
def highest_bit(number):
    """Place of the highest bit of a positive number below 2**53, or of a power of two."""
    return ((np.float64(_I(number)).view(np.int64) >> 52) & 0x7FF) - 1023


@kernel(inner=True)
def _two_smallest(keys, i, lessened):
    """Return the smallest of `keys[i] - lessened`, and the smallest of the others.

    The smallest is the only one of its value, since keys hold their column.
    """
    smallest = second = _KEY_MAX
    for j in range(lessened.size):
        smallest = min(smallest, np.int32(keys[i, j] - lessened[j]))
    for j in range(lessened.size):
        value = np.int32(keys[i, j] - lessened[j])
        second = min(second, _KEY_MAX if value == smallest else value)
    return smallest, second


@kernel(inner=True)
def padded(n):
    """Round a row length up to whole vectors."""
    return (n + 7) & ~7


@kernel(inner=True)
def vogel_start(
    cost, n, m, first_column, cost_bits,
    key_memory, w, regret, cheapest, user_memory, order, parent, flow, a, b,
):  # fmt: skip
    """Fill parents, flows and the order of exhaustion with a feasible basis tree.

    Each allocation exhausts one row or column, which becomes a child of the other; the root is
    last. `first_column` is the node of column 0.
    """
    mp = padded(m)
    keys = key_memory[: n * mp].reshape(n, mp)
    words = (n + 63) >> 6
    users = user_memory[: mp * words].reshape(mp, words)
    first_column = _U(first_column)
    number_bits = highest_bit(max(n, mp) - 1) + 1  # of a row or column; a head may have more rows
    shift = max(cost_bits - (29 - number_bits), 0)  # keys stay below 2**30
    low = np.int32((1 << number_bits) - 1)
    lessened = w[:mp]

    for j in range(mp):
        w[j] = _KEY_MAX
        for k in range(words):
            users[j, k] = 0
    for i in range(n):
        for j in range(mp):
            keys[i, j] = np.int32(((cost[i, j] >> shift) << number_bits) | j)
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
        key, second = _two_smallest(keys, i, lessened)
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
                        key, second = _two_smallest(keys, i, lessened)
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
            parent[first_column + _U(j)] = _U(i)
            flow[first_column + _U(j)] = b[j]
            order[k] = first_column + _U(j)
            k += 1
    order[k] = _U(i)
    parent[i] = _U(i)


@kernel(inner=True)
def row_minimum_start(
    cost, first_row, n, first_column, m, column_node, k, order, parent, flow, a, b
):  # fmt: skip
    """Fill parents, flows and the order of exhaustion: each row takes its cheapest columns.

    Rows are `first_row` to n - 1, columns `first_column` to m - 1; the node of column 0 is
    `column_node`. The order is filled from place `k` on, and the last row is the root.
    """
    for i in range(first_row, n - 1):
        while True:
            least = BIG
            j = first_column
            for column in range(first_column, m):
                if b[column] > 0 and cost[i, column] < least:
                    least = cost[i, column]
                    j = column
            if b[j] > a[i]:
                break
            parent[column_node + j] = _U(i)
            flow[column_node + j] = b[j]
            order[k] = _U(column_node + j)
            a[i] -= b[j]
            b[j] = 0
            k += 1
        parent[i] = _U(column_node + j)
        flow[i] = a[i]
        order[k] = _U(i)
        b[j] -= a[i]
        k += 1
    for j in range(first_column, m):
        if b[j] > 0:
            parent[column_node + j] = _U(n - 1)
            flow[column_node + j] = b[j]
            order[k] = _U(column_node + j)
            k += 1
    order[k] = _U(n - 1)
    parent[n - 1] = _U(n - 1)


@kernel(inner=True)
def join_rest(cost, n_head, n, m_head, m, n_children, order, parent, flow, a, b):
    """Make a start of a tree of the head and the cheapest columns of each row of the rest.

    The head is the first rows and columns; its nodes already have the numbers of the whole
    problem, and its flows serve only to choose by which row it hangs at the last column. What the
    rows of the head have too much, being raised, flows along that edge. The root is the last row.
    """
    first_column, last = _U(n), _U(n + m - 1)
    column = _U(n + m_head - 1)
    row = parent[column]
    most = flow[column]
    for i in range(n_head):
        if parent[i] == column and flow[i] > most:
            row = _U(i)
            most = flow[i]
    # the path from that row to the root of the head is turned round
    x, new_parent = row, last
    while True:
        old_parent = parent[x]
        parent[x] = new_parent
        if old_parent == x:
            break
        x, new_parent = old_parent, x

    n_nodes = n_head + m_head
    for t in range(n_nodes):
        n_children[t if t < n_head else n - n_head + t] = 0
    n_children[last] = 2  # never exhausted here
    for t in range(n_nodes):
        n_children[parent[t if t < n_head else n - n_head + t]] += _ONE
    k = 0
    for t in range(n_nodes):
        x = _U(t if t < n_head else n - n_head + t)
        if n_children[x] == _U(0):
            order[k] = x
            k += 1
    for t in range(n_nodes):
        x = order[t]
        above = parent[x]
        if x < first_column:
            flow[x] = a[x]
            b[above - first_column] -= a[x]
        else:
            flow[x] = b[x - first_column]
            a[above] -= b[x - first_column]
        n_children[above] -= _ONE
        if n_children[above] == _U(0):
            order[k] = above
            k += 1
    row_minimum_start(cost, n_head, n, m_head, m, n, n_nodes, order, parent, flow, a, b)
