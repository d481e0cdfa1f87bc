"""Figures of a scorer: by hand."""

import numpy as np
import pytest

from reffree.evaluation import Judged, calibration_error, pearson


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
    unseen = [
        ("add", 0, 0.5, np.nan),
        ("positive", 2, 1.0, np.nan),
        ("cross-pair", 2, 0.0, 0.3),
    ]
    assert judged(rows + unseen).by_kind() == judged(rows).by_kind()


def test_calibration_error_by_hand():
    scores, labels = np.array([0.15, 0.15, 0.95]), np.array([0.0, 1.0, 1.0])
    assert calibration_error(scores, labels) == pytest.approx(0.25)


def test_constant_has_no_correlation():
    assert pearson(np.full(3, 0.1 + 0.2), np.arange(3.0)) is None
    assert pearson(np.empty(0), np.empty(0)) is None
