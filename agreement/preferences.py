"""Which system people prefer: sign tests, shares of wins, agreement of judges, strengths.

A judgement of a pair of systems has one of three outcomes: the first wins, the second wins, a
tie. Counts have these three in this order, always.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.intervals import Interval, percentile_interval
from agreement.matrices import require_choice, require_fraction, require_positive
from agreement.raters import Alpha, krippendorff_alpha

FIRST, SECOND, TIE = 0, 1, 2
"""The outcomes of a judgement."""
ALTERNATIVES = ("two-sided", "greater", "less")
"""Of a sign test: the systems differ; the second is preferred; the first is."""
SHARE_METHODS = ("wilson", "clopper-pearson")
"""Intervals for a share: close to the nominal confidence on average, or never below it."""

DECREMENT_ATOL = 1e-20
"""The fit ends once Newton's decrement, twice the log-likelihood left to gain, is below this; the
strengths are then right to about nine digits."""
MAX_STEPS = 100
"""Newton steps; counts whose maximum is finite take fewer than 20."""
MAX_HALVINGS = 40
"""Of one step, where the whole of it would lead down."""
VALUE_RTOL = 1e-12
"""A log-likelihood that is lower by no more than this is not lower but rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """How far judges of the same item agree."""

    alpha: Alpha
    """Krippendorff's, over the three outcomes as names."""
    share_equal: float
    """Of all pairs of judgements of one item, those with the same outcome; NaN if there is none."""
    n_items: int
    """Items with at least two judgements."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strengths:
    """Davidson's model, fitted to the counts of every pair of systems."""

    log_strengths: np.ndarray
    """Shape (..., n_systems), natural logarithms with mean 0; NaN where undefined. The odds that
    i beats j, ties aside, are exp(s_i - s_j)."""
    tie_rate: np.ndarray
    """Shape (...): Davidson's nu. Two equal systems tie with probability nu / (2 + nu)."""

    @property
    def is_defined(self) -> np.ndarray:
        """Whether there is a finite maximum of the likelihood, bool, shape (...)."""
        return ~np.isnan(self.tie_rate)


def sign_test(n_first: int, n_second: int, *, alternative: str = "two-sided") -> float:
    """Test whether both systems are preferred equally often, ties left out.

    Exact binomial test (Dixon and Mood 1946). It takes the judgements as independent: where
    several judges saw an item, test the items' majorities, too.

    Parameters
    ----------
    n_first, n_second : int
        Judgements for each.
    alternative : str
        One of `ALTERNATIVES`.

    Returns
    -------
    float
        p-value; NaN where every judgement is a tie.

    Examples
    --------
    >>> sign_test(1, 5)  # 2 * (1 + 6) / 2**6
    0.21875
    """
    require_choice("alternative", alternative, ALTERNATIVES)
    n = _n_decided(n_first, n_second)
    return float(stats.binomtest(n_second, n, alternative=alternative).pvalue) if n else np.nan


def win_share(
    n_first: int, n_second: int, *, confidence: float = 0.95, method: str = "wilson"
) -> Interval:
    """Return the share of decided judgements that the second system won, with an interval.

    Parameters
    ----------
    n_first, n_second : int
        Judgements for each; ties are left out.
    confidence : float
        Share of intervals made this way that should hold the true share.
    method : str
        One of `SHARE_METHODS` (Wilson 1927; Clopper and Pearson 1934).

    Returns
    -------
    Interval
        Undefined where every judgement is a tie.

    Examples
    --------
    >>> share = win_share(1, 3)
    >>> share.value, round(share.low, 3), round(share.high, 3)
    (0.75, 0.301, 0.954)
    """
    require_choice("method", method, SHARE_METHODS)
    require_fraction("confidence", confidence)
    n = _n_decided(n_first, n_second)
    if n == 0:
        return Interval(
            value=np.nan,
            low=np.nan,
            high=np.nan,
            confidence=confidence,
            method=method,
            reason="no judgement prefers either",
        )
    ends = stats.binomtest(n_second, n).proportion_ci(
        confidence, method="exact" if method == "clopper-pearson" else method
    )
    return Interval(
        value=n_second / n,
        low=float(ends.low),
        high=float(ends.high),
        confidence=confidence,
        method=method,
    )


