"""The solver by hand, against POT and SciPy, and by the laws of its plans."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from ot.lp.emd_wrap import emd_c
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from sms.ragged import Ragged
from sms.transport import (
    WORDS,
    Clouds,
    exact_transport,
    exact_transport_batch,
    mover_costs,
    mover_plan,
)

COST_RTOL = 1e-9
"""Agreement with another solver."""
COST_TOL = 1e-13
"""Costs are rounded to 2**-47 of the largest or better; this share of the largest cost allows
for that and for the checks' own sums."""
MARGINAL_TOL = 1e-14
"""Float masses are rounded to 2**-48 of the total or better; integer masses not at all."""
POT_ITERATIONS = 10_000_000


# By hand

# row weights, column weights, ground cost, cost worked out by hand
BY_HAND = [
    pytest.param([1.0], [1.0], [[3.0]], 3.0, id="one-to-one"),
    pytest.param([0.5, 0.5], [1.0], [[0.0], [2.0]], 1.0, id="half-moves"),
    pytest.param([1.0], [0.25, 0.75], [[4.0, 8.0]], 7.0, id="one-row"),
    pytest.param([1, 2, 3], [6], [[1.0], [10.0], [100.0]], 321.0, id="one-column"),
    pytest.param([1, 1], [1, 1], [[0.0, 1.0], [1.0, 0.0]], 0.0, id="all-stay"),
    pytest.param([1, 1], [1, 1], [[5.0, 1.0], [1.0, 5.0]], 2.0, id="all-change-places"),
    # the cheapest cell of all must stay empty: 0 + 9 > 1 + 2
    pytest.param([1, 1], [1, 1], [[0.0, 1.0], [2.0, 9.0]], 3.0, id="greedy-is-wrong"),
    pytest.param([3, 1], [2, 2], [[1.0, 2.0], [3.0, 1.0]], 5.0, id="one-moves"),
    pytest.param([2, 1], [1, 1, 1], [[1.0, 2.0, 3.0], [1.0, 1.0, 5.0]], 5.0, id="2x3"),
    # no metric: staying costs most, and going round by the middle would be cheaper than 7
    pytest.param([1, 0, 0], [0, 0, 1], [[9.0, 1.0, 7.0], [1.0, 9.0, 1.0], [7.0, 1.0, 9.0]], 7.0,
                 id="not-a-metric"),
    pytest.param([4, 0], [1, 3], [[1.0, 2.0], [0.0, 0.0]], 7.0, id="row-without-mass"),
    pytest.param([0, 0], [0], [[1.0], [2.0]], 0.0, id="no-mass"),
    pytest.param([1, 1], [1, 1], [[-0.0, 1.0], [1.0, -0.0]], 0.0, id="negative-zeros"),
    pytest.param([7] * 3, [3] * 7, [[0.1] * 7] * 3, 2.1, id="equal-costs"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "ground_cost", "expected"), BY_HAND)
def test_cost_by_hand(a, b, ground_cost, expected):
    result = exact_transport(np.array(a), np.array(b), np.array(ground_cost))
    assert result.cost == pytest.approx(expected, abs=1e-12)
    turned = exact_transport(np.array(b), np.array(a), np.array(ground_cost).T)
    assert turned.cost == pytest.approx(expected, abs=1e-12)


# Against POT


@dataclass(frozen=True)
class Problem:
    a: np.ndarray
    b: np.ndarray
    ground_cost: np.ndarray


def zero_cells(rng, n, m):
    return rng.random((n, m)) * (rng.random((n, m)) < rng.uniform(0.1, 0.9))


def gaussian(rng, n, m):
    d = rng.integers(1, 20)
    return cdist(rng.normal(size=(n, d)), rng.normal(size=(m, d)))


def duplicates(rng, n, m):
    points = rng.normal(size=(rng.integers(2, 8), 3))
    return cdist(points[rng.integers(0, len(points), n)], points[rng.integers(0, len(points), m)])


def integer_grid(rng, n, m):
    return cdist(rng.integers(0, 5, (n, 2)), rng.integers(0, 5, (m, 2)), "cityblock")


# what costs are, and the smallest and largest sizes of one side and the other
KINDS = {
    "gaussian": (gaussian, (3, 40), (3, 40)),
    "integer-grid": (integer_grid, (3, 40), (3, 40)),
    "duplicates": (duplicates, (3, 40), (3, 40)),
    "zero-cells": (zero_cells, (3, 40), (3, 40)),
    "equal-weights": (zero_cells, (3, 40), (3, 40)),
    "one-or-two": (zero_cells, (1, 3), (1, 60)),
    "up-to-450x65": (gaussian, (40, 451), (30, 66)),
    "any-weights": (gaussian, (3, 40), (3, 40)),
}


