"""Blocks of ground costs against SciPy's `cdist`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sms.ground_costs import (
    GROUND_COSTS,
    SPARE_COLUMNS,
    SPARE_ROWS,
    cost_block,
    gather,
    padded_dimension,
)
from sms.ragged import Ragged
from sms.transport import Clouds, point_cloud_transport

BLOCK_RTOL = 1e-14
NEAR_RTOL = 1e-9
COSINE_ATOL = 1e-15
"""1 - cosine is taken from numbers near 1, here and in SciPy."""

SIZES = [(1, 1), (1, 9), (9, 1), (2, 4), (3, 5), (7, 8), (8, 7), (33, 20)]
DIMENSIONS = [1, 2, 15, 16, 17, 50, 300, 384]


def block_of(x, y, kind):
    """All costs between the rows of two matrices, by the compiled block."""
    packed = []
    for points in (x, y):
        into = np.zeros((len(points) + SPARE_ROWS, padded_dimension(points.shape[1])))
        squares = [gather(points, row, into, row) for row in range(len(points))]
        packed.append((into, np.array(squares)))
    (x, squares_x), (y, squares_y) = packed
    n, m = squares_x.size, squares_y.size
    found = np.full((n + SPARE_ROWS, m + SPARE_COLUMNS), np.nan)
    cost_block(x, 0, n, y, 0, m, GROUND_COSTS[kind], squares_x, squares_y, found)
    return found[:n, :m]


# two points, their three costs worked out by hand
BY_HAND = [
    pytest.param([1.0, 0.0], [0.0, 1.0], [np.sqrt(2), 2.0, 1.0], id="orthogonal"),
    pytest.param([3.0, 4.0], [6.0, 8.0], [5.0, 25.0, 0.0], id="same-direction"),
    pytest.param([1.0, 1.0], [-1.0, -1.0], [np.sqrt(8), 8.0, 2.0], id="opposite"),
]


@pytest.mark.parametrize(("x", "y", "expected"), BY_HAND)
def test_cost_by_hand(x, y, expected):
    for kind, cost in zip(("euclidean", "sqeuclidean", "cosine"), expected, strict=True):
        assert block_of(np.array([x]), np.array([y]), kind)[0, 0] == pytest.approx(cost, abs=1e-15)


@pytest.mark.parametrize("kind", GROUND_COSTS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_block_matches_cdist(kind, d):
    rng = np.random.default_rng(d)
    for n, m in SIZES:
        x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
        atol = COSINE_ATOL if kind == "cosine" else 0
        # a distance between points that happen to be near loses digits to |x|^2 + |y|^2
        rtol = BLOCK_RTOL if d > 2 else 1e-12
        np.testing.assert_allclose(block_of(x, y, kind), cdist(x, y, kind), rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind", GROUND_COSTS)
def test_float32_points_match_cdist_in_float64(kind):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(11, 30)).astype(np.float32)
    y = rng.normal(size=(6, 30)).astype(np.float32)
    expected = cdist(x.astype(np.float64), y.astype(np.float64), kind)
    np.testing.assert_allclose(block_of(x, y, kind), expected, rtol=BLOCK_RTOL, atol=COSINE_ATOL)


@pytest.mark.parametrize("kind", GROUND_COSTS)
def test_inner_block_leaves_what_lies_before(kind):
    """A pair's words are filled in first, its sentences after them in the same memory."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(9 + SPARE_ROWS, 16)), rng.normal(size=(11 + SPARE_ROWS, 16))
    squares = [(z**2).sum(axis=1) for z in (x, y)]
    found = np.full((9 + SPARE_ROWS, 11 + SPARE_COLUMNS), -1.0)
    cost_block(x, 2, 7, y, 3, 10, GROUND_COSTS[kind], *squares, found)
    assert (found[:2] == -1).all()
    assert (found[:, :3] == -1).all()
    expected = cdist(x, y, kind)[2:7, 3:10]
    np.testing.assert_allclose(found[2:7, 3:10], expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("kind", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("difference", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("norm", [1.0, 30.0])
def test_near_duplicates(kind, difference, norm):
    """The dot product alone would leave no digit: 1 + 1 - 2 * (1 - 5e-19)."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 300))
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    step = rng.normal(size=x.shape)
    y = x + step * difference / np.linalg.norm(step, axis=1, keepdims=True)
    found = block_of(x, y, kind)
    np.testing.assert_allclose(found, cdist(x, y, kind), rtol=NEAR_RTOL, atol=0)
    by_difference = ((x - y) ** 2).sum(axis=1)
    expected = by_difference if kind == "sqeuclidean" else np.sqrt(by_difference)
    np.testing.assert_allclose(found.diagonal(), expected, rtol=1e-13)


@pytest.mark.parametrize("kind", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("share", [0.02, 0.03, 0.0316, 0.0317, 0.05, 0.2])
def test_accurate_on_both_sides_of_the_switch(kind, share):
    """Distances round sqrt(1e-3) of the norms, where summing differences takes over."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20, 100))
    step = rng.normal(size=x.shape)
    size = share * np.sqrt(2) * np.linalg.norm(x, axis=1, keepdims=True)
    y = x + step * size / np.linalg.norm(step, axis=1, keepdims=True)
    np.testing.assert_allclose(block_of(x, y, kind), cdist(x, y, kind), rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1.0, 1e100])
def test_equal_points_cost_exactly_nothing(kind, scale):
    rng = np.random.default_rng(5)
    for d in DIMENSIONS:
        x = rng.normal(size=(13, d)) * scale
        assert (block_of(x, x.copy(), kind).diagonal() == 0).all()
    assert (block_of(np.zeros((3, 7)), np.zeros((5, 7)), kind) == 0).all()


@pytest.mark.parametrize("scale", [1e-140, 1e-82, 1e80, 1e140])
def test_cosine_does_not_depend_on_the_size_of_points(scale):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(7, 20)), rng.normal(size=(5, 20))
    expected = cdist(x, y, "cosine")
    np.testing.assert_allclose(block_of(x * scale, y * scale, "cosine"), expected, rtol=1e-13)


def test_cosine_of_equal_points_and_its_range():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 384))
    found = block_of(x, np.concatenate([x, -x]), "cosine")
    np.testing.assert_allclose(found[:, :40].diagonal(), 0, atol=COSINE_ATOL)
    np.testing.assert_allclose(found[:, 40:].diagonal(), 2, atol=COSINE_ATOL)
    assert found.min() >= 0
    assert found.max() <= 2


@pytest.mark.parametrize("kind", GROUND_COSTS)
def test_single_points_through_transport_match_cdist(kind):
    rng = np.random.default_rng(7)
    points = rng.normal(size=(30, 50))
    clouds = Clouds(
        Ragged.from_lengths(np.arange(30), np.ones(30, dtype=np.int64)),
        Ragged.from_lengths(np.ones(30, dtype=np.int64), np.ones(30, dtype=np.int64)),
    )
    left, right = np.divmod(np.arange(900), 30)
    costs = point_cloud_transport(points, clouds, left, right, ground_cost=kind).costs
    expected = cdist(points, points, kind)
    np.testing.assert_allclose(costs.reshape(30, 30), expected, rtol=1e-14, atol=COSINE_ATOL)
    if kind != "cosine":
        assert (costs.reshape(30, 30).diagonal() == 0).all()
