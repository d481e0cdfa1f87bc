"""Intervals: percentiles of a bootstrap; on simulated systems too."""

import numpy as np
import pytest

from agreement import correlate, draw_resamples, resampled_correlations
from agreement.intervals import bootstrap_interval, percentile_interval

N_REPETITIONS = 1_000


def test_ends_are_percentiles_of_the_defined_draws(rng):
    draws = np.append(rng.normal(size=99), np.nan)
    interval = percentile_interval(draws, 0.1, 0.9, "bootstrap-both")
    ends = interval.low, interval.high
    assert ends == pytest.approx(tuple(np.quantile(draws[:99], [0.05, 0.95])))
    assert (interval.value, interval.n_undefined, interval.reason) == (0.1, 1, None)


@pytest.mark.parametrize(
    ("draws", "reason", "said"),
    [([0.5, np.nan, np.nan], None, "undefined in 2 of 3 resamples"), ([0, 0], "flat", "flat")],
)
def test_undefined_intervals_say_why(draws, reason, said):
    interval = percentile_interval(np.array(draws), 0.5, 0.95, "bootstrap-both", reason)
    assert np.isnan([interval.low, interval.high]).all()
    assert interval.reason == said


@pytest.mark.parametrize(
    ("kept", "level", "name", "reason"),
    [
        (np.s_[:, :], "global", "both", None),
        (np.s_[:, :1], "global", "systems", None),
        (np.s_[:1, :], "global", "documents", None),
        (np.s_[:3, :], "system", "both", "needs at least 4 systems, got 3"),
        (np.s_[:3, :], "summary", "both", None),
        (np.s_[:3, :1], "summary", "systems", "needs at least 4 systems, got 3"),
        (np.s_[:3, :1], "global", "systems", "needs at least 4 rows, got 3"),
    ],
)
def test_bootstrap_is_called_after_what_varies_and_asks_for_enough(
    kept, level, name, reason, pilot
):
    scores, _, ratings = pilot
    point = correlate(scores[kept], ratings[kept], level=level)
    found = bootstrap_interval(np.zeros(9), 0.0, point, None)
    assert (found.method, found.reason) == (f"bootstrap-{name}", reason)


@pytest.mark.slow
@pytest.mark.parametrize(("n_systems", "n_documents", "r"), [(16, 100, 0.8), (30, 50, 0.5)])
def test_bootstrap_over_both_covers(n_systems, n_documents, r):
    """Of systems whose true means correlate at `r`, with noise in every cell."""
    rng = np.random.default_rng(20)
    truth = r / (1 + 1 / n_documents)  # of means over so many documents, in endless systems
    covered = 0
    for _ in range(N_REPETITIONS):
        effects = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size=n_systems).T
        documents = rng.normal(size=(2, 1, n_documents))
        noise = rng.normal(size=(2, n_systems, n_documents))
        scores, ratings = (effects[:, :, None] + documents + noise)[:, None]
        resamples = draw_resamples(n_systems, n_documents, n_resamples=1_000, rng=rng)
        draws = resampled_correlations(scores, ratings, resamples, level="system")
        interval = percentile_interval(draws.ravel(), 0.0, 0.95, "bootstrap-both")
        covered += interval.low <= truth <= interval.high
    assert 0.90 <= covered / N_REPETITIONS <= 0.98
