"""Losses: worked out by hand, and the same however the examples are dealt into batches."""

import math

import pytest
import torch

from reffree.losses import LOSSES, compares_candidates, default_loss

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
