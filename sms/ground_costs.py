"""Compiled blocks of ground costs between two small sets of points."""

from __future__ import annotations

import numpy as np

from sms.compiled import SUMS, kernel

EUCLIDEAN, SQEUCLIDEAN, COSINE = 0, 1, 2
GROUND_COSTS = {"euclidean": EUCLIDEAN, "sqeuclidean": SQEUCLIDEAN, "cosine": COSINE}
"""Name of each ground cost and its number inside the kernels."""

_CANCELLATION = 1e-3  # below this share of the squared norms a distance is summed directly


@kernel()
def padded_dimension(d):
    """Round a dimension up to whole vectors; the padding is zero."""
    return (d + 15) & ~15


@kernel()
def gather(points, row, into, at):
    """Copy one point as float64 into row `at` of `into`, padded with zeros."""
    d = points.shape[1]
    for k in range(d):
        into[at, k] = np.float64(points[row, k])
    for k in range(d, into.shape[1]):
        into[at, k] = 0.0


@kernel(fastmath=SUMS)
def _dot(x, i, y, j, d):
    total = 0.0
    for k in range(d):
        total += x[i, k] * y[j, k]
    return total


@kernel(fastmath=SUMS)
def _squared_distance(x, i, y, j, d):
    total = 0.0
    for k in range(d):
        difference = x[i, k] - y[j, k]
        total += difference * difference
    return total


@kernel(fastmath=SUMS)
def _dots_2x4(x, i, y, j, d, into):
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
    for k in range(d):
        p, q = x[i, k], x[i + 1, k]
        r = y[j, k]
        a0 += p * r
        b0 += q * r
        r = y[j + 1, k]
        a1 += p * r
        b1 += q * r
        r = y[j + 2, k]
        a2 += p * r
        b2 += q * r
        r = y[j + 3, k]
        a3 += p * r
        b3 += q * r
    into[i, j], into[i, j + 1], into[i, j + 2], into[i, j + 3] = a0, a1, a2, a3
    into[i + 1, j], into[i + 1, j + 1], into[i + 1, j + 2], into[i + 1, j + 3] = b0, b1, b2, b3


@kernel()
def cost_block(x, n0, n1, y, m0, m1, kind, squares_x, squares_y, into):
    """Fill `into[n0:n1, m0:m1]` with the ground costs between those rows of `x` and `y`.

    Squared distances come from a blocked dot product, `|x|^2 + |y|^2 - 2 x y`; where that
    loses digits (near points) the differences are summed instead, so that the result is
    accurate to about 1e-15 and equal points cost exactly 0.
    """
    d = x.shape[1]
    i = n0
    while i + 2 <= n1:
        j = m0
        while j + 4 <= m1:
            _dots_2x4(x, i, y, j, d, into)
            j += 4
        while j < m1:
            into[i, j] = _dot(x, i, y, j, d)
            into[i + 1, j] = _dot(x, i + 1, y, j, d)
            j += 1
        i += 2
    while i < n1:
        for j in range(m0, m1):
            into[i, j] = _dot(x, i, y, j, d)
        i += 1
    for i in range(n0, n1):
        if kind == COSINE:
            for j in range(m0, m1):
                cosine = into[i, j] / np.sqrt(squares_x[i] * squares_y[j])
                into[i, j] = min(max(1.0 - cosine, 0.0), 2.0)
            continue
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
        if kind == EUCLIDEAN:
            for j in range(m0, m1):
                into[i, j] = np.sqrt(into[i, j])


@kernel()
def squared_norm(x, i):
    """Squared Euclidean norm of row `i`."""
    return _dot(x, i, x, i, x.shape[1])
