"""Means and comparisons of systems from scores alone."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from agreement import compare_systems, mean_intervals


def test_means_are_over_the_documents_a_system_has(rng):
    scores = np.array([[1.0, 2.0, 6.0], [np.nan, np.nan, np.nan], [3.0, np.nan, np.nan]])
    first, second, third = mean_intervals(scores, n_resamples=500, rng=rng)
    assert (first.value, third.value) == (3.0, 3.0)
    assert 1.0 <= first.low < 2.0 < 4.0 < first.high <= 6.0
    assert second.reason == "the system has no score"
    assert third.reason == "needs at least 2 documents, got 1"
    assert np.isnan([second.value, second.low, third.low, third.high]).all()


def test_paired_comparison_uses_shared_documents(rng):
    a, b = np.array([1.0, 2.0, np.nan, 4.0]), np.array([0.5, 1.0, 9.0, np.nan])
    (result,) = compare_systems([a], [b], n_resamples=99, rng=rng)
    found = result.difference.value, result.n_documents, result.n_missing, result.p_value
    assert found == (0.75, 2, 2, 0.5)
    assert result.difference.low >= 0.5


@pytest.mark.parametrize("n_ties", [0, 3])
@pytest.mark.parametrize("n_documents", [2, 5])
def test_p_value_is_no_smaller_than_the_sign_test_allows(n_documents, n_ties, rng):
    a = np.array([*range(1, n_documents + 1), *[0] * n_ties], dtype=float)
    (result,) = compare_systems([a], [np.zeros(a.size)], n_resamples=10_000, rng=rng)
    assert result.p_value == stats.binomtest(n_documents, n_documents).pvalue


def test_many_documents_are_resampled_in_little_memory(rng):
    scores = rng.normal(size=(2, 20_000))
    tracemalloc.start()
    compare_systems(scores[:1], scores[1:], n_resamples=400, rng=rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6  # bytes; all counts at once are 64 MB


def test_one_large_difference_does_not_hide_small_ones(rng):
    """Of ten documents A is better on all; on one of them it is an exact copy."""
    b = 1e-14 * np.arange(1.0, 11.0)
    a = 2.0 * b
    a[0] = 1.0
    (result,) = compare_systems([a], [b], n_resamples=2_000, rng=rng)
    assert result.p_value == 2 * 0.5**10


def test_comparison_matches_explicit_draws(rng):
    """With wider percentiles: with six documents, those of 95 % cover 83 %."""
    differences = rng.normal(size=6)
    (compared,) = compare_systems([differences], [np.zeros(6)], n_resamples=4_000, rng=rng)
    result = compared.difference
    means = differences[rng.integers(0, 6, size=(4_000, 6))].mean(1)
    tail = stats.norm.cdf(stats.t.ppf(0.025, 5) * np.sqrt(6 / 5))
    ends = tuple(np.quantile(means, [tail, 1 - tail]))
    assert (result.low, result.high) == pytest.approx(ends, abs=0.1)


@pytest.mark.parametrize("n_documents", [8, 15])
def test_p_value_matches_scipy(n_documents, rng):
    """All swaps of 8 documents, random ones of 15."""
    a, b = rng.normal(size=(2, n_documents))
    (result,) = compare_systems([a], [b], n_resamples=4_000, rng=rng)
    exact = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=40_000
    ).pvalue
    assert result.p_value == pytest.approx(exact, abs=1e-12 if n_documents == 8 else 0.03)


def test_comparison_of_different_lengths_rejected(rng):
    with pytest.raises(
        ValueError, match=r"must have the shape \(1, 2\) of `scores_a`, got \(1, 3\)"
    ):
        compare_systems(np.ones((1, 2)), np.ones((1, 3)), rng=rng)


def test_pair_among_others_has_the_numbers_of_a_pair_alone():
    """Documents that are missing or tied differ from pair to pair."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 7, 30)).round(1)
    a[1, 3], b[2, :5], a[3], b[4, 1:] = np.nan, np.nan, np.nan, np.nan
    a[5] = b[5]
    together = compare_systems(a, b, n_resamples=500, rng=np.random.default_rng(1))
    for k, result in enumerate(together):
        (alone,) = compare_systems(a[[k]], b[[k]], n_resamples=500, rng=np.random.default_rng(1))
        assert (result.p_value, result.reason) == pytest.approx(
            (alone.p_value, alone.reason), nan_ok=True
        )
        ends = [(each.difference.low, each.difference.high) for each in (result, alone)]
        assert ends[0] == pytest.approx(ends[1], nan_ok=True)
        assert (result.n_documents, result.n_missing) == (alone.n_documents, alone.n_missing)
    assert [result.n_missing for result in together] == [0, 1, 5, 30, 29, 0, 0]
