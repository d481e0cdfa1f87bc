"""Compiled blocks of Euclidean distances between two small sets of points."""

from __future__ import annotations

import numpy as np

from sms.compiled import SUMS, kernel

SPARE_ROWS, SPARE_COLUMNS = 3, 2
"""How far whole blocks reach beyond the costs that are asked for."""
_CANCELLATION = 1e-3  # below this share of the squared norms a distance is summed directly
_NEAR = -1.0  # stands for a distance that is


def padded_dimension(d: int) -> int:
    """Round a dimension up to whole vectors; the padding is zero."""
    return (d + 15) & ~15


@kernel(inner=True, fastmath=SUMS)
def gather(points, rows, first, last, into, squares):
    """Copy points as float64 into `into[first:last]`, padded with zeros, and fill in |point|^2.

    `rows` says which point is for each row. (A call for each point would take longer than to copy
    it.)
    """
    d = points.shape[1]
    for at in range(first, last):
        row = rows[at]
        square = 0.0
        for k in range(d):
            value = np.float64(points[row, k])
            into[at, k] = value
            square += value * value
        for k in range(d, into.shape[1]):
            into[at, k] = 0.0
        squares[at] = square


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


@kernel(inner=True)
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
        for j in range(m0, m1):  # vectorised, as it has no branch
            norms = squares_x[i] + squares_y[j]
            square = norms - 2.0 * into[i, j]
            is_near = square < _CANCELLATION * norms
            n_near += is_near
            into[i, j] = _NEAR if is_near else np.sqrt(square)
        if n_near:
            for j in range(m0, m1):
                if into[i, j] == _NEAR:
                    into[i, j] = np.sqrt(_squared_distance(x, i, y, j, d))