def draw(rng, kind, integer):
    """A random problem; integer weights go up to 200 before they are given the same sum."""
    costs_of, *sizes = KINDS[kind]
    n, m = (int(np.exp(rng.uniform(*np.log(size)))) for size in sizes)
    ground_cost = costs_of(rng, *((n, m) if rng.random() < 0.5 else (m, n)))
    if kind == "equal-weights":
        weights = [np.ones(size, dtype=np.int64) for size in ground_cost.shape]
    elif integer:
        weights = [rng.integers(1, 201, size) for size in ground_cost.shape]
    elif kind == "any-weights":
        weights = [10.0 ** rng.uniform(-9, 3, size) for size in ground_cost.shape]
    else:
        weights = [rng.random(size) + 1e-3 for size in ground_cost.shape]
    a, b = weights
    if integer:
        return Problem(a * b.sum(), b * a.sum(), ground_cost)
    return Problem(a / a.sum(), b / b.sum(), ground_cost)


def pack(problems, dtype):
    return (
        Ragged.from_rows([problem.a for problem in problems], dtype),
        Ragged.from_rows([problem.b for problem in problems], dtype),
        np.concatenate([problem.ground_cost.ravel() for problem in problems]),
    )


def cost_by_pot(problem):
    a, b = problem.a.astype(np.float64), problem.b.astype(np.float64)
    _, cost, _, _, code = emd_c(
        a, b * (a.sum() / b.sum()), np.ascontiguousarray(problem.ground_cost), POT_ITERATIONS, 1
    )
    assert code == 1, "POT must have reached the optimum"
    return cost


def check_one(problem):
    """Solve one problem alone and check that its plan is feasible and has the cost."""
    found = exact_transport(problem.a, problem.b, problem.ground_cost)
    (n, m), total = problem.ground_cost.shape, float(problem.a.sum())
    assert found.plan.min() >= 0
    assert np.abs(found.plan.sum(axis=1) - problem.a).max() <= total * MARGINAL_TOL * m
    assert np.abs(found.plan.sum(axis=0) - problem.b).max() <= total * MARGINAL_TOL * n
    atol = problem.ground_cost.max() * COST_TOL * total
    np.testing.assert_allclose(found.cost, (found.plan * problem.ground_cost).sum(), atol=atol)
    return found


