"""Intervals cover and tests reject as often as they claim, on simulated systems."""

import numpy as np
import pytest

from agreement import (
    bootstrap_interval,
    fisher_interval,
    permutation_test,
    williams,
)
from agreement.levels import level_values

N_REPETITIONS = 1_000


def simulated(rng, n_systems, n_documents, r, noise):
    """Scores and ratings whose system effects correlate at `r`, with noise in every cell.

    Returns the two matrices and the correlation to be covered: that of system means over so
    many documents, in endless systems.
    """
    effects = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size=n_systems).T
    documents = rng.normal(size=(2, 1, n_documents))
    cells = effects[:, :, None] + documents + noise * rng.normal(size=(2, n_systems, n_documents))
    return *cells, r / (1 + noise**2 / n_documents)


@pytest.mark.slow
@pytest.mark.parametrize(("n_systems", "n_documents", "r"), [(16, 100, 0.8), (30, 50, 0.5)])
def test_bootstrap_over_both_covers(n_systems, n_documents, r):
    rng = np.random.default_rng(20)
    covered = 0
    for _ in range(N_REPETITIONS):
        scores, ratings, truth = simulated(rng, n_systems, n_documents, r, noise=1.0)
        interval = bootstrap_interval(scores, ratings, level="system", n_resamples=1_000, rng=rng)
        covered += interval.low <= truth <= interval.high
    assert 0.90 <= covered / N_REPETITIONS <= 0.98


@pytest.mark.slow
def test_fisher_does_not_cover_cells():
    # At global level the cells of a system belong together; Fisher takes them as independent.
    rng = np.random.default_rng(21)
    covered = 0
    for _ in range(N_REPETITIONS):
        scores, ratings, _ = simulated(rng, 16, 50, 0.7, noise=1.0)
        # Variance of a cell: system, document and noise, 1 each; systems alone correlate.
        value = float(level_values(scores, ratings, "global", "pearson"))
        interval = fisher_interval(value, scores.size)
        covered += interval.low <= 0.7 / 3 <= interval.high
    assert covered / N_REPETITIONS < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("swap", "level", "coefficient"),
    [
        ("both", "system", "pearson"),
        ("both", "summary", "pearson"),
        ("both", "summary", "kendall_b"),
        ("systems", "system", "pearson"),
        ("systems", "summary", "pearson"),
        ("documents", "system", "pearson"),
        ("documents", "summary", "pearson"),
    ],
)
def test_permutation_rejects_five_percent_under_the_null(swap, level, coefficient):
    rng = np.random.default_rng(22)
    rejected = 0
    for _ in range(N_REPETITIONS):
        quality = rng.normal(size=(12, 1)) + rng.normal(size=(12, 20))
        ratings = quality + rng.normal(size=quality.shape)
        first, second = quality + rng.normal(size=(2, *quality.shape))
        if swap == "systems":
            # Metrics with system effects of their own are exchangeable as whole systems only.
            first, second = (each + rng.normal(size=(12, 1)) for each in (first, second))
        result = permutation_test(
            first, second, ratings, level=level, coefficient=coefficient, swap=swap,
            n_resamples=99, rng=rng,
        )  # fmt: skip
        rejected += result.p_value <= 0.05
    assert 0.03 <= rejected / N_REPETITIONS <= 0.07


@pytest.mark.slow
def test_permutation_of_a_coarse_coefficient_is_cautious():
    # tau over 12 systems moves in steps of 2/66; equal differences count as hits.
    rng = np.random.default_rng(24)
    rejected = 0
    for _ in range(N_REPETITIONS):
        quality = rng.normal(size=(12, 1)) + rng.normal(size=(12, 20))
        ratings = quality + rng.normal(size=quality.shape)
        first, second = quality + rng.normal(size=(2, *quality.shape))
        result = permutation_test(
            first, second, ratings, level="system", coefficient="kendall_b", n_resamples=99, rng=rng
        )
        rejected += result.p_value <= 0.05
    assert 0.01 <= rejected / N_REPETITIONS <= 0.06


@pytest.mark.slow
def test_williams_rejects_five_percent_under_the_null():
    rng = np.random.default_rng(23)
    rejected = 0
    for _ in range(N_REPETITIONS):
        rating = rng.normal(size=20)
        first, second = rating + rng.normal(size=(2, 20))
        r = np.corrcoef([rating, first, second])
        rejected += williams(r[0, 1], r[0, 2], r[1, 2], 20).p_value <= 0.05
    assert 0.03 <= rejected / N_REPETITIONS <= 0.07
