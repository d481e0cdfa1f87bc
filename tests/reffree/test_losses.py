"""Losses by hand, the same however examples are dealt into batches; and what calibrates."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from reffree.losses import LOSSES, fit_scale

LOG3 = math.log(3.0)  # its sigmoid is 3/4

# logits, labels, sum of the terms worked out by hand
BY_HAND = [
    pytest.param("bce", [LOG3], [1.0], -math.log(3 / 4), id="bce-positive"),
    pytest.param("bce", [LOG3, 0], [0.0, 0.5], math.log(4) + math.log(2), id="bce-two"),
    pytest.param("mse", [LOG3, 0], [1.0, 0.0], 1 / 16 + 1 / 4, id="mse"),
]


@pytest.mark.parametrize(("name", "logits", "labels", "total"), BY_HAND)
def test_loss_by_hand(name, logits, labels, total):
    x, y = (torch.tensor(own, dtype=torch.float64) for own in (logits, labels))
    found = LOSSES[name](x, y)
    assert float(found.total) == pytest.approx(total, abs=1e-12)
    assert found.n_terms == len(logits)


def test_a_threshold_in_the_wrong_place_is_mended_and_the_order_kept():
    # Every good one is above every bad one, but all are above 0.
    labels = np.repeat([1.0, 0.0], 40)
    logits = np.concatenate([np.linspace(4, 6, 40), np.linspace(1, 3, 40)])
    scale, shift = fit_scale(logits, labels)
    after = scale * logits + shift
    assert ((after > 0) == (labels == 1)).all()
    assert 0 < scale < 20  # finite, though the classes are separable


def test_labels_between_0_and_1():
    logits = np.random.default_rng(2).normal(0, 1.5, 20_000)
    labels = expit(0.8 * logits - 0.5)
    assert fit_scale(logits, labels) == pytest.approx((0.8, -0.5), abs=2e-3)


def test_labels_are_drawn_in_as_platt_does():
    # One good and one bad one: t = 2/3 and 1/3, so that a = b's mirror and a * 1 = log 2.
    assert fit_scale(np.array([1.0, -1.0]), np.array([1.0, 0.0])) == pytest.approx(
        (math.log(2), 0.0), abs=1e-3
    )
