"""Perm-Both: equal to swapping cell by cell, whatever is tied or missing."""

import numpy as np
import pytest

from agreement import COEFFICIENTS, LEVELS, swap_ranks, swap_tests, swapping
from agreement.definition import swap_p_value
from agreement.swap_ranks import RankNull
from agreement.swapping import system_null


class Recorded:
    """A generator that keeps the signs it hands out."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.drawn = []

    def integers(self, low, high, size, dtype):
        self.drawn.append(self._rng.integers(low, high, size=size, dtype=dtype))
        return self.drawn[-1]


def example(*, is_tied, has_gaps):
    """Two metrics and two aspects; tied scores, a constant document, missing cells and a system."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=(6, 1))
    a, b = quality + rng.normal(size=(6, 7)), 0.5 * quality + rng.normal(size=(6, 7))
    ratings = np.round(quality + rng.normal(size=(2, 6, 7)))
    if is_tied:
        a, b = np.round(a), np.round(b)
        a[:, 2] = b[:, 2] = 1.0
        a[:, 4] = b[:, 4] = 0.3
        a[0, 4] = 0.1 + 0.2  # constant but for the last bits
    if has_gaps:
        a[1, 2], b[3, 3], a[5], ratings[:, 0, 0] = np.nan, np.nan, np.nan, np.nan
    return a, b, ratings


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_p_value_is_that_of_the_definition(level, coefficient, is_tied, has_gaps):
    a, b, ratings = example(is_tied=is_tied, has_gaps=has_gaps)
    rng, how = Recorded(4), {"level": level, "coefficient": coefficient}
    n_swaps = 20
    tests = swap_tests(a, b, ratings, **how, n_first=n_swaps, n_most=n_swaps, rng=rng)
    drawn = np.concatenate(rng.drawn)
    is_plus = np.ones((n_swaps, *a.shape), dtype=bool)
    have = ~np.isnan(a + b + ratings[0])
    if level == "system":
        is_plus[:, have.any(1)] = drawn == 1
    elif level == "summary":
        is_plus = drawn.swapaxes(1, 2) == 1
    else:
        is_plus[:, have] = drawn.reshape(n_swaps, -1) == 1
    for test, y in zip(tests, ratings, strict=True):
        assert test == (swap_p_value(a, b, y, level, coefficient, ~is_plus), n_swaps)


def test_second_stage_is_for_small_p_values():
    rng = np.random.default_rng(2)
    quality = rng.normal(size=(12, 1))
    good, noise = quality + 0.1 * rng.normal(size=(12, 20)), rng.normal(size=(12, 20))
    other = rng.normal(size=(12, 20))
    ratings = (quality + 0.1 * rng.normal(size=(12, 20)))[None]
    options = {"level": "global", "coefficient": "pearson", "n_first": 100, "n_most": 900}
    clear, open_one = (
        swap_tests(first, noise, ratings, **options, rng=rng)[0] for first in (good, other)
    )
    assert clear == (1 / 901, 900)
    assert open_one[1] == 100
    assert open_one[0] > swapping.GIVEN_UP


@pytest.mark.parametrize("level", LEVELS)
def test_undefined_difference_has_no_p_value(level, rng):
    a, _, ratings = example(is_tied=False, has_gaps=False)
    constant = np.full_like(a, 0.3)
    constant[0] = 0.1 + 0.2
    options = {"level": level, "coefficient": "pearson", "n_first": 10, "n_most": 10}
    p_value, n_swaps = swap_tests(a, constant, ratings, **options, rng=rng)[0]
    assert np.isnan(p_value)
    assert n_swaps == 0


@pytest.mark.slow
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_rejects_as_often_as_it_should_under_the_null(level, coefficient):
    rng = np.random.default_rng(8)
    n_studies = 400
    n_rejected = 0
    for _ in range(n_studies):
        quality = rng.normal(size=(10, 1))
        a, b, y = (quality + rng.normal(size=(10, 15)) for _ in range(3))
        test = swap_tests(
            a, b, y[None], level=level, coefficient=coefficient, n_first=99, n_most=99, rng=rng
        )[0]
        n_rejected += test[0] <= 0.05
    # Kendall over ten systems is coarse and rejects too rarely, never too often.
    assert n_rejected / n_studies <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_studies)
    if not (level == "system" and coefficient != "pearson"):
        assert n_rejected / n_studies >= 0.05 - 3 * np.sqrt(0.05 * 0.95 / n_studies)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_swapped_means_that_cancel_are_constant(coefficient):
    """Every swap is undefined and counts; rounding noise would be correlated otherwise."""
    scores = np.array([[0.1, 0.2, -0.3], [0.3, -0.1, -0.2], [-0.3, 0.2, 0.1], [0.7, -0.4, -0.3]])
    null = system_null(scores, scores, np.arange(12.0).reshape(1, 4, 3), coefficient)
    assert np.isnan(null.differences(np.ones((1, 4, 3)))).all()


def test_undefined_swaps_count_as_hits(rng):
    # Swapping single cells can make a metric constant.
    a, b, ratings = np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), np.array([[[1.0], [2.0]]])
    options = {"level": "system", "coefficient": "pearson", "n_first": 99, "n_most": 99}
    assert swap_tests(a, b, ratings, **options, rng=rng)[0][0] == 1.0


def test_ratings_far_from_zero_are_swapped_as_near_zero():
    """Of two systems many swaps move the correlations exactly as far as they are apart."""
    options = {"level": "summary", "coefficient": "pearson", "n_first": 99, "n_most": 99}
    for seed in range(20):
        a, b, ratings = np.random.default_rng(seed).normal(size=(3, 2, 4))
        ratings = ratings.round(3)
        near, far = (
            swap_tests(a, b, each[None], **options, rng=np.random.default_rng(0))[0][0]
            for each in (ratings, ratings + 1e7)
        )
        assert near == far


@pytest.mark.parametrize("coefficient", ["spearman", "kendall_b"])
def test_doubtful_swaps_are_computed_a_block_at_a_time(coefficient, monkeypatch):
    a, b, ratings = example(is_tied=True, has_gaps=False)
    null = RankNull(a.ravel(), b.ravel(), ratings.reshape(2, -1), coefficient)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (50, a.size))
    whole = null.differences(signs)
    monkeypatch.setattr(swap_ranks, "BLOCK_NUMBERS", 20_000)  # five or six swaps
    np.testing.assert_array_equal(null.differences(signs), whole)
