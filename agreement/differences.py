"""Tests and intervals by formula for the difference of two correlations.

Dependent and overlapping: two metrics, both correlated with the same ratings of the same n
units (systems, at system level). Independent: two correlations from different units. All
statistics are signed, positive where the first correlation is the larger one.

The formulae assume independent units and bivariate normal values; the permutation tests in
`permutation` assume neither and can be used at summary level too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.intervals import PERFECT_ATOL, Interval, fisher_interval
from agreement.levels import correlate, system_means
from agreement.matrices import (
    as_matrices,
    require_choice,
    require_fraction,
    shared_cells,
)

FEWEST = 4
"""Units that the tests need: n - 3 is in every one of them."""

NOT_JOINTLY_POSSIBLE = "the formulae do not hold for kendall_c; use kendall_b or a permutation test"
"""Stuart's tau-c is scaled by the coarser variable, so three of them need not fit together."""

DETERMINANT_ATOL = 1e-12
"""A determinant of three correlations this close to 0 is 0, but for the last bits; further below
0, no data can have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceTest:
    """Whether two correlations differ."""

    test: str
    difference: float
    """First correlation minus second."""
    statistic: float
    """Signed; NaN where undefined, as are the p-values."""
    degrees_of_freedom: float
    """Of Student's t; infinite for a normal statistic."""
    p_value: float
    """Two-sided."""
    p_greater: float
    """One-sided: that the first correlation is not the larger one."""
    n: int
    """Units the correlations were computed from."""
    reason: str | None = None


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> DifferenceTest:
    r"""Test two dependent correlations by Williams' t with n - 3 degrees of freedom.

    .. math:: t = (r_a - r_b) \sqrt{\frac{(n-1)(1+r_{ab})}
              {2 \frac{n-1}{n-3} |R| + \bar r^2 (1-r_{ab})^3}}

    (Williams 1959, "The Comparison of Regression Variables"; Steiger 1980). A widely
    copied printout has n - 2 degrees of freedom; that is a mistake corrected in 2014.

    Parameters
    ----------
    r_a, r_b : float
        Correlation of metric A, and of metric B, with the ratings.
    r_ab : float
        Correlation of the two metrics with each other.
    n : int
        Units, such as systems; at least 4.

    Returns
    -------
    DifferenceTest
        Undefined, with a reason, for too few units or a perfect fit.

    Raises
    ------
    ValueError
        If a correlation is outside [-1, 1] or no data can have these three.

    Examples
    --------
    >>> round(williams(0.3, 0.4, 0.5, 100).statistic, 4)
    -1.0767
    """
    return dependent_test(r_a, r_b, r_ab, n, test="williams1959")


def steiger(r_a: float, r_b: float, r_ab: float, n: int) -> DifferenceTest:
    """Test two dependent correlations by Steiger's Z (1980); see `williams`."""
    return dependent_test(r_a, r_b, r_ab, n, test="steiger1980")


def dependent_test(r_a: float, r_b: float, r_ab: float, n: int, *, test: str) -> DifferenceTest:
    """Test two dependent overlapping correlations by any of the published formulae.

    Parameters
    ----------
    r_a, r_b, r_ab, n
        See `williams`.
    test : str
        One of `DEPENDENT_TESTS`. Williams is the one with the right size in small samples
        (Steiger 1980, Hittner, May and Silver 2003); Hotelling is known to reject too often.

    Returns
    -------
    DifferenceTest
        See `williams`.
    """
    require_choice("test", test, DEPENDENT_TESTS)
    _require_correlations(r_a=r_a, r_b=r_b, r_ab=r_ab)
    formula, is_t = _FORMULAE[test]
    reason = _dependent_reason(r_a, r_b, r_ab, n)
    if reason is None and not is_t and (_is_perfect(r_a) or _is_perfect(r_b)):
        reason = f"a perfect correlation: r_a = {r_a:g}, r_b = {r_b:g}"
    degrees = float(n - 3) if is_t else math.inf
    statistic = math.nan
    if reason is None:
        try:
            statistic = formula(r_a, r_b, r_ab, n) if r_a != r_b else 0.0
        except ZeroDivisionError:
            reason = f"a perfect fit: r_a = {r_a:g}, r_b = {r_b:g}, r_ab = {r_ab:g}"
    return _tested(test, r_a - r_b, statistic, degrees, n, reason)


def independent_test(r1: float, r2: float, n1: int, n2: int) -> DifferenceTest:
    """Test two correlations from different units by Fisher's z.

    Parameters
    ----------
    r1, r2 : float
        The correlations.
    n1, n2 : int
        Units of each; at least 4.

    Returns
    -------
    DifferenceTest
        `n` is the sum of the two.
    """
    _require_correlations(r1=r1, r2=r2)
    reason = None
    if min(n1, n2) < FEWEST:
        reason = f"needs at least {FEWEST} units on each side, got {n1} and {n2}"
    elif _is_perfect(r1) or _is_perfect(r2):
        reason = f"a perfect correlation: r1 = {r1:g}, r2 = {r2:g}"
    statistic = math.nan
    if reason is None:
        error = math.sqrt(1.0 / (n1 - 3) + 1.0 / (n2 - 3))
        statistic = (math.atanh(r1) - math.atanh(r2)) / error
    return _tested("fisher-independent", r1 - r2, statistic, math.inf, n1 + n2, reason)


