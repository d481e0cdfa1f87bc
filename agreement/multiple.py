"""Many comparisons at once: corrected p-values."""

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
