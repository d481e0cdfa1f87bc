"""Figures of a scorer: by hand, and against textbook formulas."""

import numpy as np
import pytest
from scipy import stats

from reffree.scorers.evaluation import (
    Judged,
    calibration_error,
    confounders,
    partial_pearson,
    pearson,
)


def judged(rows):
    kinds, pairs, labels, scores = zip(*rows, strict=True)
    return Judged(
        np.array(kinds), np.array(pairs), np.array(labels), np.array(scores),
        np.array([score > 0.85 for score in scores]),
    )  # fmt: skip


def test_figures_by_hand():
    found = judged(
        [
            ("positive", 0, 1.0, 0.9),
            ("cross-pair", 0, 0.0, 0.1),
            ("add", 0, 0.5, 0.6),
            ("positive", 1, 1.0, 0.4),
            ("cross-pair", 1, 0.0, 0.5),
        ]
    ).by_kind()
    assert list(found) == ["cross-pair", "add"]
    cross, add = found["cross-pair"], found["add"]
    assert (cross.n, cross.accuracy, cross.auc, cross.preferred) == (4, 0.5, 0.75, 0.5)
    assert cross.mse == pytest.approx((0.01 + 0.01 + 0.36 + 0.25) / 4)
    assert cross.n_cut == 1
    assert (add.n, add.accuracy, add.preferred) == (2, 1.0, 1.0)  # pair 1 has no such negative
    assert add.pearson == pytest.approx(1.0)


def test_examples_without_a_score_are_left_out():
    rows = [
        ("positive", 0, 1.0, 0.9),
        ("cross-pair", 0, 0.0, 0.1),
        ("positive", 1, 1.0, 0.6),
        ("cross-pair", 1, 0.0, 0.7),
    ]
    unseen = [("add", 0, 0.5, np.nan), ("positive", 2, 1.0, np.nan), ("cross-pair", 2, 0.0, 0.3)]
    assert judged(rows + unseen).by_kind() == judged(rows).by_kind()


def test_calibration_error_by_hand():
    scores, labels = np.array([0.15, 0.15, 0.95]), np.array([0.0, 1.0, 1.0])
    assert calibration_error(scores, labels) == pytest.approx(0.25)


def test_constant_has_no_correlation():
    assert pearson(np.full(3, 0.1 + 0.2), np.arange(3.0)) is None
    assert pearson(np.empty(0), np.empty(0)) is None


def test_partial_correlation_matches_the_textbook():
    rng = np.random.default_rng(1)
    z = rng.normal(size=50)
    x, y = z + rng.normal(size=50), z + rng.normal(size=50)
    xy, xz, yz = (stats.pearsonr(*pair)[0] for pair in ((x, y), (x, z), (y, z)))
    expected = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert partial_pearson(x, y, z[:, None]) == pytest.approx(expected, abs=1e-12)


def test_nothing_is_left_of_a_score_that_is_length():
    rng = np.random.default_rng(2)
    length, labels = rng.integers(10, 90, size=40).astype(float), rng.random(40)
    traits = {"length": length, "density": rng.random(40)}
    found = confounders(length / 100, labels, traits)
    assert found["score~length"] == pytest.approx(1)
    assert found["score~label|traits"] is None
    unscored = {name: np.append(values, 9.0) for name, values in traits.items()}
    assert confounders(np.append(length / 100, np.nan), np.append(labels, 1), unscored) == found
