"""The solver by hand, against POT and SciPy, and by the laws of its plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from ot.lp.emd_wrap import emd_c
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from sms.transport.simplex import Problems, room_for_mass, solve

COST_RTOL = 1e-9
"""Agreement with another solver."""
COST_TOL = 1e-13
"""Costs are rounded to 2**-47 of the largest or better; this share of the largest cost allows
for that and for the checks' own sums."""
POT_ITERATIONS = 10_000_000


@dataclass(frozen=True)
class Problem:
    """Integer weights of rows and columns, with the same sum, and the cost of each cell."""

    a: np.ndarray
    b: np.ndarray
    ground_cost: np.ndarray


def solved(*problems):
    """Solve problems in one call."""
    n, m = (
        np.array([len(side) for side in sides])
        for sides in zip(*((p.a, p.b) for p in problems), strict=True)
    )
    masses = np.concatenate([side for p in problems for side in (p.a, p.b)])
    sizes = np.cumsum([0, *(size for pair in zip(n, m, strict=True) for size in pair)])
    return solve(
        Problems(
            costs=np.concatenate([p.ground_cost.ravel() for p in problems]).astype(np.float64),
            first_cost=np.cumsum([0, *(n * m)])[:-1],
            row_stride=m,
            n_rows=n,
            n_columns=m,
            masses=masses.astype(np.int64),
            first_supply=sizes[:-1:2],
            first_demand=sizes[1::2],
            n_head_rows=np.zeros_like(n),
            n_head_columns=np.zeros_like(n),
        )
    )


def check_one(problem):
    """Solve one problem alone; check that its plan is feasible and has the cost; return both."""
    found = solved(problem)
    plan = np.zeros(problem.ground_cost.shape)
    rows, columns, masses = found.cells()
    plan[rows, columns] = masses
    assert (masses > 0).all()
    np.testing.assert_array_equal(plan.sum(axis=1), problem.a)
    np.testing.assert_array_equal(plan.sum(axis=0), problem.b)
    atol = problem.ground_cost.max() * COST_TOL * problem.a.sum()
    np.testing.assert_allclose(found.costs[0], (plan * problem.ground_cost).sum(), atol=atol)
    return found.costs[0], plan


# By hand

