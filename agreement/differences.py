"""Tests by formula for the difference of two metrics' correlations, and corrections for many.

Both correlations come from the same n units (systems, at system level). All statistics are
signed, positive where the first correlation is the larger one. The formulae assume independent
units and bivariate normal values; the permutation test in `swapping` assumes neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.intervals import PERFECT_ATOL
from agreement.levels import correlate, system_means
from agreement.matrices import as_matrices, require_choice, shared_cells

FEWEST = 4
"""Units that the tests need: n - 3 is in every one of them."""

DETERMINANT_ATOL = 1e-12
"""A determinant of three correlations this close to 0 is 0, but for the last bits; further below
0, no data can have them."""


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


def dependent_test(
    r_a: float, r_b: float, r_ab: float, n: int, *, test: str = "williams1959"
) -> DifferenceTest:
    r"""Test two dependent overlapping correlations by a published formula.

    Williams' t has n - 3 degrees of freedom

    .. math:: t = (r_a - r_b) \sqrt{\frac{(n-1)(1+r_{ab})}
              {2 \frac{n-1}{n-3} |R| + \bar r^2 (1-r_{ab})^3}}

    (Williams 1959, "The Comparison of Regression Variables"; Steiger 1980). A widely copied
    printout has n - 2; that is a mistake corrected in 2014. It is the one with the right size in
    small samples (Hittner, May and Silver 2003).

    `r_a` and `r_b` are the correlations of two metrics with the ratings, `r_ab` is theirs with each
    other, over `n` units; `test` is one of `DEPENDENT_TESTS`. Undefined, with a reason, for too few
    units or a perfect fit. Raises `ValueError` if a correlation is outside [-1, 1] or no data can
    have these three.

    Examples
    --------
    >>> round(dependent_test(0.3, 0.4, 0.5, 100).statistic, 4)
    -1.0767
    """
    require_choice("test", test, DEPENDENT_TESTS)
    for name, value in {"r_a": r_a, "r_b": r_b, "r_ab": r_ab}.items():
        if not -1.0 <= value <= 1.0:
            raise ValueError(f"`{name}` must lie in [-1, 1], got {value:g}")
    formula, is_t = _FORMULAE[test]
    reason = _dependent_reason(r_a, r_b, r_ab, n)
    if reason is None and not is_t and (_is_perfect(r_a) or _is_perfect(r_b)):
        reason = f"a perfect correlation: r_a = {r_a:g}, r_b = {r_b:g}"
    statistic = math.nan
    if reason is None:
        try:
            statistic = formula(r_a, r_b, r_ab, n) if r_a != r_b else 0.0
        except ZeroDivisionError:
            reason = f"a perfect fit: r_a = {r_a:g}, r_b = {r_b:g}, r_ab = {r_ab:g}"
    return _tested(test, r_a - r_b, statistic, n, reason)


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
    three correlations is; at summary level (a mean over documents is not one correlation); and for
    "kendall_c", which is scaled by the coarser variable, so that three of them need not be possible
    together. At global level the units are cells, which are not independent: the test is then too
    sure of itself.
    """
    a, b, y = shared_cells(*as_matrices(scores_a=scores_a, scores_b=scores_b, ratings=ratings))
    pairs = {"r_a": (a, y), "r_b": (b, y), "r_ab": (a, b)}
    results = {
        name: correlate(*pair, level=level, coefficient=coefficient) for name, pair in pairs.items()
    }
    units = system_means(y) if level == "system" else y
    n = int((~np.isnan(units)).sum())
    r_a, r_b, r_ab = (result.value for result in results.values())
    reason = next(
        (f"{name} is undefined: {each.reason}" for name, each in results.items() if each.reason),
        None,
    )
    if level == "summary":
        reason = "a mean over documents is not one correlation; use a permutation test"
    elif reason is None and coefficient == "kendall_c":
        reason = "the formulae do not hold for kendall_c; use kendall_b or a permutation test"
    if reason is not None:
        return _tested(test, r_a - r_b, math.nan, n, reason)
    return dependent_test(r_a, r_b, r_ab, n, test=test)


