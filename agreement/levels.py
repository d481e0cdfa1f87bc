"""Agreement of scores with ratings at system, summary and global level, with all counts.

System level correlates per-system means; summary level correlates across systems inside each
document and averages the documents; global level flattens both matrices and correlates once.
No document is left out because its coefficient is small or insignificant: doing that biases
the mean upwards.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from agreement.coefficients import merge_close, rowwise, undefined_reason
from agreement.matrices import as_matrices, require_choice, shared_cells

LEVELS = ("system", "summary", "global")
"""Names of the levels."""

MOST_PERMUTED = 9
"""Units up to which the p-value of Spearman's coefficient is over all their orders, as R has it."""

CERTAIN = 1e-10
"""A partial correlation is undefined when a variable is determined by the third up to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """One coefficient at one level, and what it was computed from."""

    value: float
    """NaN where undefined; then `reason` says why."""
    level: str
    coefficient: str
    n_systems: int
    """Systems with at least one cell that both sides have."""
    n_documents: int
    """Documents with at least one cell that both sides have."""
    n_missing: int
    """Cells of the matrix that a side lacks; they were left out on both."""
    n_skipped: int
    """Documents on which the coefficient is undefined (summary level only, else 0)."""
    reason: str | None = None


def correlate(
    scores: np.ndarray, ratings: np.ndarray, *, level: str, coefficient: str = "pearson"
) -> Correlation:
    """Correlate a metric's scores with ratings at one level, on the cells both have.

    `level` is one of `LEVELS`, `coefficient` one of `COEFFICIENTS`. Raises `ValueError` if the
    shapes differ, a value is infinite, or a name is not known.

    Examples
    --------
    >>> scores = np.array([[1.0, 2.0], [3.0, 1.0], [5.0, 9.0]])
    >>> ratings = np.array([[1.0, 3.0], [2.0, 3.0], [3.0, 3.0]])
    >>> result = correlate(scores, ratings, level="summary", coefficient="spearman")
    >>> result.value, result.n_documents, result.n_skipped
    (1.0, 2, 1)
    """
    require_choice("level", level, LEVELS)
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    values = rowwise(_rows(x, level), _rows(y, level), coefficient)
    return _described(values, x, y, level, coefficient)


def partial_correlate(
    scores: np.ndarray,
    ratings: np.ndarray,
    given: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
) -> Correlation:
    r"""Correlate scores with ratings, with a third matrix (such as length) held fixed.

    .. math:: r_{xy \cdot z} = (r_{xy} - r_{xz} r_{yz}) / \sqrt{(1 - r_{xz}^2)(1 - r_{yz}^2)}

    at system and global level; inside each document, then averaged, at summary level. For
    Kendall the same formula holds (Kendall 1942). Undefined also where `given` is constant or
    determines one of the others. Only cells that all three have are used.
    """
    require_choice("level", level, LEVELS)
    x, y, z = shared_cells(*as_matrices(scores=scores, ratings=ratings, given=given))
    first, second, third = (_rows(each, level) for each in (x, y, z))
    pairs = (first, second), (first, third), (second, third)
    r_xy, r_xz, r_yz = (rowwise(*pair, coefficient) for pair in pairs)
    unexplained = (1.0 - r_xz**2) * (1.0 - r_yz**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        partial = (r_xy - r_xz * r_yz) / np.sqrt(unexplained)
    partial = np.where(unexplained > CERTAIN, np.clip(partial, -1.0, 1.0), np.nan)
    result = _described(partial, x, y, level, coefficient)
    if np.isnan(result.value) and result.reason is None:
        return replace(result, reason="`given` is constant or determines scores or ratings")
    return result


def correlation_test(
    scores: np.ndarray, ratings: np.ndarray, *, level: str, coefficient: str = "pearson"
) -> float:
    """Test two-sided whether a correlation at system or global level differs from zero.

    The usual test of each coefficient: Student's t with n-2 degrees of freedom for Pearson, the
    exact or normal distribution for Kendall. For Spearman the exact distribution up to
    `MOST_PERMUTED` units, because t is infinite for any perfect order; t for more. It treats the
    units (systems, or cells) as independent, which cells are not: at global level it is too sure of
    itself. NaN for fewer than three units, where the correlation is undefined, and at summary
    level: a mean over documents has no such test.
    """
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    if level == "summary" or _reason(x, y, level):
        return np.nan
    x, y = _rows(x, level)[0], _rows(y, level)[0]
    present = ~np.isnan(x)
    if present.sum() < 3:
        return np.nan
    pair = x[present], y[present]
    if coefficient == "pearson":
        return float(stats.pearsonr(*pair).pvalue)
    if coefficient == "spearman":
        is_exact = present.sum() <= MOST_PERMUTED
        return _exact_spearman(*pair) if is_exact else float(stats.spearmanr(*pair).pvalue)
    return float(stats.kendalltau(*pair).pvalue)


def _exact_spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Share of all orders of `y` in which the ranks correlate as much, in either direction."""
    x, y = (stats.rankdata(each) - 0.5 * (len(each) + 1) for each in (x, y))
    products = y[_orders(y.size)] @ x  # of whole and half numbers, so exact
    return float((np.abs(products) >= abs(x @ y)).mean())


