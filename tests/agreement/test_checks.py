"""Repeated systems, ties, shared cells."""

import numpy as np
import pytest

from agreement import count_tied_cells, duplicate_systems, shared_cells


@pytest.mark.parametrize(
    ("scores", "pairs"),
    [
        # RealSumm lists one system twice; here with a hole and other last bits.
        ([[5, 6, 7.0], [0.1 + 0.2, 2, 3], [0, 9, 1], [0.3, 2, np.nan]], [(1, 3)]),
        ([[1.0, np.nan, 3.0], [1.0, 2.0, np.nan]], []),  # too little in common
        ([[1e-14, 2e-14], [3e-14, 5e-14], [1.0, 1e-14]], []),  # small beside an exact copy
    ],
)
def test_duplicate_systems(scores, pairs):
    assert duplicate_systems(np.array(scores)) == pairs


def test_tied_cells_by_hand():
    assert count_tied_cells(np.array([[1.0, np.nan], [1.0, 2.0], [1.0, 3.0]])) == 3


def test_shared_cells_blank_what_one_lacks():
    a, b = shared_cells(np.array([[1.0, np.nan]]), np.array([[3.0, 4.0]]))
    np.testing.assert_array_equal(a, [[1.0, np.nan]])
    np.testing.assert_array_equal(b, [[3.0, np.nan]])


def test_matrix_of_wrong_dimensions_rejected():
    with pytest.raises(ValueError, match=r"`scores` must have 2 dimensions, got shape \(3,\)"):
        count_tied_cells(np.ones(3))
