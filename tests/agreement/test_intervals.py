"""Bootstrap intervals: ends, undefined resamples, pairing of differences."""

import numpy as np
import pytest

from agreement import (
    bootstrap_difference,
    bootstrap_interval,
    bootstrap_intervals,
    correlate,
    draw_resamples,
    fisher_interval,
    resampled_correlations,
)
from agreement.intervals import percentile_interval


def test_ends_are_percentiles_of_the_resamples(pilot, rng):
    scores, _, ratings = pilot
    resamples = draw_resamples(8, 12, n_resamples=200, rng=rng, over="both")
    stacks = scores[None], ratings[None]
    draws = resampled_correlations(*stacks, resamples, level="summary", coefficient="spearman")
    [[interval]] = bootstrap_intervals(
        *stacks, resamples, level="summary", coefficient="spearman", confidence=0.9
    )
    assert interval.low == pytest.approx(np.quantile(draws, 0.05))
    assert interval.high == pytest.approx(np.quantile(draws, 0.95))
    point = correlate(scores, ratings, level="summary", coefficient="spearman")
    assert (interval.value, interval.method) == (point.value, "bootstrap-both")
    assert (interval.n_resamples, interval.confidence) == (200, 0.9)


def test_same_seed_same_interval(pilot):
    scores, _, ratings = pilot
    first, second = (
        bootstrap_interval(
            scores, ratings, level="system", n_resamples=100, rng=np.random.default_rng(3)
        )
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(("over", "kept"), [("documents", np.s_[:, :1]), ("systems", np.s_[:1, :])])
def test_one_alone_of_what_is_drawn_has_no_ends(over, kept, pilot, rng):
    a, b, ratings = (matrix[kept] for matrix in pilot)
    options = {"level": "global", "over": over, "n_resamples": 50, "rng": rng}
    for interval in (
        bootstrap_interval(a, ratings, **options),
        bootstrap_difference(a, b, ratings, **options),
    ):
        assert interval.reason == f"needs at least 2 {over} to draw from, got 1"
        assert np.isnan([interval.low, interval.high]).all()


@pytest.mark.parametrize(("over", "kept"), [("systems", np.s_[:, :1]), ("documents", np.s_[:1, :])])
def test_drawing_both_of_one_is_called_what_it_is(over, kept, pilot, rng):
    a, b, ratings = (matrix[kept] for matrix in pilot)
    options = {"level": "global", "n_resamples": 50, "rng": rng}
    for interval in (
        bootstrap_interval(a, ratings, **options),
        bootstrap_difference(a, b, ratings, **options),
    ):
        assert interval.method == f"bootstrap-{over}"
        assert interval.low < interval.high


def test_drawing_both_is_wider_than_fisher_or_drawing_one(rng):
    # Few documents with much noise: new documents would move the system means a lot.
    quality = rng.normal(size=(30, 1))
    ratings, scores = quality + 3 * rng.normal(size=(2, 30, 8))

    def width(interval):
        return interval.high - interval.low

    widths = {
        over: width(
            bootstrap_interval(
                scores, ratings, level="system", over=over, n_resamples=2_000, rng=rng
            )
        )
        for over in ("both", "systems", "documents")
    }
    r = correlate(scores, ratings, level="system").value
    assert widths["both"] > max(widths["systems"], widths["documents"])
    assert widths["both"] > width(fisher_interval(r, 30))


def test_undefined_correlation_has_no_interval(pilot, rng):
    scores, _, ratings = pilot
    interval = bootstrap_interval(
        scores, np.ones_like(ratings), level="system", n_resamples=50, rng=rng
    )
    assert np.isnan([interval.value, interval.low, interval.high]).all()
    assert interval.reason == "ratings are constant"


def test_undefined_resamples_are_counted(rng):
    scores = np.array([[1.0, 2.0], [2.0, 1.0], [4.0, 4.0]])
    interval = bootstrap_interval(scores, scores, level="system", n_resamples=400, rng=rng)
    # The same system three times: one resample in nine; the first two tie as well.
    assert 0 < interval.n_undefined < 200
    assert interval.low == interval.high == 1.0


def test_mostly_undefined_resamples_give_no_interval():
    interval = percentile_interval(np.array([0.5, np.nan, np.nan]), 0.5, 0.95, "bootstrap-both")
    assert np.isnan(interval.low)
    assert interval.reason == "undefined in 2 of 3 resamples"


def test_difference_of_a_metric_with_itself_is_zero(pilot, rng):
    scores, _, ratings = pilot
    interval = bootstrap_difference(
        scores, 3 * scores, ratings, level="system", n_resamples=200, rng=rng
    )
    np.testing.assert_allclose([interval.low, interval.value, interval.high], 0.0, atol=1e-9)


def test_difference_uses_shared_cells(pilot, rng):
    first, second, ratings = pilot
    interval = bootstrap_difference(
        first, second, ratings, level="global", n_resamples=200, rng=rng
    )
    hole = np.isnan(first) | np.isnan(second)
    values = [
        correlate(np.where(hole, np.nan, each), ratings, level="global").value
        for each in (first, second)
    ]
    assert interval.value == pytest.approx(values[0] - values[1], abs=1e-12)
    assert interval.low < interval.value < interval.high


def test_confidence_outside_zero_and_one_rejected(pilot, rng):
    with pytest.raises(ValueError, match="`confidence` must lie between 0 and 1"):
        bootstrap_difference(*pilot, level="system", confidence=95, rng=rng)