@functools.cache
def _orders(n: int) -> np.ndarray:
    return np.array([*itertools.permutations(range(n))], dtype=np.int8)


def level_values(x: np.ndarray, y: np.ndarray, level: str, coefficient: str) -> np.ndarray:
    """Correlate stacks of matrices with NaN in the same cells; leading axes broadcast."""
    return mean_of_defined(rowwise(_rows(x, level), _rows(y, level), coefficient))


def system_means(scores: np.ndarray) -> np.ndarray:
    """Average each system over the documents it has; NaN for a system without any score."""
    counts = (~np.isnan(scores)).sum(-1)
    sums = np.nansum(scores, axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def merged_means(scores: np.ndarray) -> np.ndarray:
    """Average like `system_means`; means that differ in how they were summed only are equal."""
    return merge_close(system_means(scores), system_means(np.abs(scores)))


def _rows(x: np.ndarray, level: str) -> np.ndarray:
    """Return what is correlated, shape (..., n_correlations, n): means, documents or all cells."""
    if level == "system":
        return merged_means(x)[..., None, :]
    if level == "summary":
        return np.swapaxes(x, -1, -2)
    return x.reshape(*x.shape[:-2], 1, -1)


def mean_of_defined(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Mean over an axis of the values that are defined; NaN if none is."""
    is_defined = ~np.isnan(values)
    sums, n_defined = np.where(is_defined, values, 0.0).sum(axis), is_defined.sum(axis)
    return np.where(n_defined > 0, sums / np.maximum(n_defined, 1), np.nan)


def _reason(x: np.ndarray, y: np.ndarray, level: str) -> str | None:
    """Say why a plain correlation at this level would be undefined."""
    if np.isnan(x).all():
        return "no cell has both a score and a rating"
    if level == "system":
        reason = undefined_reason(merged_means(x), merged_means(y))
        n_systems = int((~np.isnan(x)).any(-1).sum())
        return f"fewer than 2 systems, got {n_systems}" if n_systems < 2 else reason
    if level == "global":
        return undefined_reason(x.ravel(), y.ravel())
    with_cells = (~np.isnan(x)).any(0)
    reasons = [
        undefined_reason(a, b) for a, b in zip(x.T[with_cells], y.T[with_cells], strict=True)
    ]
    if None in reasons:
        return None
    first = max(set(reasons), key=lambda each: (reasons.count(each), str(each)))
    return f"undefined in every document, mostly because {first}"


def _described(
    values: np.ndarray, x: np.ndarray, y: np.ndarray, level: str, coefficient: str
) -> Correlation:
    value, present = float(mean_of_defined(values)), ~np.isnan(x)
    skipped = (np.isnan(values) & present.any(0)).sum() if level == "summary" else 0
    return Correlation(
        value=value,
        level=level,
        coefficient=coefficient,
        n_systems=int(present.any(1).sum()),
        n_documents=int(present.any(0).sum()),
        n_missing=int((~present).sum()),
        n_skipped=int(skipped),
        reason=_reason(x, y, level) if np.isnan(value) else None,
    )
