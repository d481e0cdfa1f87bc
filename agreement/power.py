"""How many systems or documents a larger study would need; None where none can have so many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from agreement.matrices import as_matrices, shared_cells

POWER, ALPHA = 0.8, 0.05
"""Probability of finding what is there, and the level of the two-sided test that finds it."""

TOLERANCE = 0.05
"""Distance from its limit at which a correlation no longer counts as moving."""

MOST_UNITS = 10**9
"""More than this counts as out of reach."""


class DocumentsNeeded(NamedTuple):
    """Documents after which the system-level correlation no longer moves, and where it goes."""

    n: int | None
    """None where no number is enough; then `reason` says why."""
    limit: float
    """Expected with endless documents; NaN where undefined."""
    reason: str | None = None


class VarianceComponents(NamedTuple):
    """(Co)variance of the systems' true means, and of the rest of a cell, noise among it."""

    systems: float
    residual: float


def systems_for_correlation(r: float) -> int | None:
    """Count the systems needed to find a correlation, below 1, different from zero.

    By Fisher's z: n = ((z_alpha + z_power) / atanh(r))^2 + 3, which is for independent systems
    and Pearson; what documents add in noise is not in it (`documents_for_correlation`).

    Examples
    --------
    >>> systems_for_correlation(0.5)
    30
    """
    if r == 0.0:
        return None
    normal_sum = stats.norm.ppf(1.0 - 0.5 * ALPHA) + stats.norm.ppf(POWER)
    wanted = float((normal_sum / abs(math.atanh(r))) ** 2 + 3.0)
    return None if wanted > MOST_UNITS else max(math.ceil(wanted), 4)


def documents_for_correlation(scores: np.ndarray, ratings: np.ndarray) -> DocumentsNeeded:
    r"""Count the documents after which the system-level Pearson correlation no longer moves.

    .. math:: r_D = \frac{\sigma_{xy,s} + \sigma_{xy,e} / D}
              {\sqrt{(\sigma^2_{x,s} + \sigma^2_{x,e}/D)(\sigma^2_{y,s} + \sigma^2_{y,e}/D)}}

    is expected of D documents, with components of (co)variance for systems (s) and the rest (e)
    from the pilot; no simulation. Noise that metric and ratings do not share pulls the correlation
    towards 0, and more documents undo that. With the documents returned it is within `TOLERANCE` of
    its limit. Undefined where the pilot shows no variance between systems.
    """
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    parts = variance_components(x), variance_components(y), variance_components(x, y)
    if math.isnan(parts[0].systems):
        reason = "needs at least two systems and two documents that all systems have"
        return DocumentsNeeded(None, np.nan, reason)
    for name, part in zip(("scores", "ratings"), parts, strict=False):
        if part.systems <= 0.0:
            reason = f"the {name} show no variance between systems beyond that within them"
            return DocumentsNeeded(None, np.nan, reason)
    limit = _forecast(parts, math.inf)
    # The expected correlation has at most one turn, and is smooth in the logarithm of n.
    n = _smallest(lambda n: abs(_forecast(parts, n) - limit) <= TOLERANCE)
    no_number = "no number of documents brings it that close" if n is None else None
    return DocumentsNeeded(n, limit, no_number)


def variance_components(first: np.ndarray, second: np.ndarray | None = None) -> VarianceComponents:
    """Split (co)variance over cells into systems and the rest, by two-way analysis.

    A component may be negative by chance. Documents that a system lacks are left out; NaN with
    fewer than two systems or two complete documents.
    """
    x, y = shared_cells(first, first if second is None else second)
    complete = ~np.isnan(x).any(0)
    x, y = x[:, complete], y[:, complete]
    n_systems, n_documents = x.shape
    if min(n_systems, n_documents) < 2:
        return VarianceComponents(np.nan, np.nan)
    x, y = x - x.mean(), y - y.mean()
    by_system = n_documents * (x.mean(1) @ y.mean(1)) / (n_systems - 1)
    x_rest, y_rest = (each - each.mean(1, keepdims=True) - each.mean(0) for each in (x, y))
    rest = (x_rest * y_rest).sum() / ((n_systems - 1) * (n_documents - 1))
    return VarianceComponents(float((by_system - rest) / n_documents), float(rest))


def _forecast(
    parts: tuple[VarianceComponents, VarianceComponents, VarianceComponents], n: float
) -> float:
    x, y, both = parts
    variance = (x.systems + x.residual / n) * (y.systems + y.residual / n)
    value = (both.systems + both.residual / n) / math.sqrt(variance)
    return min(max(value, -1.0), 1.0)


def _smallest(is_enough: Callable[[int], bool]) -> int | None:
    """Smallest number from which on the condition holds, from the top, where it may turn."""
    above = below = MOST_UNITS
    if not is_enough(above):
        return None
    while above > 1:
        below = min(above - 1, int(above / 1.1))
        if not is_enough(below):
            break
        above = below
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if is_enough(middle) else (middle, above)
    return above
