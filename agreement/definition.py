r"""What correlations, intervals and tests are, one matrix at a time, as the papers have them.

This is for whoever wants to know what a number means, a referee for example; the other files
compute the same much faster, and the tests hold them to this one. A matrix of scores or ratings has
shape (n_systems, n_documents) and NaN where a cell is missing; two matrices are compared on the
cells that both have. Chance comes from outside: draws of systems and documents, and swaps.

Source: Deutsch, Dror and Roth (2021), "A Statistical Analysis of Summarization Evaluation Metrics
using Resampling Methods". The test of two systems is `scipy.stats.permutation_test` of "samples".
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import stats

from agreement.matrices import TIE_RTOL

Array = np.ndarray


def coefficient(x: Array, y: Array, name: str) -> float:
    """Correlate two vectors; NaN where one is constant, but for rounding, or fewer than two pairs.

    Values that differ in their last bits are equal to Pearson and Spearman in whether a vector is
    constant, and to nobody else.
    """
    x, y = x[~np.isnan(x + y)], y[~np.isnan(x + y)]
    if len(x) < 2 or is_constant(x) or is_constant(y):
        return np.nan
    if name == "pearson":
        return float(stats.pearsonr(x, y).statistic)
    if name == "spearman":
        return float(stats.spearmanr(x, y).statistic)
    return float(stats.kendalltau(x, y, variant="b").statistic)


def is_constant(x: Array) -> bool:
    """Tell whether neighbours in order are never further apart than rounding takes them."""
    x = np.sort(x)
    largest = np.maximum(np.abs(x[1:]), np.abs(x[:-1]))
    return bool((np.diff(x) <= TIE_RTOL * largest).all())


def correlation(scores: Array, ratings: Array, level: str, name: str) -> float:
    """Correlate scores with ratings at one level.

    - `system`: the means of each system over its documents;
    - `summary`: across the systems inside each document, then the mean over the documents in which
      the coefficient is defined;
    - `global`: all cells at once.
    """
    missing = np.isnan(scores + ratings)
    scores, ratings = (np.where(missing, np.nan, each) for each in (scores, ratings))
    if level == "system":
        return coefficient(means(scores), means(ratings), name)
    if level == "global":
        return coefficient(scores.ravel(), ratings.ravel(), name)
    inside = [coefficient(x, y, name) for x, y in zip(scores.T, ratings.T, strict=True)]
    defined = [value for value in inside if not np.isnan(value)]
    return float(np.mean(defined)) if defined else np.nan


def means(matrix: Array) -> Array:
    """Average each system over the documents it has; means that differ by rounding are tied."""
    each = [row[~np.isnan(row)] for row in matrix]
    found, sizes = (
        np.array([make(row) if row.size else np.nan for row in each])
        for make in (np.mean, lambda row: np.mean(np.abs(row)))
    )
    return tied(found, sizes)


def tied(values: Array, sizes: Array) -> Array:
    """Make values equal that differ by rounding: by `TIE_RTOL` of the larger of two sizes at most.

    A size is the mean magnitude of what a value was summed from, since sums may cancel.
    """
    result, below = values.copy(), None
    for k in np.argsort(values):
        if np.isnan(values[k]):
            continue
        if below is not None:
            room = TIE_RTOL * max(sizes[k], sizes[below])
            if values[k] - values[below] <= room:
                result[k] = result[below]
        below = k
    return result


def bootstrap(
    scores: Array, ratings: Array, level: str, name: str, draws: Iterable[tuple[Array, Array]]
) -> Array:
    """Correlate again in every draw of systems and documents, given as indices with repetitions.

    The interval of 95 % is from the 2.5th to the 97.5th percentile of the values that are defined
    (bootstrap-both of Deutsch et al.).
    """
    return np.array(
        [correlation(scores[np.ix_(*draw)], ratings[np.ix_(*draw)], level, name) for draw in draws]
    )


def swap_p_value(
    a: Array, b: Array, ratings: Array, level: str, name: str, swaps: Iterable[Array]
) -> float:
    """Test two-sided whether metrics A and B agree equally well with the ratings (Perm-Both).

    If they do, their scores may be exchanged in any cell, once both are on one scale. A swap, bool
    of the matrices' shape, is a hit if it takes the two correlations as far apart as they are, or
    leaves one undefined; p is (1 + hits) / (1 + swaps).
    """
    missing = np.isnan(a + b + ratings)
    a, b = (np.where(missing, np.nan, each) for each in (a, b))
    a, b = ((each - np.nanmean(each)) / np.nanstd(each) for each in (a, b))
    both = np.concatenate([a, b], axis=None)
    a, b = tied(both, np.abs(both)).reshape(2, *a.shape)

    def difference(first: Array, second: Array) -> float:
        values = [correlation(each, ratings, level, name) for each in (first, second)]
        return abs(values[0] - values[1])

    observed = difference(a, b) - 1e-12  # equal differences are equal up to rounding
    found = [difference(np.where(swap, b, a), np.where(swap, a, b)) for swap in swaps]
    hits = sum(not each < observed for each in found)
    return (1 + hits) / (1 + len(found))
