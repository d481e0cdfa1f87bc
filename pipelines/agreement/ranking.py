"""Order systems by scores alone, with how sure the order is: paired bootstrap over documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.agreement.intervals import Interval, percentile_interval
from pipelines.agreement.levels import system_means
from pipelines.agreement.matrices import (
    TIE_RTOL,
    as_matrices,
    as_stack,
    require_fraction,
    require_positive,
)
from pipelines.agreement.resampling import draw_resamples

CHUNK_NUMBERS = 1_000_000
"""Numbers in the largest array of one step."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SystemRanking:
    """Systems in the order of their mean scores, as rows were given."""

    means: tuple[Interval, ...]
    """Mean score of each system over the documents it has."""
    ranks: np.ndarray
    """Shape (n_systems,); 1 is best, equal means share the better rank, 0 is no score at all."""
    rank_low: np.ndarray
    rank_high: np.ndarray
    """Shape (n_systems,); percentiles of the rank over resamples."""
    p_values: np.ndarray
    """Shape (n_systems, n_systems); `[i, j]` is the share of resamples in which i is not better
    than j on the documents both have, the observed one included. NaN where they share none,
    and on the diagonal."""
    n_documents: int
    n_missing: int
    n_resamples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedBootstrap:
    """Which of two systems has the higher mean score."""

    difference: Interval
    """Mean of A minus mean of B over the documents both have."""
    p_a_better: float
    """Share of resamples in which A is not better, the observed one included."""
    p_b_better: float
    n_documents: int
    """Documents both have."""
    n_missing: int
    """Documents that one of them lacks."""
    reason: str | None = None


def rank_systems(
    scores: np.ndarray,
    *,
    n_resamples: int = 1_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> SystemRanking:
    """Rank systems by their mean score, documents being drawn with replacement.

    Speaks of this metric and of more documents like these, not of human judgement.

    Parameters
    ----------
    scores : ndarray, shape (n_systems, n_documents)
        NaN where missing; higher is better.
    n_resamples : int
        Draws of documents, shared by all systems.
    confidence : float
        For intervals of means and ranks.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    SystemRanking
        Correct its p-values for many comparisons before reading them (`holm`).
    """
    require_fraction("confidence", confidence)
    (matrix,) = as_matrices(scores=scores)
    n_systems, n_documents = matrix.shape
    resamples = draw_resamples(
        n_systems, n_documents, n_resamples=n_resamples, rng=rng, over="documents"
    )
    have = ~np.isnan(matrix)
    filled = np.where(have, matrix, 0.0)
    counts = resamples.document_counts
    n_drawn = counts @ have.T.astype(np.float64)
    draws = np.where(n_drawn > 0, counts @ filled.T / np.maximum(n_drawn, 1.0), np.nan)
    tail = 0.5 * (1.0 - confidence)
    means = system_means(matrix)
    ranks = _ranks(means[None])[0]
    resampled = _ranks(draws)
    ends = np.quantile(resampled, [tail, 1.0 - tail], axis=0, method="nearest")
    missing = np.isnan(means)
    return SystemRanking(
        means=tuple(
            percentile_interval(
                draws[:, system],
                float(means[system]),
                confidence,
                "bootstrap-documents",
                "the system has no score" if missing[system] else None,
            )
            for system in range(n_systems)
        ),
        ranks=ranks,
        rank_low=np.where(missing, 0, ends[0]).astype(np.int64),
        rank_high=np.where(missing, 0, ends[1]).astype(np.int64),
        p_values=_pairwise_p_values(filled, have, counts),
        n_documents=n_documents,
        n_missing=int((~have).sum()),
        n_resamples=n_resamples,
    )


def compare_systems(
    scores_a: np.ndarray,
    scores_b: np.ndarray,
    *,
    n_resamples: int = 1_000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> PairedBootstrap:
    """Compare two systems' scores on the same documents by a paired bootstrap (Koehn 2004).

    Parameters
    ----------
    scores_a, scores_b : ndarray, shape (n_documents,)
        Scores of two systems on the same documents in the same order; NaN where missing.
    n_resamples, confidence, rng
        See `rank_systems`.

    Returns
    -------
    PairedBootstrap
        Undefined, with a reason, if they share no document.
    """
    require_fraction("confidence", confidence)
    require_positive("n_resamples", n_resamples)
    a, b = as_stack("scores_a", scores_a, 1), as_stack("scores_b", scores_b, 1)
    if a.shape != b.shape:
        raise ValueError(f"`scores_b` must have {a.size} documents like `scores_a`, got {b.size}")
    shared = ~(np.isnan(a) | np.isnan(b))
    n_shared = int(shared.sum())
    reason = None if n_shared else "no document has both scores"
    differences = (a - b)[shared]
    draws, p_a, p_b = np.full(n_resamples, np.nan), np.nan, np.nan
    if reason is None:
        draws = _resampled_means(differences, n_resamples, rng)
        tolerance = TIE_RTOL * np.abs(differences).max()
        p_a = (1 + int((draws <= tolerance).sum())) / (1 + n_resamples)
        p_b = (1 + int((draws >= -tolerance).sum())) / (1 + n_resamples)
    value = float(differences.mean()) if n_shared else np.nan
    return PairedBootstrap(
        difference=percentile_interval(draws, value, confidence, "bootstrap-documents", reason),
        p_a_better=p_a,
        p_b_better=p_b,
        n_documents=n_shared,
        n_missing=a.size - n_shared,
        reason=reason,
    )


def _resampled_means(values: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Average values drawn with replacement, shape (n_resamples,), some resamples at a time."""
    chances = np.full(values.size, 1.0 / values.size)
    step = max(1, CHUNK_NUMBERS // values.size)
    parts = [
        rng.multinomial(values.size, chances, size=min(step, n_resamples - start)) @ values
        for start in range(0, n_resamples, step)
    ]
    return np.concatenate(parts) / values.size


def _ranks(means: np.ndarray) -> np.ndarray:
    """1 plus the number of systems that are better, per row; 0 for NaN."""
    largest = np.abs(np.nan_to_num(means)).max(axis=1, initial=0.0)
    ranks = np.ones(means.shape, dtype=np.int64)
    for system in range(means.shape[1]):
        ahead = means - means[:, [system]] > TIE_RTOL * largest[:, None]
        ranks[:, system] += ahead.sum(1)
    ranks[np.isnan(means)] = 0
    return ranks


def _pairwise_p_values(filled: np.ndarray, have: np.ndarray, counts: np.ndarray) -> np.ndarray:
    n_systems = len(filled)
    result = np.full((n_systems, n_systems), np.nan)
    i, j = np.triu_indices(n_systems, 1)
    step = max(1, CHUNK_NUMBERS // len(counts))
    for start in range(0, i.size, step):
        first, second = i[start : start + step], j[start : start + step]
        shared = have[first] & have[second]
        differences = np.where(shared, filled[first] - filled[second], 0.0)
        # Only the sign of the resampled mean matters, so the sum will do.
        sums = counts @ differences.T
        tolerance = TIE_RTOL * np.abs(differences).max(axis=1, initial=0.0) * filled.shape[1]
        known = shared.any(1)
        not_better = (1 + (sums <= tolerance).sum(0)) / (1 + len(counts))
        not_worse = (1 + (sums >= -tolerance).sum(0)) / (1 + len(counts))
        result[first[known], second[known]] = not_better[known]
        result[second[known], first[known]] = not_worse[known]
    return result