def zou_interval(
    r_a: float, r_b: float, r_ab: float, n: int, *, confidence: float = 0.95
) -> Interval:
    """Bound the difference of two dependent overlapping correlations (Zou 2007).

    Parameters
    ----------
    r_a, r_b, r_ab, n
        See `williams`.
    confidence : float
        Nominal share of intervals that hold the true difference.

    Returns
    -------
    Interval
        Of r_a - r_b. Made of two Fisher intervals, with what is said there about width.
    """
    _require_correlations(r_a=r_a, r_b=r_b, r_ab=r_ab)
    reason = _dependent_reason(r_a, r_b, r_ab, n)
    overlap = 0.0
    if reason is None and not (_is_perfect(r_a) or _is_perfect(r_b)):
        overlap = _covariance_of_estimates(r_a, r_b, r_ab)
    return _zou(r_a, r_b, n, n, overlap, confidence, reason)


def zou_independent_interval(
    r1: float, r2: float, n1: int, n2: int, *, confidence: float = 0.95
) -> Interval:
    """Bound the difference of two correlations from different units (Zou 2007)."""
    _require_correlations(r1=r1, r2=r2)
    return _zou(r1, r2, n1, n2, 0.0, confidence, None)


def compare_correlations(
    scores_a: np.ndarray,
    scores_b: np.ndarray,
    ratings: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
    test: str = "williams1959",
) -> DifferenceTest:
    """Test whether metric A agrees better with ratings than metric B, by formula.

    Parameters
    ----------
    scores_a, scores_b, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing; only cells that all three have are used.
    level : str
        "system" (n is the number of systems) or "global" (n is the number of cells, which are
        not independent: the test is then too sure of itself). A mean over documents is not a
        correlation and comes back undefined; use `permutation_test`.
    coefficient : str
        See `correlate`; the formulae are derived for Pearson. Undefined for "kendall_c", of which
        three need not be possible together.
    test : str
        One of `DEPENDENT_TESTS`.

    Returns
    -------
    DifferenceTest
        Undefined, with a reason, where one of the three correlations is.
    """
    require_choice("test", test, DEPENDENT_TESTS)
    a, b, y = shared_cells(*as_matrices(scores_a=scores_a, scores_b=scores_b, ratings=ratings))
    pairs = {"r_a": (a, y), "r_b": (b, y), "r_ab": (a, b)}
    results = {
        name: correlate(*pair, level=level, coefficient=coefficient) for name, pair in pairs.items()
    }
    units = system_means(y) if level == "system" else y
    n = int((~np.isnan(units)).sum())
    r_a, r_b, r_ab = (result.value for result in results.values())
    degrees = float(n - 3) if _FORMULAE[test][1] else math.inf
    if level == "summary":
        reason = "a mean over documents is not one correlation; use a permutation test"
        return _tested(test, r_a - r_b, math.nan, degrees, n, reason)
    for name, result in results.items():
        if result.reason:
            reason = f"{name} is undefined: {result.reason}"
            return _tested(test, r_a - r_b, math.nan, degrees, n, reason)
    if coefficient == "kendall_c":
        return _tested(test, r_a - r_b, math.nan, degrees, n, NOT_JOINTLY_POSSIBLE)
    return dependent_test(r_a, r_b, r_ab, n, test=test)


def _determinant(r_a: float, r_b: float, r_ab: float) -> float:
    """Return the determinant of the three correlations' matrix: what they leave unexplained."""
    determinant = 1.0 - r_a**2 - r_b**2 - r_ab**2 + 2.0 * r_a * r_b * r_ab
    return 0.0 if abs(determinant) < DETERMINANT_ATOL else determinant


