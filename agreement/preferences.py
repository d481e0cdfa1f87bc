"""Which of two systems people prefer: sign tests, shares of wins, agreement of judges.

A judgement of a pair of systems has one of three outcomes: the first wins, the second wins, a
tie.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from agreement.intervals import CONFIDENCE, Interval
from agreement.raters import krippendorff_alpha

FIRST, SECOND, TIE = 0, 1, 2
"""The outcomes of a judgement."""


def sign_test(n_first: int, n_second: int) -> float:
    """Test whether both systems are preferred equally often; NaN where every judgement is a tie.

    Two-sided exact binomial test (Dixon and Mood 1946). It takes the judgements as independent:
    where several judges saw an item, test the items' majorities, too.
    """
    n = n_first + n_second
    return float(stats.binomtest(n_second, n).pvalue) if n else np.nan


def win_share(n_first: int, n_second: int) -> Interval:
    """Return the share of judgements that the second system won, ties left out, after Wilson."""
    n = n_first + n_second
    if n == 0:
        reason = "no judgement prefers either"
        return Interval(value=np.nan, low=np.nan, high=np.nan, method="wilson", reason=reason)
    ends = stats.binomtest(n_second, n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(value=n_second / n, low=float(ends.low), high=float(ends.high), method="wilson")


def majorities(outcomes: np.ndarray) -> tuple[int, int, int]:
    """Count the items whose judges prefer the first system, the second, or neither.

    `outcomes` have shape (n_judges, n_items), NaN where a judge did not judge an item. Ties of
    judges count for neither; an item without a judgement is left out.
    """
    lead = (outcomes == FIRST).sum(0) - (outcomes == SECOND).sum(0)
    lead = lead[~np.isnan(outcomes).all(0)]
    return int((lead > 0).sum()), int((lead < 0).sum()), int((lead == 0).sum())


def judge_agreement(outcomes: np.ndarray) -> tuple[float, float, int]:
    """Measure how far judges of the same items agree.

    `outcomes` are as in `majorities`. Returns Krippendorff's alpha over the three as names; of all
    pairs of judgements of one item the share that is equal; and the items with at least two
    judgements. The first two are NaN where there is no such item.
    """
    alpha = krippendorff_alpha(outcomes, measurement="nominal")
    counts = np.stack([(outcomes == outcome).sum(0) for outcome in (FIRST, SECOND, TIE)])
    n_pairs = special.comb(counts.sum(0), 2).sum()
    share = special.comb(counts, 2).sum() / n_pairs if n_pairs else np.nan
    return alpha.value, float(share), alpha.n_units
