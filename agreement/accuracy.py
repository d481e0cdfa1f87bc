"""Pairwise accuracy: how often a metric orders two systems as people do.

Ties count (Deutsch, Foster and Freitag 2023, "Ties Matter"): a pair that people rate equal is
right if the metric's scores differ by no more than a threshold, which is calibrated. Soft
pairwise accuracy (Thompson et al. 2024) compares how sure both are instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agreement.levels import LEVELS, system_means
from agreement.matrices import (
    TIE_RTOL,
    as_matrices,
    require_choice,
    require_positive,
    shared_cells,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseAccuracy:
    """Share of pairs that a metric orders, or ties, as the ratings do."""

    value: float
    """NaN where undefined; then `reason` says why."""
    threshold: float
    """Metric scores this close count as tied; in the metric's units."""
    level: str
    n_pairs: int
    n_tied_ratings: int
    """Pairs that the ratings tie."""
    n_groups: int
    """Documents averaged over at summary level, else 1."""
    n_skipped: int
    """Documents with fewer than two shared cells (summary level only, else 0)."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftPairwiseAccuracy:
    """How alike metric and ratings are in how sure they are of each pair of systems."""

    value: float
    """In [0, 1]; NaN where undefined."""
    n_pairs: int
    n_resamples: int
    reason: str | None = None


def pairwise_accuracy(
    scores: np.ndarray, ratings: np.ndarray, *, level: str, threshold: float = 0.0
) -> PairwiseAccuracy:
    """Measure the share of pairs ordered alike, a tie being right only where both tie.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing; the cells both have are used.
    level : str
        "system" compares system means, "summary" two systems on one document (then averages
        documents, the paper's grouping by item), "global" any two cells.
    threshold : float
        Largest difference of scores that is a tie. From `calibrate_ties`, or 0.

    Returns
    -------
    PairwiseAccuracy
        The paper's acc_eq.

    Examples
    --------
    >>> gold, metric = np.array([[1, 2, 2, 3, 4.0]]).T, np.array([[2, 1, 1.5, 5, 3]]).T
    >>> pairwise_accuracy(metric, gold, level="summary").value
    0.6
    """
    if not threshold >= 0:
        raise ValueError(f"`threshold` must not be negative, got {threshold:g}")
    pairs = _Pairs.of(scores, ratings, level)
    is_tied = pairs.distances <= threshold + pairs.tolerances
    is_right = np.where(is_tied, pairs.rating_is_tied, pairs.is_concordant)
    return pairs.accuracy(float((is_right * pairs.weights).sum()), threshold)


def calibrate_ties(scores: np.ndarray, ratings: np.ndarray, *, level: str) -> PairwiseAccuracy:
    """Find the threshold of highest pairwise accuracy, and that accuracy.

    Every distance between two scores is tried, in one sweep over the sorted distances; the
    smallest of the best is taken. One threshold serves all documents. An accuracy on the data
    it was calibrated on flatters the metric a little: compare metrics all calibrated alike, or
    calibrate on other data.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    level : str
        See `pairwise_accuracy`.

    Returns
    -------
    PairwiseAccuracy
        With the threshold found.
    """
    pairs = _Pairs.of(scores, ratings, level)
    if pairs.reason:
        return pairs.accuracy(np.nan, np.nan)
    thresholds, accuracies = pairs.sweep()
    # Sums taken in another order differ in the last bits; those must not decide.
    best = int(np.flatnonzero(accuracies >= accuracies.max() - TIE_RTOL)[0])
    return pairs.accuracy(float(accuracies[best]), float(thresholds[best]))


def tie_curve(
    scores: np.ndarray, ratings: np.ndarray, *, level: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return every threshold that changes anything, from 0 up, and the accuracy at each.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    level : str
        See `pairwise_accuracy`.

    Returns
    -------
    thresholds, accuracies : ndarray, shape (n_thresholds,)
        Empty where there is no pair.
    """
    pairs = _Pairs.of(scores, ratings, level)
    return pairs.sweep() if pairs.reason is None else (np.zeros(0), np.zeros(0))


def soft_pairwise_accuracy(
    scores: np.ndarray,
    ratings: np.ndarray,
    *,
    n_resamples: int = 1_000,
    rng: np.random.Generator,
) -> SoftPairwiseAccuracy:
    """Compare how sure metric and ratings are that one system beats another.

    One minus the mean distance, over pairs of systems, of the two one-sided p-values of a
    paired permutation test over documents (Thompson et al. 2024, "Improving Statistical
    Significance in Human Evaluation of Automatic Metrics via Soft Pairwise Accuracy"). Metric
    and ratings share the random signs; a permuted mean equal to the observed one counts half,
    so the result does not depend on the order of the systems.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing; each pair of systems is compared on the documents all four have.
    n_resamples : int
        Random signs.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    SoftPairwiseAccuracy
        Undefined for fewer than two systems that share a document.
    """
    require_positive("n_resamples", n_resamples)
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    i, j = np.triu_indices(len(x), 1)
    shared = ~(np.isnan(x[i]) | np.isnan(x[j]))
    kept = shared.any(1)
    if not kept.any():
        return SoftPairwiseAccuracy(
            value=np.nan,
            n_pairs=0,
            n_resamples=n_resamples,
            reason="no two systems share a document",
        )
    signs = rng.choice(np.array([-1.0, 1.0]), size=(n_resamples, x.shape[1]))
    sides = [
        one_sided_p_values(np.where(shared, each[i] - each[j], 0.0)[kept], signs) for each in (x, y)
    ]
    value = 1.0 - float(np.abs(sides[0] - sides[1]).mean())
    return SoftPairwiseAccuracy(value=value, n_pairs=int(kept.sum()), n_resamples=n_resamples)


def one_sided_p_values(differences: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """p-values that the mean difference is not positive, by random signs; ties count half.

    Parameters
    ----------
    differences : ndarray, shape (n_pairs, n_documents)
        0 where a document is missing.
    signs : ndarray, shape (n_resamples, n_documents)
        Each -1 or 1.

    Returns
    -------
    ndarray, shape (n_pairs,)
        The observed value is one of the draws.
    """
    permuted = signs @ differences.T
    observed = differences.sum(1)
    tolerance = TIE_RTOL * np.abs(differences).sum(1)
    above = (permuted > observed + tolerance).sum(0)
    equal = (np.abs(permuted - observed) <= tolerance).sum(0)
    return np.asarray((0.5 + above + 0.5 * equal) / (1.0 + len(signs)))


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """All pairs that a level compares, flat."""

    level: str
    distances: np.ndarray
    """Between the two scores."""
    is_concordant: np.ndarray
    """The scores differ, the ratings differ, and in the same direction."""
    rating_is_tied: np.ndarray
    weights: np.ndarray
    """One over the pairs of the group and over the groups; they sum to 1."""
    tolerances: np.ndarray
    """Of each distance: what rounding may have left of it."""
    n_groups: int
    n_skipped: int
    reason: str | None

    @classmethod
    def of(cls, scores: np.ndarray, ratings: np.ndarray, level: str) -> _Pairs:
        require_choice("level", level, LEVELS)
        x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
        n_with_cells = int((~np.isnan(x)).any(0).sum())
        if level == "system":
            # of a mean, the mean magnitude of its cells says how much rounding there is in it
            groups = [tuple(map(system_means, (x, y, np.abs(x), np.abs(y))))]
        elif level == "global":
            groups = [tuple(map(np.ravel, (x, y, np.abs(x), np.abs(y))))]
        else:
            groups = list(zip(x.T, y.T, np.abs(x.T), np.abs(y.T), strict=True))
        kept = [
            [each[present] for each in group]
            for group in groups
            if (present := ~np.isnan(group[0])).sum() >= 2
        ]
        differences = [
            (
                a[i] - a[j],
                b[i] - b[j],
                TIE_RTOL * np.maximum(a_size[i], a_size[j]),
                TIE_RTOL * np.maximum(b_size[i], b_size[j]),
                np.full(i.size, 1.0 / (i.size * len(kept))),
            )
            for a, b, a_size, b_size in kept
            for i, j in [np.triu_indices(a.size, 1)]
        ]
        columns = zip(*differences, strict=True) if differences else ([np.zeros(0)],) * 5
        metric, rating, tolerances, rating_tolerances, weights = (
            np.concatenate(list(each)) for each in columns
        )
        is_tied = np.abs(metric) <= tolerances
        metric[is_tied] = tolerances[is_tied] = 0.0
        rating_is_tied = np.abs(rating) <= rating_tolerances
        return cls(
            level,
            np.abs(metric),
            ~rating_is_tied & (np.sign(metric) == np.sign(rating)),
            rating_is_tied,
            weights,
            tolerances,
            len(kept),
            n_with_cells - len(kept) if level == "summary" else 0,
            None if kept else "no two units share ratings and scores",
        )

    def sweep(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.distances)
        ascending, tolerances = self.distances[order], self.tolerances[order]
        # Becoming tied makes a pair right if the ratings tie it, and loses it if it was right.
        gain = np.where(self.rating_is_tied, 1.0, -1.0 * self.is_concordant) * self.weights
        start = float((self.is_concordant * self.weights).sum())
        accuracies = start + np.cumsum(gain[order])
        steps = np.diff(ascending) > np.maximum(tolerances[1:], tolerances[:-1])
        last = np.flatnonzero(np.append(steps, True))
        thresholds, accuracies = ascending[last], accuracies[last]
        if ascending[0] == 0.0:
            thresholds[0] = 0.0
            return thresholds, accuracies
        return np.insert(thresholds, 0, 0.0), np.insert(accuracies, 0, start)

    def accuracy(self, value: float, threshold: float) -> PairwiseAccuracy:
        return PairwiseAccuracy(
            value=value if self.reason is None else np.nan,
            threshold=threshold,
            level=self.level,
            n_pairs=self.distances.size,
            n_tied_ratings=int(self.rating_is_tied.sum()),
            n_groups=self.n_groups,
            n_skipped=self.n_skipped,
            reason=self.reason,
        )
