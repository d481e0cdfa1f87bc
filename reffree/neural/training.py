"""From prepared pairs to trained weights, in one process or in each of several, and the losses.

What a process has to know is a `Recipe` and the folder of the prepared pairs, so that the same
function runs at home and on a cluster. The loop itself is in `loop`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reffree.hashing import generator_of
from reffree.negatives import NegativesConfig
from reffree.neural.batches import Batch, batches, count_batches
from reffree.neural.building import Built, build
from reffree.neural.checkpoint import TrainNews
from reffree.neural.loop import LoopSettings, LossSum, Ranks, TrainState, precision, run_training
from reffree.neural.models import Calibrated, ModelConfig
from reffree.neural.readers import Reader
from reffree.training_pairs.examples import PreparedPairs

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
    """Choose squared error where all negatives are edits, else cross-entropy (Bao et al. 2020)."""
    return "bce" if any(kind.startswith("cross-pair") for kind in kinds) else "mse"


@dataclass(frozen=True, kw_only=True)
class TrainConfig(LoopSettings):
    """How one scorer is trained."""

    max_norm: float = 1.0
    log_steps: int = 20
    loss: str  # one of `LOSSES`
    optimiser: str = "adamw"
    """`adamw`, whose rate rises and then falls to 0, or `rmsprop`, whose rate stays."""
    weight_decay: float = 0.01  # of AdamW; not for biases and norms
    warmup_share: float = 0.1
    """Part of all steps in which the learning rate rises; then it falls, to 0 by the end."""
    ema_decay: float
    """How much the past counts in the mean of weights that is kept; see `loop.run_training`."""
    precision: str  # of products, as in `loop.precision`; the loss stays in float32

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("warmup_share", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be in [0, 1), got {getattr(self, name):g}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"`weight_decay` must not be negative, got {self.weight_decay:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides what a scorer becomes, given its pairs."""

    model: ModelConfig
    negatives: NegativesConfig
    training: TrainConfig


class ScorerTask:
    """The task of `loop.run_training`: scores of pairs are to be near their labels.

    The batches of a process are the same whenever they are asked for.
    """

    def __init__(
        self,
        pairs: PreparedPairs,
        recipe: Recipe,
        reader: Reader,
        *,
        device: str = "cpu",
        ranks: Ranks | None = None,
    ) -> None:
        self._training = pairs.examples("train", recipe.negatives)
        self._validation = pairs.examples("validation", recipe.negatives)
        self._config, self._reader = recipe.training, reader
        self._where, self._ranks = torch.device(device), ranks or Ranks()
        # An upper bound: a negative that cannot be made is left out.
        n_negatives = len(recipe.negatives.kinds) if recipe.negatives.proportions is None else 1
        n_positives = n_negatives if recipe.negatives.is_balanced else 1
        n_examples = pairs.n_pairs["train"] * (n_negatives + n_positives)
        size, n_ranks = self._config.batch_size, self._ranks.size
        self._n_batches = count_batches(n_examples, size=size, n_ranks=n_ranks)

    def training(self, epoch: int) -> Iterator[Batch]:
        """Give this process's part of an epoch's batches."""
        size, seed = self._config.batch_size, self._config.seed
        groups, rng = self._training.epoch(epoch), generator_of(seed, "batches", epoch)
        rank, n_ranks = self._ranks.rank, self._ranks.size
        return batches(groups, self._reader, size=size, rng=rng, rank=rank, n_ranks=n_ranks)

    def validation(self) -> Iterator[Batch]:
        """Give this process's part of the validation batches."""
        groups = islice(self._validation.held_out(), self._ranks.rank, None, self._ranks.size)
        return batches(groups, self._reader, size=self._config.batch_size)

    def optimiser(
        self, model: nn.Module
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """AdamW, with a rate that rises and then falls to 0, or RMSProp, with one that stays."""
        config = self._config
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if config.optimiser == "rmsprop":
            # with the constants of Keras, in which the code of Bao et al. 2020 is written
            plain = torch.optim.RMSprop(trained, lr=config.learning_rate, alpha=0.9, eps=1e-7)
            return plain, torch.optim.lr_scheduler.ConstantLR(plain, factor=1.0)
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": config.weight_decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        # Fused: one pass over the weights where there would be ten, on CPUs and GPUs.
        optimiser = torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
        n_steps = config.epochs * self._n_batches
        n_warmup = int(n_steps * config.warmup_share)

        def share(step: int) -> float:
            rising = (step + 1) / (n_warmup + 1)
            return max(0.0, min(rising, (n_steps - step) / max(n_steps - n_warmup, 1)))

        return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, share)

    def loss(self, model: nn.Module, batch: Batch, step: int) -> LossSum:
        """Compute the loss of a batch, as in the validation."""
        return self.validation_loss(model, batch)

    def validation_loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Compute the loss of a batch."""
        with precision(self._where, self._config.precision):
            logits = model(**_sent(batch, self._where))
        return LOSSES[self._config.loss](logits.float(), batch.labels.to(self._where))


def learn(
    recipe: Recipe,
    pairs: PreparedPairs,
    folder: Path,
    *,
    fingerprint: str,
    device: str = "cpu",
    cache_folder: str | None = None,
    ranks: Ranks | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> tuple[Built, TrainState]:
    """Train a scorer, or go on where a run of the same folder stopped; see `loop.run_training`.

    `cache_folder` keeps the vectors of an encoder that is not trained.
    """
    ranks = ranks or Ranks()
    for side in ("train", "validation"):
        pairs.examples(side, recipe.negatives).check_negatives(side)
    groups = pairs.examples("train", recipe.negatives).epoch(0, in_order=True)
    built = build(
        recipe.model,
        ((group[0].source, group[0].candidate) for group in groups),
        seed=recipe.training.seed,
        cache_folder=cache_folder,
    )
    state = run_training(
        built.model,
        ScorerTask(pairs, recipe, built.reader, device=device, ranks=ranks),
        recipe.training,
        folder,
        # the encoder's files may be others than when the run began
        fingerprint=f"{fingerprint}+{built.encoder_content}",
        device=device,
        ranks=ranks,
        ema_decay=recipe.training.ema_decay,
        on_news=on_news,
    )
    return built, state


def fit_scale(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    r"""Find the scale a and the shift b that make logits ax + b fit the labels best (Platt 1999).

    A model that learnt from few documents is too sure of those. Labels, of documents that were not
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


def calibrated(built: Built, recipe: Recipe, pairs: PreparedPairs, *, device: str = "cpu") -> Built:
    """Scale and shift a trained model's logits to the least loss on the validation documents."""
    where = torch.device(device)
    model = built.model.to(where).eval()
    logits, labels = [], []
    for batch in ScorerTask(pairs, recipe, built.reader).validation():
        with torch.inference_mode():  # in fp32, as scores are computed
            logits.append(model(**_sent(batch, where)).double().cpu().numpy())
        labels.append(batch.labels.double().numpy())
    scale, shift = fit_scale(np.concatenate(logits), np.concatenate(labels))
    return replace(built, model=Calibrated(model, scale, shift))


def _sent(batch: Batch, where: torch.device) -> dict[str, torch.Tensor]:
    return {name: tensor.to(where) for name, tensor in batch.inputs.items()}
