"""The solver by hand, against POT and SciPy, and by the laws of its plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from ot.lp.emd_wrap import emd_c
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from sms.ragged import Ragged
from sms.transport import WORDS, Clouds, mover_costs, mover_plan
from sms.transport_kernels import SPARE_COLUMNS, SPARE_ROWS, cost_block, gather, padded_dimension

COST_RTOL = 1e-9
"""Agreement with another solver."""
COST_TOL = 1e-13
"""Costs are rounded to 2**-47 of the largest or better; this share of the largest cost allows
for that and for the checks' own sums."""
POT_ITERATIONS = 10_000_000


@dataclass(frozen=True)
class Problem:
    """Points and counts of two texts; no two points are one row of the clouds."""

    x: np.ndarray
    y: np.ndarray
    a: np.ndarray
    b: np.ndarray

    @property
    def ground_cost(self):
        return cdist(self.x, self.y)


def clouds_of(points, members, weights):
    """Texts that have words only."""
    nothing = np.empty((0, points.shape[1]))
    return Clouds(points, nothing, members, Ragged(weights, members.offsets), members.offsets[1:])


def as_clouds(problems):
    """Clouds of which each problem has two, one after the other."""
    sides = [side for p in problems for side in ((p.x, p.a), (p.y, p.b))]
    lengths = np.array([len(points) for points, _ in sides])
    most = max(points.shape[1] for points, _ in sides)
    points = np.concatenate([np.pad(x, ((0, 0), (0, most - x.shape[1]))) for x, _ in sides])
    members = Ragged.from_lengths(np.arange(len(points)), lengths)
    return clouds_of(points, members, np.concatenate([weights for _, weights in sides]))


def solve(problems, **options):
    left = np.arange(0, 2 * len(problems), 2)
    return mover_costs(as_clouds(problems), left, left + 1, WORDS, **options)[:, 0]


def solve_one(problem):
    """Solve one problem alone and check that its plan is feasible and has the cost."""
    cost, cells = mover_plan(as_clouds([problem]), 0, 1, WORDS)
    plan = np.zeros(problem.ground_cost.shape)
    np.add.at(plan, (cells.rows, cells.columns), cells.mass)
    assert cells.mass.min() > 0
    for sums, weights in ((plan.sum(axis=1), problem.a), (plan.sum(axis=0), problem.b)):
        np.testing.assert_allclose(sums, weights / weights.sum(), rtol=0, atol=1e-13)
    atol = problem.ground_cost.max() * COST_TOL
    np.testing.assert_allclose(cost, (plan * problem.ground_cost).sum(), rtol=0, atol=atol)
    return cost, plan


def cost_by_pot(problem):
    a, b = problem.a / problem.a.sum(), problem.b / problem.b.sum()
    b = b * (a.sum() / b.sum())
    _, cost, _, _, code = emd_c(a, b, problem.ground_cost, POT_ITERATIONS, 1)
    assert code == 1, "POT must have reached the optimum"
    return cost


# places on a line and counts of both texts, cost worked out by hand
BY_HAND = [
    pytest.param([0], [1], [3], [1], 3.0, id="one-to-one"),
    pytest.param([0, 2], [1, 1], [0], [1], 1.0, id="half-moves"),
    pytest.param([0], [5], [4, 8], [1, 3], 7.0, id="one-row"),
    pytest.param([0, 9], [1, 1], [9, 0], [2, 2], 0.0, id="all-stay"),
    pytest.param([0, 10], [3, 1], [2, 10], [1, 1], 3.5, id="one-moves"),
    # the cheapest cell of all must stay empty: 2 to 3 leaves 0 to 13
    pytest.param([2, 0], [1, 1], [3, 13], [1, 1], 7.0, id="two-ways"),
]


@pytest.mark.parametrize(("x", "a", "y", "b", "expected"), BY_HAND)
def test_cost_by_hand(x, a, y, b, expected):
    x, y = (np.array(side, np.float64)[:, None] for side in (x, y))
    problem = Problem(x, y, np.array(a), np.array(b))
    turned = Problem(y, x, problem.b, problem.a)
    assert solve([problem, turned]) == pytest.approx([expected] * 2, abs=1e-12)
    assert solve_one(problem)[0] == pytest.approx(expected, abs=1e-12)


