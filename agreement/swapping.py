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

from collections.abc import Iterator

import numpy as np

from agreement.coefficients import all_pairs, merge_close
from agreement.levels import level_values, merged_means
from agreement.matrices import TIE_RTOL
from agreement.swap_ranks import DIFFERENCE_ATOL, RankNull

GIVEN_UP = 0.05
"""p-value above which no more swaps are made."""

CHUNK_NUMBERS = 200_000
"""Numbers in the largest array of one step; more would leave the processor's cache."""

_NO_VARIANCE = 1e-14
"""Share of the squares below which a variance is rounding error."""

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
            hits[open_ones] += _count_hits(null, observed[open_ones], n_wanted, rng)
            n_made[open_ones] += n_wanted
            p_values = (1 + hits[open_ones]) / (1 + n_made[open_ones])
            open_ones = open_ones[p_values <= GIVEN_UP]
    return [
        ((1 + int(hit)) / (1 + int(n)) if n else np.nan, int(n))
        for hit, n in zip(hits, n_made, strict=True)
    ]


def _null(a: Array, b: Array, y: Array, level: str, coefficient: str) -> Null | RankNull:
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


def _count_hits(
    null: Null | RankNull, observed: Array, n_swaps: int, rng: np.random.Generator
) -> Array:
    """Make random swaps and count the hits of each aspect, shape (n_aspects,)."""
    step = max(1, CHUNK_NUMBERS // null.numbers_per_swap)
    hits = np.zeros(observed.size, dtype=np.int64)
    for start in range(0, n_swaps, step):
        size = (min(step, n_swaps - start), *null.shape)
        signs = rng.integers(0, 2, size=size, dtype=np.int8).astype(np.float64) * 2.0 - 1.0
        hits += null.is_hit(signs, observed).sum(0)
    return hits


def _standardised(scores: Array) -> tuple[Array, Array]:
    """Bring scores to mean 0 and variance 1; return them, and the sizes their rounding goes by."""
    deviation = np.nanstd(scores) if (~np.isnan(scores)).any() else 0.0
    mean = np.nanmean(scores) if (~np.isnan(scores)).any() else 0.0
    unit = deviation if deviation > 0 else 1.0
    return (scores - mean) / unit, (np.abs(scores) + np.abs(mean)) / unit


class Null:
    """Differences of correlations under swaps, for one pair of metrics and some aspects."""

    shape: tuple[int, ...]
    """Of the signs of one swap."""
    numbers_per_swap: int
    """In the largest array of a step."""

    def is_hit(self, signs: Array, observed: Array) -> Array:
        """Say which swaps reach the observed differences, shape (n_swaps, n_aspects)."""
        differences = self.differences(signs)
        is_below = np.abs(differences) < np.abs(observed) - DIFFERENCE_ATOL
        return ~is_below  # NaN is not below

    def differences(self, signs: Array) -> Array:
        """Difference of the two correlations in each swap, shape (n_swaps, n_aspects)."""
        raise NotImplementedError


class FullNull(Null):
    """Any coefficient at any level, from the swapped matrices themselves."""

    def __init__(self, a: Array, b: Array, y: Array, level: str, coefficient: str) -> None:
        self._a, self._b, self._y = a, b, y
        self._level, self._coefficient = level, coefficient
        self.shape = a.shape
        self.numbers_per_swap = y.size * (len(a) if level == "summary" else 1)

    def differences(self, signs: Array) -> Array:
        """Return the difference in each swap; signs: (n_swaps, n_systems, n_documents)."""
        swapped = np.stack(
            [np.where(signs < 0, self._b, self._a), np.where(signs < 0, self._a, self._b)]
        )
        values = level_values(swapped[:, :, None], self._y, self._level, self._coefficient)
        return np.asarray(values[0] - values[1])


class SystemNull(Null):
    """Correlation of system means."""

    def __init__(self, a: Array, b: Array, y: Array, coefficient: str) -> None:
        have = ~np.isnan(a)
        kept = have.any(1)
        self._counts = have.sum(1)[kept]
        self._sum = np.nansum(a + b, axis=1)[kept] / 2.0
        self._half = np.nan_to_num(a - b)[kept] / 2.0
        self._ratings = merged_means(y)[:, kept]
        self._largest = np.abs(np.nan_to_num(np.stack([a, b]))).max(axis=(0, 2), initial=0.0)[kept]
        self._coefficient = coefficient
        self.shape = self._half.shape
        self.numbers_per_swap = self._half.size

    def differences(self, signs: Array) -> Array:
        """Return the difference in each swap; signs: (n_swaps, n_systems, n_documents)."""
        moved = np.einsum("rsd,sd->rs", signs, self._half)
        sums = np.stack([self._sum + moved, self._sum - moved])
        means = merge_close(sums / self._counts, self._largest)[:, :, None, :]
        weights = np.ones(self._counts.size)
        values = all_pairs(means, self._ratings, weights, self._coefficient)[:, :, 0]
        return np.asarray(values[0] - values[1])


class GroupNull(Null):
    """Correlation inside each group of cells (a document's systems, or all cells), averaged.

    Arrays have shape (n_groups, n, ...), with n the cells of a group; 0 where one is missing.
    """

    def __init__(self, a: Array, b: Array, y: Array) -> None:
        have = ~np.isnan(a.T)
        self._have = have
        self._a, self._b = np.nan_to_num(a.T), np.nan_to_num(b.T)
        self._y = np.moveaxis(np.nan_to_num(y), 0, -1).swapaxes(0, 1)
        self._n = have.sum(1)
        self.shape = have.shape
        self.numbers_per_swap = a.size

    def differences(self, signs: Array) -> Array:
        """Return the difference in each swap; signs have shape (n_swaps, n_groups, n)."""
        values = []
        for each in self._correlations(np.ascontiguousarray(signs.swapaxes(0, 1))):
            is_defined = ~np.isnan(each)
            sums = np.where(is_defined, each, 0.0).sum(0)
            n_defined = is_defined.sum(0)
            values.append(np.where(n_defined > 0, sums / np.maximum(n_defined, 1), np.nan))
        return np.asarray(values[0] - values[1])

    def _correlations(self, signs: Array) -> Iterator[Array]:
        """Of both swapped metrics, shape (n_groups, n_swaps, n_aspects) each."""
        raise NotImplementedError


class ValueNull(GroupNull):
    """Pearson: sums of products."""

    def __init__(self, a: Array, b: Array, y: Array) -> None:
        super().__init__(a, b, y)
        n = np.maximum(self._n, 1)[:, None]
        middle = (self._a + self._b) / 2.0
        # Where the mean of a group lies does not matter, and near 0 no digits are lost.
        middle = np.where(self._have, middle - middle.sum(1, keepdims=True) / n, 0.0)
        half = (self._a - self._b) / 2.0
        ratings = _centred(self._y, self._have)
        self._norms, scale = (ratings**2).sum(1), np.abs(self._y).max(1)
        self._norms[np.sqrt(self._norms) <= TIE_RTOL * scale * n] = np.nan
        self._constant = np.einsum("gn,gnk->gk", middle, ratings)[:, None]
        self._squares = (middle**2 + half**2).sum(1)[:, None]
        largest = max(np.abs(self._a).max(initial=0.0), np.abs(self._b).max(initial=0.0))
        self._least = n * (TIE_RTOL * largest) ** 2 + _NO_VARIANCE * self._squares
        self._weights = np.concatenate(
            [half[..., None] * ratings, half[..., None], (2.0 * middle * half)[..., None]], axis=-1
        )

    def _correlations(self, signs: Array) -> Iterator[Array]:
        products = signs @ self._weights
        moved, sums, cross = products[..., :-2], products[..., -2], products[..., -1]
        centre = sums**2 / np.maximum(self._n, 1)[:, None]
        for sign in (1.0, -1.0):
            variance = self._squares + sign * cross - centre
            variance[variance <= self._least] = np.nan
            below = np.sqrt(variance[..., None] * self._norms[:, None])
            yield (self._constant + sign * moved) / below


class GroupRankNull(GroupNull):
    """Spearman inside groups: a rank is a sum of signs of differences."""

    def __init__(self, a: Array, b: Array, y: Array) -> None:
        super().__init__(a, b, y)
        pairs = self._have[:, :, None] & self._have[:, None, :]
        self._constant, self._own, self._other, self._joint = _bilinear(self._a, self._b, pairs)
        signs = _signs(self._y.swapaxes(1, 2), self._y.swapaxes(1, 2)) * pairs[:, None]
        self._ratings = signs.sum(-1).swapaxes(1, 2)
        self._norms = (self._ratings**2).sum(1)
        self._norms[self._norms == 0] = np.nan
        self.numbers_per_swap = 2 * a.size

    def _correlations(self, signs: Array) -> Iterator[Array]:
        even = self._constant.sum(2)[:, None] + signs * (signs @ self._joint.swapaxes(1, 2))
        odd = self._own.sum(2)[:, None] * signs + signs @ self._other.swapaxes(1, 2)
        for ranks in (even + odd, even - odd):
            norms = np.einsum("grn,grn->gr", ranks, ranks)
            norms[norms == 0] = np.nan
            below = np.sqrt(norms[..., None] * self._norms[:, None])
            yield ranks @ self._ratings / below


class GroupPairNull(GroupNull):
    """Kendall's tau-b inside groups: products of two signs, for every pair of cells."""

    def __init__(self, a: Array, b: Array, y: Array) -> None:
        super().__init__(a, b, y)
        pairs = self._have[:, :, None] & self._have[:, None, :]
        ratings = _signs(self._y.swapaxes(1, 2), self._y.swapaxes(1, 2)) * pairs[:, None]
        # The last "aspect" counts the pairs that are not tied.
        parts = _bilinear(self._a, self._b, pairs)
        untied = _bilinear(self._a, self._b, pairs, of_magnitude=True)
        constant, own, joint = (
            np.concatenate([part[:, None] * ratings, rest[:, None]], axis=1)
            for part, rest in zip(
                (parts[0], parts[1], parts[3]), (untied[0], untied[1], untied[3]), strict=True
            )
        )
        self._i, self._j = np.triu_indices(a.shape[0], 1)
        self._constant = constant[..., self._i, self._j].sum(-1)[:, None]
        # Whole numbers and quarters, small enough to be exact in half the width.
        self._linear = own.sum(-1).swapaxes(1, 2).astype(np.float32)
        self._joint = joint[..., self._i, self._j].swapaxes(1, 2).astype(np.float32)
        self._norms = np.abs(ratings)[..., self._i, self._j].sum(-1)
        self._norms[self._norms == 0] = np.nan
        self.numbers_per_swap = a.shape[1] * max(self._i.size, 1)

    def _correlations(self, signs: Array) -> Iterator[Array]:
        signs = signs.astype(np.float32)
        products = signs[..., self._i] * signs[..., self._j]
        even = self._constant + products @ self._joint
        odd = signs @ self._linear
        for both in (even + odd, even - odd):
            norms = both[..., -1:]
            norms[norms <= 0] = np.nan
            yield both[..., :-1] / np.sqrt(norms * self._norms[:, None])


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
