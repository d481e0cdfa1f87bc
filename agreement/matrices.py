"""Matrices of scores: checking them, what several of them share, systems that are listed twice.

A matrix has shape (n_systems, n_documents) and NaN where a cell is missing. Nothing here
knows where the numbers come from.
"""

from __future__ import annotations

import numpy as np

TIE_RTOL = 1e-12
"""Relative to the larger of two values, for means to the larger of the mean magnitudes of their
cells: values no further apart than this are constant, and means no further apart than this are
tied. It absorbs the last bits of sums (0.1 + 0.2 against 0.3) and nothing that was measured,
however large other values are: scores near 1e-14 beside a score of 1 keep their order."""

FEWEST_SHARED = 2
"""Documents that two systems must both have before they are taken for one."""


def as_stack(name: str, values: np.ndarray, n_dimensions: int) -> np.ndarray:
    """Return `values` as float64; refuse other dimensions, text and infinite values."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers, got dtype {raw.dtype}; convert it first")
    array = raw.astype(np.float64)
    if array.ndim != n_dimensions:
        raise ValueError(f"`{name}` must have {n_dimensions} dimensions, got shape {array.shape}")
    if np.isinf(array).any():
        where = tuple(int(i) for i in np.argwhere(np.isinf(array))[0])
        raise ValueError(
            f"`{name}` must be finite or NaN, got {array[where]:g} at {where}; use NaN for missing"
        )
    return array


def as_matrices(**named: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return named matrices as float64; refuse those that differ in shape from the first one."""
    arrays = {name: as_stack(name, values, 2) for name, values in named.items()}
    first, *_ = arrays
    for name, array in arrays.items():
        if array.shape != arrays[first].shape:
            raise ValueError(
                f"`{name}` must have the shape of `{first}`, {arrays[first].shape}, "
                f"got {array.shape}; align systems and documents first"
            )
    return tuple(arrays.values())


def shared_cells(*matrices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Blank every cell that any of the matrices lacks, so that all are about the same cells.

    Two metrics are only comparable this way: each on its own cells would be a comparison of
    the cells. Returns copies, NaN wherever one of them was.

    Examples
    --------
    >>> shared_cells(np.array([[1.0, np.nan]]), np.array([[3.0, 4.0]]))[1]
    array([[ 3., nan]])
    """
    missing = np.logical_or.reduce([np.isnan(matrix) for matrix in matrices])
    return tuple(np.where(missing, np.nan, matrix) for matrix in matrices)


def duplicate_systems(scores: np.ndarray) -> list[tuple[int, int]]:
    """Find systems that are probably one listed twice: equal on every document both have.

    Counted twice, a system weighs double in every correlation and interval. Use a metric with fine
    steps, for ratings tie by chance.
    """
    (matrix,) = as_matrices(scores=scores)
    have = ~np.isnan(matrix)
    sizes = np.abs(matrix)
    pairs = []
    for first in range(len(matrix) - 1):
        shared = have[first] & have[first + 1 :]
        tolerance = TIE_RTOL * np.maximum(sizes[first], sizes[first + 1 :])
        differences = np.abs(matrix[first] - matrix[first + 1 :])
        is_same = ((differences <= tolerance) | ~shared).all(1) & (shared.sum(1) >= FEWEST_SHARED)
        pairs += [(first, first + 1 + int(row)) for row in np.flatnonzero(is_same)]
    return pairs


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `ValueError` unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}")
