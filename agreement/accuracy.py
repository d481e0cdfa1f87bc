"""Pairwise accuracy: how often a metric orders two systems as people do.

Ties count (Deutsch, Foster and Freitag 2023, "Ties Matter"): a pair that people rate equal is
right if the metric's scores differ by no more than a threshold, which is calibrated. Soft
pairwise accuracy (Thompson et al. 2024) compares how sure both are instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agreement.levels import LEVELS, system_means
from agreement.matrices import TIE_RTOL, as_matrices, require_choice, shared_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseAccuracy:
    """How well a metric orders pairs as the ratings do, between 0 and 1."""

    value: float = np.nan
    """NaN where undefined; then `reason` says why."""
    threshold: float = np.nan
    """Metric scores this close count as tied, in the metric's units; NaN if it is soft."""
    n_skipped: int = 0
    """Documents with fewer than two shared cells (summary level only, else 0)."""
    reason: str | None = None


def calibrate_ties(scores: np.ndarray, ratings: np.ndarray, *, level: str) -> PairwiseAccuracy:
    """Find the threshold of highest pairwise accuracy, and that accuracy, the paper's acc_eq.

    Every distance between two scores is tried, in one sweep over the sorted distances; the
    smallest of the best is taken. One threshold serves all documents. An accuracy on the data
    it was calibrated on flatters the metric a little: compare metrics all calibrated alike.
    System level compares system means; summary level two systems on one document, then averages
    documents (the paper's grouping by item); global level any two cells.
    """
    require_choice("level", level, LEVELS)
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    groups = _groups(x, y, level)
    n_with_cells = int((~np.isnan(x)).any(0).sum())
    n_skipped = n_with_cells - len(groups) if level == "summary" else 0
    if not groups:
        reason = "no two units share ratings and scores"
        return PairwiseAccuracy(n_skipped=n_skipped, reason=reason)
    thresholds, accuracies = _sweep(*_pairs(groups))
    # Sums taken in another order differ in the last bits; those must not decide.
    best = int(np.flatnonzero(accuracies >= accuracies.max() - TIE_RTOL)[0])
    return PairwiseAccuracy(
        value=float(accuracies[best]), threshold=float(thresholds[best]), n_skipped=n_skipped
    )


def soft_pairwise_accuracy(
    scores: np.ndarray, ratings: np.ndarray, *, n_resamples: int = 1_000, rng: np.random.Generator
) -> PairwiseAccuracy:
    """Compare how sure metric and ratings are that one system beats another.

    One minus the mean distance, over pairs of systems, of the two one-sided p-values of a
    paired permutation test over documents (Thompson et al. 2024, "Improving Statistical
    Significance in Human Evaluation of Automatic Metrics via Soft Pairwise Accuracy"). Metric
    and ratings share the random signs; a permuted mean equal to the observed one counts half,
    so the result does not depend on the order of the systems. Each pair of systems is compared on
    the documents all four have.
    """
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    i, j = np.triu_indices(len(x), 1)
    shared = ~(np.isnan(x[i]) | np.isnan(x[j]))
    kept = shared.any(1)
    if not kept.any():
        return PairwiseAccuracy(reason="no two systems share a document")
    signs = rng.choice(np.array([-1.0, 1.0]), size=(n_resamples, x.shape[1]))
    sides = [
        _one_sided_p_values(np.where(shared, each[i] - each[j], 0.0)[kept], signs)
        for each in (x, y)
    ]
    return PairwiseAccuracy(value=1.0 - float(np.abs(sides[0] - sides[1]).mean()))


def _one_sided_p_values(differences: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """p-values that a row's mean is not positive, shape (n_pairs,); ties count half."""
    permuted = signs @ differences.T
    observed = differences.sum(1)
    tolerance = TIE_RTOL * np.abs(differences).sum(1)
    above = (permuted > observed + tolerance).sum(0)
    equal = (np.abs(permuted - observed) <= tolerance).sum(0)
    return np.asarray((0.5 + above + 0.5 * equal) / (1.0 + len(signs)))


def _groups(x: np.ndarray, y: np.ndarray, level: str) -> list[list[np.ndarray]]:
    """Scores, ratings and the sizes of both, of every group of two units or more."""
    # Of a mean, the mean magnitude of its cells says how much rounding there is in it.
    four = x, y, np.abs(x), np.abs(y)
    if level == "system":
        groups = [tuple(map(system_means, four))]
    elif level == "global":
        groups = [tuple(map(np.ravel, four))]
    else:
        groups = list(zip(*(each.T for each in four), strict=True))
    return [
        [each[present] for each in group]
        for group in groups
        if (present := ~np.isnan(group[0])).sum() >= 2
    ]


def _pairs(groups: list[list[np.ndarray]]) -> list[np.ndarray]:
    """All pairs, flat: the arguments of `_sweep`; the weights sum to 1."""
    differences = [
        (
            a[i] - a[j],
            b[i] - b[j],
            TIE_RTOL * np.maximum(a_size[i], a_size[j]),
            TIE_RTOL * np.maximum(b_size[i], b_size[j]),
            np.full(i.size, 1.0 / (i.size * len(groups))),
        )
        for a, b, a_size, b_size in groups
        for i, j in [np.triu_indices(a.size, 1)]
    ]
    metric, rating, tolerances, rating_tolerances, weights = (
        np.concatenate(each) for each in zip(*differences, strict=True)
    )
    is_tied = np.abs(metric) <= tolerances
    metric[is_tied] = tolerances[is_tied] = 0.0
    rating_is_tied = np.abs(rating) <= rating_tolerances
    is_concordant = ~rating_is_tied & (np.sign(metric) == np.sign(rating))
    return [np.abs(metric), tolerances, rating_is_tied, is_concordant, weights]


def _sweep(
    distances: np.ndarray,
    tolerances: np.ndarray,
    rating_is_tied: np.ndarray,
    is_concordant: np.ndarray,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Every threshold that changes anything, from 0 up, and the accuracy at each."""
    order = np.argsort(distances)
    ascending, tolerances = distances[order], tolerances[order]
    # Becoming tied makes a pair right if the ratings tie it, and loses it if it was right.
    gain = np.where(rating_is_tied, 1.0, -1.0 * is_concordant) * weights
    start = float((is_concordant * weights).sum())
    accuracies = start + np.cumsum(gain[order])
    steps = np.diff(ascending) > np.maximum(tolerances[1:], tolerances[:-1])
    last = np.flatnonzero(np.append(steps, True))
    thresholds, accuracies = ascending[last], accuracies[last]
    if ascending[0] == 0.0:
        thresholds[0] = 0.0
        return thresholds, accuracies
    return np.insert(thresholds, 0, 0.0), np.insert(accuracies, 0, start)
