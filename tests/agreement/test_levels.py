"""Levels, counts and reasons: the traps of correlating scores with ratings."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
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

MATRICES = hnp.arrays(np.float64, (2, 4, 5), elements=st.integers(0, 6).map(float))


SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall_b": stats.kendalltau}
SCIPY["kendall_c"] = functools.partial(stats.kendalltau, variant="c")


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


def test_means_that_differ_by_rounding_are_tied():
    # 0.1 + 0.2 and 0.3 + 0.0 are the same mean; summing leaves one bit between them.
    scores = np.array([[0.1, 0.2], [0.3, 0.0], [0.7, 0.7]])
    ratings = np.array([[2.0, 2.0], [1.0, 1.0], [3.0, 3.0]])
    result = correlate(scores, ratings, level="system", coefficient="kendall_b")
    assert result.value == pytest.approx(2 / np.sqrt(2 * 3))


# Each system's scores sum to 0, but for the last bits.
CANCELLING = np.array(
    [[0.1, 0.2, -0.3], [0.3, -0.1, -0.2], [-0.3, 0.2, 0.1], [0.7, -0.4, -0.3], [0.6, -0.5, -0.1]]
)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_means_that_cancel_are_constant(coefficient, rng):
    ratings = np.array([[1, 2, 3], [2, 2, 4], [1, 1, 1], [3, 3, 3], [5, 4, 4.0]])
    result = correlate(CANCELLING, ratings, level="system", coefficient=coefficient)
    assert np.isnan(result.value)
    assert result.reason == "scores are constant"
    whole = Resamples(draw_resamples(5, 3, n_resamples=50, rng=rng).system_counts, np.ones((1, 3)))
    draws = resampled_correlations(
        CANCELLING[None], ratings[None], whole, level="system", coefficient=coefficient
    )
    assert np.isnan(draws).all()


# Movers of unlike texts, in the order of their ratings, and one exact copy; the system that has it
# is the worst one otherwise.
TINY_WITH_COPY = 1e-14 * np.array([[4.0, 4], [3, 3], [2, 2], [1, 1], [0.5, 0.5]])
TINY_WITH_COPY[4, 1] = 1.0
ITS_RATINGS = np.array([[5.0, 5], [4, 4], [3, 3], [2, 2], [1, 1]])


@pytest.mark.parametrize(
    ("level", "expected"),
    # 4 of 10 pairs are out of order, at summary level in one document of two
    [("system", 0.2), ("summary", (1.0 + 0.2) / 2)],
)
def test_one_exact_copy_does_not_tie_small_scores(level, expected):
    found = correlate(TINY_WITH_COPY, ITS_RATINGS, level=level, coefficient="kendall_b")
    assert found.value == pytest.approx(expected, abs=1e-12)
    as_it_is = Resamples(np.ones((1, 5)), np.ones((1, 2)))
    draws = resampled_correlations(
        TINY_WITH_COPY[None], ITS_RATINGS[None], as_it_is, level=level, coefficient="kendall_b"
    )
    assert draws.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("scores", "ratings", "level", "reason"),
    [
        (np.ones((1, 3)), np.ones((1, 3)), "system", "fewer than 2 systems, got 1"),
        (np.eye(3), np.ones((3, 3)), "global", "ratings are constant"),
        (np.full((2, 2), np.nan), np.eye(2), "system", "no cell has both"),
        (np.eye(2), np.ones((2, 2)), "summary", "every document, mostly because ratings"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), np.eye(2), "system", "scores and ratings"),
    ],
    ids=["one", "constant", "all-missing", "every", "means"],
)
def test_undefined_comes_with_its_reason(scores, ratings, level, reason):
    result = correlate(scores, ratings, level=level)
    assert np.isnan(result.value)
    assert reason in result.reason


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(
    pair=MATRICES,
    documents=st.permutations(range(5)),
    systems=st.permutations(range(4)),
    scale=st.sampled_from([0.5, 1.0, 4.0]),
    shift=st.integers(-3, 3),
)
def test_value_does_not_depend_on_order_or_units(
    level, coefficient, pair, documents, systems, scale, shift
):
    scores, ratings = pair
    result = correlate(scores, ratings, level=level, coefficient=coefficient)
    moved = np.ix_(systems, documents)
    again = correlate(
        scores[moved] * scale + shift, ratings[moved], level=level, coefficient=coefficient
    )
    np.testing.assert_allclose(again.value, result.value, atol=1e-9)
    assert (again.n_skipped, again.reason is None) == (result.n_skipped, result.reason is None)


@pytest.mark.parametrize(
    ("level", "coefficient"),
    [("system", "pearson"), ("system", "kendall_b"), ("global", "spearman")],
)
def test_p_value_matches_scipy(level, coefficient, pilot):
    x, y = shared_cells(pilot[0], pilot[2])
    if level == "system":
        units = system_means(x), system_means(y)
    else:
        units = x[~np.isnan(x)], y[~np.isnan(y)]
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


ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("scores", "ratings", "level", "message"),
    [
        (ONES, ONES.T, "system", r"`ratings` must have the shape of `scores`, \(2, 3\)"),
        ([[1.0, np.inf]], [[1, 1]], "system", r"must be finite or NaN, got inf at \(0, 1\)"),
        ([[1.0, 1.0]], [["1", "good"]], "system", "`ratings` must hold numbers"),
        (ONES, ONES, "corpus", "`level` must be one of system, summary, global"),
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

    expected = {
        "system": residual_correlation(*(m.mean(1) for m in (scores, ratings, length))),
        "summary": np.mean(
            [
                residual_correlation(*each)
                for each in zip(scores.T, ratings.T, length.T, strict=True)
            ]
        ),
        "global": residual_correlation(*(m.ravel() for m in (scores, ratings, length))),
    }[level]
    result = partial_correlate(scores, ratings, length, level=level)
    assert result.value == pytest.approx(expected, abs=1e-10)
    assert result.value < correlate(scores, ratings, level=level).value


def test_partial_correlation_given_the_score_itself_is_undefined(pilot):
    scores, _, ratings = pilot
    result = partial_correlate(scores, ratings, 2 * scores, level="system")
    assert np.isnan(result.value)
    assert "determines" in result.reason
