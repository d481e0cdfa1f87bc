"""Rank coefficients over all cells at once when two metrics' scores are swapped."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from agreement.coefficients import SORTING_BEATS_PAIRS, positive, rowwise

DIFFERENCE_ATOL = 1e-12
"""A permuted difference this close below the observed one counts as equal to it."""

BLOCK_NUMBERS = 4_000_000
"""Numbers in one block of cells and classes of equal ratings."""

Array = np.ndarray


def swapped_pair(a: Array, b: Array, is_swapped: Array) -> Array:
    """Return both metrics with their scores exchanged where asked, shape (2, *is_swapped.shape)."""
    return np.stack([np.where(is_swapped, b, a), np.where(is_swapped, a, b)])


class RankNull:
    r"""Spearman or Kendall's tau-b over all cells at once, too many for pairs in every swap.

    The numerators of the two swapped metrics are E + L and E - L, with L linear in the signs.
    Their difference needs E only as far as the two have different ties, which changes little:
    by at most half the sum of the roots of the two scales times the difference of their
    inverses. Swaps that this leaves in doubt are computed in full.
    """

    def __init__(self, a: Array, b: Array, y: Array, coefficient: str) -> None:
        self._a, self._b, self._y, self._coefficient = a, b, y, coefficient
        part = _rank_linear_part if coefficient == "spearman" else _pair_linear_part
        self._linear = np.stack([part(a, b, each) for each in y], axis=1)
        sizes = (np.unique(each, return_counts=True)[1].astype(np.float64) for each in y)
        self._norms = positive(np.array([self._scale(each) for each in sizes]))
        self._base, self._moves = _tie_moves(a, b)
        self.shape = a.shape
        self.numbers_per_swap = a.size

    def is_hit(self, signs: Array, observed: Array) -> Array:
        """Say which swaps reach the observed differences, in full only where in doubt."""
        moved = (self._moves @ signs.T).T
        roots = [np.sqrt(positive(self._scale(self._base + sign * moved))) for sign in (1.0, -1.0)]
        inverse = 1.0 / roots[0] + 1.0 / roots[1]
        sizes = np.abs(signs @ self._linear) * inverse[:, None] / np.sqrt(self._norms)
        slack = 0.5 * (roots[0] + roots[1]) * np.abs(1.0 / roots[0] - 1.0 / roots[1])
        wanted = np.abs(observed) - DIFFERENCE_ATOL
        is_hit = ~(sizes < wanted)
        in_doubt = (np.abs(sizes - wanted) <= slack[:, None] + 1e-9).any(1)
        if in_doubt.any():
            full = np.abs(self.differences(signs[in_doubt]))
            is_hit[in_doubt] = ~(full < wanted)
        return is_hit

    def differences(self, signs: Array) -> Array:
        """Return the difference in each swap, in full; signs have shape (n_swaps, n)."""
        n = self._a.size
        # Kendall of few cells compares all pairs
        step = max(1, BLOCK_NUMBERS // (self._y.size * min(n, SORTING_BEATS_PAIRS)))
        parts = []
        for start in range(0, len(signs), step):
            swapped = swapped_pair(self._a, self._b, signs[start : start + step] < 0)
            values = rowwise(swapped[:, :, None], self._y, self._coefficient)
            parts.append(values[0] - values[1])
        return np.concatenate(parts)

    def _scale(self, sizes: Array) -> Array:
        """Squared norm of a variable, from the sizes of its groups of equal values."""
        n = float(self._a.size)
        if self._coefficient == "spearman":  # of rank sums, which are twice the centred ranks
            return np.asarray(((n**3 - n) - (sizes**3 - sizes).sum(-1)) / 3.0)
        return np.asarray((n * (n - 1.0) - (sizes * (sizes - 1.0)).sum(-1)) / 2.0)


def _rank_linear_part(a: Array, b: Array, ratings: Array) -> Array:
    """Factor of each sign in the product of rank sums, shape (n,): what swapping one cell does.

    That is the sum over j of c1_ij (r_i - r_j), with c1 as in `_bilinear` and r the rank sums.
    """
    ranks = _rank_sums(ratings)
    ones = np.ones((ranks.size, 1))
    moved = sum(
        sign * (ranks * _sign_sums(x, z, ones)[:, 0] - _sign_sums(x, z, ranks[:, None])[:, 0])
        for x, sign in ((a, 0.25), (b, -0.25))
        for z in (a, b)
    )
    return np.asarray(moved)


def _pair_linear_part(a: Array, b: Array, ratings: Array) -> Array:
    """Factor of each sign in concordant minus discordant pairs, shape (n,).

    That is the sum over j of c1_ij sign(y_i - y_j), taken by classes of equal ratings.
    """
    values, codes = np.unique(ratings, return_inverse=True)
    moved = np.zeros(ratings.size)
    step = max(1, BLOCK_NUMBERS // ratings.size)
    for start in range(0, values.size, step):
        classes = np.arange(start, min(start + step, values.size))
        is_of_class = (codes[:, None] == classes).astype(np.float64)
        direction = np.sign(codes[:, None] - classes)
        for x, sign in ((a, 0.25), (b, -0.25)):
            for z in (a, b):
                moved += sign * np.einsum("nc,nc->n", direction, _sign_sums(x, z, is_of_class))
    return moved


def _sign_sums(x: Array, z: Array, weights: Array) -> Array:
    """Sum over j of sign(x_i - z_j) times the weights of j, shape (n, n_weights)."""
    order = np.argsort(z, kind="stable")
    sums = np.concatenate([np.zeros((1, weights.shape[1])), np.cumsum(weights[order], axis=0)])
    below = sums[np.searchsorted(z[order], x, side="left")]
    return np.asarray(below + sums[np.searchsorted(z[order], x, side="right")] - sums[-1])


def _rank_sums(values: Array) -> Array:
    """Sum of the signs of a value's differences from all others: twice the centred rank."""
    ascending = np.sort(values)
    below = np.searchsorted(ascending, values, side="left")
    return np.asarray(below + np.searchsorted(ascending, values, side="right") - values.size) * 1.0


def _tie_moves(a: Array, b: Array) -> tuple[Array, sparse.csr_array]:
    """Sizes of groups of equal values: constants, and factors (n_groups, n) of the signs."""
    _, codes, counts = np.unique(np.concatenate([a, b]), return_inverse=True, return_counts=True)
    tied = np.flatnonzero(counts > 1)
    place = np.full(counts.size, -1)
    place[tied] = np.arange(tied.size)
    groups = place[codes]
    cells = np.tile(np.arange(a.size), 2)
    signs = np.repeat([0.5, -0.5], a.size)
    can_tie = groups >= 0
    shape = tied.size, a.size
    moves = sparse.csr_array((signs[can_tie], (groups[can_tie], cells[can_tie])), shape=shape)
    return 0.5 * counts[tied], moves
