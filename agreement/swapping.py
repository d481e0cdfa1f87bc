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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from agreement.coefficients import all_pairs, merge_close, positive
from agreement.levels import level_values, mean_of_defined, merged_means
from agreement.matrices import TIE_RTOL
from agreement.swap_ranks import DIFFERENCE_ATOL, RankNull

GIVEN_UP = 0.05
"""p-value above which no more swaps are made."""

CHUNK_NUMBERS = 200_000
"""Numbers in the largest array of one step; more would leave the processor's cache."""

_NO_VARIANCE = 1e-14
"""Share of the squares below which a variance is rounding error."""

Array = np.ndarray
Correlations: TypeAlias = Callable[[Array], Iterator[Array]]


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
    undecided = np.flatnonzero(is_defined)
    for n_wanted in (n_first, n_most - n_first):
        if n_wanted > 0 and undecided.size:
            null = _null(a, b, y[undecided], level, coefficient)
            hits[undecided] += _count_hits(null, observed[undecided], n_wanted, rng)
            n_made[undecided] += n_wanted
            p_values = (1 + hits[undecided]) / (1 + n_made[undecided])
            undecided = undecided[p_values <= GIVEN_UP]
    return [
        ((1 + int(hit)) / (1 + int(n)) if n else np.nan, int(n))
        for hit, n in zip(hits, n_made, strict=True)
    ]


def _null(a: Array, b: Array, y: Array, level: str, coefficient: str) -> Null | RankNull:
    if level == "system":
        return system_null(a, b, y, coefficient)
    if level == "global":
        have = ~np.isnan(a)
        a, b, y = a[have][:, None], b[have][:, None], y[:, have][..., None]
        if coefficient != "pearson":
            return RankNull(a[:, 0], b[:, 0], y[..., 0], coefficient)
    return _group_null(a, b, y, coefficient)


