"""Compare systems by scores alone: resampling over documents.

A bootstrap of few documents is too sure of itself: its draws vary less than the documents do, and
of one document not at all. So there are no ends for fewer than `FEWEST_DOCUMENTS`, intervals are
widened as Student's t is (`widened`), and p-values are of a permutation test, which is exact for
any number of documents where differences are as likely to be positive as negative.
"""

from __future__ import annotations

import itertools
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from agreement.intervals import CONFIDENCE, Interval, percentile_interval, widened
from agreement.levels import system_means
from agreement.matrices import TIE_RTOL, as_matrices, as_stack
from agreement.resampling import draw_counts
from agreement.swapping import random_signs

FEWEST_DOCUMENTS = 2
"""With one alone all resamples are the same."""

CHUNK_NUMBERS = 1_000_000
"""Numbers in the largest array of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """Which of two systems has the higher mean score."""

    difference: Interval
    """Mean of A minus mean of B over the documents both have."""
    p_value: float
    """Two-sided: share of swaps of the two systems' scores, document by document, that move the
    means as far apart. All swaps where those are no more than the resamples; so it is at least
    2 * 0.5**n for n documents on which the two differ."""
    n_documents: int
    """Documents both have."""
    n_missing: int
    """Documents that one of them lacks."""
    reason: str | None = None


def mean_intervals(
    scores: np.ndarray, *, n_resamples: int = 1_000, rng: np.random.Generator
) -> list[Interval]:
    """Bound each system's mean over the documents it has, all by the same resampled documents.

    Speaks of this metric and of more documents like these, not of human judgement. There are no
    ends for fewer documents than `FEWEST_DOCUMENTS`.
    """
    (matrix,) = as_matrices(scores=scores)
    have = ~np.isnan(matrix)
    step = max(1, CHUNK_NUMBERS // max(matrix.shape[1], 1))
    blocks = []
    for start in range(0, n_resamples, step):
        n_of_block = min(step, n_resamples - start)
        counts = draw_counts(matrix.shape[1], n_resamples=n_of_block, rng=rng)
        n_drawn = counts @ have.T.astype(np.float64)
        sums = counts @ np.where(have, matrix, 0.0).T
        blocks.append(np.where(n_drawn > 0, sums / np.maximum(n_drawn, 1.0), np.nan))
    draws = np.concatenate(blocks)
    return [
        percentile_interval(
            draws[:, system],
            float(mean),
            widened(CONFIDENCE, n),
            "bootstrap-documents",
            _too_few(n, "the system has no score"),
        )
        for system, (mean, n) in enumerate(
            zip(system_means(matrix), have.sum(1).tolist(), strict=True)
        )
    ]


def compare_systems(
    scores_a: np.ndarray,
    scores_b: np.ndarray,
    *,
    n_resamples: int = 1_000,
    rng: np.random.Generator,
) -> list[PairedComparison]:
    """Compare pairs of systems on the same documents: paired bootstrap and permutation test.

    Scores have shape (n_pairs, n_documents). The interval is Koehn's (2004), widened. His test by
    the same draws finds a difference in a tenth of all samples of ten documents where there is
    none, at a level of .05; Fisher's permutation test (1935) does not. Undefined, with a reason, if
    two share fewer documents than `FEWEST_DOCUMENTS`. Each pair has draws as if it were the only
    one: `rng` is copied, and pairs of as many documents share theirs.
    """
    a, b = as_stack("scores_a", scores_a, 2), as_stack("scores_b", scores_b, 2)
    if a.shape != b.shape:
        raise ValueError(f"`scores_b` must have the shape {a.shape} of `scores_a`, got {b.shape}")
    shared = ~(np.isnan(a) | np.isnan(b))
    n_shared = shared.sum(1).tolist()
    is_close = np.abs(a - b) <= TIE_RTOL * np.maximum(np.abs(a), np.abs(b))
    differences = np.where(is_close, 0.0, a - b)
    draws = np.full((len(a), n_resamples), np.nan)
    p_values = np.full(len(a), np.nan)
    for n in {*n_shared} - {*range(FEWEST_DOCUMENTS)}:
        pairs = [k for k, of_pair in enumerate(n_shared) if of_pair == n]
        values = differences[pairs][shared[pairs]].reshape(-1, n)
        sizes = (np.abs(a[pairs]) + np.abs(b[pairs]))[shared[pairs]].reshape(-1, n)
        of_these = deepcopy(rng)
        draws[pairs] = _resampled_means(values, n_resamples, of_these)
        # Sums of n terms differ by no more than this in how they were rounded.
        rounding = n * float(np.finfo(np.float64).eps) * sizes.sum(1)
        p_values[pairs] = _swap_p_values(values, rounding, n_resamples, of_these)
    results = []
    for k, n in enumerate(n_shared):
        reason = _too_few(n, "no document has both scores")
        value = float(differences[k][shared[k]].mean()) if n else np.nan
        ends = (widened(CONFIDENCE, n), "bootstrap-documents", reason)
        results.append(
            PairedComparison(
                difference=percentile_interval(draws[k], value, *ends),
                p_value=float(p_values[k]),
                n_documents=n,
                n_missing=int((np.isnan(a[k]) ^ np.isnan(b[k])).sum()),
                reason=reason,
            )
        )
    return results


def _too_few(n_documents: int, reason_for_none: str) -> str | None:
    """Say why there is nothing to resample, if so."""
    if n_documents >= FEWEST_DOCUMENTS:
        return None
    return f"needs at least {FEWEST_DOCUMENTS} documents, got 1" if n_documents else reason_for_none


def _swap_p_values(
    differences: np.ndarray, rounding: np.ndarray, n_swaps: int, rng: np.random.Generator
) -> np.ndarray:
    """Test two-sided whether means are 0, by random signs; by all of them where they are few.

    Differences have shape (n_pairs, n_documents). Pairs that differ on as many documents have the
    same signs.
    """
    p_values = np.empty(len(differences))
    n_moved = (differences != 0.0).sum(1)
    for n in np.unique(n_moved).tolist():
        pairs = np.flatnonzero(n_moved == n)
        moved = differences[pairs][differences[pairs] != 0.0].reshape(len(pairs), n)
        least = np.abs(moved.sum(1)) - rounding[pairs]
        if 2**n <= n_swaps:
            signs = np.array([*itertools.product((-1.0, 1.0), repeat=n)])
            p_values[pairs] = (np.abs(signs @ moved.T) >= least).mean(0)
            continue
        blocks = random_signs(n_swaps, (n,), max(1, CHUNK_NUMBERS // n), deepcopy(rng))
        n_hits = sum((np.abs(signs @ moved.T) >= least).sum(0) for signs in blocks)
        p_values[pairs] = (1 + n_hits) / (1 + n_swaps)
    return p_values


def _resampled_means(values: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Average rows of values drawn with replacement, the same of all; (n_rows, n_resamples)."""
    n = values.shape[1]
    step = max(1, CHUNK_NUMBERS // n)
    parts = [
        draw_counts(n, n_resamples=min(step, n_resamples - start), rng=rng) @ values.T
        for start in range(0, n_resamples, step)
    ]
    return np.concatenate(parts).T / n
