"""Compiled pooling: the mean and the maximum of groups of rows of a matrix."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel
from sms.ragged import Ragged


def pool_rows(
    vectors: np.ndarray, groups: Ragged, *, with_maximum: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and, where asked for, the maximum of every group of rows of `vectors`.

    Rows are added in order of their numbers, so that the order within a group cannot change the
    last digit. Both are float64, (n_groups, d); of an empty group the mean is zero and the maximum
    minus infinity. Where that is not asked for, the means stand in its place.
    """
    first_key = groups.owners * len(vectors)
    in_order = np.sort(first_key + groups.values) - first_key
    means = np.zeros((len(groups), vectors.shape[1]))
    largest = np.full(means.shape, -np.inf) if with_maximum else means
    _pool(vectors, in_order, groups.offsets, means, largest, with_maximum)
    return means, largest


@kernel()
def _pool(
    vectors: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    means: np.ndarray,
    largest: np.ndarray,
    with_maximum: bool,
) -> None:
    d = vectors.shape[1]
    for group in range(offsets.size - 1):
        for at in range(offsets[group], offsets[group + 1]):
            row = rows[at]
            for k in range(d):
                means[group, k] += vectors[row, k]
            if with_maximum:
                for k in range(d):
                    largest[group, k] = max(largest[group, k], vectors[row, k])
        n_rows = offsets[group + 1] - offsets[group]
        if n_rows:
            for k in range(d):
                means[group, k] /= n_rows
