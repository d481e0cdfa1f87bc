"""Confidence intervals for a correlation, and for the difference of two metrics' correlations.

The percentile bootstrap over systems and documents is the one to report (Deutsch, Dror and
Roth 2021, "A Statistical Analysis of Summarization Evaluation Metrics using Resampling
Methods"). Fisher's interval is here because older papers print it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.coefficients import COEFFICIENTS
from agreement.levels import Correlation, correlate
from agreement.matrices import (
    as_matrices,
    as_stacks,
    require_choice,
    require_fraction,
    shared_cells,
)
from agreement.resampling import Resamples, draw_resamples, resampled_correlations

PERFECT_ATOL = 1e-12
"""A coefficient this close to 1 or -1 is taken for it: Fisher's z is infinite there."""

MOST_UNDEFINED = 0.5
"""Share of undefined resamples above which percentiles of the rest would mislead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with a confidence interval, and how it was made."""

    value: float
    low: float
    """NaN where undefined, as is `high`; then `reason` says why."""
    high: float
    confidence: float
    method: str
    """"bootstrap-both", "bootstrap-systems", "bootstrap-documents", "fisher" or "zou"."""
    n_resamples: int = 0
    """0 for a formula."""
    n_undefined: int = 0
    """Resamples that left the value undefined (such as the same system drawn every time); the
    percentiles are over the others."""
    reason: str | None = None


