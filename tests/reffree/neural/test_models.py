"""Heads and losses by hand."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from reffree.neural.models import FIRST_SCALE, HEADS, MODEL_PRESETS, Convolution, make_head
from reffree.neural.training import LOSSES, default_loss, fit_scale
from tests.reffree.conftest import model_config

# Heads


def test_convolution_by_hand():
    head = Convolution((2, 1), 2)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.fill_(0.0 if "bias" in name else 1.0)
    vectors = torch.tensor([[[1.0, 2.0], [-5.0, 1.0], [0.5, 0.0]]])
    # 128 filters, the largest sum is 3
    assert head(vectors, torch.tensor([[2, 1]])).item() == pytest.approx(128 * 3.0)


@pytest.mark.parametrize("head", HEADS)
def test_padding_makes_no_difference(head):
    """A head with room for more sentences, and the same weights, gives the same logit."""
    generator = torch.Generator().manual_seed(0)
    document, summary = torch.randn(2, 6, generator=generator), torch.randn(1, 6)
    logits = []
    for room in (2, 5, 40):
        torch.manual_seed(0)
        config = model_config(scorer="sentence", head=head, n_hidden=1)
        made = make_head(config, (room, 1), width=6, norm=2.0).eval()
        if head == "fc":  # its first weights compare means, and stand for any of that kind
            direction = torch.linspace(-1, 1, 6)
            with torch.no_grad():
                parts = torch.tensor([*[1 / room] * room, -1.0])
                made.layers[1].weight.copy_((parts[:, None] * direction).flatten()[None])
                made.layers[4].weight.fill_(1.0)
                made.layers[4].bias.zero_()
        vectors = torch.zeros(1, room + 1, 6)
        vectors[0, :2], vectors[0, room:] = document, summary
        logits.append(made(vectors, torch.tensor([[2, 1]])).item())
    assert logits[1:] == pytest.approx([logits[0]] * 2, abs=1e-5)


def test_fc_begins_by_comparing_the_means_of_the_texts():
    torch.manual_seed(0)
    head = make_head(model_config(scorer="sentence", n_hidden=7), (4, 2), width=6, norm=0.5)
    vectors = torch.randn(5, 6, 6)
    hidden = head.layers[1](vectors.flatten(1))
    differences = vectors[:, :4].mean(1) - vectors[:, 4:].mean(1)
    directions = hidden[:, :4]
    torch.testing.assert_close(hidden[:, 4:], -hidden[:, :3])
    found = torch.linalg.lstsq(differences, directions).solution
    torch.testing.assert_close(differences @ found, directions)
    spread = make_head(model_config(scorer="sentence", n_hidden=2000), (1, 1), width=6, norm=0.5)
    apart = torch.tensor([[[0.3, 0, 0, 0, 0, 0], [0.0, 0.4, 0, 0, 0, 0]]])
    hidden = spread.layers[1](apart.flatten(1))
    assert hidden.std().item() == pytest.approx(FIRST_SCALE * 0.5 / 0.5, rel=0.1)
    published = model_config(scorer="sentence", **MODEL_PRESETS["bao2020"])
    weights = make_head(published, (4, 2), width=6).layers[1].weight.view(128, 6, 6)
    assert not torch.equal(weights[:, 0], weights[:, 1])  # at random


@pytest.mark.parametrize("dropout", [0.5, 0.0])
def test_fc_leaves_out_inputs_in_training_only(dropout):
    torch.manual_seed(0)
    head = make_head(model_config(scorer="sentence", dropout=dropout), (4, 2), width=6)
    vectors, lengths = torch.ones(8, 6, 6), torch.tensor([[4, 2]]).repeat(8, 1)
    trained, used = head.train()(vectors, lengths), head.eval()(vectors, lengths)
    assert (trained.std() > 0.01) == bool(dropout)
    torch.testing.assert_close(used, used[:1].expand(8))


# Losses, and what calibrates

LOG3 = math.log(3.0)  # its sigmoid is 3/4

# logits, labels, sum of the terms worked out by hand
LOSSES_BY_HAND = [
    pytest.param("bce", [LOG3], [1.0], -math.log(3 / 4), id="bce-positive"),
    pytest.param("bce", [LOG3, 0], [0.0, 0.5], math.log(4) + math.log(2), id="bce-two"),
    pytest.param("mse", [LOG3, 0], [1.0, 0.0], 1 / 16 + 1 / 4, id="mse"),
]


@pytest.mark.parametrize(("name", "logits", "labels", "total"), LOSSES_BY_HAND)
def test_loss_by_hand(name, logits, labels, total):
    x, y = (torch.tensor(numbers, dtype=torch.float64) for numbers in (logits, labels))
    found = LOSSES[name](x, y)
    assert float(found.total) == pytest.approx(total, abs=1e-12)
    assert found.n_terms == len(logits)


def test_default_loss_goes_by_the_kinds():
    assert default_loss(("add", "delete")) == "mse"
    assert default_loss(("cross-pair", "add")) == "bce"


def test_a_threshold_in_the_wrong_place_is_mended_and_the_order_kept():
    # Every good one is above every bad one, but all are above 0.
    labels = np.repeat([1.0, 0.0], 40)
    logits = np.concatenate([np.linspace(4, 6, 40), np.linspace(1, 3, 40)])
    scale, shift = fit_scale(logits, labels)
    assert (((scale * logits + shift) > 0) == (labels == 1)).all()
    assert 0 < scale < 20  # finite, though the classes are separable


def test_calibration_finds_scale_and_shift_with_labels_drawn_in_as_platt_does():
    logits = np.random.default_rng(2).normal(0, 1.5, 20_000)
    labels = expit(0.8 * logits - 0.5)
    assert fit_scale(logits, labels) == pytest.approx((0.8, -0.5), abs=2e-3)
    # One good and one bad one: t = 2/3 and 1/3, so that a = b's mirror and a * 1 = log 2.
    few = fit_scale(np.array([1.0, -1.0]), np.array([1.0, 0.0]))
    assert few == pytest.approx((math.log(2), 0.0), abs=1e-3)
