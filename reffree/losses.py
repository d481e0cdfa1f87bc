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
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class LossSum:
    """A loss before it is averaged."""

    total: torch.Tensor
    """Sum of the terms, a scalar that has a gradient even if there is no term."""
    n_terms: int
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Further sums and their numbers; the log gets their means."""


Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor], LossSum]
"""Of logits and labels in [0, 1], both of shape (n,)."""


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> LossSum:
    r"""Binary cross-entropy, one term per example (Bao et al. 2020, section 2.2).

    .. math:: -y \log \sigma(x) - (1 - y) \log (1 - \sigma(x))

    With a label between 0 and 1 it is least where :math:`\sigma(x) = y`, but not 0 there.
    """
    total = functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return LossSum(total, labels.numel())


def squared_error(logits: torch.Tensor, labels: torch.Tensor) -> LossSum:
    r"""Squared difference of :math:`\sigma(x)` and the label, one term per example."""
    return LossSum((torch.sigmoid(logits) - labels).square().sum(), labels.numel())


LOSSES: dict[str, Loss] = {"bce": cross_entropy, "mse": squared_error}  # every loss by name


def default_loss(kinds: Sequence[str]) -> str:
    """Choose a loss for kinds of negatives: squared error where all are edits, else cross-entropy.

    So do Bao et al. 2020, who mix no kinds.

    Examples
    --------
    >>> default_loss(("add", "delete")), default_loss(("cross-pair", "add"))
    ('mse', 'bce')
    """
    return "bce" if any(kind.startswith("cross-pair") for kind in kinds) else "mse"


def fit_scale(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    r"""Find the scale a and the shift b that make logits ax + b fit the labels best (Platt 1999).

    A model that puts every reference above its negative may still have 0.5 in the wrong place, as
    it learnt from few documents and is too sure of those. Labels, of documents that were not
    trained on, are drawn in as Platt does, or separable classes would have no finite scale:

    .. math:: t = y \frac{N_1 + 1}{N_1 + 2} + (1 - y) \frac{1}{N_0 + 2}

    where :math:`N_1` is the sum of all labels y and :math:`N_0` that of all 1 - y.
    """
    from sklearn.linear_model import LogisticRegression

    n_good = labels.sum()
    targets = labels * (n_good + 1) / (n_good + 2) + (1 - labels) / (labels.size - n_good + 2)
    # A label between 0 and 1 is a row of each class, weighted by it.
    x, y = np.tile(logits, 2)[:, None], np.repeat([1, 0], logits.size)
    model = LogisticRegression(C=np.inf).fit(x, y, sample_weight=np.append(targets, 1 - targets))
    return float(model.coef_[0, 0]), float(model.intercept_[0])