def bootstrap_interval(
    scores: np.ndarray,
    ratings: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
    over: str = "both",
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Interval:
    """Bound one metric's correlation with ratings by the percentiles of its bootstrap.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    level, coefficient : str
        See `correlate`.
    over : str
        What is drawn with replacement: "both", "systems" or "documents". The last two speak
        of the same documents, or the same systems, only; the first as well where there is one
        of them only, and `Interval.method` says so.
    n_resamples : int
        The ends of a 95 % interval are steady to two digits from about 1,000.
    confidence : float
        Share of intervals made this way that should hold the true value.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Interval
        Without ends, and with a reason, where the correlation itself is undefined, or there is
        one only of what is drawn: all resamples are the same then.
    """
    x, y = as_matrices(scores=scores, ratings=ratings)
    resamples = draw_resamples(*x.shape, n_resamples=n_resamples, rng=rng, over=over)
    rows = bootstrap_intervals(
        x[None], y[None], resamples, level=level, coefficient=coefficient, confidence=confidence
    )
    return rows[0][0]


def bootstrap_intervals(
    scores: np.ndarray,
    ratings: np.ndarray,
    resamples: Resamples,
    *,
    level: str,
    coefficient: str = "pearson",
    confidence: float = 0.95,
) -> list[list[Interval]]:
    """Bound every metric's correlation with every aspect, on shared resamples.

    Parameters
    ----------
    scores : ndarray, shape (n_metrics, n_systems, n_documents)
        NaN where missing.
    ratings : ndarray, shape (n_aspects, n_systems, n_documents)
        NaN where missing.
    resamples : Resamples
        From `draw_resamples`; use the same for every level and coefficient.
    level, coefficient, confidence
        See `bootstrap_interval`.

    Returns
    -------
    list of list of Interval
        A row per metric, an entry per aspect.
    """
    require_fraction("confidence", confidence)
    metrics, aspects = as_stacks(scores, ratings)
    draws = resampled_correlations(
        metrics, aspects, resamples, level=level, coefficient=coefficient
    )
    rows = []
    for metric, matrix in enumerate(metrics):
        row = []
        for aspect, rating in enumerate(aspects):
            point = correlate(matrix, rating, level=level, coefficient=coefficient)
            row.append(
                percentile_interval(
                    draws[:, metric, aspect],
                    point.value,
                    confidence,
                    bootstrap_name(point, resamples.over),
                    point.reason or _one_alone(point, resamples.over),
                )
            )
        rows.append(row)
    return rows


def bootstrap_difference(
    scores_a: np.ndarray,
    scores_b: np.ndarray,
    ratings: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
    over: str = "both",
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Interval:
    """Bound the correlation of metric A minus that of metric B, on the cells all three have.

    Both are computed in the same resamples, so what they share cancels.

    Parameters
    ----------
    scores_a, scores_b, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    level, coefficient, over, n_resamples, confidence, rng
        See `bootstrap_interval`.

    Returns
    -------
    Interval
        Of the difference; above zero, A agrees better with the ratings.
    """
    require_fraction("confidence", confidence)
    a, b, y = shared_cells(*as_matrices(scores_a=scores_a, scores_b=scores_b, ratings=ratings))
    resamples = draw_resamples(*y.shape, n_resamples=n_resamples, rng=rng, over=over)
    draws = resampled_correlations(
        np.stack([a, b]), y[None], resamples, level=level, coefficient=coefficient
    )[..., 0]
    points = [correlate(each, y, level=level, coefficient=coefficient) for each in (a, b)]
    difference = points[0].value - points[1].value
    reason = points[0].reason or points[1].reason or _one_alone(points[0], over)
    name = bootstrap_name(points[0], over)
    return percentile_interval(draws[:, 0] - draws[:, 1], difference, confidence, name, reason)


def bootstrap_name(point: Correlation, over: str = "both") -> str:
    """Name a bootstrap by what its resamples differ in.

    Parameters
    ----------
    point : Correlation
        The estimate, with its numbers of systems and documents.
    over : str
        What was drawn. Of a single document, or system, all resamples hold that one, and
        an interval over both speaks of the other alone.

    Returns
    -------
    str
        "bootstrap-both", "bootstrap-systems" or "bootstrap-documents".
    """
    if over == "both" and 1 in (point.n_systems, point.n_documents):
        over = "systems" if point.n_documents == 1 else "documents"
    return f"bootstrap-{over}"


def percentile_interval(
    draws: np.ndarray, value: float, confidence: float, method: str, reason: str | None = None
) -> Interval:
    """Read an interval off resampled values.

    Parameters
    ----------
    draws : ndarray, shape (n_resamples,)
        NaN where a resample left the value undefined.
    value : float
        The estimate itself.
    confidence : float
        Share of the draws between the ends.
    method : str
        Goes into the result.
    reason : str, optional
        Why the value is undefined, if it is; then so are the ends.

    Returns
    -------
    Interval
        Undefined also if more than `MOST_UNDEFINED` of the draws are.
    """
    is_defined = ~np.isnan(draws)
    n_undefined = int(draws.size - is_defined.sum())
    if reason is None and n_undefined > MOST_UNDEFINED * draws.size:
        reason = f"undefined in {n_undefined} of {draws.size} resamples"
    low, high = np.nan, np.nan
    if reason is None:
        tail = 0.5 * (1.0 - confidence)
        low, high = np.quantile(draws[is_defined], [tail, 1.0 - tail])
    return Interval(
        value=value,
        low=float(low),
        high=float(high),
        confidence=confidence,
        method=method,
        n_resamples=draws.size,
        n_undefined=n_undefined,
        reason=reason,
    )


def _one_alone(point: Correlation, over: str) -> str | None:
    """Say why resamples would all be the same, if so."""
    drawn = {"systems": point.n_systems, "documents": point.n_documents}
    return f"needs at least 2 {over} to draw from, got 1" if drawn.get(over) == 1 else None


def fisher_interval(
    r: float, n: int, *, confidence: float = 0.95, coefficient: str = "pearson"
) -> Interval:
    """Bound a correlation by Fisher's transformation. It is too narrow for metrics: see below.

    It takes the n units as independent draws of bivariate normal values and knows nothing of
    documents: it ignores that other documents would give other system means, and at global
    level that cells of one system or one document belong together. Report
    `bootstrap_interval`; this is for comparison with papers.

    Parameters
    ----------
    r : float
        The coefficient.
    n : int
        Units it was computed from: systems at system level.
    confidence : float
        Nominal, not attained; see above.
    coefficient : str
        Sets the standard error on Fisher's scale: 1/sqrt(n-3) for Pearson, Bonett and Wright
        (2000) for Spearman, Fieller, Hartley and Pearson (1957) for Kendall.

    Returns
    -------
    Interval
        Undefined for `|r|` = 1 or fewer than 4 units (5 for Kendall).

    Examples
    --------
    >>> interval = fisher_interval(0.5, 16)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.006, 0.798)
    """
    require_choice("coefficient", coefficient, COEFFICIENTS)
    require_fraction("confidence", confidence)
    fewest = 5 if coefficient.startswith("kendall") else 4
    reason = None
    if n < fewest:
        reason = f"needs at least {fewest} units, got {n}"
    elif not abs(r) < 1.0 - PERFECT_ATOL:
        reason = f"needs a coefficient strictly between -1 and 1, got {r:g}"
    low, high = np.nan, np.nan
    if reason is None:
        if coefficient == "pearson":
            variance = 1.0 / (n - 3)
        elif coefficient == "spearman":
            variance = (1.0 + 0.5 * r**2) / (n - 3)
        else:
            variance = 0.437 / (n - 4)
        half = stats.norm.ppf(0.5 + 0.5 * confidence) * math.sqrt(variance)
        low, high = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    return Interval(
        value=r, low=low, high=high, confidence=confidence, method="fisher", reason=reason
    )