@pytest.mark.parametrize(
    "n_problems",
    [pytest.param(50, id="some"), pytest.param(1250, id="all", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("dtype", [np.int64, np.float64], ids=["integer", "float"])
@pytest.mark.parametrize("kind", KINDS)
def test_costs_match_pot(kind, dtype, n_problems):
    """Eight kinds, integer and float weights: 800 problems, or 20,000 with the slow ones."""
    rng = np.random.default_rng([list(KINDS).index(kind), n_problems, dtype == np.int64])
    problems = [draw(rng, kind, dtype == np.int64) for _ in range(n_problems)]
    found = exact_transport_batch(*pack(problems, dtype))
    totals = [float(problem.a.sum()) for problem in problems]
    largest = np.array([problem.ground_cost.max() for problem in problems])
    expected = [cost_by_pot(problem) for problem in problems]
    # relative, but for optima that are zero up to rounding
    error = np.abs(found - expected)
    assert (error <= COST_RTOL * np.abs(expected) + COST_TOL * largest * totals).all()
    alone = [check_one(problem).cost for problem in problems]
    np.testing.assert_allclose(found, alone, rtol=1e-12)


# Families on which a textbook simplex cycles


@pytest.mark.parametrize("n", [2, 5, 16, 33, 64, 65, 129])
@pytest.mark.parametrize("levels", [2, 10, 10**9])
def test_assignment_matches_scipy(n, levels):
    rng = np.random.default_rng([n, levels])
    ground_cost = rng.integers(0, levels, (n, n)).astype(np.float64)
    rows, columns = linear_sum_assignment(ground_cost)
    ones = np.ones(n, dtype=np.int64)
    found = check_one(Problem(ones, ones, ground_cost))
    assert found.cost == pytest.approx(ground_cost[rows, columns].sum(), rel=1e-14)
    # a vertex of this polytope is a permutation
    np.testing.assert_array_equal(np.sort(found.plan, axis=1)[:, -1], 1.0)


# many columns and few rows: fewer rows are priced before each pivot
@pytest.mark.parametrize(("n", "m"), [(400, 500), (5, 1500), (4, 9000)])
def test_largest_sizes_match_pot(n, m):
    rng = np.random.default_rng([n, m])
    ground_cost = cdist(rng.normal(size=(n, 8)), rng.normal(size=(m, 8)))
    a, b = rng.integers(1, 9, n), rng.integers(1, 9, m)
    problem = Problem(a * b.sum(), b * a.sum(), ground_cost)
    assert check_one(problem).cost == pytest.approx(cost_by_pot(problem), rel=COST_RTOL)


# Zero weights and scales


@pytest.mark.parametrize("seed", range(8))
def test_zero_weights_match_pot(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 20, 2)
    a = rng.integers(1, 9, n) * (rng.random(n) < 0.6)
    b = rng.integers(1, 9, m) * (rng.random(m) < 0.6)
    a[rng.integers(n)] = b[rng.integers(m)] = 1
    problem = Problem(a * b.sum(), b * a.sum(), rng.random((n, m)))
    found = check_one(problem)
    assert found.cost == pytest.approx(cost_by_pot(problem), rel=COST_RTOL, abs=1e-12)


SCALES = [1e-200, 1e-100, 1e-9, 1e9, 1e100, 1e200]


@pytest.mark.parametrize(
    ("scale", "of_mass"),
    [*((s, 1.0) for s in (*SCALES, 1e-320, 1e-300, 1e270)), *((1.0, s) for s in SCALES)],
)
def test_cost_scales_with_ground_cost_and_mass(scale, of_mass):
    problem = draw(np.random.default_rng(8), "gaussian", False)
    scaled = Problem(problem.a * of_mass, problem.b * of_mass, problem.ground_cost * scale)
    # the checks' own sums leave the range of a float at the largest and smallest costs
    found = (
        check_one(scaled) if scale == 1 else exact_transport(scaled.a, scaled.b, scaled.ground_cost)
    )
    # a denormal cost has few digits itself
    expected = check_one(problem).cost * scale * of_mass
    assert found.cost == pytest.approx(expected, rel=1e-12 if scale >= 1e-300 else 0.01, abs=0)


def test_integer_sums_that_nearly_agree():
    """Sums within the tolerance but not equal once made the compiled loop run off its arrays."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        n, m = rng.integers(2, 9), rng.integers(9, 12)
        a, b = rng.integers(1, 4, n), rng.integers(1, 4, m)
        a[-1] = 10**10
        b[-1] = a.sum() - b[:-1].sum() + rng.integers(-9, 10)
        ground_cost = rng.random((n, m))
        found = exact_transport(a, b, ground_cost)
        np.testing.assert_allclose(found.plan.sum(axis=1), a, rtol=0, atol=20)
        np.testing.assert_allclose(found.plan.sum(axis=0), b, rtol=0, atol=20)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize(("rows", "columns"), [([2.0], [1.0, 1.0]), ([2.0, 0.0], [1.0, 1.0])])
def test_cost_of_one_row_or_of_a_row_without_mass_is_checked(rows, columns, wrong):
    costs = np.ones((len(rows), len(columns)))
    costs[-1, -1] = wrong
    with pytest.raises(ValueError, match=r"`ground_costs` must be .* in problem 0"):
        exact_transport(np.array(rows), np.array(columns), costs)


# Batches


def test_batch_and_threads_change_no_bit():
    rng = np.random.default_rng(6)
    problems = [draw(rng, kind, False) for kind in KINDS for _ in range(8)]
    costs = exact_transport_batch(*pack(problems, np.float64), threads=1)
    alone = [exact_transport_batch(*pack([problem], np.float64))[0] for problem in problems]
    np.testing.assert_array_equal(costs, alone)
    for threads in (2, 3):
        packed = pack(problems[::-1], np.float64)
        np.testing.assert_array_equal(exact_transport_batch(*packed, threads=threads), costs[::-1])
    nothing = Ragged.from_rows([])
    assert exact_transport_batch(nothing, nothing, np.empty(0)).shape == (0,)


# Matrices that are refused

# what is wrong with problem 1 of three, and what the message says
REFUSED = [
    pytest.param({"a": [-1, 3]}, r"`a` must be > 0, got -1\.0 in problem 1", id="negative-a"),
    pytest.param({"b": [2, 0]}, r"`b` must be > 0, got 0\.0 in problem 1", id="no-weight"),
    pytest.param({"a": [np.nan, 2]}, r"`a` must be > 0, got nan in problem 1", id="nan-a"),
    pytest.param({"b": [np.inf, 2]}, r"`b` must be below 1e.280, got inf", id="infinite-b"),
    pytest.param({"a": []}, r"`a` must not be empty, got no weight in problem 1", id="empty-a"),
    pytest.param({"a": [1, 2]}, r"must have the same sum, got 3 and 2 in problem 1", id="sums"),
    pytest.param({"cost": [0, 1, -2, 0]}, r"`ground_costs` must be >= 0, got -2\.0 in problem 1",
                 id="negative-cost"),
    pytest.param({"cost": [0, 1, np.nan, 0]}, r"must be >= 0, got nan in problem 1", id="nan-cost"),
    pytest.param({"cost": [0, np.inf, 1, 0]}, r"must be below 1e.280, got inf in problem 1",
                 id="infinite-cost"),
    pytest.param({"cost": [0, 1, 2]}, r"must hold 12 cells for these weights, got shape \(11,\)",
                 id="cells-missing"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_problem_of_a_batch_rejected(wrong, message):
    a, b, cost = wrong.get("a", [1, 1]), wrong.get("b", [1, 1]), wrong.get("cost")
    if cost is None:
        cost = np.zeros(len(a) * len(b))
    with pytest.raises(ValueError, match="equally many problems, got 1 and 3"):
        exact_transport_batch(Ragged.from_rows([[1]]), Ragged.from_rows([[1]] * 3), np.zeros(1))
    with pytest.raises(ValueError, match=message):
        exact_transport_batch(
            Ragged.from_rows([[1, 1], a, [1, 1]], np.float64),
            Ragged.from_rows([[1, 1], b, [1, 1]], np.float64),
            np.concatenate([np.zeros(4), cost, np.zeros(4)]),
        )


@pytest.mark.parametrize("shape", [(2,), (2, 2), (3, 2), (2, 3, 1)])
def test_ground_cost_of_another_shape_rejected(shape):
    with pytest.raises(ValueError, match=re.escape(f"must have shape (2, 3) for these weights, "
                                                   f"got {shape}")):  # fmt: skip
        exact_transport(np.ones(2), np.full(3, 2 / 3), np.zeros(shape))


# Point clouds: texts that have words only


def draw_clouds(rng, points, n_clouds, most=25):
    sizes = rng.integers(1, most, n_clouds)
    members = Ragged.from_rows(
        np.sort(rng.choice(len(points), size, replace=False)) for size in sizes
    )
    return clouds_of(points, members, rng.integers(1, 201, members.values.size))


def clouds_of(points, members, weights):
    nothing = np.empty((0, points.shape[1]))
    return Clouds(points, nothing, members, Ragged(weights, members.offsets), members.offsets[1:])


def word_costs(clouds, left, right, **options):
    return mover_costs(clouds, left, right, WORDS, **options)[:, 0]


def problem_of(clouds, left, right):
    (x, a), (y, b) = (
        (clouds.word_points[clouds.members[k]].astype(np.float64), clouds.weights[k])
        for k in (left, right)
    )
    return Problem(a / a.sum(), b / b.sum(), cdist(x, y))


@pytest.mark.parametrize(
    "point_type",
    [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)],  # compiles anew
)
def test_clouds_match_cdist_and_pot(point_type):
    rng = np.random.default_rng(9)
    clouds = draw_clouds(rng, rng.normal(size=(60, 17)).astype(point_type), 30)
    left, right = rng.integers(0, 30, (2, 150))
    found = word_costs(clouds, left, right)
    for k in range(150):
        problem = problem_of(clouds, left[k], right[k])
        assert found[k] == pytest.approx(cost_by_pot(problem), rel=COST_RTOL, abs=1e-13)
        cost, cells = mover_plan(clouds, left[k], right[k], WORDS)
        plan = np.zeros(problem.ground_cost.shape)
        np.add.at(plan, (cells.rows, cells.columns), cells.mass)
        np.testing.assert_allclose(plan.sum(axis=1), problem.a, rtol=0, atol=1e-14)
        np.testing.assert_allclose(plan.sum(axis=0), problem.b, rtol=0, atol=1e-14)
        assert cost == found[k]
        assert cost == pytest.approx((plan * problem.ground_cost).sum(), rel=1e-12, abs=1e-13)
        if left[k] == right[k]:
            assert found[k] == 0


# beyond a million, counts are scaled like floats
@pytest.mark.parametrize(("times", "rtol", "atol"), [(2, 1e-14, 0), (10**6, 1e-9, 1e-11)])
def test_multiplied_counts_change_nothing(times, rtol, atol):
    rng = np.random.default_rng(12)
    clouds = draw_clouds(rng, rng.normal(size=(40, 8)).astype(np.float32), 20)
    many = clouds_of(clouds.word_points, clouds.members, times * clouds.weights.values)
    left, right = np.divmod(np.arange(400), 20)
    np.testing.assert_allclose(
        word_costs(many, left, right), word_costs(clouds, left, right), rtol=rtol, atol=atol
    )


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_points_that_are_no_numbers_rejected(wrong):
    points = np.array([[1, 0], [wrong, 1], [1, 1]], np.float32)
    clouds = clouds_of(points, Ragged.from_rows([[0], [2], [0, 1]]), np.ones(4, dtype=np.int64))
    with pytest.raises(ValueError, match="must be finite, but some of pair 1 are not"):
        word_costs(clouds, np.array([0, 1]), np.array([1, 2]))
