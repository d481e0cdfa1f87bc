"""Correlation coefficients of weighted, possibly missing values: Pearson, Spearman, Kendall.

Everything works over the last axis and broadcasts over the others. A weight is a count: a
resample is a vector of counts, and a missing value has count zero, so the point estimate and
ten thousand resamples are the same arithmetic.

All are inner products (Daniels 1944, "The relation between measures of correlation in
the universe of sample permutations"): each variable becomes a vector (centred values, centred
ranks, or signs of differences), once, and meets all others in one matrix product. What a product
is divided by is the root of the two vectors' squared norms, NaN for a variable that is constant.

Where the values stay and only the weights change, as in a resample of systems inside a document,
there are quicker ways: `all_pairs_of_fixed` and `kendall_norms`.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from agreement.matrices import TIE_RTOL, require_choice

COEFFICIENTS = ("pearson", "spearman", "kendall_b")

SORTING_BEATS_PAIRS = 200
"""Above so many values Kendall is counted in O(n log n), one row at a time."""

SAFE_SPREAD = 1e-6
"""Variance from sums of squares is used down to this share of the largest squared deviation; it
then has nine correct digits. Below, the row is computed again in two passes."""

Array = np.ndarray


def rowwise(x: Array, y: Array, coefficient: str) -> Array:
    """Correlate each row of `x` with the same row of `y`, shapes (..., n), NaN left out in pairs.

    NaN where a side is constant (up to `TIE_RTOL`) or fewer than two pairs are left;
    `undefined_reason` says which. Ranks are taken among the pairs that are present, and only equal
    values are tied, as in other libraries. Kendall's tau-b is scaled by the pairs untied in either
    variable (Kendall 1945).
    """
    require_choice("coefficient", coefficient, COEFFICIENTS)
    present = ~(np.isnan(x) | np.isnan(y))
    if coefficient.startswith("kendall") and x.shape[-1] > SORTING_BEATS_PAIRS:
        return _kendall_by_sorting(x, y, present)
    counts = present.astype(np.float64)
    left, x_norm = vectors(x, counts, coefficient)
    right, y_norm = vectors(y, counts, coefficient)
    return combine((left * right).sum(-1), x_norm, y_norm)


def all_pairs(x: Array, y: Array, weights: Array, coefficient: str) -> Array:
    """Correlate every row of `x` with every row of `y`, all under the same weights.

    Shapes (..., n_x, n) and (..., n_y, n) with weights (..., n) give (..., n_x, n_y). A value may
    be NaN where its weight is zero.
    """
    counts = weights[..., None, :]
    left, x_norms = vectors(x, counts, coefficient)
    right, y_norms = vectors(y, counts, coefficient)
    return combine_all(left @ np.swapaxes(right, -1, -2), x_norms, y_norms)


def all_pairs_of_fixed(x: Array, y: Array, weights: Array, coefficient: str) -> Array:
    """Correlate rows as `all_pairs` does, under every row of weights, by Pearson or Spearman.

    Shapes (n_x, n), (n_y, n) and (n_rows, n) give (n_rows, n_x, n_y).
    """
    if coefficient == "spearman":
        left, x_norms = _ranked(x, weights)
        right, y_norms = _ranked(y, weights)
        products = left @ np.swapaxes(right * weights[:, None], 1, 2)
        result = combine_all(products, x_norms, y_norms)
        return blank_nearly_constant(result, x, y, weights)
    x_scaled, y_scaled = _scaled(x), _scaled(y)
    total = weights.sum(1, keepdims=True)
    sums_x, sums_y = weights @ x_scaled.T, weights @ y_scaled.T
    variance_x = total * (weights @ (x_scaled**2).T) - sums_x**2
    variance_y = total * (weights @ (y_scaled**2).T) - sums_y**2
    products = (x_scaled[:, None] * y_scaled[None]).reshape(-1, x.shape[1])
    covariance = total[..., None] * (weights @ products.T).reshape(-1, len(x), len(y))
    covariance -= sums_x[:, :, None] * sums_y[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse_x, inverse_y = 1.0 / np.sqrt(variance_x), 1.0 / np.sqrt(variance_y)
        covariance *= inverse_x[:, :, None]
        covariance *= inverse_y[:, None, :]
    result = np.clip(covariance, -1.0, 1.0, out=covariance)
    safe = SAFE_SPREAD * total**2
    again = (variance_x <= safe).any(1) | (variance_y <= safe).any(1)
    if again.any():
        result[again] = all_pairs(x[None], y[None], weights[again], coefficient)
    return result


def undefined_reason(x: Array, y: Array) -> str | None:
    """Say why a coefficient of two vectors is undefined, or None if it is defined."""
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


def vectors(x: Array, weights: Array, coefficient: str) -> tuple[Array, Array]:
    """Turn each row, shape (..., n), into the vector that the coefficient multiplies.

    Half of the weight is in it, so that a product with another has all of it. Also return its
    squared norm, shape (...), NaN where the row is constant.
    """
    if coefficient == "pearson":
        return _centred_values(x, weights)
    classes, near = tie_classes(x), tie_classes(x, TIE_RTOL)
    values = (_centred_ranks if coefficient == "spearman" else _signs)(classes, weights)
    norm = positive(np.einsum("...i,...i->...", values, values))
    if (near.max(axis=-1, initial=0) < classes.max(axis=-1, initial=0)).any():
        norm = np.where(_n_distinct(near, weights) > 1, norm, np.nan)
    return values, norm


def combine(products: Array, left: Array, right: Array) -> Array:
    """Scale inner products to the coefficient by squared norms."""
    # One root of the product: equal norms then give exactly 1 for a perfect correlation.
    return np.clip(products / np.sqrt(left * right), -1.0, 1.0)


def combine_all(products: Array, left: Array, right: Array) -> Array:
    """Scale inner products of all of `left` with all of `right`, shape (..., n_left, n_right)."""
    return combine(products, left[..., :, None], right[..., None, :])


def kendall_norms(classes: Array, weights: Array) -> Array:
    """Return what Kendall's numerator is divided by, (n_rows, n_variables), by `tie_classes`."""
    half_square = 0.5 * weights.sum(1) ** 2
    norms = np.empty((len(weights), len(classes)))
    for variable, each in enumerate(classes):
        totals = np.diff(_cumulated_to_class_ends(each, weights), axis=1, prepend=0.0)
        distinct = (totals > 0).sum(1)
        norm = half_square - 0.5 * np.einsum("bg,bg->b", totals, totals)
        norms[:, variable] = np.where(distinct > 1, norm, np.nan)
    return norms


