"""Things about a matrix that a reader must be told: repeated systems, tied cells."""

from __future__ import annotations

import numpy as np

from agreement.coefficients import tie_classes
from agreement.matrices import TIE_RTOL, as_matrices

FEWEST_SHARED = 2
"""Documents that two systems must both have before they are taken for one."""


def duplicate_systems(scores: np.ndarray) -> list[tuple[int, int]]:
    """Find systems that are probably one listed twice: equal on every document both have.

    Counted twice, a system weighs double in every correlation and interval. Use a metric with fine
    steps, for ratings tie by chance.

    Examples
    --------
    >>> duplicate_systems(np.array([[0.1, 0.2], [0.5, 0.6], [0.1, 0.2]]))
    [(0, 2)]
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


def count_tied_cells(scores: np.ndarray) -> int:
    """Count cells whose score another system also has on the same document.

    Examples
    --------
    >>> count_tied_cells(np.array([[1.0, 5.0], [1.0, 6.0], [2.0, 6.0]]))
    4
    """
    (matrix,) = as_matrices(scores=scores)
    tied = 0
    for column in matrix.T:
        _, sizes = np.unique(tie_classes(column[~np.isnan(column)]), return_counts=True)
        tied += int(sizes[sizes > 1].sum())
    return tied
