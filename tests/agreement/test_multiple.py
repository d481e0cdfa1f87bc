"""Corrections for many comparisons, partial conjunction, clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agreement import bonferroni, clusters, holm, partial_conjunction

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array)
# Six data sets (Dror et al. 2017): alpha, data sets with the effect, which ones after Holm.
SIX = [0.168, 0.297, 0.357, 0.019, 0.218, 0.001]
REPLICATED = [(0.05, 1, [5]), (0.10, 2, [5, 3]), (0.70, 6, [5, 3, 0, 4, 1, 2])]


def test_holm_by_hand():
    # 4 x .01, 3 x .02, 2 x .03 (raised to the one before), 1 x .04 (likewise).
    adjusted = holm(np.array([0.04, 0.01, 0.03, 0.02]))
    np.testing.assert_allclose(adjusted, [0.06, 0.04, 0.06, 0.06], atol=1e-12)


@given(p=P_VALUES)
def test_holm_lies_between_raw_and_bonferroni(p):
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert (adjusted <= bonferroni(p)).all()


@given(p=P_VALUES, alpha=st.floats(0.01, 0.5))
def test_holm_rejects_like_its_definition(p, alpha):
    rejected = 0
    for step, value in enumerate(np.sort(p)):
        if value * (p.size - step) > alpha:
            break
        rejected += 1
    assert (holm(p) <= alpha).sum() == rejected


def test_undefined_tests_are_not_counted():
    np.testing.assert_allclose(bonferroni(np.array([[0.01, np.nan], [0.3, np.nan]]))[0, 0], 0.02)
    np.testing.assert_allclose(holm(np.array([0.01, np.nan, 0.3])), [0.02, np.nan, 0.3])


@pytest.mark.parametrize(("alpha", "count", "which"), REPLICATED)
def test_partial_conjunction_matches_publication(alpha, count, which):
    result = partial_conjunction(np.array(SIX), alpha=alpha)
    assert (result.count, list(result.rejected)) == (count, which)


def test_partial_conjunction_of_the_file(oracle):
    case = oracle("statistics.json")["partial_conjunction_bonferroni"]
    for alpha, (count, which) in case["alpha_k"].items():
        result = partial_conjunction(np.array(case["p"]), alpha=float(alpha))
        assert (result.count, list(result.rejected)) == (count, which)


def test_fisher_combination_of_all_matches_scipy():
    result = partial_conjunction(np.array(SIX), combination="fisher")
    expected = stats.combine_pvalues(SIX, method="fisher").pvalue
    assert result.p_values[0] == pytest.approx(expected)
    assert result.count >= partial_conjunction(np.array(SIX)).count


def test_partial_conjunction_leaves_out_undefined_data_sets():
    result = partial_conjunction(np.array([np.nan, 0.001, 0.9]))
    assert (result.count, result.rejected, result.n_undefined) == (1, (1,), 1)


def test_cluster_opens_when_any_member_is_better():
    values = np.array([0.5, 0.9, 0.8, 0.4])
    p = np.ones((4, 4))
    p[2, 0] = 0.03  # .8 beats .5, though .9 does not
    assert clusters(values, p).tolist() == [2, 1, 1, 2]


def test_undefined_value_is_in_no_cluster():
    assert clusters(np.array([0.5, np.nan]), np.full((2, 2), np.nan)).tolist() == [1, 0]


def test_cluster_shape_rejected():
    with pytest.raises(ValueError, match=r"`p_values` must have shape \(2, 2\), got \(2, 3\)"):
        clusters(np.ones(2), np.ones((2, 3)))


def test_p_value_above_one_rejected():
    with pytest.raises(ValueError, match=r"`p_values` must lie in \[0, 1\], got 5"):
        holm(np.array([0.1, 5.0]))
