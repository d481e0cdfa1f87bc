"""Confidence intervals: percentiles of a bootstrap over systems and documents.

Deutsch, Dror and Roth (2021), "A Statistical Analysis of Summarization Evaluation Metrics using
Resampling Methods".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.levels import Correlation

CONFIDENCE = 0.95
"""Of every interval that does not say otherwise."""

MOST_UNDEFINED = 0.5
"""Share of undefined resamples above which percentiles of the rest would mislead."""

FEWEST_UNITS = 4
"""Systems (or rows) correlated once, below which resamples mislead: two correlate at 1 or -1, and
most draws of three hold no more than two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with a confidence interval, and how it was made."""

    value: float
    low: float
    """NaN where undefined, as is `high`; then `reason` says why."""
    high: float
    method: str
    """Such as "bootstrap-both" or "wilson"."""
    n_undefined: int = 0
    """Resamples that left the value undefined (such as the same system drawn every time); the
    percentiles are over the others."""
    reason: str | None = None


def bootstrap_interval(
    draws: np.ndarray, value: float, point: Correlation, reason: str | None
) -> Interval:
    """Bound a correlation, or the difference of two such, by its resampled values.

    The bootstrap is called by what its resamples differ in: nothing varies of a single one. Of too
    few units it would mislead; summary level has a mean over documents, which varies with them, if
    there are three systems.
    """
    method = "bootstrap-both"
    if 1 in (point.n_systems, point.n_documents):
        method = f"bootstrap-{'systems' if point.n_documents == 1 else 'documents'}"
    n, noun, fewest = point.n_systems, "systems", FEWEST_UNITS
    if point.level == "global":
        n, noun = point.n_systems * point.n_documents, "rows"
    elif point.level == "summary" and point.n_documents > 1:
        fewest = FEWEST_UNITS - 1
    few = None if n >= fewest else f"needs at least {fewest} {noun}, got {n}"
    return percentile_interval(draws, value, CONFIDENCE, method, reason or few)


def percentile_interval(
    draws: np.ndarray, value: float, confidence: float, method: str, reason: str | None = None
) -> Interval:
    """Read an interval of `value` off resampled values, NaN where one is undefined.

    The ends are undefined where the value is, by `reason`, or more than `MOST_UNDEFINED` draws are.
    """
    is_defined = ~np.isnan(draws)
    n_undefined = int(draws.size - is_defined.sum())
    if reason is None and n_undefined > MOST_UNDEFINED * draws.size:
        reason = f"undefined in {n_undefined} of {draws.size} resamples"
    low, high = np.nan, np.nan
    if reason is None:
        tail = 0.5 * (1.0 - confidence)
        low, high = np.quantile(draws[is_defined], [tail, 1.0 - tail])
    ends = {"low": float(low), "high": float(high)}
    return Interval(value=value, **ends, method=method, n_undefined=n_undefined, reason=reason)


def widened(confidence: float, n: int) -> float:
    """Return the confidence whose percentiles are as far apart as Student's t asks for n units.

    Percentiles of a bootstrap are those of a normal distribution with variance over n; these have
    the quantiles of t with variance over n - 1 (Hesterberg 2015, "What Teachers Should Know About
    the Bootstrap", section 5.3).
    """
    if n < 2:
        return confidence
    quantile = stats.t.ppf(0.5 + 0.5 * confidence, n - 1) * math.sqrt(n / (n - 1))
    return float(2.0 * stats.norm.cdf(quantile) - 1.0)
