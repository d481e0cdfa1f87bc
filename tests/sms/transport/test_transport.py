"""Movers' distances and plans of clouds of points, against `cdist` and POT, and by their laws."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from sms.ragged import Ragged
from sms.transport import JOINT, SENTENCES, WORDS, Clouds, Plan, mover_costs, mover_plan

COST_RTOL = 1e-9
"""Agreement with another solver."""


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
    """Shares of mass of two clouds, and the distances of their points."""
    (x, a), (y, b) = (
        (clouds.word_points[clouds.members[k]].astype(np.float64), clouds.weights[k])
        for k in (left, right)
    )
    return a / a.sum(), b / b.sum(), cdist(x, y)


@pytest.mark.parametrize(
    "point_type",
    [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)],  # compiles anew
)
def test_words_match_cdist_and_pot(point_type):
    rng = np.random.default_rng(9)
    clouds = draw_clouds(rng, rng.normal(size=(60, 17)).astype(point_type), 30)
    left, right = rng.integers(0, 30, (2, 150))
    found = word_costs(clouds, left, right)
    for k in range(150):
        a, b, ground_cost = problem_of(clouds, left[k], right[k])
        check_plan(mover_plan(clouds, left[k], right[k], WORDS), a, b, ground_cost, found[k])
        if left[k] == right[k]:
            assert found[k] == 0


def check_plan(solved, a, b, ground_cost, cost_of_batch):
    """Hold the cost of a problem against POT, and against its own plan, which must be feasible."""
    cost, cells = solved
    # which problems are solved together decides how blocks of distances are rounded
    assert cost == pytest.approx(cost_of_batch, rel=1e-14)
    assert cost == pytest.approx(ot.emd2(a, b, ground_cost), rel=COST_RTOL, abs=1e-13)
    plan = np.zeros(ground_cost.shape)
    np.add.at(plan, (cells.rows, cells.columns), cells.mass)
    np.testing.assert_allclose(plan.sum(axis=1), a, rtol=0, atol=1e-14)
    np.testing.assert_allclose(plan.sum(axis=0), b, rtol=0, atol=1e-14)
    assert cost == pytest.approx((plan * ground_cost).sum(), rel=1e-12, abs=1e-13)


def with_sentences(rng, n_clouds, d=5, most=8):
    """Clouds of words and sentences, whose weights have the same sum on either side."""
    sizes = 5 * most, 3 * most // 2
    words, sentences = (rng.normal(size=(size, d)) for size in sizes)
    words = words.astype(np.float32)
    members, weights, n_words = [], [], []
    for _ in range(n_clouds):
        n_points = np.exp(rng.uniform(0, np.log(most + 1), 2)).astype(int)
        picked = [
            np.sort(rng.choice(size, n, replace=False))
            for size, n in zip(sizes, n_points, strict=True)
        ]
        counts = [rng.integers(1, 9, part.size) for part in picked]
        counts[0][0] += max(counts[1].sum() - counts[0].sum(), 0)
        counts[1][0] += counts[0].sum() - counts[1].sum()
        members.append(np.concatenate(picked))
        weights.append(np.concatenate(counts))
        n_words.append(picked[0].size)
    packed = Ragged.from_rows(members)
    splits = packed.offsets[:-1] + n_words
    return Clouds(words, sentences, packed, Ragged.from_rows(weights), splits)


def test_words_sentences_and_both_match_pot():
    rng = np.random.default_rng(4)
    clouds = with_sentences(rng, 30)
    left, right = rng.integers(0, 30, (2, 60))
    found = mover_costs(clouds, left, right, WORDS | SENTENCES | JOINT)
    for k, pair in enumerate(zip(left, right, strict=True)):
        n_words = clouds.splits[[*pair]] - clouds.members.offsets[[*pair]]
        sides = []
        for text, n in zip(pair, n_words, strict=True):
            rows, weights = clouds.members[text], clouds.weights[text]
            points = [clouds.word_points[rows[:n]].astype(float), clouds.sentence_points[rows[n:]]]
            sides.append((np.concatenate(points), weights / weights[:n].sum()))
        (x, a), (y, b) = sides
        (i, j), ground_cost = n_words, cdist(x, y)
        parts = {
            WORDS: (a[:i], b[:j], ground_cost[:i, :j], found[k, 0]),
            SENTENCES: (a[i:], b[j:], ground_cost[i:, j:], found[k, 1]),
            JOINT: (a / 2, b / 2, ground_cost, found[k, 2]),
        }
        for problem, (a_part, b_part, costs, cost) in parts.items():
            solved = mover_plan(clouds, *pair, problem)
            if problem == SENTENCES:  # rows and columns count within the texts
                moved = solved[1]
                solved = solved[0], Plan(moved.rows - i, moved.columns - j, moved.mass)
            check_plan(solved, a_part, b_part, costs, cost)


def test_start_of_the_joint_problem_changes_no_bit():
    """It is the plan of the words where they are asked for, or else a start of them."""
    rng = np.random.default_rng(3)
    clouds = with_sentences(rng, 60, most=100)
    left, right = rng.integers(0, 60, (2, 1_500))
    found = mover_costs(clouds, left, right, JOINT)[:, 2]
    for problems in (WORDS | JOINT, WORDS | SENTENCES | JOINT):
        np.testing.assert_array_equal(mover_costs(clouds, left, right, problems)[:, 2], found)
    members, n_words = clouds.members, clouds.splits - clouds.members.offsets[:-1]
    costs, masses = [], []
    for i, j in zip(left, right, strict=True):
        x, y = (
            np.concatenate([
                clouds.word_points[members[k][: n_words[k]]].astype(np.float64),
                clouds.sentence_points[members[k][n_words[k] :]],
            ])
            for k in (i, j)
        )  # fmt: skip
        costs.append(cdist(x, y))
        masses.append([clouds.weights[k] / clouds.weights[k].sum() for k in (i, j)])
    expected = [ot.emd2(a, b, cost) for (a, b), cost in zip(masses, costs, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=COST_RTOL, atol=1e-13)


def test_batches_and_threads_change_no_bit():
    rng = np.random.default_rng(6)
    clouds = with_sentences(rng, 40)
    left, right = rng.integers(0, 40, (2, 9_000))  # three chunks
    found = mover_costs(clouds, left, right, WORDS | SENTENCES | JOINT, threads=1)
    np.testing.assert_array_equal(mover_costs(clouds, left, right, 7, threads=3), found)
    few = mover_costs(clouds, left[4_090:4_100], right[4_090:4_100], 7)
    np.testing.assert_array_equal(few, found[4_090:4_100])
    assert mover_costs(clouds, left[:0], right[:0], WORDS).shape == (0, 3)


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
    with pytest.raises(
        ValueError, match="must be finite, but some of the pair of texts 1 and 2 are not"
    ):
        word_costs(clouds, np.array([0, 1]), np.array([1, 2]))
