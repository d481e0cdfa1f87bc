"""Coefficients agree with scipy, with hand-worked values and with the laws they must obey."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from agreement.coefficients import (
    COEFFICIENTS,
    SORTING_BEATS_PAIRS,
    all_pairs,
    merge_close,
    rowwise,
    undefined_reason,
)

SCIPY = {
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall_b": lambda x, y: stats.kendalltau(x, y, variant="b").statistic,
}
WITH_TIES = hnp.arrays(np.float64, (2, 9), elements=st.integers(-4, 4).map(lambda i: i / 3))
# Scores of one metric on one scale; magnitudes that differ by 1e12 would count as ties.
MEASURED = hnp.arrays(np.float64, (2, 7), elements=st.floats(-100, 100).map(lambda x: round(x, 6)))


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(pair=st.one_of(WITH_TIES, MEASURED))
def test_coefficient_matches_scipy(coefficient, pair):
    x, y = pair
    value = rowwise(x, y, coefficient)
    if undefined_reason(x, y):
        assert np.isnan(value)
    else:
        assert value == pytest.approx(SCIPY[coefficient](x, y), abs=1e-9)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_nearly_constant_values_are_constant(coefficient):
    x, y = np.array([0.30000000000000004, 0.3, 0.3]), np.array([1.0, 2.0, 3.0])
    assert np.isnan([rowwise(x, y, coefficient), rowwise(y, x, coefficient)]).all()
    assert undefined_reason(x, y) == "scores are constant"
    assert undefined_reason(y, x) == "ratings are constant"


def test_close_means_are_merged_and_missing_ones_stay():
    merged = merge_close(np.array([[0.1 + 0.2, np.nan, 0.7, 0.3], [1.0, 2.0, 2.0, np.nan]]))
    np.testing.assert_array_equal(merged, [[0.3, np.nan, 0.7, 0.3], [1.0, 2.0, 2.0, np.nan]])


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([0.1, 0.2, 0.7], [0.2, 0.4, 1.4], 1.0),  # exactly
        ([1.0, 2.0], [5.0, 4.0], -1.0),
        ([1.0], [5.0], np.nan),
        ([], [], np.nan),
        # small differences on a large offset are not constant
        ([1_000 + 1e-6, 1_000 + 2e-6, 1_000 + 3e-6], [1.0, 2.0, 3.0], pytest.approx(1.0, abs=1e-6)),
    ],
)
def test_perfect_and_undefined_correlations(x, y, expected):
    value = float(rowwise(np.array(x), np.array(y), "pearson"))
    assert value == expected or (np.isnan(value) and np.isnan(expected))


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(pair=WITH_TIES, counts=hnp.arrays(np.int64, 9, elements=st.integers(0, 3)))
def test_weights_count_like_repeated_values(coefficient, pair, counts):
    repeated = np.repeat(pair, counts, axis=1)
    weighted = all_pairs(pair[:1], pair[1:], counts.astype(float), coefficient).item()
    np.testing.assert_allclose(weighted, rowwise(*repeated, coefficient), atol=1e-9)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(pair=WITH_TIES, which=hnp.arrays(np.bool_, (2, 9)))
def test_missing_pairs_are_left_out(coefficient, pair, which):
    x, y = np.where(which, np.nan, pair)
    expected = rowwise(*pair[:, ~which.any(0)], coefficient)
    np.testing.assert_allclose(rowwise(x, y, coefficient), expected, atol=1e-12)


def test_long_rows_agree_with_pairs(rng):
    n = SORTING_BEATS_PAIRS + 1
    x, y = np.round(rng.normal(size=(2, n)), 1)
    x[3] = np.nan
    by_sorting = rowwise(x, y, "kendall_b")
    kept = ~np.isnan(x)
    by_pairs = all_pairs(x[None, kept], y[None, kept], np.ones(n - 1), "kendall_b")[0, 0]
    assert by_sorting == pytest.approx(by_pairs, abs=1e-12)
    assert np.isnan(rowwise(np.ones(n), y, "kendall_b"))


def test_only_equal_values_are_tied_as_in_scipy():
    # One published metric has three such pairs on SummEval; other libraries rank them.
    x, y = np.array([0.1 + 0.2, 0.3, 0.7]), np.array([2.0, 1.0, 3.0])
    assert rowwise(x, y, "spearman") == 1.0
    assert rowwise(x, y, "kendall_b") == stats.kendalltau(x, y).statistic == 1.0


def test_unknown_coefficient_rejected():
    with pytest.raises(ValueError, match=r"`coefficient` must be one of pearson, .*, got 'tau'"):
        rowwise(np.ones(2), np.ones(2), "tau")
