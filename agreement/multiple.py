"""Many comparisons at once: corrections, claims over several data sets, groups of metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.matrices import require_choice, require_fraction

COMBINATIONS = ("bonferroni", "fisher")
"""How p-values of several data sets are combined: for any dependence, or for independent ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialConjunction:
    """On how many data sets an effect holds, and on which."""

    count: int
    """At least so many data sets show the effect, at confidence 1 - alpha."""
    p_values: tuple[float, ...]
    """For "at least u data sets", u = 1, 2, ...; never falling."""
    rejected: tuple[int, ...]
    """Data sets on which the effect is significant after Holm, most significant first."""
    n_undefined: int
    """p-values that were NaN and left out."""


def bonferroni(p_values: np.ndarray) -> np.ndarray:
    """Multiply p-values by their number, at most 1.

    Parameters
    ----------
    p_values : ndarray, any shape
        NaN stays NaN and is not counted: a test that could not be made is no comparison.

    Returns
    -------
    ndarray, same shape
        To be compared with the level itself.

    Examples
    --------
    >>> bonferroni(np.array([0.01, 0.04, 0.3])).round(3).tolist()
    [0.03, 0.12, 0.9]
    """
    p = _p_values(p_values)
    return np.minimum(p * (~np.isnan(p)).sum(), 1.0)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Correct p-values by Holm's step-down (1979): never weaker than Bonferroni.

    Parameters
    ----------
    p_values : ndarray, any shape
        NaN stays NaN and is not counted.

    Returns
    -------
    ndarray, same shape
        To be compared with the level itself.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.3])).round(3).tolist()
    [0.03, 0.08, 0.3]
    """
    p = _p_values(p_values)
    is_defined = ~np.isnan(p)
    defined = p[is_defined]
    order = np.argsort(defined, kind="stable")
    factors = np.arange(defined.size, 0, -1)
    adjusted = np.empty_like(defined)
    adjusted[order] = np.maximum.accumulate(np.minimum(defined[order] * factors, 1.0))
    result = np.full(p.shape, np.nan)
    result[is_defined] = adjusted
    return result


def partial_conjunction(
    p_values: np.ndarray, *, alpha: float = 0.05, combination: str = "bonferroni"
) -> PartialConjunction:
    """Count on how many data sets one method beats another (Dror et al. 2017).

    "Replicability Analysis for Natural Language Processing": the p-value for at least u of N
    effects is (N - u + 1) times the u-th smallest (Bonferroni), or Fisher's combination of all
    but the u - 1 smallest.

    Parameters
    ----------
    p_values : ndarray, shape (n_datasets,)
        One per data set; NaN is left out and counted.
    alpha : float
        Level.
    combination : str
        "bonferroni", or "fisher" where the data sets are independent.

    Returns
    -------
    PartialConjunction
        The count and, by Holm, the data sets themselves.
    """
    require_fraction("alpha", alpha)
    require_choice("combination", combination, COMBINATIONS)
    p = _p_values(p_values)
    if p.ndim != 1:
        raise ValueError(f"`p_values` must have 1 dimension, got shape {p.shape}")
    ascending = np.sort(p[~np.isnan(p)])
    remaining = np.arange(ascending.size, 0, -1)
    if combination == "bonferroni":
        combined = remaining * ascending
    else:
        with np.errstate(divide="ignore"):
            sums = -2.0 * np.cumsum(np.log(ascending)[::-1])[::-1]
        combined = stats.chi2.sf(sums, 2 * remaining)
    nested = np.maximum.accumulate(np.minimum(combined, 1.0))
    adjusted = holm(p)
    order = np.argsort(p, kind="stable")
    return PartialConjunction(
        count=int((nested <= alpha).sum()),
        p_values=tuple(nested.tolist()),
        rejected=tuple(int(i) for i in order if adjusted[i] <= alpha),
        n_undefined=int(np.isnan(p).sum()),
    )


def clusters(values: np.ndarray, p_values: np.ndarray, *, alpha: float = 0.05) -> np.ndarray:
    """Group metrics (or systems) that cannot be told apart, greedily from the best down.

    As in the WMT shared tasks: in order of value, a metric opens a new cluster if any member
    of the current one is significantly better. Being in one cluster is not transitive
    evidence of equality; it is a way to print ranks honestly.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Higher is better; NaN is in no cluster.
    p_values : ndarray, shape (n, n)
        `p_values[i, j]` against the hypothesis that i is not better than j; corrected for many
        comparisons by the caller. NaN is not significant.
    alpha : float
        Level.

    Returns
    -------
    ndarray of int, shape (n,)
        1 for the best cluster, 0 for an undefined value.

    Examples
    --------
    >>> p = np.array([[1.0, 0.2, 0.01], [1.0, 1.0, 0.3], [1.0, 1.0, 1.0]])
    >>> clusters(np.array([0.9, 0.8, 0.7]), p).tolist()
    [1, 1, 2]
    """
    require_fraction("alpha", alpha)
    values, p = np.asarray(values, dtype=np.float64), _p_values(p_values)
    if p.shape != (values.size, values.size):
        raise ValueError(f"`p_values` must have shape {(values.size, values.size)}, got {p.shape}")
    ranks = np.zeros(values.size, dtype=np.int64)
    current: list[int] = []
    rank = 0
    for index in np.argsort(-values, kind="stable"):
        if np.isnan(values[index]):
            continue
        if not current or (p[current, index] <= alpha).any():
            current = []
            rank += 1
        current.append(int(index))
        ranks[index] = rank
    return ranks


def _p_values(p_values: np.ndarray) -> np.ndarray:
    p = np.asarray(p_values, dtype=np.float64)
    outside = (p < 0) | (p > 1)
    if outside.any():
        raise ValueError(f"`p_values` must lie in [0, 1], got {p[outside].flat[0]:g}")
    return p
