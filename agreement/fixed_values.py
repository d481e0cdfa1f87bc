"""Coefficients of fixed values under many weightings, every metric with every aspect.

In a resample of systems inside a document, or of cells, the values stay and only the counts
change. Pearson then comes from weighted sums, all of them one matrix product; Spearman from
cumulated counts in an order that is sorted once, and so does what Kendall is divided by.
"""

from __future__ import annotations

import numpy as np

from agreement.coefficients import Scale, all_pairs, combine_all, n_distinct, tie_classes
from agreement.matrices import TIE_RTOL

SAFE_SPREAD = 1e-6
"""Variance from sums of squares is used down to this share of the largest squared deviation; it
then has nine correct digits. Below, the row is computed again in two passes."""

Array = np.ndarray


def all_pairs_of_fixed(x: Array, y: Array, weights: Array, coefficient: str) -> Array:
    """Correlate rows as `all_pairs` does, under every row of weights, by Pearson or Spearman.

    Shapes (n_x, n), (n_y, n) and (n_rows, n) give (n_rows, n_x, n_y).
    """
    if coefficient == "spearman":
        left, x_scale = _ranked(x, weights)
        right, y_scale = _ranked(y, weights)
        products = left @ np.swapaxes(right * weights[:, None], 1, 2)
        result = combine_all(products, x_scale, y_scale, coefficient)
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


def blank_nearly_constant(result: Array, x: Array, y: Array, weights: Array) -> Array:
    """Set coefficients of ranks to NaN, in place, where only the last bits of a side differ."""
    for by_variable, values in ((result.swapaxes(0, 1), x), (result.transpose(2, 0, 1), y)):
        near = tie_classes(values, TIE_RTOL)
        is_close = near.max(axis=1) < tie_classes(values).max(axis=1)
        for variable in np.flatnonzero(is_close):
            by_variable[variable, n_distinct(near[variable], weights) < 2] = np.nan
    return result


def kendall_scale(classes: Array, weights: Array, coefficient: str) -> Scale:
    """Return what Kendall's numerator is divided by, (n_rows, n_variables), by `tie_classes`."""
    half_square = 0.5 * weights.sum(1) ** 2
    norms = np.empty((len(weights), len(classes)))
    distinct = np.empty(norms.shape, dtype=np.int64)
    for variable, each in enumerate(classes):
        totals = np.diff(_cumulated_to_class_ends(each, weights), axis=1, prepend=0.0)
        distinct[:, variable] = (totals > 0).sum(1)
        norms[:, variable] = half_square
        if coefficient == "kendall_b":
            norms[:, variable] -= 0.5 * np.einsum("bg,bg->b", totals, totals)
    return Scale(norms, distinct)


def _scaled(values: Array) -> Array:
    """Deviations from the row's mean, the largest of them 1."""
    centred = values - values.mean(axis=1, keepdims=True)
    largest = np.abs(centred).max(axis=1, keepdims=True)
    return centred / np.where(largest > 0, largest, 1.0)


def _ranked(values: Array, weights: Array) -> tuple[Array, Scale]:
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
    squared_norm = np.matmul(ranks**2, weights[:, :, None])[..., 0]
    return ranks, Scale(squared_norm, np.where(squared_norm > 0, 2, 1))


def _cumulated_to_class_ends(classes: Array, weights: Array) -> Array:
    """Weight of each class and those below it, shape (n_rows, n_classes)."""
    order = np.argsort(classes, kind="stable")
    ends = np.flatnonzero(np.diff(classes[order], append=classes.size))
    return np.cumsum(weights[:, order], axis=1)[:, ends]
