"""Preferences of people: sign tests, shares of wins, agreement of judges."""

import math

import numpy as np
import pytest
from scipy import stats

from agreement.preferences import judge_agreement, majorities, sign_test, win_share


# twice the tail of the binomial distribution
@pytest.mark.parametrize(("first", "second", "p"), [(0, 3, 2 / 8), (2, 7, 92 / 512), (7, 7, 1.0)])
def test_sign_test_sums_the_tails(first, second, p):
    assert sign_test(first, second) == pytest.approx(p, abs=1e-12)


def test_all_ties_are_undefined():
    assert math.isnan(sign_test(0, 0))
    share = win_share(0, 0)
    assert math.isnan(share.value)
    assert share.reason == "no judgement prefers either"


def test_interval_is_that_of_wilson():
    share = win_share(15, 35)
    z = stats.norm.ppf(0.975)
    for end in (share.low, share.high):  # where the score test is just significant
        assert abs(end - 0.7) == pytest.approx(z * math.sqrt(end * (1 - end) / 50))


def test_majorities_by_hand():
    items = [[0, 0, 0], [0, 1, 1], [0, 1, 2], [1, 2, 2], [np.nan] * 3, [2, np.nan, np.nan]]
    assert majorities(np.array(items).T) == (1, 2, 2)


def test_agreement_by_hand():
    # items: three of a kind (3 equal pairs of 3), two and one (1 of 3), one judge only
    outcomes = np.array([[1, 0, 2], [1, 0, np.nan], [1, 2, np.nan]])
    alpha, share_equal, n_items = judge_agreement(outcomes)
    assert share_equal == pytest.approx(4 / 6)
    assert n_items == 2
    # observed disagreement (2 + 2) / (2 * 6); expected: 1 - sum n_c (n_c - 1) / (n (n - 1))
    expected = 1 - (3 * 2 + 2 * 1 + 1 * 0) / (6 * 5)
    assert alpha == pytest.approx(1 - (1 / 3) / expected)
    assert np.isnan(judge_agreement(np.array([[0.0, 1.0, 2.0]]))[:2]).all()
