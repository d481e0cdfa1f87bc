"""Pairwise accuracy with ties and thresholds, and its soft form."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agreement import calibrate_ties, soft_pairwise_accuracy
from agreement.accuracy import _one_sided_p_values

MATRICES = hnp.arrays(np.float64, (2, 4, 3), elements=st.integers(0, 5).map(float))


def by_counting(scores, ratings, threshold):
    """Accuracy over the pairs of every document, all of which have as many."""
    right = [
        np.sign(x[i] - x[j]) * (abs(x[i] - x[j]) > threshold) == np.sign(y[i] - y[j])
        for x, y in zip(scores.T, ratings.T, strict=True)
        for i, j in combinations(range(len(x)), 2)
    ]
    return np.mean(right)


def test_accuracy_matches_publication():
    """Deutsch, Foster and Freitag 2023: accuracies by threshold, and the best of them."""
    gold, metric = (np.array(each)[:, None] for each in ([1, 1, 1, 4], [0.0, 2, 6, 8]))
    published = {0: 1 / 2, 2: 1 / 2, 4: 2 / 3, 6: 2 / 3, 8: 1 / 2}
    counted = {threshold: by_counting(metric, gold, threshold) for threshold in published}
    assert counted == pytest.approx(published)
    found = calibrate_ties(metric, gold, level="global")
    assert (found.threshold, found.value) == pytest.approx((4.0, 2 / 3))


@given(pair=MATRICES)
def test_calibration_finds_the_best_threshold(pair):
    tried = [by_counting(*pair, threshold) for threshold in range(6)]
    best = calibrate_ties(*pair, level="summary")
    assert best.value == pytest.approx(max(tried))
    assert best.threshold == tried.index(pytest.approx(max(tried)))


NAN = np.nan


@pytest.mark.parametrize(
    ("scores", "ratings", "value", "threshold", "n_skipped"),
    [
        # one threshold serves all documents, and documents weigh the same
        ([[0, 0], [1, 3], [NAN, 9.0]], [[1, 1], [1, 2], [1, 3.0]], 1.0, 1.0, 0),
        ([[0, 1], [1, NAN]], [[1, 1], [2, 1.0]], 1.0, 0.0, 1),  # a document with one cell
        ([[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]], NAN, NAN, 3),
    ],
)
def test_documents_weigh_the_same_and_those_without_a_pair_are_skipped(
    scores, ratings, value, threshold, n_skipped
):
    found = calibrate_ties(np.array(scores), np.array(ratings), level="summary")
    assert (found.value, found.threshold) == pytest.approx((value, threshold), nan_ok=True)
    assert found.n_skipped == n_skipped
    assert found.reason == ("no two units share ratings and scores" if np.isnan(value) else None)


@pytest.mark.parametrize("level", ["system", "summary", "global"])
def test_one_exact_copy_does_not_tie_small_scores(level):
    scores = 1e-14 * np.array([[4.0], [3], [2], [1e14]])
    ratings = np.array([[3.0], [2], [1], [4]])
    found = calibrate_ties(scores, ratings, level=level)
    assert (found.value, found.threshold) == (pytest.approx(1.0), 0.0)


def test_soft_accuracy_is_one_of_the_ratings_and_near_zero_of_their_opposite(pilot, rng):
    _, _, ratings = pilot
    assert soft_pairwise_accuracy(3 * ratings, ratings, n_resamples=50, rng=rng).value == 1.0
    sure = np.arange(4.0)[:, None] + 0.1 * rng.normal(size=(4, 50))
    assert soft_pairwise_accuracy(-sure, sure, n_resamples=500, rng=rng).value < 0.01


def test_one_sided_p_values_match_all_signs():
    differences = np.array([[1.0, 2.0, -0.5], [1.0, -1.0, 0.0]])
    every = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    sums = every @ differences.T
    observed = differences.sum(1)
    exact = ((sums > observed).sum(0) + 0.5 * (sums == observed).sum(0) + 0.5) / 9
    np.testing.assert_allclose(_one_sided_p_values(differences, every), exact)


def test_soft_accuracy_without_shared_documents_is_undefined(rng):
    result = soft_pairwise_accuracy(np.where(np.eye(2), 1.0, np.nan), np.ones((2, 2)), rng=rng)
    assert np.isnan(result.value)
    assert result.reason == "no two systems share a document"
