"""Tests by formula for the difference of two metrics' correlations, and Holm's correction.

Both correlations come from the same n units (systems, at system level). The statistic is signed,
positive where the first correlation is the larger one. The formulae assume independent units and
bivariate normal values; the permutation test in `swapping` assumes neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.levels import correlate, system_means
from agreement.matrices import as_matrices, require_choice, shared_cells

FEWEST = 4
"""Units that the tests need: they divide by n - 3."""

DETERMINANT_ATOL = 1e-12
"""A determinant of three correlations this close to 0 is 0, but for the last bits."""

PERFECT_ATOL = 1e-12
"""A correlation this close to 1 or -1 is taken for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceTest:
    """Whether two correlations differ."""

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

    Only cells that all three matrices have are used. Undefined, with a reason, where one of the
    three correlations is, and at summary level (a mean over documents is not one correlation). At
    global level the units are cells, which are not independent: the test is then too
    sure of itself.
    """
    a, b, y = shared_cells(*as_matrices(scores_a=scores_a, scores_b=scores_b, ratings=ratings))
    pairs = {"r_a": (a, y), "r_b": (b, y), "r_ab": (a, b)}
    results = {
        name: correlate(*each, level=level, coefficient=coefficient) for name, each in pairs.items()
    }
    reasons = [
        f"{name} is undefined: {each.reason}" for name, each in results.items() if each.reason
    ]
    reason = reasons[0] if reasons else None
    if level == "summary":
        reason = "a mean over documents is not one correlation; use a permutation test"
    units = system_means(y) if level == "system" else y
    r_a, r_b, r_ab = (each.value for each in results.values())
    return dependent_test(r_a, r_b, r_ab, int((~np.isnan(units)).sum()), reason, test=test)


def dependent_test(
    r_a: float,
    r_b: float,
    r_ab: float,
    n: int,
    reason: str | None = None,
    *,
    test: str = "williams1959",
) -> DifferenceTest:
    r"""Test the correlations of two metrics with the ratings, given theirs with each other.

    .. math:: t = (r_a - r_b) \sqrt{\frac{(n-1)(1+r_{ab})}
              {2 \frac{n-1}{n-3} |R| + \bar r^2 (1-r_{ab})^3}}

    follows Student's t with n - 3 degrees of freedom (Williams 1959, "The Comparison of Regression
    Variables"; Steiger 1980). A widely copied printout has n - 2; that is a mistake corrected in
    2014. It is the formula with the right size in small samples (Hittner, May and Silver 2003).
    "steiger1980" is a normal statistic of Fisher's z, its covariance from a pooled correlation.
    Undefined, with a reason, for too few units or a perfect fit, or where a `reason` is given.
    """
    require_choice("test", test, ("williams1959", "steiger1980"))
    is_t, statistic = test == "williams1959", math.nan
    if reason is None and n < FEWEST:
        reason = f"needs at least {FEWEST} units, got {n}"
    elif reason is None and abs(r_ab) > 1.0 - PERFECT_ATOL:
        reason = "the two metrics correlate perfectly with each other"
    elif reason is None and not is_t and max(abs(r_a), abs(r_b)) > 1.0 - PERFECT_ATOL:
        reason = f"a perfect correlation: r_a = {r_a:g}, r_b = {r_b:g}"
    elif reason is None:
        try:
            formula = _williams if is_t else _steiger
            statistic = formula(r_a, r_b, r_ab, n) if r_a != r_b else 0.0
        except ZeroDivisionError:
            reason = f"a perfect fit: r_a = {r_a:g}, r_b = {r_b:g}, r_ab = {r_ab:g}"
    null = (stats.t(n - 3) if is_t else stats.norm) if reason is None else None
    return DifferenceTest(
        difference=r_a - r_b,
        statistic=statistic,
        degrees_of_freedom=float(n - 3) if is_t else math.inf,
        p_value=2.0 * float(null.sf(abs(statistic))) if null else math.nan,
        p_greater=float(null.sf(statistic)) if null else math.nan,
        n=n,
        reason=reason,
    )


def _williams(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    determinant = 1.0 - r_a**2 - r_b**2 - r_ab**2 + 2.0 * r_a * r_b * r_ab
    if abs(determinant) < DETERMINANT_ATOL:
        determinant = 0.0
    below = 2.0 * (n - 1) / (n - 3) * determinant + (0.5 * (r_a + r_b)) ** 2 * (1.0 - r_ab) ** 3
    return (r_a - r_b) * math.sqrt((n - 1) * (1.0 + r_ab) / below)


def _steiger(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    square = (0.5 * (r_a + r_b)) ** 2  # one pooled correlation for both
    psi = r_ab * (1.0 - 2.0 * square) - 0.5 * square * (1.0 - 2.0 * square - r_ab**2)
    error = math.sqrt((2.0 - 2.0 * psi / (1.0 - square) ** 2) / (n - 3))
    return (math.atanh(r_a) - math.atanh(r_b)) / error


def holm(p_values: np.ndarray) -> np.ndarray:
    """Correct p-values by Holm's step-down (1979); NaN stays NaN and is not counted.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.3])).round(3).tolist()
    [0.03, 0.08, 0.3]
    """
    result = np.full(p_values.shape, np.nan)
    is_defined = ~np.isnan(p_values)
    defined = p_values[is_defined]
    order = np.argsort(defined, kind="stable")
    factors = np.arange(defined.size, 0, -1)
    adjusted = np.empty_like(defined)
    adjusted[order] = np.maximum.accumulate(np.minimum(defined[order] * factors, 1.0))
    result[is_defined] = adjusted
    return result
