"""Permutation tests for the difference of two metrics' correlations, at every level.

Deutsch, Dror and Roth (2021): under the hypothesis that two metrics agree equally well with the
ratings, their scores may be swapped in any cell (Perm-Both). A swap is a sign: x' = m + s d and its
counterpart m - s d, with m the mean and d half the difference of the two scores. Sums over cells,
and the sign of the difference of two swapped scores, are linear or bilinear in the signs, so that a
thousand swaps are a few matrix products. All aspects are tested with the same swaps.

With many metrics a correction for many comparisons asks for many swaps. They are made in two
stages: a pair whose p-value after the first stage is above `GIVEN_UP` stops there, for no
correction makes a p-value smaller.
"""

from __future__ import annotations

import numpy as np

from agreement.coefficients import merge_close
from agreement.levels import level_values
from agreement.swap_nulls import (
    FullNull,
    GroupPairNull,
    GroupRankNull,
    Null,
    SystemNull,
    ValueNull,
)
from agreement.swap_ranks import RankNull

GIVEN_UP = 0.05
"""p-value above which no more swaps are made."""

Array = np.ndarray


def swap_tests(
    scores_a: Array,
    scores_b: Array,
    ratings: Array,
    *,
    level: str,
    coefficient: str,
    n_first: int,
    n_most: int,
    rng: np.random.Generator,
) -> list[tuple[float, int]]:
    """Test two-sided for each aspect whether metrics A and B agree equally well with the ratings.

    Returns `(1 + hits) / (1 + swaps)` and the swaps made, for each aspect; NaN and 0 where the
    observed difference is undefined. Swaps that leave a coefficient undefined count as hits. Both
    metrics are brought to mean 0 and variance 1 first, and scores that then differ in the last bits
    only are tied.

    Parameters
    ----------
    scores_a, scores_b : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    ratings : ndarray, shape (n_aspects, n_systems, n_documents)
        NaN where missing, in the same cells for all aspects.
    level, coefficient : str
        See `correlate`. Kendall over few systems moves in coarse steps, and equal differences
        count as hits: at system level the test then rejects too rarely, never too often.
    n_first, n_most : int
        Swaps of the first stage, and of both stages together.
    rng : numpy.random.Generator
        Source of randomness.
    """
    missing = np.isnan(scores_a) | np.isnan(scores_b) | np.isnan(ratings[0])
    a, b, y = (np.where(missing, np.nan, each) for each in (scores_a, scores_b, ratings))
    # As they come: standardising makes rounding errors of a constant look like differences.
    is_defined = ~np.isnan(sum(level_values(each, y, level, coefficient) for each in (a, b)))
    both, sizes = (
        np.stack(each).ravel() for each in zip(_standardised(a), _standardised(b), strict=True)
    )
    a, b = merge_close(both, sizes).reshape(2, *a.shape)
    observed = level_values(a, y, level, coefficient) - level_values(b, y, level, coefficient)
    hits, n_made = np.zeros(len(y), dtype=np.int64), np.zeros(len(y), dtype=np.int64)
    open_ones = np.flatnonzero(is_defined)
    for n_wanted in (n_first, n_most - n_first):
        if n_wanted > 0 and open_ones.size:
            null = _null(a, b, y[open_ones], level, coefficient)
            hits[open_ones] += null.count_hits(observed[open_ones], n_wanted, rng)
            n_made[open_ones] += n_wanted
            p_values = (1 + hits[open_ones]) / (1 + n_made[open_ones])
            open_ones = open_ones[p_values <= GIVEN_UP]
    return [
        ((1 + int(hit)) / (1 + int(n)) if n else np.nan, int(n))
        for hit, n in zip(hits, n_made, strict=True)
    ]


def _null(a: Array, b: Array, y: Array, level: str, coefficient: str) -> Null:
    if level == "system":
        return SystemNull(a, b, y, coefficient)
    if coefficient == "kendall_c":
        return FullNull(a, b, y, level, coefficient)
    if level == "global":
        have = ~np.isnan(a)
        a, b, y = a[have][:, None], b[have][:, None], y[:, have][..., None]
        if coefficient != "pearson":
            return RankNull(a[:, 0], b[:, 0], y[..., 0], coefficient)
    kinds = {"pearson": ValueNull, "spearman": GroupRankNull, "kendall_b": GroupPairNull}
    return kinds[coefficient](a, b, y)


def _standardised(scores: Array) -> tuple[Array, Array]:
    """Bring scores to mean 0 and variance 1; return them, and the sizes their rounding goes by."""
    deviation = np.nanstd(scores) if (~np.isnan(scores)).any() else 0.0
    mean = np.nanmean(scores) if (~np.isnan(scores)).any() else 0.0
    unit = deviation if deviation > 0 else 1.0
    return (scores - mean) / unit, (np.abs(scores) + np.abs(mean)) / unit
