"""Many comparisons at once: corrected p-values, and groups of metrics that cannot be told apart."""

from __future__ import annotations

import numpy as np


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
    p = np.asarray(p_values, dtype=np.float64)
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
    p = np.asarray(p_values, dtype=np.float64)
    is_defined = ~np.isnan(p)
    defined = p[is_defined]
    order = np.argsort(defined, kind="stable")
    factors = np.arange(defined.size, 0, -1)
    adjusted = np.empty_like(defined)
    adjusted[order] = np.maximum.accumulate(np.minimum(defined[order] * factors, 1.0))
    result = np.full(p.shape, np.nan)
    result[is_defined] = adjusted
    return result


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
    values, p = np.asarray(values, dtype=np.float64), np.asarray(p_values, dtype=np.float64)
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
