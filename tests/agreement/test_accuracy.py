"""Pairwise accuracy with ties and thresholds, and its soft form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agreement import calibrate_ties, soft_pairwise_accuracy
from agreement.accuracy import _groups, _one_sided_p_values, _pairs, _sweep

GOLD = np.array([[1.0, 2, 2, 3, 4]]).T
METRIC = np.array([[2.0, 1, 1.5, 5, 3]]).T
MATRICES = hnp.arrays(np.float64, (2, 4, 3), elements=st.integers(0, 5).map(float))


def tie_curve(scores, ratings, *, level):
    return _sweep(*_pairs(_groups(scores, ratings, level)))


def by_counting(scores, ratings, threshold):
    """Accuracy per document, averaged, from the definition."""
    shares = []
    for x, y in zip(scores.T, ratings.T, strict=True):
        right = total = 0
        for i in range(len(x)):
            for j in range(i):
                difference = x[i] - x[j] if abs(x[i] - x[j]) > threshold else 0.0
                right += np.sign(difference) == np.sign(y[i] - y[j])
                total += 1
        shares.append(right / total)
    return np.mean(shares)


def test_accuracy_matches_publication():
    # The accuracy of Deutsch, Foster and Freitag 2023: without ties, with 2 as a tie, calibrated.
    accuracies = dict(zip(*tie_curve(METRIC, GOLD, level="summary"), strict=True))
    assert (accuracies[0.0], accuracies[2.0]) == pytest.approx((0.6, 0.4))
    best = calibrate_ties(METRIC, GOLD, level="summary")
    assert (best.value, best.threshold) == (pytest.approx(0.7), 0.5)


def test_threshold_search_matches_publication():
    human, metric = np.array([[1.0, 1, 1, 4]]).T, np.array([[0.0, 2, 6, 8]]).T
    thresholds, accuracies = tie_curve(metric, human, level="global")
    np.testing.assert_allclose(thresholds, [0, 2, 4, 6, 8])
    np.testing.assert_allclose(accuracies, [1 / 2, 1 / 2, 2 / 3, 2 / 3, 1 / 2])
    best = calibrate_ties(metric, human, level="global")
    assert (best.threshold, best.value) == (4.0, pytest.approx(2 / 3))


@given(pair=MATRICES)
def test_calibration_finds_the_best_threshold(pair):
    tried = [by_counting(*pair, threshold) for threshold in range(6)]
    best = calibrate_ties(*pair, level="summary")
    assert best.value == pytest.approx(max(tried))
    assert best.threshold == tried.index(pytest.approx(max(tried)))


def test_one_threshold_serves_all_documents_and_documents_weigh_the_same():
    scores = np.array([[0.0, 0.0], [1.0, 3.0], [np.nan, 9.0]])
    ratings = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    result = calibrate_ties(scores, ratings, level="summary")
    assert (result.threshold, result.value) == (1.0, 1.0)


def test_document_with_one_cell_is_skipped_and_counted():
    scores = np.array([[0.0, 1.0], [1.0, np.nan]])
    result = calibrate_ties(scores, np.array([[1.0, 1.0], [2.0, 1.0]]), level="summary")
    assert (result.value, result.n_skipped) == (1.0, 1)


def test_no_pair_is_undefined_with_its_reason():
    result = calibrate_ties(np.ones((1, 3)), np.ones((1, 3)), level="summary")
    assert np.isnan(result.value)
    assert result.reason == "no two units share ratings and scores"


def test_soft_accuracy_of_ratings_with_themselves_is_one(pilot, rng):
    _, _, ratings = pilot
    assert soft_pairwise_accuracy(3 * ratings, ratings, n_resamples=50, rng=rng).value == 1.0


def test_soft_accuracy_of_the_opposite_is_near_zero_when_sure(rng):
    ratings = np.arange(4.0)[:, None] + 0.1 * rng.normal(size=(4, 50))
    result = soft_pairwise_accuracy(-ratings, ratings, n_resamples=500, rng=rng)
    assert result.value < 0.01


def test_one_sided_p_values_match_all_signs():
    differences = np.array([[1.0, 2.0, -0.5], [1.0, -1.0, 0.0]])
    every = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    sums = every @ differences.T
    observed = differences.sum(1)
    exact = ((sums > observed).sum(0) + 0.5 * (sums == observed).sum(0) + 0.5) / 9
    np.testing.assert_allclose(_one_sided_p_values(differences, every), exact)


def test_soft_accuracy_does_not_depend_on_the_order_of_systems(pilot):
    scores, _, ratings = pilot
    values = [
        soft_pairwise_accuracy(scores[order], ratings[order], rng=np.random.default_rng(2)).value
        for order in (slice(None), slice(None, None, -1))
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_soft_accuracy_without_shared_documents_is_undefined(rng):
    scores = np.array([[1.0, np.nan], [np.nan, 1.0]])
    result = soft_pairwise_accuracy(scores, np.ones((2, 2)), rng=rng)
    assert np.isnan(result.value)
    assert result.reason == "no two systems share a document"


@pytest.mark.parametrize("level", ["system", "summary", "global"])
def test_one_exact_copy_does_not_tie_small_scores(level):
    scores = 1e-14 * np.array([[4.0], [3], [2], [1e14]])
    ratings = np.array([[3.0], [2], [1], [4]])
    thresholds, accuracies = tie_curve(scores, ratings, level=level)
    assert accuracies[0] == pytest.approx(1.0)
    assert thresholds == pytest.approx([0.0, 1e-14, 2e-14, 1.0])
