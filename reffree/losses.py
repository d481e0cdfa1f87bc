"""What a scorer is trained to do: losses as sums over terms, so that no batch size is in them.

A loss gives the sum of its terms and their number. Whoever averages divides the sums of all
batches (of all processes) by all terms, and gets the same however the terms were dealt out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn import functional

LABEL_ATOL = 1e-6
"""Labels that differ by no more are equally good; they are float32 by then."""
SCALES = (0.05, 20.0)
"""Least and largest scale of a calibration; a constant model has no best one."""


@dataclass(frozen=True, slots=True)
class LossSum:
    """A loss before it is averaged."""

    total: torch.Tensor
    """Sum of the terms, a scalar that has a gradient even if there is no term."""
    n_terms: int
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Further sums and their numbers, of which the log gets the means."""


Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], LossSum]
"""Of logits, labels in [0, 1] and the number of each example's pair, all of shape (n,)."""


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, groups: torch.Tensor) -> LossSum:
    r"""Binary cross-entropy, one term per example (Bao et al. 2020, section 2.2).

    .. math:: -y \log \sigma(x) - (1 - y) \log (1 - \sigma(x))

    With a label between 0 and 1 it is least where :math:`\sigma(x) = y`, but not 0 there.
    """
    total = functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return LossSum(total, labels.numel())


def squared_error(logits: torch.Tensor, labels: torch.Tensor, groups: torch.Tensor) -> LossSum:
    r"""Squared difference of :math:`\sigma(x)` and the label, one term per example."""
    return LossSum((torch.sigmoid(logits) - labels).square().sum(), labels.numel())


def preference(logits: torch.Tensor, labels: torch.Tensor, groups: torch.Tensor) -> LossSum:
    r"""Negative log-likelihood of the better candidate winning, by the model of Bradley and Terry.

    .. math:: -\log \sigma(x_i - x_j)

    for all i and j of the same pair of which i has the higher label; the term of Bradley and
    Terry (1952). Candidates of different sources are not compared.
    """
    is_better = labels[:, None] > labels[None, :] + LABEL_ATOL
    better, worse = torch.nonzero(is_better & (groups[:, None] == groups[None, :]), as_tuple=True)
    total = functional.softplus(logits[worse] - logits[better]).sum()
    return LossSum(total + 0 * logits.sum(), int(better.numel()))


LOSSES: dict[str, Loss] = {"bce": cross_entropy, "mse": squared_error, "ranking": preference}
"""Every loss by name."""


def default_loss(kinds: Sequence[str]) -> str:
    """Choose a loss for kinds of negatives: squared error where all are edits, else cross-entropy.

    So do Bao et al. 2020, who mix no kinds.

    Examples
    --------
    >>> default_loss(("add", "delete")), default_loss(("cross-pair", "add"))
    ('mse', 'bce')
    """
    return "bce" if any(kind.startswith("cross-pair") for kind in kinds) else "mse"


def compares_candidates(loss: str) -> bool:
    """Whether the candidates of a pair have to be in one batch."""
    return LOSSES[loss] is preference


def fit_scale(logits: np.ndarray, labels: np.ndarray, loss: str) -> tuple[float, float]:
    r"""Find the scale a, in `SCALES`, and the shift b that make the loss of logits ax + b least.

    A model that puts every reference above its negative may still have 0.5 in the wrong place, as
    it learnt from few documents and is too sure of those. Labels, of documents that were not
    trained on, are drawn in as Platt (1999) does, or separable classes would have no finite scale:

    .. math:: t = y \frac{N_1 + 1}{N_1 + 2} + (1 - y) \frac{1}{N_0 + 2}

    where :math:`N_1` is the sum of all labels y and :math:`N_0` that of all 1 - y. (scikit-learn's
    calibration has neither labels between 0 and 1 nor squared errors.)
    """
    n_good = labels.sum()
    targets = labels * (n_good + 1) / (n_good + 2) + (1 - labels) / (labels.size - n_good + 2)
    x, t = torch.from_numpy(logits.astype(np.float64)), torch.from_numpy(targets)
    groups = torch.zeros(labels.size, dtype=torch.int64)  # of no account for these losses

    def value_and_gradient(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.tensor(parameters, requires_grad=True)
        found = LOSSES[loss](x * at[0].exp() + at[1], t, groups)
        mean = found.total / found.n_terms
        (gradient,) = torch.autograd.grad(mean, at)
        return mean.item(), gradient.numpy()

    bounds = [tuple(np.log(SCALES)), (None, None)]
    found = minimize(value_and_gradient, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(found.x[0])), float(found.x[1])
