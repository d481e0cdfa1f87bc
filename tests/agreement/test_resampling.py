"""The fast resampling equals building every resampled matrix and correlating it."""

from dataclasses import replace

import numpy as np
import pytest

from agreement import (
    LEVELS,
    cell_pairs,
    correlate,
    draw_resamples,
    resampled_correlations,
    resampling,
    sample_size_curve,
)
from agreement.coefficients import COEFFICIENTS, all_pairs, all_pairs_of_fixed
from agreement.definition import bootstrap


def stacks(rng, *, with_holes):
    """Three metrics and two aspects: one fine-grained metric, the rest with many ties."""
    scores = rng.normal(size=(3, 6, 7))
    scores[1:] = np.round(scores[1:], 1)
    ratings = rng.integers(1, 4, size=(2, 6, 7)).astype(float)
    ratings[0, :, 2] = 3.0
    scores[0, :4, 5] = [0.3, 0.1 + 0.2, 0.3, 0.3]  # nearly constant in some resamples
    if with_holes:
        scores[1][rng.random(scores[1].shape) < 0.2] = np.nan
        scores[2, 4], ratings[1, :, 3] = np.nan, np.nan
    return scores, ratings


def by_definition(scores, ratings, resamples, level, coefficient):
    """Every metric's values with every aspect, shape (n_resamples, n_metrics, n_aspects)."""
    counts = resamples.system_counts, resamples.document_counts
    draws = [
        [
            np.repeat(np.arange(n_drawn.shape[1]), n_drawn[b % len(n_drawn)].astype(int))
            for n_drawn in counts
        ]
        for b in range(resamples.n_resamples)
    ]
    values = [[bootstrap(x, y, level, coefficient, draws) for y in ratings] for x in scores]
    return np.moveaxis(values, -1, 0)


@pytest.mark.parametrize("with_holes", [False, True])
@pytest.mark.parametrize("over", ["both", "systems", "documents"])
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_resampled_values_are_those_of_the_definition(level, coefficient, over, with_holes, rng):
    scores, ratings = stacks(rng, with_holes=with_holes)
    resamples = draw_resamples(6, 7, n_resamples=10, rng=rng)
    kept = {"both": {}, "systems": {"document_counts": np.ones((1, 7))}}
    kept["documents"] = {"system_counts": np.ones((1, 6))}
    given = scores, ratings, replace(resamples, **kept[over])
    how = {"level": level, "coefficient": coefficient}
    fast, slow = resampled_correlations(*given, **how), by_definition(*given, **how)
    np.testing.assert_allclose(fast, slow, atol=1e-9)


def test_nearly_equal_values_keep_their_digits(rng):
    # Resamples without the outlier see values that differ by 1e-7 of its size.
    scores = np.array([[1.0, 1.0 + 1e-7, 1.0 + 3e-7, 2.0, 1.0 + 2e-7]])
    ratings = rng.normal(size=(1, 5))
    weights = rng.multinomial(5, np.full(5, 0.2), size=200).astype(float)
    fast = all_pairs_of_fixed(scores, ratings, weights, "pearson")[:, 0, 0]
    slow = np.array([all_pairs(scores, ratings, each, "pearson").item() for each in weights])
    np.testing.assert_allclose(fast, slow, atol=1e-7)


@pytest.mark.parametrize(
    ("scores", "ratings", "message"),
    [
        ((1, 5, 4), (1, 5, 4), r"`resamples` must be drawn for \(5, 4\)"),
        ((1, 4, 5), (1, 4, 6), r"`ratings` cover these, got \(4, 5\) and \(4, 6\)"),
    ],
)
def test_stacks_of_other_cells_rejected(rng, scores, ratings, message):
    resamples = draw_resamples(4, 5, n_resamples=3, rng=rng)
    with pytest.raises(ValueError, match=message):
        resampled_correlations(np.ones(scores), np.ones(ratings), resamples, level="system")


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_small_steps_change_nothing(level, coefficient, rng, monkeypatch):
    resamples = draw_resamples(6, 7, n_resamples=150, rng=rng)
    given = *stacks(rng, with_holes=True), resamples
    how = {"level": level, "coefficient": coefficient}
    at_once = resampled_correlations(*given, **how)
    monkeypatch.setattr(resampling, "CHUNK_NUMBERS", 1)
    monkeypatch.setattr(cell_pairs, "FORM_NUMBERS", 100)
    np.testing.assert_allclose(resampled_correlations(*given, **how), at_once, atol=1e-12)


def test_curve_of_the_sample_size_ends_at_the_whole(pilot, rng):
    scores, _, ratings = pilot
    how = {"level": "system", "coefficient": "spearman"}
    curve = sample_size_curve(scores[None], ratings[None], [3, 12], **how, n_draws=20, rng=rng)
    assert curve.means[1].item() == pytest.approx(correlate(scores, ratings, **how).value)
    assert curve.deviations[1].item() == pytest.approx(0.0, abs=1e-12)
    assert curve.deviations[0].item() > 0
    assert curve.low[0].item() < curve.means[0].item() < curve.high[0].item()
    assert curve.n_undefined.ravel().tolist() == [0, 0]
