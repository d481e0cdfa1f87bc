"""What a summariser is trained to do: equations 6 to 8 of Clark et al. (2019)."""

from __future__ import annotations

import torch


def negative_log_likelihood(
    log_probabilities: torch.Tensor, is_counted: torch.Tensor
) -> torch.Tensor:
    r"""Sum :math:`-\log p(y^*_t)` over the words of each reference (equation 6).

    Both have shape (n, n_steps), the sums (n,). What does not count may be anything.
    """
    return -torch.where(is_counted, log_probabilities, 0.0).sum(dim=1)


def self_critical(
    log_probabilities: torch.Tensor, is_counted: torch.Tensor, advantages: torch.Tensor
) -> torch.Tensor:
    r"""Return the loss of each drawn summary (equation 7).

    .. math:: (r(\tilde y) - r(\hat y)) \sum_t \log p(\hat y_t)

    The log-probabilities, shape (n, n_steps), are of the words drawn, :math:`\hat y`; advantages,
    shape (n,), say how much better the drawn summary is than the greedy one.
    """
    return advantages * negative_log_likelihood(log_probabilities, is_counted)


def advantages_of(drawn: torch.Tensor, greedy: torch.Tensor) -> torch.Tensor:
    r"""Say how much better each drawn summary is than what it is compared with.

    A single one is compared with the greedy summary (equation 7), each of several with the mean
    of the others of its document (leave-one-out, Kool et al. 2019), which varies less. Rewards of
    drawn ones have shape (n_drawn, n), as has the result; those of greedy ones (n,).

    Examples
    --------
    >>> advantages_of(torch.tensor([[3.0]]), torch.tensor([2.0])).tolist()
    [[1.0]]
    >>> advantages_of(torch.tensor([[3.0], [1.0], [2.0]]), torch.tensor([9.0])).tolist()
    [[1.5], [-1.5], [0.0]]
    """
    if len(drawn) == 1:
        return drawn - greedy
    return drawn - (drawn.sum(dim=0) - drawn) / (len(drawn) - 1)


def divergence(
    log_probabilities: torch.Tensor, of_start: torch.Tensor, is_counted: torch.Tensor
) -> torch.Tensor:
    r"""Estimate how far a model has moved from the one it began as, summed over drawn words.

    .. math:: \sum_t \frac{\pi_0(w_t)}{\pi(w_t)} - \log \frac{\pi_0(w_t)}{\pi(w_t)} - 1

    For words drawn from :math:`\pi` its mean is the Kullback-Leibler divergence of :math:`\pi` from
    the first model :math:`\pi_0`, and no term is negative (Schulman 2020; Shao et al. 2024,
    equation 4). All have shape (n, n_steps), the sums (n,).
    """
    ratio = of_start - log_probabilities
    return torch.where(is_counted, ratio.exp() - ratio - 1.0, 0.0).sum(dim=1)


def mixed(reinforced: torch.Tensor, likelihood: torch.Tensor, gamma: float) -> torch.Tensor:
    r"""Return :math:`\gamma L_{RL} + (1 - \gamma) L_{MLE}` (equation 8), shape (n,)."""
    return gamma * reinforced + (1.0 - gamma) * likelihood


def gamma_at(step: int, n_steps: int, first: float, last: float) -> float:
    """Return the weight of the reward at a step: from `first` to `last` in a straight line.

    The paper starts with .97 and increases it "gradually" (A.3), without saying how far.
    """
    share = min(step / max(n_steps - 1, 1), 1.0)
    return first + (last - first) * share


def scaled(advantages: torch.Tensor, mean_square: float, how: str) -> torch.Tensor:
    """Bring advantages to the scale in which they enter the loss.

    `raw` leaves them as equation 7 has them; what a gamma means then depends on the metric's
    scale. `unit` divides by the root of their mean square over the batch, over all processes.
    """
    if how == "raw" or mean_square <= 0.0:
        return advantages
    return advantages / mean_square**0.5