def _count_hits(
    null: Null | RankNull, observed: Array, n_swaps: int, rng: np.random.Generator
) -> Array:
    """Make random swaps and count the hits of each aspect, shape (n_aspects,)."""
    step = max(1, CHUNK_NUMBERS // null.numbers_per_swap)
    hits = np.zeros(observed.size, dtype=np.int64)
    for signs in random_signs(n_swaps, null.shape, step, rng):
        hits += null.is_hit(signs, observed).sum(0)
    return hits


def random_signs(
    n: int, shape: tuple[int, ...], step: int, rng: np.random.Generator
) -> Iterator[Array]:
    """Draw 1 or -1 for every entry of n arrays of this shape, `step` arrays at a time."""
    for start in range(0, n, step):
        size = (min(step, n - start), *shape)
        yield rng.integers(0, 2, size=size, dtype=np.int8).astype(np.float64) * 2.0 - 1.0


def _standardised(scores: Array) -> tuple[Array, Array]:
    """Bring scores to mean 0 and variance 1; return them, and the sizes their rounding goes by."""
    deviation = np.nanstd(scores) if (~np.isnan(scores)).any() else 0.0
    mean = np.nanmean(scores) if (~np.isnan(scores)).any() else 0.0
    unit = deviation if deviation > 0 else 1.0
    return (scores - mean) / unit, (np.abs(scores) + np.abs(mean)) / unit


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Differences of correlations under swaps, for one pair of metrics and some aspects."""

    shape: tuple[int, ...]
    """Of the signs of one swap."""
    numbers_per_swap: int
    """In the largest array of a step."""
    differences: Callable[[Array], Array]
    """Makes of the signs of swaps the difference of the two correlations in each, shape
    (n_swaps, n_aspects)."""

    def is_hit(self, signs: Array, observed: Array) -> Array:
        """Say which swaps reach the observed differences, shape (n_swaps, n_aspects)."""
        is_below = np.abs(self.differences(signs)) < np.abs(observed) - DIFFERENCE_ATOL
        return ~is_below  # NaN is not below


def system_null(a: Array, b: Array, y: Array, coefficient: str) -> Null:
    """Correlation of system means; signs have shape (n_swaps, n_systems, n_documents)."""
    have = ~np.isnan(a)
    kept = have.any(1)
    counts = have.sum(1)[kept]
    middle = np.nansum(a + b, axis=1)[kept] / 2.0
    half = np.nan_to_num(a - b)[kept] / 2.0
    ratings = merged_means(y)[:, kept]
    largest = np.abs(np.nan_to_num(np.stack([a, b]))).max(axis=(0, 2), initial=0.0)[kept]

    def differences(signs: Array) -> Array:
        moved = np.einsum("rsd,sd->rs", signs, half)
        sums = np.stack([middle + moved, middle - moved])
        means = merge_close(sums / counts, largest)[:, :, None, :]
        values = all_pairs(means, ratings, np.ones(counts.size), coefficient)[:, :, 0]
        return np.asarray(values[0] - values[1])

    return Null(half.shape, half.size, differences)


def _group_null(a: Array, b: Array, y: Array, coefficient: str) -> Null:
    """Correlation inside each group of cells (a document's systems, or all cells), averaged."""
    kinds = {"pearson": _of_values, "spearman": _of_ranks, "kendall_b": _of_pairs}
    have = ~np.isnan(a.T)
    ratings = np.moveaxis(np.nan_to_num(y), 0, -1).swapaxes(0, 1)
    correlations = kinds[coefficient](np.nan_to_num(a.T), np.nan_to_num(b.T), ratings, have)

    def differences(signs: Array) -> Array:
        values = correlations(np.ascontiguousarray(signs.swapaxes(0, 1)))
        first, second = (mean_of_defined(each, axis=0) for each in values)
        return np.asarray(first - second)

    n_systems, n_documents = a.shape
    n_pairs = max(n_systems * (n_systems - 1) // 2, 1)
    sizes = {"pearson": a.size, "spearman": 2 * a.size, "kendall_b": n_documents * n_pairs}
    return Null(have.shape, sizes[coefficient], differences)


# Of scores and ratings (n_groups, n) and (n_groups, n, n_aspects), with n the cells of a group, and
# 0 where one is missing, each of the three makes a function: from signs (n_groups, n_swaps, n) to
# the correlations of both swapped metrics, (n_groups, n_swaps, n_aspects) each.


def _of_values(a: Array, b: Array, y: Array, have: Array) -> Correlations:
    """Pearson: sums of products."""
    n = np.maximum(have.sum(1), 1)[:, None]
    middle = (a + b) / 2.0
    # Where the mean of a group lies does not matter, and near 0 no digits are lost.
    middle = np.where(have, middle - middle.sum(1, keepdims=True) / n, 0.0)
    half = (a - b) / 2.0
    ratings = _centred(y, have)
    norms, scale = (ratings**2).sum(1), np.abs(y).max(1)
    norms[np.sqrt(norms) <= TIE_RTOL * scale * n] = np.nan
    constant = np.einsum("gn,gnk->gk", middle, ratings)[:, None]
    squares = (middle**2 + half**2).sum(1)[:, None]
    largest = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    least = n * (TIE_RTOL * largest) ** 2 + _NO_VARIANCE * squares
    weights = np.concatenate(
        [half[..., None] * ratings, half[..., None], (2.0 * middle * half)[..., None]], axis=-1
    )

    def correlations(signs: Array) -> Iterator[Array]:
        products = signs @ weights
        moved, sums, cross = products[..., :-2], products[..., -2], products[..., -1]
        for sign in (1.0, -1.0):
            variance = squares + sign * cross - sums**2 / n
            variance[variance <= least] = np.nan
            yield (constant + sign * moved) / np.sqrt(variance[..., None] * norms[:, None])

    return correlations


def _of_ranks(a: Array, b: Array, y: Array, have: Array) -> Correlations:
    """Spearman: a rank is a sum of signs of differences."""
    pairs = have[:, :, None] & have[:, None, :]
    constant, first, second, joint = _bilinear(a, b, pairs)
    ratings = _rating_signs(y, pairs).sum(-1).swapaxes(1, 2)
    rating_norms = positive((ratings**2).sum(1))

    def correlations(signs: Array) -> Iterator[Array]:
        even = constant.sum(2)[:, None] + signs * (signs @ joint.swapaxes(1, 2))
        odd = first.sum(2)[:, None] * signs + signs @ second.swapaxes(1, 2)
        for ranks in (even + odd, even - odd):
            norms = positive(np.einsum("grn,grn->gr", ranks, ranks))
            yield ranks @ ratings / np.sqrt(norms[..., None] * rating_norms[:, None])

    return correlations


def _of_pairs(a: Array, b: Array, y: Array, have: Array) -> Correlations:
    """Kendall's tau-b: products of two signs, for every pair of cells."""
    pairs = have[:, :, None] & have[:, None, :]
    ratings = _rating_signs(y, pairs)
    # The last "aspect" counts the pairs that are not tied.
    parts, untied = (_bilinear(a, b, pairs, of_magnitude=each) for each in (False, True))
    constant, first, _, joint = (
        np.concatenate([part[:, None] * ratings, rest[:, None]], axis=1)
        for part, rest in zip(parts, untied, strict=True)
    )
    i, j = np.triu_indices(a.shape[1], 1)
    constant = constant[..., i, j].sum(-1)[:, None]
    # Whole numbers and quarters, small enough to be exact in half the width.
    linear = first.sum(-1).swapaxes(1, 2).astype(np.float32)
    joint = joint[..., i, j].swapaxes(1, 2).astype(np.float32)
    rating_norms = positive(np.abs(ratings)[..., i, j].sum(-1))

    def correlations(signs: Array) -> Iterator[Array]:
        signs = signs.astype(np.float32)
        even = constant + (signs[..., i] * signs[..., j]) @ joint
        odd = signs @ linear
        for both in (even + odd, even - odd):
            norms = positive(both[..., -1:]) * rating_norms[:, None]
            yield both[..., :-1] / np.sqrt(norms)

    return correlations


def _rating_signs(y: Array, pairs: Array) -> Array:
    """Signs of the differences of ratings, shape (n_groups, n_aspects, n, n)."""
    return _signs(y.swapaxes(1, 2), y.swapaxes(1, 2)) * pairs[:, None]


def _centred(values: Array, have: Array) -> Array:
    n = np.maximum(have.sum(1), 1)[:, None, None]
    for _ in range(2):  # what rounding leaves of a large mean would make equal swaps differ
        values = np.where(have[..., None], values - values.sum(1, keepdims=True) / n, 0.0)
    return values


def _signs(first: Array, second: Array) -> Array:
    return np.sign(first[..., :, None] - second[..., None, :])


def _bilinear(
    a: Array, b: Array, pairs: Array, *, of_magnitude: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Write sign(x_i - x_j) of swapped scores as c + c1 s_i + c2 s_j + c3 s_i s_j.

    Shape (n_groups, n, n) each, 0 where a cell is missing and on the diagonal. With
    `of_magnitude`, its absolute value: 1 where the two are not tied.
    """
    signs = [_signs(x, z) for x in (a, b) for z in (a, b)]
    valid = pairs & ~np.eye(a.shape[1], dtype=bool)
    aa, ab, ba, bb = ((np.abs(each) if of_magnitude else each) * valid / 4.0 for each in signs)
    return aa + ab + ba + bb, aa + ab - ba - bb, aa - ab + ba - bb, aa - ab - ba + bb
