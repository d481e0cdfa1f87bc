"""Tests of two correlations reproduce published statistics; formulae, not resampling."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agreement import bonferroni, compare_correlations, holm
from agreement.differences import DEPENDENT_TESTS, dependent_test

# Test, r_a, r_b, r_ab, n, statistic: examples published with four digits and recomputed in full.
PUBLISHED = [
    ("williams1959", 0.3, 0.4, 0.5, 100, -1.0767356378373487),
    ("dunn1969", 0.3, 0.4, 0.5, 100, -1.0730358894550336),
    ("dunn1969", 0.5, 0.6, 0.7, 100, -1.5838851122896274),
    ("steiger1980", 0.4, 0.5, 0.1, 103, -0.8887184699558723),
    ("steiger1980", 0.3, 0.4, 0.5, 100, -1.071816870183631),
]
# r_a, r_b, r_ab and one-sided p at n = 1,400.
WILLIAMS_ONE_SIDED = [
    (0.281035, 0.185097, 0.189692, 0.00166852324325283),
    (0.281035, 0.211246, 0.203161, 0.0153390758001599),
    (0.197408, 0.185097, 0.164799, 0.357340234622489),
    (0.229848, 0.185097, 0.092669, 0.0998168461535601),
    (0.229848, 0.211246, 0.086456, 0.296821018145753),
]


@pytest.mark.parametrize(("test", "r_a", "r_b", "r_ab", "n", "statistic"), PUBLISHED)
def test_statistic_matches_publication(test, r_a, r_b, r_ab, n, statistic):
    result = dependent_test(r_a, r_b, r_ab, n, test=test)
    assert result.statistic == pytest.approx(statistic, abs=1e-12)
    assert result.difference == pytest.approx(r_a - r_b)
    assert (result.n, result.reason) == (n, None)


@pytest.mark.parametrize(("r_a", "r_b", "r_ab", "p"), WILLIAMS_ONE_SIDED)
def test_williams_one_sided_p_matches_publication(r_a, r_b, r_ab, p):
    result = dependent_test(r_a, r_b, r_ab, 1_400)
    assert result.p_greater == pytest.approx(p, rel=1e-9)
    assert result.p_value == pytest.approx(2 * p, rel=1e-9)


def test_williams_has_n_minus_three_degrees_of_freedom():
    # A well-known README prints 0.209243482964009, the value for n - 2.
    result = dependent_test(0.65, 0.55, 0.3, 50)
    assert result.degrees_of_freedom == 47
    assert result.p_greater == pytest.approx(0.20928617286753579, rel=1e-9)
    gold, first, second = np.array(
        [[1.0, 2, 3, 4, 5], [1.1, 2, 3.1, 4, 5.1], [1.5, 2, 3.1, 4, 5.5]]
    )[..., None]
    published = compare_correlations(first, second, gold, level="system")
    assert published.p_greater == pytest.approx(0.019, abs=5e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("test", DEPENDENT_TESTS)
def test_fewer_than_four_units_are_undefined(test, n):
    result = dependent_test(0.3, 0.4, 0.5, n, test=test)
    assert math.isnan(result.p_value)
    assert result.reason == f"needs at least 4 units, got {n}"


@pytest.mark.parametrize("test", DEPENDENT_TESTS)
@given(r_a=st.floats(-0.9, 0.9), r_b=st.floats(-0.9, 0.9), r_ab=st.floats(-0.9, 0.9))
def test_exchanging_the_metrics_changes_the_sign_only(test, r_a, r_b, r_ab):
    assume(1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab > 1e-6)
    one = dependent_test(r_a, r_b, r_ab, 20, test=test)
    other = dependent_test(r_b, r_a, r_ab, 20, test=test)
    assert one.statistic == pytest.approx(-other.statistic, abs=1e-9)
    assert one.p_value == pytest.approx(other.p_value, abs=1e-9)
    assert one.p_greater == pytest.approx(1 - other.p_greater, abs=1e-9)
    assert 0 <= one.p_value <= 1


def test_perfect_and_identical_metrics_are_undefined_not_infinite():
    assert "perfect" in dependent_test(1.0, 0.5, 0.5, 10, test="steiger1980").reason
    assert "perfectly with each other" in dependent_test(0.5, 0.5, 1.0, 10).reason


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "message"),
    [
        (0.9, -0.9, 0.9, "`r_ab` must be possible next to the others"),
        (1.5, 0.0, 0.0, r"`r_a` must lie in \[-1, 1\], got 1.5"),
    ],
)
def test_impossible_correlations_rejected(r_a, r_b, r_ab, message):
    with pytest.raises(ValueError, match=message):
        dependent_test(r_a, r_b, r_ab, 10)


def test_comparison_uses_cells_that_all_three_have(pilot):
    first, second, ratings = pilot
    result = compare_correlations(first, second, ratings, level="global", test="steiger1980")
    assert result.n == ratings.size - 3
    assert result.reason is None


@pytest.mark.parametrize("test", DEPENDENT_TESTS)
def test_comparison_of_kendall_c_is_undefined(test):
    """Two groups rated apart, ordered differently inside: 1, 1 and .2 do not fit together."""
    a, b, y = np.array([[1, 2, 3, 7, 8, 9], [3, 2, 1, 9, 8, 7], [1, 1, 1, 2, 2, 2.0]])[..., None]
    result = compare_correlations(a, b, y, level="system", coefficient="kendall_c", test=test)
    assert "do not hold for kendall_c" in result.reason
    assert math.isnan(result.p_value)
    assert result.difference == 0.0


@pytest.mark.parametrize(
    ("level", "has_constant_ratings", "reason"),
    [
        ("summary", False, "a mean over documents is not one correlation; use a permutation test"),
        ("system", True, "r_a is undefined: ratings are constant"),
    ],
)
def test_undefined_comparison_says_why(pilot, level, has_constant_ratings, reason):
    first, second, ratings = pilot
    ratings = np.ones_like(ratings) if has_constant_ratings else ratings
    result = compare_correlations(first, second, ratings, level=level)
    assert math.isnan(result.p_value)
    assert result.reason == reason


# Corrections for many

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array)


def test_holm_by_hand():
    # 4 x .01, 3 x .02, 2 x .03 (raised to the one before), 1 x .04 (likewise).
    adjusted = holm(np.array([0.04, 0.01, 0.03, 0.02]))
    np.testing.assert_allclose(adjusted, [0.06, 0.04, 0.06, 0.06], atol=1e-12)


@given(p=P_VALUES, alpha=st.floats(0.01, 0.5))
def test_holm_rejects_like_its_definition_and_lies_between_raw_and_bonferroni(p, alpha):
    rejected = 0
    for step, value in enumerate(np.sort(p)):
        if value * (p.size - step) > alpha:
            break
        rejected += 1
    adjusted = holm(p)
    assert (adjusted <= alpha).sum() == rejected
    assert ((adjusted >= p) & (adjusted <= bonferroni(p))).all()


def test_undefined_tests_are_not_counted():
    np.testing.assert_allclose(bonferroni(np.array([[0.01, np.nan], [0.3, np.nan]]))[0, 0], 0.02)
    np.testing.assert_allclose(holm(np.array([0.01, np.nan, 0.3])), [0.02, np.nan, 0.3])