# Against POT


def gaussian(rng, n, d):
    return rng.normal(size=(n, d))


def duplicates(rng, n, d):
    points = np.random.default_rng(d).normal(size=(5, d))
    return points[rng.integers(0, 5, n)]


def integer_grid(rng, n, d):
    return rng.integers(0, 5, (n, 2)).astype(np.float64)


# where points are, and the smallest and largest sizes of one side and the other
KINDS = {
    "gaussian": (gaussian, (3, 40), (3, 40)),
    "integer-grid": (integer_grid, (3, 40), (3, 40)),
    "duplicates": (duplicates, (3, 40), (3, 40)),
    "equal-weights": (integer_grid, (3, 40), (3, 40)),
    "one-or-two": (duplicates, (1, 3), (1, 60)),
    "up-to-450x65": (gaussian, (40, 451), (30, 66)),
    "any-weights": (gaussian, (3, 40), (3, 40)),
}


def draw(rng, kind):
    points_of, *sizes = KINDS[kind]
    sizes = [int(np.exp(rng.uniform(*np.log(size)))) for size in sizes]
    n, m = sizes if rng.random() < 0.5 else sizes[::-1]
    d, most = rng.integers(1, 20), {"equal-weights": 2, "any-weights": 10**9}.get(kind, 201)
    sides = [points_of(rng, size, d) for size in (n, m)]
    return Problem(*sides, *(rng.integers(1, most, size) for size in (n, m)))