def _williams1959(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    determinant = _determinant(r_a, r_b, r_ab)
    mean = 0.5 * (r_a + r_b)
    below = 2.0 * (n - 1) / (n - 3) * determinant + mean**2 * (1.0 - r_ab) ** 3
    return (r_a - r_b) * math.sqrt((n - 1) * (1.0 + r_ab) / below)


def _hotelling1940(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    determinant = _determinant(r_a, r_b, r_ab)
    return (r_a - r_b) * math.sqrt((n - 3) * (1.0 + r_ab) / (2.0 * determinant))


def _hendrickson1970(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    determinant = _determinant(r_a, r_b, r_ab)
    below = 2.0 * determinant + (r_a - r_b) ** 2 * (1.0 - r_ab) ** 3 / (4.0 * (n - 1))
    return (r_a - r_b) * math.sqrt((n - 3) * (1.0 + r_ab) / below)


def _dunn1969(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    covariance = r_ab * (1.0 - r_a**2 - r_b**2)
    covariance -= 0.5 * r_a * r_b * (1.0 - r_a**2 - r_b**2 - r_ab**2)
    return _fisher_statistic(r_a, r_b, covariance / ((1.0 - r_a**2) * (1.0 - r_b**2)), n)


def _steiger1980(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    return _fisher_statistic(r_a, r_b, _pooled(0.5 * (r_a + r_b), r_ab), n)


def _hittner2003(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    mean = math.tanh(0.5 * (math.atanh(r_a) + math.atanh(r_b)))
    return _fisher_statistic(r_a, r_b, _pooled(mean, r_ab), n)


def _meng1992(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    mean_square = 0.5 * (r_a**2 + r_b**2)
    f = min((1.0 - r_ab) / (2.0 * (1.0 - mean_square)), 1.0)
    h = (1.0 - f * mean_square) / (1.0 - mean_square)
    error = math.sqrt(2.0 * (1.0 - r_ab) * h / (n - 3))
    return (math.atanh(r_a) - math.atanh(r_b)) / error


def _pooled(mean: float, r_ab: float) -> float:
    """Covariance of the two Fisher z, with one pooled correlation for both (Steiger 1980)."""
    square = mean**2
    psi = r_ab * (1.0 - 2.0 * square) - 0.5 * square * (1.0 - 2.0 * square - r_ab**2)
    return psi / (1.0 - square) ** 2


def _fisher_statistic(r_a: float, r_b: float, covariance: float, n: int) -> float:
    error = math.sqrt((2.0 - 2.0 * covariance) / (n - 3))
    return (math.atanh(r_a) - math.atanh(r_b)) / error


_FORMULAE: dict[str, tuple[Callable[[float, float, float, int], float], bool]] = {
    "williams1959": (_williams1959, True),
    "steiger1980": (_steiger1980, False),
    "dunn1969": (_dunn1969, False),
    "hittner2003": (_hittner2003, False),
    "meng1992": (_meng1992, False),
    "hotelling1940": (_hotelling1940, True),
    "hendrickson1970": (_hendrickson1970, True),
}
"""The statistic, and whether it follows Student's t with n - 3 degrees of freedom."""

DEPENDENT_TESTS = tuple(_FORMULAE)
"""Names of the tests for two dependent overlapping correlations."""


def _covariance_of_estimates(r_a: float, r_b: float, r_ab: float) -> float:
    """Asymptotic correlation of the two estimates (Zou 2007, after Olkin and Siotani)."""
    numerator = (r_ab - 0.5 * r_a * r_b) * (1.0 - r_a**2 - r_b**2 - r_ab**2) + r_ab**3
    return numerator / ((1.0 - r_a**2) * (1.0 - r_b**2))


def _zou(
    r1: float,
    r2: float,
    n1: int,
    n2: int,
    overlap: float,
    confidence: float,
    reason: str | None,
) -> Interval:
    require_fraction("confidence", confidence)
    first = fisher_interval(r1, n1, confidence=confidence)
    second = fisher_interval(r2, n2, confidence=confidence)
    reason = reason or first.reason or second.reason

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(one**2 + other**2 - 2.0 * overlap * one * other, 0.0))

    low, high = math.nan, math.nan
    if reason is None:
        low = r1 - r2 - reach(r1 - first.low, second.high - r2)
        high = r1 - r2 + reach(first.high - r1, r2 - second.low)
    return Interval(
        value=r1 - r2, low=low, high=high, confidence=confidence, method="zou", reason=reason
    )


def _dependent_reason(r_a: float, r_b: float, r_ab: float, n: int) -> str | None:
    if n < FEWEST:
        return f"needs at least {FEWEST} units, got {n}"
    if _determinant(r_a, r_b, r_ab) < 0.0:
        raise ValueError(
            f"`r_ab` must be possible next to the others, got r_a = {r_a:g}, r_b = {r_b:g}, "
            f"r_ab = {r_ab:g}; compute all three from the same units"
        )
    if _is_perfect(r_ab):
        return "the two metrics correlate perfectly with each other"
    return None


def _is_perfect(r: float) -> bool:
    return abs(r) > 1.0 - PERFECT_ATOL


def _require_correlations(**named: float) -> None:
    for name, value in named.items():
        if not -1.0 <= value <= 1.0:
            raise ValueError(f"`{name}` must lie in [-1, 1], got {value:g}")


def _tested(
    test: str, difference: float, statistic: float, degrees: float, n: int, reason: str | None
) -> DifferenceTest:
    if not math.isnan(statistic) and math.isinf(degrees):
        p_greater = float(stats.norm.sf(statistic))
        p_value = 2.0 * float(stats.norm.sf(abs(statistic)))
    elif not math.isnan(statistic):
        p_greater = float(stats.t.sf(statistic, degrees))
        p_value = 2.0 * float(stats.t.sf(abs(statistic), degrees))
    else:
        p_greater = p_value = math.nan
    return DifferenceTest(
        test=test,
        difference=difference,
        statistic=statistic,
        degrees_of_freedom=degrees,
        p_value=p_value,
        p_greater=p_greater,
        n=n,
        reason=reason,
    )