def majorities(item_counts: np.ndarray) -> np.ndarray:
    """Count the items whose judges prefer the first system, the second, or neither.

    Parameters
    ----------
    item_counts : ndarray of int, shape (n_items, 3)
        Judgements of each item by outcome.

    Returns
    -------
    ndarray of int64, shape (3,)
        Items on which the first system has more judgements than the second, fewer, as many.
        Ties of judges count for neither; an item without a judgement is left out.

    Examples
    --------
    >>> majorities(np.array([[2, 1, 0], [0, 1, 2], [1, 1, 1], [0, 0, 0]])).tolist()
    [1, 1, 1]
    """
    counts = _outcome_counts("item_counts", item_counts, 2)
    counts = counts[counts.sum(1) > 0]
    lead = np.sign(counts[:, FIRST] - counts[:, SECOND])
    return np.array([(lead > 0).sum(), (lead < 0).sum(), (lead == 0).sum()])


def judge_agreement(outcomes: np.ndarray) -> JudgeAgreement:
    """Measure how far judges of the same items agree, with chance taken off and without.

    Parameters
    ----------
    outcomes : ndarray, shape (n_judges, n_items)
        `FIRST`, `SECOND` or `TIE`; NaN where a judge did not judge an item.

    Returns
    -------
    JudgeAgreement
        Undefined where no item has two judgements.

    Examples
    --------
    >>> judge_agreement(np.array([[0, 1, 2, 1], [0, 1, 1, 1]])).share_equal
    0.75
    """
    alpha = krippendorff_alpha(outcomes, measurement="nominal")
    table = np.asarray(outcomes, dtype=np.float64)
    counts = np.stack([(table == outcome).sum(0) for outcome in (FIRST, SECOND, TIE)])
    n_pairs = _choose_2(counts.sum(0)).sum()
    share = _choose_2(counts).sum() / n_pairs if n_pairs else np.nan
    return JudgeAgreement(alpha=alpha, share_equal=float(share), n_items=alpha.n_units)


def davidson_strengths(counts: np.ndarray, pairs: np.ndarray, n_systems: int) -> Strengths:
    r"""Fit the strengths that make the counts most likely, ties included.

    Davidson's extension (1970) of the model of Bradley and Terry (1952):

    .. math:: P(i \succ j) : P(j \succ i) : P(i = j) = \pi_i : \pi_j : \nu \sqrt{\pi_i \pi_j}

    so that a tie is an outcome of its own and not half a win of each, which would pull strengths
    together. In :math:`\log \pi` and :math:`\log \nu` the likelihood is concave; Newton's method
    climbs it for all sets of counts at once.

    Parameters
    ----------
    counts : ndarray of int, shape (..., n_pairs, 3)
        Judgements of each pair by outcome; leading axes are fitted apart.
    pairs : ndarray of int, shape (n_pairs, 2)
        The first and the second system of each pair.
    n_systems : int

    Returns
    -------
    Strengths
        NaN where the likelihood has no finite maximum that is known to be the only one: where
        some systems never lose or tie against all the others, and where there are ties but no
        circle of wins, as when one of two systems never wins.

    Raises
    ------
    ValueError
        If shapes disagree, a count is negative, or a system is out of range.
    RuntimeError
        If the climb does not end.

    Examples
    --------
    >>> fit = davidson_strengths(np.array([[10, 40, 20]]), np.array([[0, 1]]), 2)
    >>> odds = np.exp(fit.log_strengths[1] - fit.log_strengths[0])
    >>> round(float(odds), 6), round(float(fit.tie_rate), 6)  # 40 / 10 and 20 / sqrt(40 * 10)
    (4.0, 1.0)
    """
    counts, pairs = _checked(counts, pairs, n_systems)
    leading = counts.shape[:-2]
    flat = counts.reshape(-1, *counts.shape[-2:])
    found = np.full((len(flat), n_systems + 1), np.nan)
    has_maximum = _has_maximum(flat, pairs, n_systems)
    if has_maximum.any():
        found[has_maximum] = _climb(flat[has_maximum], pairs, n_systems)
    logs = found[:, :n_systems] - found[:, :n_systems].mean(1, keepdims=True)
    has_ties = np.any(flat[..., TIE] > 0, axis=1)
    tie_rate = np.where(has_maximum & ~has_ties, 0.0, np.exp(found[:, n_systems]))
    return Strengths(
        log_strengths=logs.reshape(*leading, n_systems), tie_rate=tie_rate.reshape(leading)
    )


