"""How far raters agree with each other: the ceiling for any metric.

Pools of raters are never mixed here: pass the raters of one pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agreement.coefficients import merge_close
from agreement.levels import correlate
from agreement.matrices import as_stack, require_choice

MEASUREMENTS = ("nominal", "ordinal", "interval")
"""What a difference of two ratings means: unequal, ranks between them, or their distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """How far raters agree, and what it was computed from."""

    value: float
    """NaN where undefined; then `reason` says why."""
    n_units: int
    """Units with at least two ratings; the others say nothing about agreement."""
    reason: str | None = None


def krippendorff_alpha(ratings: np.ndarray, *, measurement: str = "interval") -> RaterAgreement:
    r"""Measure agreement among raters beyond chance: 1 if perfect, 0 for chance.

    .. math:: \alpha = 1 - D_o / D_e

    the disagreement observed within units over the one expected from all pairable ratings
    (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). Undefined if no unit has two
    ratings, or all pairable ratings are equal.

    Parameters
    ----------
    ratings : ndarray, shape (n_raters, n_units)
        NaN where missing. A unit is a candidate: flatten systems and documents.
    measurement : str
        One of `MEASUREMENTS`. Ratings on a scale of five are ordinal; interval takes the
        steps as equally wide.

    Examples
    --------
    >>> krippendorff_alpha(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])).value
    1.0
    """
    require_choice("measurement", measurement, MEASUREMENTS)
    table = as_stack("ratings", ratings, 2)
    pairable = table[:, (~np.isnan(table)).sum(0) >= 2]
    n_units = pairable.shape[1]
    values, codes = np.unique(pairable[~np.isnan(pairable)], return_inverse=True)
    if values.size < 2:
        reason = "all ratings are equal" if values.size else "no unit has two ratings"
        return RaterAgreement(value=np.nan, n_units=n_units, reason=reason)
    counts = np.zeros((n_units, values.size))
    units = np.nonzero(~np.isnan(pairable))[1]
    np.add.at(counts, (units, codes), 1.0)
    scaled = counts / (counts.sum(1) - 1.0)[:, None]
    coincidences = scaled.T @ counts - np.diag(scaled.sum(0))
    totals = counts.sum(0)
    if measurement == "nominal":
        distances = 1.0 - np.eye(values.size)
    else:
        # Of ordinal ratings: how many lie between two values, plus half of those at either end.
        places = values if measurement == "interval" else np.cumsum(totals) - 0.5 * totals
        distances = (places[:, None] - places) ** 2
    observed = (coincidences * distances).sum()
    expected = totals @ distances @ totals / (totals.sum() - 1.0)
    return RaterAgreement(value=float(1.0 - observed / expected), n_units=n_units)


def leave_one_out(
    ratings: np.ndarray, *, level: str, coefficient: str = "pearson"
) -> RaterAgreement:
    """Correlate each rater with the mean of the others; the mean over raters, where defined.

    `ratings` are of one aspect and pool, shape (n_raters, n_systems, n_documents). The mean of few
    raters is noisier than the mean of all, so this is too low a ceiling for a metric that is held
    against the mean of all: one no better than a rater comes out above it.
    """
    stack = as_stack("ratings", ratings, 3)
    results = [
        correlate(one, others, level=level, coefficient=coefficient)
        for one, others in zip(stack, _means_of_others(stack), strict=True)
    ]
    defined = [each.value for each in results if each.reason is None]
    reason = None
    if len(stack) < 2:
        reason = f"needs at least 2 raters, got {len(stack)}"
    elif not defined:
        reason = f"undefined for every rater; first: {results[0].reason}"
    return RaterAgreement(
        value=float(np.mean(defined)) if defined else np.nan,
        n_units=int(((~np.isnan(stack)).sum(0) >= 2).sum()),
        reason=reason,
    )


def _means_of_others(stack: np.ndarray) -> Iterator[np.ndarray]:
    """Yield for each rater the mean of the others, NaN where no other has rated.

    The others are added up: one rater taken off a sum of all would leave rounding in it.
    """
    have = ~np.isnan(stack)
    filled = np.where(have, stack, 0.0)
    counts = have.sum(0)
    before = np.zeros(stack.shape[1:])
    from_here = np.cumsum(filled[::-1], axis=0)[::-1]
    for k, one in enumerate(filled):
        sums = before + from_here[k + 1] if k + 1 < len(filled) else before
        n_others = counts - have[k]
        means = np.where(n_others > 0, sums / np.maximum(n_others, 1), np.nan)
        yield merge_close(means.ravel()).reshape(means.shape)
        before = before + one
