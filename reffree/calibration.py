"""Brings a trained model's scores to what held-out documents say, without changing their order.

A model that puts every reference above its negative may still have 0.5 in the wrong place, as it
learnt from few documents and is too sure of those. Two numbers mend that (Platt 1999).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import nn

from reffree.losses import LOSSES

SCALES = (0.05, 20.0)
"""Least and largest scale; a constant model has no best one."""


class Calibrated(nn.Module):
    """A model whose logits are scaled and shifted."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, model: nn.Module, scale: float = 1.0, shift: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("shift", torch.tensor(shift))

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        """Return logits, float32, shape (n,)."""
        logits: torch.Tensor = self.model(**inputs) * self.scale + self.shift
        return logits


def fit_scale(logits: np.ndarray, labels: np.ndarray, loss: str) -> tuple[float, float]:
    r"""Find the scale a and the shift b that make the loss of logits ax + b least.

    Labels are drawn in as Platt (1999) does, or separable classes would have no finite scale:

    .. math:: t = y \frac{N_1 + 1}{N_1 + 2} + (1 - y) \frac{1}{N_0 + 2}

    where :math:`N_1` is the sum of all labels y and :math:`N_0` that of all 1 - y.

    Parameters
    ----------
    logits, labels : ndarray, shape (n,)
        Of documents that were not trained on.
    loss : str
        `bce` or `mse`; `ranking` does not depend on a shift.

    Returns
    -------
    scale : float
        Within `SCALES`.
    shift : float
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
