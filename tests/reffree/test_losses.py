"""Losses by hand, the same however examples are dealt into batches; and what calibrates."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from reffree.evaluation import auc
from reffree.losses import LOSSES, SCALES, compares_candidates, default_loss, fit_scale

LOG3 = math.log(3.0)  # its sigmoid is 3/4

# logits, labels, pairs, sum of the terms worked out by hand, their number
BY_HAND = [
    pytest.param("bce", [LOG3], [1.0], [0], -math.log(3 / 4), 1, id="bce-positive"),
    pytest.param("bce", [LOG3, 0], [0.0, 0.5], [0, 0], math.log(4) + math.log(2), 2, id="bce-two"),
    pytest.param("mse", [LOG3, 0], [1.0, 0.0], [0, 0], 1 / 16 + 1 / 4, 2, id="mse"),
    pytest.param("ranking", [LOG3, 0], [1.0, 0.0], [0, 0], -math.log(3 / 4), 1, id="ranked-right"),
    pytest.param("ranking", [LOG3, 0], [0.0, 1.0], [0, 0], math.log(4), 1, id="ranked-wrong"),
    pytest.param(
        "ranking", [0, 0, LOG3], [1.0, 0.5, 0.0], [0, 0, 0], math.log(2) + 2 * math.log(4), 3,
        id="three-grades",
    ),
    pytest.param("ranking", [0, LOG3], [1.0, 0.0], [0, 1], 0.0, 0, id="different-pairs"),
    pytest.param("ranking", [0, LOG3], [1.0, 1.0], [0, 0], 0.0, 0, id="equally-good"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "logits", "labels", "groups", "total", "n_terms"), BY_HAND)
def test_loss_by_hand(name, logits, labels, groups, total, n_terms):
    found = LOSSES[name](
        torch.tensor(logits, dtype=torch.float64),
        torch.tensor(labels, dtype=torch.float64),
        torch.tensor(groups),
    )
    assert float(found.total) == pytest.approx(total, abs=1e-12)
    assert found.n_terms == n_terms


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("n_batches", [2, 4, 8])
def test_loss_does_not_depend_on_the_batches(name, n_batches):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(24, generator=generator, dtype=torch.float64)
    labels = torch.rand(24, generator=generator, dtype=torch.float64)
    groups = torch.arange(24) // 3
    whole = LOSSES[name](logits, labels, groups)
    parts = [
        LOSSES[name](*part)
        for part in zip(*(x.chunk(n_batches) for x in (logits, labels, groups)), strict=True)
    ]
    assert sum(part.n_terms for part in parts) == whole.n_terms
    assert sum(float(part.total) for part in parts) == pytest.approx(float(whole.total), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_loss_of_large_logits_is_finite(name):
    logits = torch.tensor([-500.0, 500.0], requires_grad=True)
    found = LOSSES[name](logits, torch.tensor([1.0, 0.0]), torch.tensor([0, 0]))
    found.total.backward()
    assert torch.isfinite(found.total)
    assert torch.isfinite(logits.grad).all()


def test_ranking_without_a_comparison_has_a_gradient_of_zero():
    logits = torch.tensor([1.0, 2.0], requires_grad=True)
    LOSSES["ranking"](logits, torch.ones(2), torch.tensor([0, 0])).total.backward()
    assert logits.grad.tolist() == [0.0, 0.0]


def test_default_loss_by_kinds():
    assert default_loss(("cross-pair-hard",)) == "bce"
    assert default_loss(("add", "delete")) == "mse"
    assert default_loss(("add", "cross-pair")) == "bce"
    assert [name for name in LOSSES if compares_candidates(name)] == ["ranking"]


def drawn(n, scale, shift, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, n)
    return logits, (rng.random(n) < expit(scale * logits + shift)).astype(float)


def test_is_logistic_regression_where_labels_are_hardly_drawn_in():
    logits, labels = drawn(50_000, 1.7, 0.4)
    linear_model = pytest.importorskip("sklearn.linear_model")
    known = linear_model.LogisticRegression(C=np.inf, tol=1e-10).fit(logits[:, None], labels)
    expected = (known.coef_.item(), known.intercept_.item())
    assert fit_scale(logits, labels, "bce") == pytest.approx(expected, rel=2e-3)


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
