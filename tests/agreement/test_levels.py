"""Levels, counts and reasons: the traps of correlating scores with ratings."""

import numpy as np
import pytest
from scipy import stats

from agreement import (
    COEFFICIENTS,
    LEVELS,
    Resamples,
    correlate,
    correlation_test,
    draw_resamples,
    duplicate_systems,
    partial_correlate,
    resampled_correlations,
    shared_cells,
    system_means,
)

SCIPY = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall_b": stats.kendalltau,
}


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_levels_match_scipy(coefficient, pilot):
    scores, _, ratings = pilot
    function = SCIPY[coefficient]
    x, y = shared_cells(scores, ratings)
    system = function(np.nanmean(x, 1), np.nanmean(y, 1)).statistic
    inside = [
        function(a[~np.isnan(a)], b[~np.isnan(b)]).statistic for a, b in zip(x.T, y.T, strict=True)
    ]
    flat = function(x[~np.isnan(x)], y[~np.isnan(y)]).statistic
    expected = {"system": system, "summary": np.mean(inside), "global": flat}
    for level in LEVELS:
        result = correlate(scores, ratings, level=level, coefficient=coefficient)
        assert result.value == pytest.approx(expected[level], abs=1e-12)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_means_that_cancel_are_constant(coefficient, rng):
    # Each system's scores sum to 0, but for the last bits.
    scores = [[0.1, 0.2, -0.3], [0.3, -0.1, -0.2], [-0.3, 0.2, 0.1], [0.7, -0.4, -0.3]]
    pair = np.array(scores), np.array([[1.0, 2, 3], [2, 2, 4], [1, 1, 1], [5, 4, 4]])
    how = {"level": "system", "coefficient": coefficient}
    result = correlate(*pair, **how)
    assert np.isnan(result.value)
    assert result.reason == "scores are constant"
    whole = Resamples(draw_resamples(4, 3, n_resamples=50, rng=rng).system_counts, np.ones((1, 3)))
    assert np.isnan(resampled_correlations(*(m[None] for m in pair), whole, **how)).all()


@pytest.mark.parametrize(
    ("level", "expected"),
    # 4 of 10 pairs are out of order, at summary level in one document of two
    [("system", 0.2), ("summary", (1.0 + 0.2) / 2)],
)
def test_one_exact_copy_does_not_tie_small_scores(level, expected):
    """Movers of unlike texts in the order of their ratings; the worst system has the copy."""
    ratings = np.array([[5.0, 5], [4, 4], [3, 3], [2, 2], [1, 1]])
    scores = 1e-14 * ratings
    scores[4, 1] = 1.0
    how = {"level": level, "coefficient": "kendall_b"}
    as_it_is = Resamples(np.ones((1, 5)), np.ones((1, 2)))
    draws = resampled_correlations(scores[None], ratings[None], as_it_is, **how)
    found = correlate(scores, ratings, **how).value, draws.item()
    assert found == pytest.approx((expected, expected), abs=1e-12)


@pytest.mark.parametrize(
    ("scores", "ratings", "level", "reason"),
    [
        (np.ones((1, 3)), np.ones((1, 3)), "system", "fewer than 2 systems, got 1"),
        (np.eye(3), np.ones((3, 3)), "global", "ratings are constant"),
        (np.full((2, 2), np.nan), np.eye(2), "system", "no cell has both"),
        (np.eye(2), np.ones((2, 2)), "summary", "every document, mostly because ratings"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), np.eye(2), "system", "scores and ratings"),
    ],
)
def test_undefined_comes_with_its_reason(scores, ratings, level, reason):
    result = correlate(scores, ratings, level=level)
    assert np.isnan(result.value)
    assert reason in result.reason


