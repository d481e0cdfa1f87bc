"""Blocks of Euclidean distances against SciPy's `cdist`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sms.compiled import kernel
from sms.transport.distances import (
    SPARE_COLUMNS,
    SPARE_ROWS,
    cost_block,
    gather,
    padded_dimension,
)

BLOCK_RTOL = 1e-14
NEAR_RTOL = 1e-9

SIZES = [(1, 1), (1, 9), (9, 1), (2, 4), (3, 5), (7, 8), (8, 7), (33, 20)]
DIMENSIONS = [1, 2, 15, 16, 17, 50, 300, 384]


@kernel()
def fill(x, y, packed_x, packed_y, squares_x, squares_y, into):
    """Gather all points and fill in the block of their distances, as compiled code does."""
    zero = np.int64(0)
    gather(x, np.arange(len(x)), zero, len(x), packed_x, squares_x)
    gather(y, np.arange(len(y)), zero, len(y), packed_y, squares_y)
    cost_block(packed_x, zero, len(x), packed_y, zero, len(y), squares_x, squares_y, into)


def block_of(x, y):
    """All costs between the rows of two matrices, by the compiled block."""
    n, m, d = len(x), len(y), padded_dimension(x.shape[1])
    packed = [np.zeros((size + SPARE_ROWS, d)) for size in (n, m)]
    found = np.full((n + SPARE_ROWS, m + SPARE_COLUMNS), np.nan)
    fill(x, y, *packed, np.empty(n), np.empty(m), found)
    return found[:n, :m]


@pytest.mark.parametrize("d", DIMENSIONS)
def test_block_matches_cdist(d):
    rng = np.random.default_rng(d)
    for n, m in SIZES:
        x, y = (rng.normal(size=(k, d)).astype(np.float32) for k in (n, m))
        # a distance between points that happen to be near loses digits to |x|^2 + |y|^2
        rtol = BLOCK_RTOL if d > 2 else 1e-12
        expected = cdist(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_allclose(block_of(x, y), expected, rtol=rtol)


# the last two lie on either side of sqrt(1e-3) of the norms, where summing differences takes over
@pytest.mark.parametrize("difference", [1e-9, 1e-6, 1e-3, 0.0316, 0.0317])
@pytest.mark.parametrize("norm", [1.0, 30.0])
def test_near_points(difference, norm):
    """The dot product alone would leave no digit: 1 + 1 - 2 * (1 - 5e-19)."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 300))
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    step = rng.normal(size=x.shape)
    size = difference * norm * np.sqrt(2)
    y = x + step * size / np.linalg.norm(step, axis=1, keepdims=True)
    found = block_of(x, y)
    np.testing.assert_allclose(found, cdist(x, y), rtol=NEAR_RTOL, atol=0)
    expected = np.sqrt(((x - y) ** 2).sum(axis=1))
    np.testing.assert_allclose(found.diagonal(), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1.0, 1e100])
def test_equal_points_cost_exactly_nothing(scale):
    rng = np.random.default_rng(5)
    for d in DIMENSIONS:
        x = rng.normal(size=(13, d)) * scale
        assert (block_of(x, x.copy()).diagonal() == 0).all()
    assert (block_of(np.zeros((3, 7)), np.zeros((5, 7))) == 0).all()
