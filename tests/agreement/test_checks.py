"""Repeated systems, ties, shared cells."""

import numpy as np
import pytest

from agreement import (
    count_tied_cells,
    duplicate_systems,
    shared_cells,
)


def test_duplicate_system_is_found_despite_holes_and_last_bits(rng):
    # RealSumm lists one system twice.
    scores = rng.normal(size=(4, 10))
    scores[3] = scores[1] + 1e-15
    scores[1, 2] = np.nan
    assert duplicate_systems(scores) == [(1, 3)]


def test_systems_that_share_too_little_are_no_duplicates():
    scores = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, np.nan]])
    assert duplicate_systems(scores) == []


def test_tied_cells_by_hand():
    scores = np.array([[1.0, np.nan], [1.0, 2.0], [1.0, 3.0]])
    assert count_tied_cells(scores) == 3


def test_shared_cells_blank_what_one_lacks():
    a, b = shared_cells(np.array([[1.0, np.nan]]), np.array([[3.0, 4.0]]))
    np.testing.assert_array_equal(a, [[1.0, np.nan]])
    np.testing.assert_array_equal(b, [[3.0, np.nan]])


def test_matrix_of_wrong_dimensions_rejected():
    with pytest.raises(ValueError, match=r"`scores` must have 2 dimensions, got shape \(3,\)"):
        count_tied_cells(np.ones(3))


def test_small_scores_beside_an_exact_copy_are_no_duplicates():
    assert duplicate_systems(np.array([[1e-14, 2e-14], [3e-14, 5e-14], [1.0, 1e-14]])) == []
