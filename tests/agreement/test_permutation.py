"""Permutation tests: exact p-values on small cases, the +1, undefined swaps."""

import itertools

import numpy as np
import pytest

from agreement import LEVELS, permutation_test
from agreement.levels import level_values
from agreement.permutation import SWAPS


def exact_p(a, b, y, swap, level, coefficient):
    """p-value over all possible swaps instead of random ones."""
    shape = {"both": y.shape, "systems": (len(y), 1), "documents": (1, y.shape[1])}[swap]

    def difference(x, z):
        first = level_values(x, y, level, coefficient)
        return float(first - level_values(z, y, level, coefficient))

    a, b = ((each - each.mean()) / each.std() for each in (a, b))
    observed = abs(difference(a, b))
    masks = [
        np.reshape(bits, shape) for bits in itertools.product([False, True], repeat=np.prod(shape))
    ]
    hits = [
        abs(difference(np.where(mask, b, a), np.where(mask, a, b))) >= observed - 1e-12
        for mask in masks
    ]
    return np.mean(hits)


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(("level", "coefficient"), [("system", "pearson"), ("global", "kendall_b")])
def test_p_value_matches_all_swaps(swap, level, coefficient, rng):
    ratings = rng.normal(size=(5, 2))
    first, second = ratings + rng.normal(size=ratings.shape), rng.normal(size=ratings.shape)
    expected = exact_p(first, second, ratings, swap, level, coefficient)
    result = permutation_test(
        first, second, ratings, level=level, coefficient=coefficient, swap=swap,
        n_resamples=4_000, rng=rng,
    )  # fmt: skip
    assert result.p_value == pytest.approx(expected, abs=0.03)


def test_smallest_p_value_is_one_over_resamples_plus_one(rng):
    ratings = rng.normal(size=(20, 30))
    result = permutation_test(
        ratings, rng.normal(size=ratings.shape), ratings, level="summary", n_resamples=99, rng=rng
    )
    assert result.p_value == 1 / 100


@pytest.mark.parametrize("level", LEVELS)
def test_equal_metrics_give_one(level, pilot, rng):
    scores, _, ratings = pilot
    result = permutation_test(scores, 5 * scores + 2, ratings, level=level, n_resamples=50, rng=rng)
    assert (result.p_value, result.difference) == (1.0, pytest.approx(0.0, abs=1e-12))


def test_one_sided_p_values_of_either_side_add_to_about_one(pilot, rng):
    first, second, ratings = pilot
    p = [
        permutation_test(
            *pair, ratings, level="system", alternative="greater", n_resamples=2_000, rng=rng
        ).p_value
        for pair in ((first, second), (second, first))
    ]
    assert sum(p) == pytest.approx(1.0, abs=0.05)


def test_scale_of_a_metric_is_irrelevant(pilot):
    first, second, ratings = pilot
    results = [
        permutation_test(
            first, scale * second, ratings, level="system", n_resamples=200,
            rng=np.random.default_rng(1),
        ).p_value
        for scale in (1.0, 1_000.0)
    ]  # fmt: skip
    assert results[0] == results[1]


def test_counts_and_shared_cells_are_reported(pilot, rng):
    result = permutation_test(*pilot, level="summary", n_resamples=20, rng=rng)
    assert (result.n_systems, result.n_documents, result.n_resamples) == (8, 12, 20)


def test_undefined_swaps_count_as_hits(rng):
    # One document: swapping all systems of it can leave both metrics as they were, never undefined;
    # swapping single cells can make a metric constant.
    ratings = np.array([[1.0], [2.0]])
    result = permutation_test(
        np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), ratings, level="system",
        n_resamples=99, rng=rng,
    )  # fmt: skip
    assert 0 < result.n_undefined < 99
    assert result.p_value == 1.0


def test_undefined_correlation_is_undefined_with_its_reason(pilot, rng):
    first, second, ratings = pilot
    result = permutation_test(first, second, 0 * ratings, level="system", rng=rng)
    assert np.isnan(result.p_value)
    assert result.reason == "ratings are constant"


def test_unknown_swap_rejected(pilot, rng):
    with pytest.raises(ValueError, match="`swap` must be one of both, systems, documents"):
        permutation_test(*pilot, level="system", swap="cells", rng=rng)