def blank_nearly_constant(result: Array, x: Array, y: Array, weights: Array) -> Array:
    """Set coefficients of ranks to NaN, in place, where only the last bits of a side differ."""
    for by_variable, values in ((result.swapaxes(0, 1), x), (result.transpose(2, 0, 1), y)):
        near = tie_classes(values, TIE_RTOL)
        is_close = near.max(axis=1) < tie_classes(values).max(axis=1)
        for variable in np.flatnonzero(is_close):
            by_variable[variable, _n_distinct(near[variable], weights) < 2] = np.nan
    return result


def positive(values: Array) -> Array:
    """Return values above 0, such as squared norms of what varies; NaN for the others."""
    return np.where(values > 0, values, np.nan)


def _n_distinct(classes: Array, weights: Array) -> Array:
    """Count the classes that have any weight, over the last axis."""
    return (_class_totals(classes, weights) > 0).sum(-1)


def _centred_values(x: Array, weights: Array) -> tuple[Array, Array]:
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
    is_constant = np.asarray(spread[..., 0] <= 0)
    if is_narrow.any():
        shape = np.broadcast_shapes(x.shape, weights.shape)
        rows = np.broadcast_to(np.where(weights > 0, x, np.nan), shape)[is_narrow]
        counts = np.broadcast_to(weights, shape)[is_narrow]
        is_constant[is_narrow] = _n_distinct(tie_classes(rows, TIE_RTOL), counts) < 2
    return scaled, np.where(is_constant, np.nan, squared_norm)


def _centred_ranks(classes: Array, weights: Array) -> Array:
    totals = _class_totals(classes, weights)
    # Mid-rank minus mean rank: weight below, plus half of one's own class, minus half of all.
    centred = np.cumsum(totals, axis=-1)
    centred -= 0.5 * totals
    centred -= 0.5 * totals.sum(-1, keepdims=True)
    ranks = np.take_along_axis(centred, np.broadcast_to(classes, totals.shape), -1)
    ranks *= np.sqrt(weights)
    return ranks


def _signs(classes: Array, weights: Array) -> Array:
    i, j = np.triu_indices(classes.shape[-1], 1)
    signs = np.sign(classes[..., i] - classes[..., j])
    return np.asarray(signs * np.sqrt(weights[..., i] * weights[..., j]))


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


def _kendall_by_sorting(x: Array, y: Array, present: Array) -> Array:
    """Kendall of long rows, each in O(n log n)."""
    rows = [np.broadcast_to(each, present.shape).reshape(-1, present.shape[-1]) for each in (x, y)]
    values = [
        np.nan
        if undefined_reason(a[kept], b[kept])
        else stats.kendalltau(a[kept], b[kept]).statistic
        for a, b, kept in zip(*rows, present.reshape(rows[0].shape), strict=True)
    ]
    return np.array(values, dtype=np.float64).reshape(present.shape[:-1])


def _scaled(values: Array) -> Array:
    """Deviations from the row's mean, the largest of them 1."""
    centred = values - values.mean(axis=1, keepdims=True)
    largest = np.abs(centred).max(axis=1, keepdims=True)
    return centred / np.where(largest > 0, largest, 1.0)


def _ranked(values: Array, weights: Array) -> tuple[Array, Array]:
    """Mid-ranks minus their mean, without the weights; shape (n_rows, n_variables, n)."""
    stack = tie_classes(values)
    ranks = np.empty((len(weights), *stack.shape))
    total = weights.sum(1, keepdims=True)
    for variable, classes in enumerate(stack):
        upto = _cumulated_to_class_ends(classes, weights)
        # Twice the centred mid-rank: weight below plus weight up to the class, minus all.
        doubled = upto - total
        doubled[:, 1:] += upto[:, :-1]
        np.take(doubled, classes, axis=1, out=ranks[:, variable])
    ranks *= 0.5
    return ranks, positive(np.matmul(ranks**2, weights[:, :, None])[..., 0])


def _cumulated_to_class_ends(classes: Array, weights: Array) -> Array:
    """Weight of each class and those below it, shape (n_rows, n_classes)."""
    order = np.argsort(classes, kind="stable")
    ends = np.flatnonzero(np.diff(classes[order], append=classes.size))
    return np.cumsum(weights[:, order], axis=1)[:, ends]
