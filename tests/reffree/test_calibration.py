"""Scaling and shifting logits to fit held-out labels."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from reffree.calibration import SCALES, Calibrated, fit_scale
from reffree.evaluation import auc


def drawn(n, scale, shift, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, n)
    return logits, (rng.random(n) < expit(scale * logits + shift)).astype(float)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (2.5, -1.0), (0.3, 0.7)])
@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_finds_the_numbers_that_labels_were_drawn_by(loss, scale, shift):
    found = fit_scale(*drawn(100_000, scale, shift), loss)
    assert found == pytest.approx((scale, shift), rel=0.03, abs=0.03)


def test_is_logistic_regression_where_labels_are_hardly_drawn_in():
    logits, labels = drawn(50_000, 1.7, 0.4)
    linear_model = pytest.importorskip("sklearn.linear_model")
    known = linear_model.LogisticRegression(C=np.inf, tol=1e-10).fit(logits[:, None], labels)
    expected = (known.coef_.item(), known.intercept_.item())
    assert fit_scale(logits, labels, "bce") == pytest.approx(expected, rel=2e-3)


def test_least_cross_entropy_by_its_two_equations():
    logits, labels = drawn(300, 1.3, -0.8, seed=1)
    n_good = labels.sum()
    targets = np.where(labels == 1, (n_good + 1) / (n_good + 2), 1 / (300 - n_good + 2))
    scale, shift = fit_scale(logits, labels, "bce")
    gap = expit(scale * logits + shift) - targets
    assert gap.mean() == pytest.approx(0, abs=1e-5)
    assert (gap * logits).mean() == pytest.approx(0, abs=1e-5)


def test_a_threshold_in_the_wrong_place_is_mended_and_the_order_kept():
    # Every good one is above every bad one, but all are above 0.
    labels = np.repeat([1.0, 0.0], 40)
    logits = np.concatenate([np.linspace(4, 6, 40), np.linspace(1, 3, 40)])
    scale, shift = fit_scale(logits, labels, "bce")
    after = scale * logits + shift
    assert ((after > 0) == (labels == 1)).all()
    assert scale < SCALES[1]  # finite, though the classes are separable
    assert auc(after[labels == 1], after[labels == 0]) == 1.0


def test_labels_between_0_and_1():
    logits = np.random.default_rng(2).normal(0, 1.5, 20_000)
    labels = expit(0.8 * logits - 0.5)
    for loss in ("bce", "mse"):
        assert fit_scale(logits, labels, loss) == pytest.approx((0.8, -0.5), abs=2e-3)


def test_a_constant_model_keeps_a_scale_within_bounds():
    labels = np.array([1.0, 0.0, 0.0, 0.0] * 50)
    scale, shift = fit_scale(np.full(200, 2.0), labels, "bce")
    assert SCALES[0] <= scale <= SCALES[1]
    assert expit(2 * scale + shift) == pytest.approx(0.25, abs=0.01)


def test_a_calibrated_model_gives_the_scaled_logits():
    class Sum(torch.nn.Module):
        def forward(self, x):
            return x.sum(1)

    model = Calibrated(Sum(), 2.0, -1.0)
    assert model(x=torch.tensor([[1.0, 2.0], [0.0, 0.5]])).tolist() == [5.0, 0.0]
    assert sorted(model.state_dict()) == ["scale", "shift"]