def resampled_counts(
    item_counts: np.ndarray, *, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw items with replacement, all judgements of an item together.

    Parameters
    ----------
    item_counts : ndarray of int, shape (n_items, n_pairs, 3)
        Judgements of each item by pair and outcome.
    n_resamples : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int64, shape (n_resamples, n_pairs, 3)
    """
    counts = _outcome_counts("item_counts", item_counts, 3)
    require_positive("n_resamples", n_resamples)
    n_items = len(counts)
    drawn = rng.multinomial(n_items, np.full(n_items, 1.0 / n_items), size=n_resamples)
    return np.asarray((drawn @ counts.reshape(n_items, -1)).reshape(-1, *counts.shape[1:]))


def redrawn_counts(counts: np.ndarray, *, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the judgements of each pair with replacement, for counts without their items.

    Parameters
    ----------
    counts : ndarray of int, shape (n_pairs, 3)
        Judgements of each pair by outcome.
    n_resamples : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int64, shape (n_resamples, n_pairs, 3)
        As many judgements of each pair as there were.
    """
    checked = _outcome_counts("counts", counts, 2)
    require_positive("n_resamples", n_resamples)
    return np.stack(
        [
            rng.multinomial(row.sum(), row / max(row.sum(), 1), size=n_resamples)
            if row.any()
            else np.zeros((n_resamples, 3), dtype=np.int64)
            for row in checked
        ],
        axis=1,
    )


def strength_intervals(
    counts: np.ndarray,
    resamples: np.ndarray,
    pairs: np.ndarray,
    n_systems: int,
    *,
    method: str,
    confidence: float = 0.95,
) -> list[Interval]:
    """Bound every system's strength by the percentiles of its bootstrap.

    Parameters
    ----------
    counts : ndarray of int, shape (n_pairs, 3)
    resamples : ndarray of int, shape (n_resamples, n_pairs, 3)
        From `resampled_counts` or `redrawn_counts`.
    pairs : ndarray of int, shape (n_pairs, 2)
    n_systems : int
    method : str
        Goes into the result, such as "bootstrap-items".
    confidence : float
        Share of intervals made this way that should hold the true value.

    Returns
    -------
    list of Interval
        Of the log-strengths, one per system.
    """
    require_fraction("confidence", confidence)
    point = davidson_strengths(counts, pairs, n_systems)
    draws = davidson_strengths(resamples, pairs, n_systems)
    reason = None
    if not point.is_defined:
        reason = (
            "no finite strengths are most likely: some systems never lose to the others, or no "
            "wins go both ways or in a circle"
        )
    return [
        percentile_interval(
            draws.log_strengths[:, system],
            float(point.log_strengths[system]),
            confidence,
            method,
            reason,
        )
        for system in range(n_systems)
    ]


def _n_decided(n_first: int, n_second: int) -> int:
    for name, n in (("n_first", n_first), ("n_second", n_second)):
        if n < 0:
            raise ValueError(f"`{name}` must not be negative, got {n}")
    return n_first + n_second


def _choose_2(n: np.ndarray) -> np.ndarray:
    return n * (n - 1) / 2


def _outcome_counts(name: str, values: np.ndarray, n_dimensions: int) -> np.ndarray:
    counts = np.asarray(values)
    if counts.dtype.kind not in "iu":
        raise TypeError(f"`{name}` must hold whole numbers, got dtype {counts.dtype}")
    if counts.ndim != n_dimensions or counts.shape[-1] != 3 or len(counts) == 0:
        raise ValueError(
            f"`{name}` must have {n_dimensions} dimensions, the last one of 3 outcomes, and not "
            f"be empty, got shape {counts.shape}"
        )
    if (counts < 0).any():
        raise ValueError(f"`{name}` must not be negative, got {counts.min()}")
    return counts.astype(np.int64)


def _checked(
    counts: np.ndarray, pairs: np.ndarray, n_systems: int
) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(f"`pairs` must hold two different systems a row, got {pairs.tolist()}")
    if pairs.min() < 0 or pairs.max() >= n_systems:
        raise ValueError(f"`pairs` must number {n_systems} systems from 0, got {pairs.tolist()}")
    counts = _outcome_counts("counts", counts, max(np.ndim(counts), 2))
    if counts.shape[-2] != len(pairs):
        raise ValueError(
            f"`counts` must have a row for each of {len(pairs)} pairs, got shape {counts.shape}"
        )
    return counts, pairs


def _has_maximum(counts: np.ndarray, pairs: np.ndarray, n_systems: int) -> np.ndarray:
    """Tell where a finite, unique maximum is certain, bool, shape (n_sets,).

    A circle of wins keeps the strengths in it together and the tie rate from growing without
    end; ties then keep it from vanishing and join the systems that tie. All systems must hang
    together that way, each reaching each other one.
    """
    wins = np.zeros((len(counts), n_systems, n_systems), dtype=bool)
    ties = np.zeros_like(wins)
    occurs = counts > 0
    for row, (first, second) in enumerate(pairs):  # a pair may have several rows
        wins[:, first, second] |= occurs[:, row, FIRST]
        wins[:, second, first] |= occurs[:, row, SECOND]
        ties[:, first, second] |= occurs[:, row, TIE]
        ties[:, second, first] |= occurs[:, row, TIE]
    has_circle = np.einsum("sii->s", _reachable(wins)) > 0
    is_connected = _reachable(wins | ties | np.eye(n_systems, dtype=bool)).all((1, 2))
    return is_connected & (has_circle | ~ties.any((1, 2)))


def _reachable(arcs: np.ndarray) -> np.ndarray:
    """Say which system is reached from which by one arc or more, shape (n_sets, n, n)."""
    reached = arcs
    for _ in range(max(arcs.shape[-1] - 1, 1).bit_length()):
        reached = reached | (reached @ reached)
    return reached


def _climb(counts: np.ndarray, pairs: np.ndarray, n_systems: int) -> np.ndarray:
    """Maximise the log-likelihood of every set of counts.

    Returns
    -------
    ndarray, shape (n_sets, n_systems + 1)
        Log-strengths, that of the first system 0, and the logarithm of the tie rate (of no
        meaning where there is no tie).
    """
    features = _features(pairs, n_systems)
    has_ties: np.ndarray = np.any(counts[..., TIE] > 0, axis=1)
    found = np.zeros((len(counts), n_systems + 1))
    value, gradient, information = _likelihood(found, counts, features, has_ties)
    for _ in range(MAX_STEPS):
        step = np.zeros_like(found)
        # The first strength stays 0: only differences matter.
        step[:, 1:] = np.linalg.solve(information[:, 1:, 1:], gradient[:, 1:, None])[..., 0]
        if (np.einsum("sp,sp->s", gradient, step) <= DECREMENT_ATOL).all():
            return found
        found = _uphill(found, step, value, counts, features, has_ties)
        value, gradient, information = _likelihood(found, counts, features, has_ties)
    raise RuntimeError(f"strengths did not settle in {MAX_STEPS} steps; are the counts extreme?")


def _uphill(
    found: np.ndarray,
    step: np.ndarray,
    value: np.ndarray,
    counts: np.ndarray,
    features: np.ndarray,
    has_ties: np.ndarray,
) -> np.ndarray:
    """Take the step, halved where it would lead down."""
    lowest = value - VALUE_RTOL * np.abs(value)
    scale = np.ones(len(found))
    for _ in range(MAX_HALVINGS):
        new_value, _, _ = _likelihood(found + scale[:, None] * step, counts, features, has_ties)
        is_down = new_value < lowest
        if not is_down.any():
            break
        scale[is_down] *= 0.5
    return found + scale[:, None] * step


def _features(pairs: np.ndarray, n_systems: int) -> np.ndarray:
    """How the logarithm of each outcome's weight is made of the parameters, (n_pairs, 3, p)."""
    rows = np.arange(len(pairs))
    features = np.zeros((len(pairs), 3, n_systems + 1))
    for outcome in (FIRST, SECOND):
        features[rows, outcome, pairs[:, outcome]] = 1.0
        features[rows, TIE, pairs[:, outcome]] = 0.5
    features[:, TIE, n_systems] = 1.0
    return features


def _likelihood(
    parameters: np.ndarray, counts: np.ndarray, features: np.ndarray, has_ties: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the log-likelihood, its gradient and its negative Hessian for every set."""
    logits = np.einsum("sp,iop->sio", parameters, features)
    logits[~has_ties, :, TIE] = -np.inf
    logits -= logits.max(-1, keepdims=True)
    weights = np.exp(logits)
    shares = weights / weights.sum(-1, keepdims=True)
    log_shares = np.where(counts > 0, logits - np.log(weights.sum(-1, keepdims=True)), 0.0)
    totals = counts.sum(-1, keepdims=True)
    gradient = np.einsum("sio,iop->sp", counts - totals * shares, features)
    means = np.einsum("sio,iop->sip", shares, features)
    information = np.einsum("sio,iop,ioq->spq", totals * shares, features, features, optimize=True)
    information -= np.einsum("sip,siq->spq", totals * means, means)
    # Without ties their rate is no parameter; a 1 on the diagonal keeps it where it is.
    information[~has_ties, -1, -1] = 1.0
    return (counts * log_shares).sum((-2, -1)), gradient, information