@pytest.mark.parametrize(
    ("level", "coefficient"),
    [("system", "pearson"), ("system", "kendall_b"), ("global", "spearman")],
)
def test_p_value_matches_scipy(level, coefficient, pilot):
    x, y = shared_cells(pilot[0], pilot[2])
    units = [system_means(m) if level == "system" else m[~np.isnan(m)] for m in (x, y)]
    found = correlation_test(x, y, level=level, coefficient=coefficient)
    assert found == pytest.approx(SCIPY[coefficient](*units).pvalue)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        pytest.param([1, 2, 3], [1, 2, 3], id="perfect order of three, 2 of 6 orders"),
        pytest.param([1, 2, 3, 4, 5], [2, 1, 4, 4, 5], id="tied"),
        pytest.param([3, 1, 4, 1, 5, 9, 2], [7, 6, 5, 4, 3, 2, 1], id="falling"),
    ],
)
def test_spearman_p_value_of_few_systems_matches_scipy(x, y):
    """Student's t has a p-value of 0 for a perfect order, however few are ordered."""
    expected = stats.permutation_test(
        (y,), lambda each: stats.spearmanr(x, each).statistic, permutation_type="pairings"
    ).pvalue
    scores, ratings = (np.array(each, dtype=float)[:, None] for each in (x, y))
    found = correlation_test(scores, ratings, level="system", coefficient="spearman")
    assert found == pytest.approx(expected)


def test_p_value_of_a_mean_of_two_systems_or_of_constants_is_undefined(pilot):
    scores, _, ratings = pilot
    assert np.isnan(correlation_test(scores, ratings, level="summary"))
    assert np.isnan(correlation_test(scores[:2], ratings[:2], level="system"))
    assert np.isnan(correlation_test(scores, np.ones_like(ratings), level="system"))


@pytest.mark.parametrize(
    ("scores", "ratings", "level", "message"),
    [
        (
            np.ones((2, 3)),
            np.ones((3, 2)),
            "system",
            r"`ratings` must have the shape of `scores`, \(2, 3\)",
        ),
        ([[1.0, np.inf]], [[1, 1]], "system", r"must be finite or NaN, got inf at \(0, 1\)"),
        ([[1.0, 1.0]], [["1", "good"]], "system", "`ratings` must hold numbers"),
        (
            np.eye(2),
            np.eye(2),
            "corpus",
            "`level` must be one of system, summary, global, got 'corpus'",
        ),
        (np.ones(3), np.ones(3), "system", r"`scores` must have 2 dimensions, got shape \(3,\)"),
    ],
)
def test_wrong_input_rejected(scores, ratings, level, message):
    with pytest.raises((ValueError, TypeError), match=message):
        correlate(np.array(scores), np.array(ratings), level=level)


@pytest.mark.parametrize(
    ("scores", "pairs"),
    [
        # RealSumm lists one system twice; here with a hole and other last bits.
        ([[5, 6, 7.0], [0.1 + 0.2, 2, 3], [0, 9, 1], [0.3, 2, np.nan]], [(1, 3)]),
        ([[1.0, np.nan, 3.0], [1.0, 2.0, np.nan]], []),  # too little in common
        ([[1e-14, 2e-14], [3e-14, 5e-14], [1.0, 1e-14]], []),  # small beside an exact copy
    ],
)
def test_systems_listed_twice_are_found(scores, pairs):
    assert duplicate_systems(np.array(scores)) == pairs


@pytest.mark.parametrize("level", LEVELS)
def test_partial_correlation_matches_residuals(level, rng):
    length = rng.normal(size=(6, 30))
    scores, ratings = length + rng.normal(size=(2, 6, 30))

    def residual_correlation(x, y, z):
        design = np.column_stack([np.ones(z.size), z])
        x, y = (v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (x, y))
        return stats.pearsonr(x, y).statistic

    given = scores, ratings, length
    groups = {
        "system": [[m.mean(1) for m in given]],
        "summary": zip(*(m.T for m in given), strict=True),
        "global": [[m.ravel() for m in given]],
    }
    expected = np.mean([residual_correlation(*each) for each in groups[level]])
    result = partial_correlate(scores, ratings, length, level=level)
    assert result.value == pytest.approx(expected, abs=1e-10)
    assert result.value < correlate(scores, ratings, level=level).value


def test_partial_correlation_given_the_score_itself_is_undefined(pilot):
    scores, _, ratings = pilot
    result = partial_correlate(scores, ratings, 2 * scores, level="system")
    assert np.isnan(result.value)
    assert "determines" in result.reason