def bonferroni(p_values: np.ndarray) -> np.ndarray:
    """Multiply p-values by their number, at most 1; NaN stays NaN and is not counted.

    Examples
    --------
    >>> bonferroni(np.array([0.01, 0.04, 0.3])).round(3).tolist()
    [0.03, 0.12, 0.9]
    """
    return np.minimum(p_values * (~np.isnan(p_values)).sum(), 1.0)


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


def _determinant(r_a: float, r_b: float, r_ab: float) -> float:
    """Return what the three correlations leave unexplained."""
    determinant = 1.0 - r_a**2 - r_b**2 - r_ab**2 + 2.0 * r_a * r_b * r_ab
    return 0.0 if abs(determinant) < DETERMINANT_ATOL else determinant


def _williams1959(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    determinant = _determinant(r_a, r_b, r_ab)
    mean = 0.5 * (r_a + r_b)
    below = 2.0 * (n - 1) / (n - 3) * determinant + mean**2 * (1.0 - r_ab) ** 3
    return (r_a - r_b) * math.sqrt((n - 1) * (1.0 + r_ab) / below)


def _dunn1969(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    covariance = r_ab * (1.0 - r_a**2 - r_b**2)
    covariance -= 0.5 * r_a * r_b * (1.0 - r_a**2 - r_b**2 - r_ab**2)
    return _fisher_statistic(r_a, r_b, covariance / ((1.0 - r_a**2) * (1.0 - r_b**2)), n)


def _steiger1980(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    square = (0.5 * (r_a + r_b)) ** 2  # one pooled correlation for both
    psi = r_ab * (1.0 - 2.0 * square) - 0.5 * square * (1.0 - 2.0 * square - r_ab**2)
    return _fisher_statistic(r_a, r_b, psi / (1.0 - square) ** 2, n)


def _fisher_statistic(r_a: float, r_b: float, covariance: float, n: int) -> float:
    error = math.sqrt((2.0 - 2.0 * covariance) / (n - 3))
    return (math.atanh(r_a) - math.atanh(r_b)) / error


_FORMULAE: dict[str, tuple[Callable[[float, float, float, int], float], bool]] = {
    "williams1959": (_williams1959, True),
    "steiger1980": (_steiger1980, False),
    "dunn1969": (_dunn1969, False),
}
"""The statistic, and whether it follows Student's t with n - 3 degrees of freedom."""

DEPENDENT_TESTS = tuple(_FORMULAE)


def _dependent_reason(r_a: float, r_b: float, r_ab: float, n: int) -> str | None:
    if n < FEWEST:
        return f"needs at least {FEWEST} units, got {n}"
    if _determinant(r_a, r_b, r_ab) < 0.0:
        raise ValueError(
            f"`r_ab` must be possible next to the others, got r_a = {r_a:g}, r_b = {r_b:g}, "
            f"r_ab = {r_ab:g}; compute all three from the same units"
        )
    return "the two metrics correlate perfectly with each other" if _is_perfect(r_ab) else None


def _is_perfect(r: float) -> bool:
    return abs(r) > 1.0 - PERFECT_ATOL


def _tested(
    test: str, difference: float, statistic: float, n: int, reason: str | None
) -> DifferenceTest:
    is_t = _FORMULAE[test][1]
    null = stats.t(n - 3) if is_t and n > 3 else stats.norm
    is_defined = not math.isnan(statistic)
    return DifferenceTest(
        difference=difference,
        statistic=statistic,
        degrees_of_freedom=float(n - 3) if is_t else math.inf,
        p_value=2.0 * float(null.sf(abs(statistic))) if is_defined else math.nan,
        p_greater=float(null.sf(statistic)) if is_defined else math.nan,
        n=n,
        reason=reason,
    )