# row weights, column weights, ground cost, cost worked out by hand
BY_HAND = [
    pytest.param([1], [1], [[3.0]], 3.0, id="one-to-one"),
    pytest.param([1, 1], [2], [[0.0], [2.0]], 2.0, id="half-moves"),
    pytest.param([4], [1, 3], [[4.0, 8.0]], 28.0, id="one-row"),
    pytest.param([1, 2, 3], [6], [[1.0], [10.0], [100.0]], 321.0, id="one-column"),
    pytest.param([1, 1], [1, 1], [[0.0, 1.0], [1.0, 0.0]], 0.0, id="all-stay"),
    pytest.param([1, 1], [1, 1], [[5.0, 1.0], [1.0, 5.0]], 2.0, id="all-change-places"),
    # the cheapest cell of all must stay empty: 0 + 9 > 1 + 2
    pytest.param([1, 1], [1, 1], [[0.0, 1.0], [2.0, 9.0]], 3.0, id="greedy-is-wrong"),
    pytest.param([3, 1], [2, 2], [[1.0, 2.0], [3.0, 1.0]], 5.0, id="one-moves"),
    pytest.param([2, 1], [1, 1, 1], [[1.0, 2.0, 3.0], [1.0, 1.0, 5.0]], 5.0, id="2x3"),
    # no metric: going from the first row to the last column by way of others would be cheaper
    pytest.param([1, 1], [1, 1], [[9.0, 7.0], [9.0, 9.0]], 16.0, id="not-a-metric"),
    pytest.param([7] * 3, [3] * 7, [[0.1] * 7] * 3, 2.1, id="equal-costs"),
    pytest.param([2, 3], [1, 4], [[0.0, 0.0], [0.0, 0.0]], 0.0, id="all-costs-nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "ground_cost", "expected"), BY_HAND)
def test_cost_by_hand(a, b, ground_cost, expected):
    a, b, ground_cost = np.array(a), np.array(b), np.array(ground_cost)
    assert check_one(Problem(a, b, ground_cost))[0] == pytest.approx(expected, abs=1e-12)
    assert check_one(Problem(b, a, ground_cost.T))[0] == pytest.approx(expected, abs=1e-12)


# Against POT


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
}


def draw(rng, kind):
    """A random problem; weights go up to 200 before they are given the same sum."""
    costs_of, *sizes = KINDS[kind]
    n, m = (int(np.exp(rng.uniform(*np.log(size)))) for size in sizes)
    ground_cost = costs_of(rng, *((n, m) if rng.random() < 0.5 else (m, n)))
    most = 2 if kind == "equal-weights" else 201
    a, b = (rng.integers(1, most, size) for size in ground_cost.shape)
    return Problem(a * b.sum(), b * a.sum(), ground_cost)


def cost_by_pot(problem):
    a, b = problem.a.astype(np.float64), problem.b.astype(np.float64)
    _, cost, _, _, code = emd_c(a, b, np.ascontiguousarray(problem.ground_cost), POT_ITERATIONS, 1)
    assert code == 1, "POT must have reached the optimum"
    return cost


@pytest.mark.parametrize(
    "n_problems",
    [pytest.param(50, id="some"), pytest.param(1250, id="all", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_costs_match_pot(kind, n_problems):
    """Seven kinds: 350 problems, or 8,750 with the slow ones."""
    rng = np.random.default_rng([list(KINDS).index(kind), n_problems])
    problems = [draw(rng, kind) for _ in range(n_problems)]
    found = solved(*problems).costs
    totals = np.array([problem.a.sum() for problem in problems])
    largest = np.array([problem.ground_cost.max() for problem in problems])
    expected = np.array([cost_by_pot(problem) for problem in problems])
    # relative, but for optima that are zero up to rounding
    error = np.abs(found - expected)
    assert (error <= COST_RTOL * expected + COST_TOL * largest * totals).all()
    # the others of a call change no bit
    np.testing.assert_array_equal(found, [check_one(problem)[0] for problem in problems])
    np.testing.assert_array_equal(solved(*problems[::-1]).costs[::-1], found)


# Families on which a textbook simplex cycles


@pytest.mark.parametrize("n", [2, 5, 16, 33, 64, 65, 129])
@pytest.mark.parametrize("levels", [2, 10, 10**9])
def test_assignment_matches_scipy(n, levels):
    rng = np.random.default_rng([n, levels])
    ground_cost = rng.integers(0, levels, (n, n)).astype(np.float64)
    rows, columns = linear_sum_assignment(ground_cost)
    ones = np.ones(n, dtype=np.int64)
    cost, plan = check_one(Problem(ones, ones, ground_cost))
    assert cost == pytest.approx(ground_cost[rows, columns].sum(), rel=1e-14)
    # a vertex of this polytope is a permutation
    np.testing.assert_array_equal(np.sort(plan, axis=1)[:, -1], 1.0)


# many columns and few rows: fewer rows are priced before each pivot
@pytest.mark.parametrize(("n", "m"), [(400, 500), (5, 1500), (4, 9000)])
def test_largest_sizes_match_pot(n, m):
    rng = np.random.default_rng([n, m])
    ground_cost = cdist(rng.normal(size=(n, 8)), rng.normal(size=(m, 8)))
    a, b = rng.integers(1, 9, n), rng.integers(1, 9, m)
    problem = Problem(a * b.sum(), b * a.sum(), ground_cost)
    assert check_one(problem)[0] == pytest.approx(cost_by_pot(problem), rel=COST_RTOL)


# Scales


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-200, 1e-100, 1e-9, 1e9, 1e100, 1e140])
def test_cost_scales_with_ground_cost(scale):
    problem = draw(np.random.default_rng(8), "gaussian")
    scaled = Problem(problem.a, problem.b, problem.ground_cost * scale)
    # a denormal cost has few digits itself
    rtol = 1e-12 if scale >= 1e-300 else 0.01
    expected = solved(problem).costs[0] * scale
    assert solved(scaled).costs[0] == pytest.approx(expected, rel=rtol, abs=0)


@pytest.mark.parametrize("n", [2, 9, 40])
def test_largest_masses_match_pot(n):
    rng = np.random.default_rng(n)
    total = 1 << room_for_mass(n)
    shares = rng.dirichlet(np.ones(n), 2)
    a, b = (np.maximum((share * total).astype(np.int64), 1) for share in shares)
    a[0] += total - a.sum()
    b[0] += total - b.sum()
    problem = Problem(a, b, rng.random((n, n)))
    small = Problem(a / total, b / total, problem.ground_cost)
    found = solved(problem).costs[0] / total
    assert found == pytest.approx(cost_by_pot(small), rel=COST_RTOL)
