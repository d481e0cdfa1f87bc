"""Permutation tests for the difference of two metrics' correlations, at every level.

Deutsch, Dror and Roth (2021): under the hypothesis that two metrics agree equally well with
the ratings, their scores may be swapped. What is swapped decides what the test generalises
to: single cells (Perm-Both), whole systems or whole documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agreement.coefficients import COEFFICIENTS
from agreement.levels import LEVELS, correlate, level_values
from agreement.matrices import (
    as_matrices,
    require_choice,
    require_positive,
    shared_cells,
)

SWAPS = ("both", "systems", "documents")
"""What is swapped: single cells, whole systems, whole documents."""

ALTERNATIVES = ("two-sided", "greater")
"""Kinds of alternative: the correlations differ, or the first is the larger."""

DIFFERENCE_ATOL = 1e-12
"""A permuted difference this close below the observed one counts as equal to it."""

CHUNK_NUMBERS = 1_000_000
"""Numbers in the largest array of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationTest:
    """Whether two metrics' correlations with ratings differ, by swapping their scores."""

    difference: float
    """First correlation minus second."""
    p_value: float
    """`(1 + hits) / (1 + n_resamples)`: never 0. NaN where undefined."""
    level: str
    coefficient: str
    swap: str
    alternative: str
    n_resamples: int
    n_undefined: int
    """Swaps that left a correlation undefined. They count as hits: never in favour of a
    difference."""
    n_systems: int
    n_documents: int
    reason: str | None = None


def permutation_test(
    scores_a: np.ndarray,
    scores_b: np.ndarray,
    ratings: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
    swap: str = "both",
    alternative: str = "two-sided",
    n_resamples: int = 1_000,
    rng: np.random.Generator,
) -> PermutationTest:
    """Test whether metric A agrees better with ratings than metric B.

    Both metrics are brought to mean 0 and variance 1 over the shared cells first: swapped
    scores must be on one scale.

    Parameters
    ----------
    scores_a, scores_b, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing; only cells that all three have are used.
    level, coefficient : str
        See `correlate`. Kendall over few systems moves in coarse steps, and equal differences
        count as hits: at system level the test then rejects too rarely, never too often.
    swap : str
        "both" swaps each cell by itself, "systems" all documents of a system together,
        "documents" all systems of a document together.
    alternative : str
        "two-sided", or "greater" for A above B.
    n_resamples : int
        Random swaps. The smallest possible p-value is one over this plus one; the correction
        for many comparisons must leave room for it.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    PermutationTest
        Undefined, with a reason, where a correlation is.
    """
    require_choice("level", level, LEVELS)
    require_choice("coefficient", coefficient, COEFFICIENTS)
    require_choice("swap", swap, SWAPS)
    require_choice("alternative", alternative, ALTERNATIVES)
    require_positive("n_resamples", n_resamples)
    a, b, y = shared_cells(*as_matrices(scores_a=scores_a, scores_b=scores_b, ratings=ratings))
    first = correlate(a, y, level=level, coefficient=coefficient)
    second = correlate(b, y, level=level, coefficient=coefficient)
    reason = first.reason or second.reason
    p_value, n_undefined = np.nan, 0
    if reason is None:
        a, b = _standardised(a), _standardised(b)
        observed = _differences(a, b, y, level, coefficient)
        permuted = _permuted(a, b, y, level, coefficient, swap, n_resamples, rng)
        if alternative == "two-sided":
            is_hit = np.abs(permuted) >= np.abs(observed) - DIFFERENCE_ATOL
        else:
            is_hit = permuted >= observed - DIFFERENCE_ATOL
        is_undefined = np.isnan(permuted)
        n_undefined = int(is_undefined.sum())
        p_value = (1 + int((is_hit | is_undefined).sum())) / (1 + n_resamples)
    return PermutationTest(
        difference=first.value - second.value,
        p_value=p_value,
        level=level,
        coefficient=coefficient,
        swap=swap,
        alternative=alternative,
        n_resamples=n_resamples,
        n_undefined=n_undefined,
        n_systems=first.n_systems,
        n_documents=first.n_documents,
        reason=reason,
    )


def _standardised(scores: np.ndarray) -> np.ndarray:
    deviation = np.nanstd(scores)
    return (scores - np.nanmean(scores)) / (deviation if deviation > 0 else 1.0)


def _differences(
    a: np.ndarray, b: np.ndarray, y: np.ndarray, level: str, coefficient: str
) -> np.ndarray:
    values = level_values(np.stack([a, b]), y, level, coefficient)
    return np.asarray(values[0] - values[1])


def _permuted(
    a: np.ndarray,
    b: np.ndarray,
    y: np.ndarray,
    level: str,
    coefficient: str,
    swap: str,
    n_resamples: int,
    rng: np.random.Generator,
) -> np.ndarray:
    n_systems, n_documents = y.shape
    shape = {
        "both": (n_systems, n_documents),
        "systems": (n_systems, 1),
        "documents": (1, n_documents),
    }[swap]
    per_resample = y.size
    if coefficient.startswith("kendall"):
        per_resample *= {"system": 1, "summary": n_systems, "global": 1}[level]
    chunk = max(1, CHUNK_NUMBERS // per_resample)
    parts = []
    for start in range(0, n_resamples, chunk):
        size = min(chunk, n_resamples - start)
        is_swapped = rng.integers(0, 2, size=(size, *shape), dtype=np.int8).astype(bool)
        swapped_a, swapped_b = np.where(is_swapped, b, a), np.where(is_swapped, a, b)
        parts.append(_differences(swapped_a, swapped_b, y, level, coefficient))
    return np.concatenate(parts)
