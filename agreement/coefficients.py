"""Correlation coefficients of weighted, possibly missing values: Pearson, Spearman, Kendall.

Everything works over the last axis and broadcasts over the others. A weight is a count: a
resample is a vector of counts, and a missing value has count zero, so the point estimate and
ten thousand resamples are the same arithmetic.

All four are inner products (Daniels 1944, "The relation between measures of correlation in
the universe of sample permutations"): each variable becomes a vector (centred values, centred
ranks, or signs of differences), once, and meets all others in one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.matrices import TIE_RTOL, require_choice

COEFFICIENTS = ("pearson", "spearman", "kendall_b", "kendall_c")
"""Names of the coefficients; tau-b and tau-c are told apart on purpose."""

SORTING_BEATS_PAIRS = 200
"""Above so many values Kendall is counted in O(n log n), one row at a time."""

Array = np.ndarray


def rowwise(x: Array, y: Array, coefficient: str) -> Array:
    """Correlate each row of `x` with the same row of `y`, shapes (..., n), NaN left out in pairs.

    NaN where a side is constant (up to `TIE_RTOL`) or fewer than two pairs are left;
    `undefined_reason` says which. Ranks are taken among the pairs that are present, and only equal
    values are tied, as in other libraries. Kendall's tau-b is scaled by the pairs untied in either
    variable (Kendall 1945); tau-c is `2 (C - D) / (n^2 (m - 1) / m)` with `m` the smaller number of
    distinct values (Stuart 1953), which some shared tasks print under the name of tau.

    Examples
    --------
    >>> float(rowwise(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]), "pearson"))
    1.0
    >>> float(rowwise(np.array([0.1 + 0.2, 0.3, 0.3]), np.array([1.0, 2.0, 3.0]), "pearson"))
    nan
    """
    require_choice("coefficient", coefficient, COEFFICIENTS)
    present = ~(np.isnan(x) | np.isnan(y))
    if coefficient.startswith("kendall") and x.shape[-1] > SORTING_BEATS_PAIRS:
        return _kendall_by_sorting(x, y, present, coefficient)
    counts = present.astype(np.float64)
    left, x_scale = vectors(x, counts, coefficient)
    right, y_scale = vectors(y, counts, coefficient)
    return combine((left * right).sum(-1), x_scale, y_scale, coefficient)


def all_pairs(x: Array, y: Array, weights: Array, coefficient: str) -> Array:
    """Correlate every row of `x` with every row of `y`, all under the same weights.

    Shapes (..., n_x, n) and (..., n_y, n) with weights (..., n) give (..., n_x, n_y). A value may
    be NaN where its weight is zero.
    """
    counts = weights[..., None, :]
    left, x_scale = vectors(x, counts, coefficient)
    right, y_scale = vectors(y, counts, coefficient)
    products = left @ np.swapaxes(right, -1, -2)
    return combine_all(products, x_scale, y_scale, coefficient)


def undefined_reason(x: Array, y: Array) -> str | None:
    """Say why a coefficient of two vectors is undefined, or None if it is defined.

    Examples
    --------
    >>> undefined_reason(np.array([1.0, 2.0]), np.array([3.0, np.nan]))
    'fewer than 2 paired values'
    >>> undefined_reason(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    'ratings are constant'
    """
    present = ~(np.isnan(x) | np.isnan(y))
    if present.sum() < 2:
        return "fewer than 2 paired values"
    constant = [
        name
        for name, values in (("scores", x[present]), ("ratings", y[present]))
        if tie_classes(values, TIE_RTOL).max() == 0
    ]
    return f"{' and '.join(constant)} are constant" if constant else None


def tie_classes(values: Array, rtol: float = 0.0) -> Array:
    """Assign each value its place among the distinct values of its row, from 0 upwards.

    Neighbours that differ by at most `rtol` times the larger of them are in one class; NaN falls
    into some class and should have weight zero.

    Examples
    --------
    >>> values = np.array([0.3, 5.0, 0.1 + 0.2])
    >>> tie_classes(values).tolist(), tie_classes(values, TIE_RTOL).tolist()
    ([0, 2, 1], [0, 1, 0])
    """
    classes = np.zeros(values.shape, dtype=np.int64)
    if values.shape[-1] > 1:
        order, _, steps = _steps(values, rtol)
        np.put_along_axis(classes, order[..., 1:], np.cumsum(steps, axis=-1), -1)
    return classes


def merge_close(values: Array, scale: Array | None = None) -> Array:
    """Replace values that differ in the last bits by the smallest of them, along the last axis.

    For means, which tie in theory and differ in how they were summed. `scale` is the mean magnitude
    of what each was summed from, for sums may cancel; by default that of the value. NaN stays.

    Examples
    --------
    >>> merge_close(np.array([0.3, 5.0, 0.1 + 0.2])).tolist()
    [0.3, 5.0, 0.3]
    >>> merge_close(np.array([0.0, 0.1 + 0.2 - 0.3]), np.array([0.3, 0.3])).tolist()
    [0.0, 0.0]
    """
    if values.shape[-1] < 2:
        return values
    order, ascending, steps = _steps(values, TIE_RTOL, scale)
    starts = np.zeros(values.shape, dtype=np.int64)
    starts[..., 1:] = np.maximum.accumulate(steps * np.arange(1, values.shape[-1]), axis=-1)
    merged = np.empty_like(values)
    np.put_along_axis(merged, order, np.take_along_axis(ascending, starts, -1), -1)
    return np.where(np.isnan(values), np.nan, merged)


def _steps(values: Array, rtol: float, scale: Array | None = None) -> tuple[Array, Array, Array]:
    """Order of the values, themselves in order, and where one is larger than the one before."""
    order = np.argsort(values, axis=-1)
    ascending = np.take_along_axis(values, order, -1)
    if rtol == 0.0:
        return order, ascending, np.diff(ascending, axis=-1) > 0.0
    sizes = values if scale is None else np.broadcast_to(scale, values.shape)
    sizes = np.abs(np.nan_to_num(np.take_along_axis(sizes, order, -1)))
    tolerance = rtol * np.maximum(sizes[..., 1:], sizes[..., :-1])
    return order, ascending, np.diff(ascending, axis=-1) > tolerance


def n_distinct(classes: Array, weights: Array) -> Array:
    """Count the classes that have any weight, over the last axis."""
    return (_class_totals(classes, weights) > 0).sum(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """What the inner product of a variable's vector is divided by."""

    squared_norm: Array
    """Shape (...); the product of the vector with itself, for tau-c half the squared count."""
    n_distinct: Array
    """Shape (...); distinct values with weight. For tau-c the number itself, for the others it
    may be any number above 1 where the variable is not constant."""


def vectors(x: Array, weights: Array, coefficient: str) -> tuple[Array, Scale]:
    """Turn each row, shape (..., n), into the vector that the coefficient multiplies.

    Half of the weight is in it, so that a product with another has all of it.
    """
    if coefficient == "pearson":
        return _centred_values(x, weights)
    classes, near = tie_classes(x), tie_classes(x, TIE_RTOL)
    if coefficient == "spearman":
        values, scale = _centred_ranks(classes, weights)
    else:
        values, scale = _signs(classes, weights, count_values=coefficient == "kendall_c")
    if (near.max(axis=-1, initial=0) < classes.max(axis=-1, initial=0)).any():
        distinct = np.where(n_distinct(near, weights) > 1, scale.n_distinct, 1)
        scale = Scale(scale.squared_norm, distinct)
    return values, scale


def combine(products: Array, left: Scale, right: Scale, coefficient: str) -> Array:
    """Scale inner products to the coefficient, NaN where a side is constant."""
    if coefficient == "kendall_c":
        fewest = np.minimum(left.n_distinct, right.n_distinct)
        with np.errstate(divide="ignore", invalid="ignore"):
            result = products / left.squared_norm * (fewest / (fewest - 1.0))
        return np.where(fewest > 1, np.clip(result, -1.0, 1.0), np.nan)
    # One root of the product: equal norms then give exactly 1 for a perfect correlation.
    result = products / np.sqrt(_squared_norm(left) * _squared_norm(right))
    return np.clip(result, -1.0, 1.0)


def combine_all(products: Array, left: Scale, right: Scale, coefficient: str) -> Array:
    """Scale inner products of all of `left` with all of `right`, shape (..., n_left, n_right)."""
    column = Scale(left.squared_norm[..., :, None], left.n_distinct[..., :, None])
    row = Scale(right.squared_norm[..., None, :], right.n_distinct[..., None, :])
    return combine(products, column, row, coefficient)


def _squared_norm(scale: Scale) -> Array:
    """Return the norm, NaN where a variable is constant."""
    return np.where(scale.n_distinct > 1, scale.squared_norm, np.nan)


def _centred_values(x: Array, weights: Array) -> tuple[Array, Scale]:
    x = np.nan_to_num(x)
    total = weights.sum(-1, keepdims=True)
    # Two passes: a difference of large sums would lose the digits of close values.
    mean = np.einsum("...i,...i->...", x, weights)[..., None] / np.maximum(total, 1.0)
    centred = (x - mean) * (weights > 0)
    spread = np.abs(centred).max(axis=-1, keepdims=True, initial=0.0)
    scaled = np.sqrt(weights) * centred / np.where(spread > 0, spread, 1.0)
    squared_norm = np.einsum("...i,...i->...", scaled, scaled)
    # A class is at most n steps of TIE_RTOL wide; only rows about as narrow need the exact count.
    largest = np.abs(x).max(axis=-1, initial=0.0)
    is_narrow = spread[..., 0] <= 2 * x.shape[-1] * TIE_RTOL * largest
    distinct = np.where(spread[..., 0] > 0, 2, 1)
    if is_narrow.any():
        shape = np.broadcast_shapes(x.shape, weights.shape)
        rows = np.broadcast_to(np.where(weights > 0, x, np.nan), shape)[is_narrow]
        counts = np.broadcast_to(weights, shape)[is_narrow]
        distinct[is_narrow] = n_distinct(tie_classes(rows, TIE_RTOL), counts)
    return scaled, Scale(squared_norm, distinct)


def _centred_ranks(classes: Array, weights: Array) -> tuple[Array, Scale]:
    totals = _class_totals(classes, weights)
    # Mid-rank minus mean rank: weight below, plus half of one's own class, minus half of all.
    centred = np.cumsum(totals, axis=-1)
    centred -= 0.5 * totals
    centred -= 0.5 * totals.sum(-1, keepdims=True)
    ranks = np.take_along_axis(centred, np.broadcast_to(classes, totals.shape), -1)
    ranks *= np.sqrt(weights)
    squared_norm = np.einsum("...i,...i->...", ranks, ranks)
    return ranks, Scale(squared_norm, np.where(squared_norm > 0, 2, 1))


def _signs(classes: Array, weights: Array, *, count_values: bool) -> tuple[Array, Scale]:
    i, j = np.triu_indices(classes.shape[-1], 1)
    signs = np.sign(classes[..., i] - classes[..., j])
    weighted = signs * np.sqrt(weights[..., i] * weights[..., j])
    if count_values:
        distinct = n_distinct(classes, weights)
        half_square = np.broadcast_to(0.5 * weights.sum(-1) ** 2, weighted.shape[:-1])
        return weighted, Scale(half_square, distinct)
    squared_norm = np.einsum("...i,...i->...", weighted, weighted)
    return weighted, Scale(squared_norm, np.where(squared_norm > 0, 2, 1))


def _class_totals(classes: Array, weights: Array) -> Array:
    """Weight of each class, shape (..., n): class k of a row at position k."""
    shape = np.broadcast_shapes(classes.shape, weights.shape)
    n = shape[-1]
    n_rows = int(np.prod(shape[:-1], dtype=np.int64))
    starts = np.arange(n_rows).reshape(*shape[:-1], 1) * n
    flat = (starts + classes).ravel()
    counts = np.broadcast_to(weights, shape).ravel()
    totals = np.bincount(flat, weights=counts, minlength=n_rows * n)
    return totals.astype(np.float64, copy=False).reshape(shape)


def _kendall_by_sorting(x: Array, y: Array, present: Array, coefficient: str) -> Array:
    """Kendall of long rows, each in O(n log n)."""
    rows = [np.broadcast_to(each, present.shape).reshape(-1, present.shape[-1]) for each in (x, y)]
    values = [
        np.nan
        if undefined_reason(a[kept], b[kept])
        else stats.kendalltau(a[kept], b[kept], variant=coefficient[-1]).statistic
        for a, b, kept in zip(*rows, present.reshape(rows[0].shape), strict=True)
    ]
    return np.array(values, dtype=np.float64).reshape(present.shape[:-1])
