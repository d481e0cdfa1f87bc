"""Matrices that several tests use."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def pilot(rng):
    """Two metrics and ratings, 8 systems on 12 documents, with holes and ties."""
    quality = rng.normal(size=(8, 1))
    ratings = np.round(quality + rng.normal(size=(8, 12)))
    first = quality + rng.normal(size=(8, 12))
    second = 0.5 * quality + np.round(rng.normal(size=(8, 12)), 1)
    first[2, 3], second[5, 1], ratings[7, 11] = np.nan, np.nan, np.nan
    return first, second, ratings
