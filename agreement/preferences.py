"""Which of two systems people prefer: sign tests, shares of wins, agreement of judges.

A judgement of a pair of systems has one of three outcomes: the first wins, the second wins, a
tie. Counts have these three in this order, always.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from agreement.intervals import CONFIDENCE, Interval
from agreement.raters import krippendorff_alpha

FIRST, SECOND, TIE = 0, 1, 2
"""The outcomes of a judgement."""


def sign_test(n_first: int, n_second: int) -> float:
    """Test whether both systems are preferred equally often, ties left out.

    Two-sided exact binomial test (Dixon and Mood 1946). It takes the judgements as independent:
    where several judges saw an item, test the items' majorities, too. NaN where every judgement is
    a tie.

    Examples
    --------
    >>> sign_test(1, 5)  # 2 * (1 + 6) / 2**6
    0.21875
    """
    n = n_first + n_second
    return float(stats.binomtest(n_second, n).pvalue) if n else np.nan


def win_share(n_first: int, n_second: int) -> Interval:
    """Return the share of decided judgements that the second system won, with Wilson's interval.

    Ties are left out; undefined where every judgement is one.

    Examples
    --------
    >>> share = win_share(1, 3)
    >>> share.value, round(share.low, 3), round(share.high, 3)
    (0.75, 0.301, 0.954)
    """
    n = n_first + n_second
    if n == 0:
        reason = "no judgement prefers either"
        return Interval(value=np.nan, low=np.nan, high=np.nan, method="wilson", reason=reason)
    ends = stats.binomtest(n_second, n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(value=n_second / n, low=float(ends.low), high=float(ends.high), method="wilson")


def majorities(item_counts: np.ndarray) -> np.ndarray:
    """Count the items whose judges prefer the first system, the second, or neither.

    Judgements by item and outcome, shape (n_items, 3), give shape (3,). Ties of judges count for
    neither; an item without a judgement is left out.

    Examples
    --------
    >>> majorities(np.array([[2, 1, 0], [0, 1, 2], [1, 1, 1], [0, 0, 0]])).tolist()
    [1, 1, 1]
    """
    counts = item_counts[item_counts.sum(1) > 0]
    lead = np.sign(counts[:, FIRST] - counts[:, SECOND])
    return np.array([(lead > 0).sum(), (lead < 0).sum(), (lead == 0).sum()])


def judge_agreement(outcomes: np.ndarray) -> tuple[float, float, int]:
    """Measure how far judges of the same items agree.

    `outcomes` are `FIRST`, `SECOND` or `TIE`, shape (n_judges, n_items); NaN where a judge did not
    judge an item. Returns Krippendorff's alpha over the three as names; of all pairs of judgements
    of one item the share that is equal; and the items with at least two judgements. The first two
    are NaN where there is no such item.

    Examples
    --------
    >>> judge_agreement(np.array([[0, 1, 2, 1], [0, 1, 1, 1]]))[1:]
    (0.75, 4)
    """
    alpha = krippendorff_alpha(outcomes, measurement="nominal")
    counts = np.stack([(outcomes == outcome).sum(0) for outcome in (FIRST, SECOND, TIE)])
    n_pairs = _choose_2(counts.sum(0)).sum()
    share = _choose_2(counts).sum() / n_pairs if n_pairs else np.nan
    return alpha.value, float(share), alpha.n_units


def _choose_2(n: np.ndarray) -> np.ndarray:
    return n * (n - 1) / 2
