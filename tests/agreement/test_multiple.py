"""Corrections for many comparisons."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agreement import bonferroni, holm

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array)


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