@pytest.mark.parametrize(
    "n_problems",
    [pytest.param(50, id="some"), pytest.param(1250, id="all", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_costs_match_pot(kind, n_problems):
    rng = np.random.default_rng([list(KINDS).index(kind), n_problems])
    problems = [draw(rng, kind) for _ in range(n_problems)]
    largest = np.array([problem.ground_cost.max() for problem in problems])
    expected = [cost_by_pot(problem) for problem in problems]
    alone = [solve_one(problem)[0] for problem in problems]
    for found in (solve(problems), alone):
        # relative, but for optima that are zero up to rounding
        error = np.abs(found - np.array(expected))
        assert (error <= COST_RTOL * np.abs(expected) + COST_TOL * largest).all()


@pytest.mark.parametrize("n", [2, 5, 16, 33, 64, 65, 129])
@pytest.mark.parametrize("levels", [2, 10, 10**6])
def test_assignment_matches_scipy(n, levels):
    """A family on which a textbook simplex cycles."""
    rng = np.random.default_rng([n, levels])
    x, y = rng.integers(0, levels, (2, n, 2)).astype(np.float64)
    problem = Problem(x, y, np.ones(n, np.int64), np.ones(n, np.int64))
    cost, plan = solve_one(problem)
    rows, columns = linear_sum_assignment(problem.ground_cost)
    assert cost == pytest.approx(problem.ground_cost[rows, columns].sum() / n, rel=1e-12, abs=1e-12)
    # a vertex of this polytope is a permutation
    np.testing.assert_allclose(np.sort(plan, axis=1)[:, -1], 1 / n, rtol=1e-14)


# many columns and few rows: fewer rows are priced before each pivot
@pytest.mark.parametrize(("n", "m"), [(400, 500), (5, 1500), (4, 9000)])
def test_largest_sizes_match_pot(n, m):
    rng = np.random.default_rng([n, m])
    sides = [rng.normal(size=(size, 8)) for size in (n, m)]
    problem = Problem(*sides, *(rng.integers(1, 9, size) for size in (n, m)))
    assert solve_one(problem)[0] == pytest.approx(cost_by_pot(problem), rel=COST_RTOL)


@pytest.mark.parametrize("scale", [1e-100, 1e-9, 1e9, 1e100])
def test_cost_scales_with_the_points(scale):
    problem = draw(np.random.default_rng(8), "gaussian")
    (cost,) = solve([replace(problem, x=problem.x * scale, y=problem.y * scale)])
    assert cost == pytest.approx(solve_one(problem)[0] * scale, rel=1e-12, abs=0)


# Texts that share points


def draw_clouds(rng, points, n_clouds):
    sizes = rng.integers(1, 25, n_clouds)
    members = Ragged.from_rows(
        np.sort(rng.choice(len(points), size, replace=False)) for size in sizes
    )
    return clouds_of(points, members, rng.integers(1, 201, members.values.size))


@pytest.mark.parametrize(
    "point_type",
    [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)],  # compiles anew
)
def test_clouds_match_pot(point_type):
    rng = np.random.default_rng(9)
    clouds = draw_clouds(rng, rng.normal(size=(60, 17)).astype(point_type), 30)
    left, right = rng.integers(0, 30, (2, 150))
    found = mover_costs(clouds, left, right, WORDS)[:, 0]
    for k in range(150):
        sides = [clouds.word_points[clouds.members[j]] for j in (left[k], right[k])]
        weights = [clouds.weights[j] for j in (left[k], right[k])]
        problem = Problem(*(side.astype(np.float64) for side in sides), *weights)
        assert found[k] == pytest.approx(cost_by_pot(problem), rel=COST_RTOL, abs=1e-13)
        assert mover_plan(clouds, left[k], right[k], WORDS)[0] == found[k]
        if left[k] == right[k]:
            assert found[k] == 0


# beyond a million, counts are scaled like floats
@pytest.mark.parametrize(("times", "rtol", "atol"), [(2, 1e-14, 0), (10**6, 1e-9, 1e-11)])
def test_multiplied_counts_change_nothing(times, rtol, atol):
    rng = np.random.default_rng(12)
    clouds = draw_clouds(rng, rng.normal(size=(40, 8)).astype(np.float32), 20)
    many = clouds_of(clouds.word_points, clouds.members, times * clouds.weights.values)
    left, right = np.divmod(np.arange(400), 20)
    found, expected = (mover_costs(each, left, right, WORDS) for each in (many, clouds))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def test_threads_and_batch_change_no_bit():
    rng = np.random.default_rng(13)
    clouds = draw_clouds(rng, rng.normal(size=(80, 33)).astype(np.float32), 40)
    left, right = rng.integers(0, 40, (2, 200))
    one = mover_costs(clouds, left, right, WORDS, threads=1)
    np.testing.assert_array_equal(mover_costs(clouds, left, right, WORDS, threads=2), one)
    alone = [mover_costs(clouds, left[[k]], right[[k]], WORDS) for k in range(200)]
    np.testing.assert_array_equal(one, np.concatenate(alone))
    assert mover_costs(clouds, left[:0], right[:0], WORDS).shape == (0, 3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_points_that_are_no_numbers_rejected(wrong):
    points = np.array([[1, 0], [wrong, 1], [1, 1]], np.float32)
    clouds = clouds_of(points, Ragged.from_rows([[0], [2], [0, 1]]), np.ones(4, dtype=np.int64))
    with pytest.raises(ValueError, match="must be finite, but some of pair 1 are not"):
        mover_costs(clouds, np.array([0, 1]), np.array([1, 2]), WORDS)


# Blocks of distances


BLOCK_RTOL = 1e-14
NEAR_RTOL = 1e-9

SIZES = [(1, 1), (1, 9), (9, 1), (2, 4), (3, 5), (7, 8), (8, 7), (33, 20)]
DIMENSIONS = [1, 2, 15, 16, 17, 50, 300, 384]


def block_of(x, y):
    """All costs between the rows of two matrices, by the compiled block."""
    packed = []
    for points in (x, y):
        into = np.zeros((len(points) + SPARE_ROWS, padded_dimension(points.shape[1])))
        squares = [gather(points, row, into, row) for row in range(len(points))]
        packed.append((into, np.array(squares)))
    (x, squares_x), (y, squares_y) = packed
    n, m = squares_x.size, squares_y.size
    found = np.full((n + SPARE_ROWS, m + SPARE_COLUMNS), np.nan)
    cost_block(x, 0, n, y, 0, m, squares_x, squares_y, found)
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
