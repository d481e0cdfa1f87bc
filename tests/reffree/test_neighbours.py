"""Nearest other documents: by hand, and what is no neighbour."""

import numpy as np

from reffree.buckets import find_neighbours, nearest_others, neighbours_path, read_bucket
from tests.reffree.conftest import make_pairs, write_buckets

TEXTS = [
    "the bridge closed in may after cracks",
    "the bridge closed in may after cracks .",  # nearly the same
    "cracks in the bridge of the town",
    "a cat slept on the warm stones",
    "zyx",
]


def test_nearest_by_hand():
    groups = np.arange(5, dtype=np.uint64)
    found = nearest_others(TEXTS, groups, 2)
    assert found[:2].tolist() == [[2, 3], [2, 3]]  # not each other
    assert found[4].tolist() == [-1, -1]
    assert 4 not in found


def test_same_group_is_no_neighbour():
    groups = np.array([7, 8, 7, 9, 10], dtype=np.uint64)
    assert nearest_others(TEXTS, groups, 1)[:, 0].tolist() == [3, 2, 1, 2, -1]


def test_written_beside_the_bucket(tmp_path):
    (path,) = write_buckets(tmp_path / "pairs", make_pairs(4))
    find_neighbours(tmp_path / "pairs", ("train",), k=2)
    bucket, found = read_bucket(path), np.load(neighbours_path(path))
    assert found.shape == (len(bucket), 2)
    assert not (found == np.arange(4)[:, None]).any()
