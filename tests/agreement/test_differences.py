"""Williams' test reproduces published statistics; Holm's correction."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agreement import compare_correlations, holm
from agreement.differences import dependent_test


@pytest.mark.parametrize(
    ("correlations", "n", "p"),
    [
        ((0.281035, 0.185097, 0.189692), 1_400, 0.00166852324325283),
        # A well-known README prints 0.209243482964009, the value for n - 2 degrees of freedom.
        ((0.65, 0.55, 0.3), 50, 0.20928617286753579),
    ],
)
def test_williams_one_sided_p_matches_publication(correlations, n, p):
    result = dependent_test(*correlations, n)
    assert result.p_greater == pytest.approx(p, rel=1e-9)
    assert result.p_value == pytest.approx(2 * p, rel=1e-9)
    assert result.degrees_of_freedom == n - 3


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "n", "statistic"),
    [(0.4, 0.5, 0.1, 103, -0.8887184699558723), (0.3, 0.4, 0.5, 100, -1.071816870183631)],
)
def test_steiger_matches_publication(r_a, r_b, r_ab, n, statistic):
    result = dependent_test(r_a, r_b, r_ab, n, test="steiger1980")
    assert result.statistic == pytest.approx(statistic, abs=1e-12)
    assert result.degrees_of_freedom == math.inf
    assert "a perfect correlation" in dependent_test(1.0, r_b, r_ab, n, test="steiger1980").reason


@given(r_a=st.floats(-0.9, 0.9), r_b=st.floats(-0.9, 0.9), r_ab=st.floats(-0.9, 0.9))
def test_exchanging_the_metrics_changes_the_sign_only(r_a, r_b, r_ab):
    assume(1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab > 1e-6)
    one, other = dependent_test(r_a, r_b, r_ab, 20), dependent_test(r_b, r_a, r_ab, 20)
    assert one.statistic == pytest.approx(-other.statistic, abs=1e-9)
    assert one.p_value == pytest.approx(other.p_value, abs=1e-9)
    assert one.p_greater == pytest.approx(1 - other.p_greater, abs=1e-9)


@pytest.mark.parametrize(
    ("correlations", "n", "reason"),
    [
        ((0.3, 0.4, 0.5), 3, "needs at least 4 units, got 3"),
        ((0.5, 0.5, 1.0), 10, "the two metrics correlate perfectly with each other"),
        ((1.0, -1.0, -1.0 + 1e-9), 10, "a perfect fit: r_a = 1, r_b = -1, r_ab = -1"),
    ],
)
def test_too_few_units_and_perfect_fits_are_undefined(correlations, n, reason):
    result = dependent_test(*correlations, n)
    assert math.isnan(result.p_value)
    assert result.reason == reason


@pytest.mark.parametrize(
    ("level", "is_constant", "reason"),
    [
        ("global", False, None),
        ("summary", False, "a mean over documents is not one correlation; use a permutation test"),
        ("system", True, "r_a is undefined: ratings are constant"),
    ],
)
def test_comparison_uses_shared_cells_and_says_why_it_is_undefined(
    pilot, level, is_constant, reason
):
    *scores, ratings = pilot
    result = compare_correlations(*scores, ratings * (0 if is_constant else 1), level=level)
    assert math.isnan(result.p_value) == (reason is not None)
    assert result.reason == reason
    assert result.n == (8 if level == "system" else ratings.size - 3)


def test_holm_by_hand():
    # 4 x .01, 3 x .02, 2 x .03 (raised to the one before), 1 x .04; NaN is not counted.
    adjusted = holm(np.array([0.04, np.nan, 0.01, 0.03, 0.02]))
    np.testing.assert_allclose(adjusted, [0.06, np.nan, 0.04, 0.06, 0.06], atol=1e-12)


@given(
    p=st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array), alpha=st.floats(0.01, 0.5)
)
def test_holm_rejects_like_its_definition(p, alpha):
    is_small = np.sort(p) * np.arange(p.size, 0, -1) <= alpha
    rejected = np.logical_and.accumulate(is_small).sum()
    adjusted = holm(p)
    assert (adjusted <= alpha).sum() == rejected
    assert ((adjusted >= p) & (adjusted <= np.minimum(p * p.size, 1.0))).all()
