"""Equation 7: a gradient worked out by hand; the schedule of gamma, scales of advantages."""

import math

import pytest
import torch

from reinforce.losses import gamma_at, scaled, self_critical


def test_gradient_of_self_critical_loss_by_hand():
    # Two steps with two words each. The logits are (0, 0), then (log 3, 0): probabilities
    # (1/2, 1/2) and (3/4, 1/4). The first word is drawn, then the second, and the drawn summary
    # is rewarded .7, the greedy one .2. Equation 7 is (.2 - .7) (log 1/2 + log 1/4); the
    # gradient of log p of the word drawn is 1 - p for its own logit and -p for the other's.
    logits = torch.tensor([[[0.0, 0.0], [math.log(3.0), 0.0]]], requires_grad=True)
    drawn = torch.tensor([[0, 1]])
    logs = torch.log_softmax(logits, dim=2).gather(2, drawn[..., None]).squeeze(2)
    loss = self_critical(logs, torch.ones(1, 2, dtype=torch.bool), torch.tensor([0.7 - 0.2]))
    assert float(loss.detach()) == pytest.approx(-0.5 * (math.log(0.5) + math.log(0.25)))
    loss.sum().backward()
    expected = [[[-0.5 * 0.5, 0.5 * 0.5], [0.5 * 0.75, -0.5 * 0.75]]]
    torch.testing.assert_close(logits.grad, torch.tensor(expected))


def test_gamma_rises_in_a_straight_line():
    gammas = [gamma_at(step, 5, 0.97, 0.99) for step in range(7)]
    assert gammas == pytest.approx([0.97, 0.975, 0.98, 0.985, 0.99, 0.99, 0.99])
    assert gamma_at(0, 1, 0.97, 0.99) == 0.97


def test_advantages_are_scaled_if_asked_for_and_not_all_0():
    advantages = torch.tensor([0.3, -0.4, 0.0])
    assert torch.equal(scaled(advantages, 0.25, "raw"), advantages)
    torch.testing.assert_close(scaled(advantages, 0.25, "unit"), 2 * advantages)
    assert torch.equal(scaled(torch.zeros(3), 0.0, "unit"), torch.zeros(3))
