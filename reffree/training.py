"""How a scorer is trained: its settings, its optimiser, its loss. The loop itself is in `loop`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from reffree.batches import Batch
from reffree.hashing import check_seed
from reffree.loop import TrainNews, TrainState, precision, run_training
from reffree.losses import LOSSES, Loss, LossSum
from reffree.ranks import Ranks

PRECISIONS = ("auto", "fp32", "bf16")
"""What the products of a model are computed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How one scorer is trained."""

    loss: str = "bce"
    """One of `losses.LOSSES`."""
    learning_rate: float = 5e-5
    """Peak value, reached after the warm-up."""
    weight_decay: float = 0.01
    """Of AdamW; not for biases and norms."""
    batch_size: int = 32
    """Examples of one step, over all processes."""
    epochs: int = 10
    """At most; the learning rate falls to 0 by their end."""
    warmup_share: float = 0.1
    """Part of all steps in which the learning rate rises."""
    patience: int = 3
    """Validations without a better loss after which training stops."""
    max_norm: float = 1.0
    """Gradients longer than this are cut down to it."""
    ema_decay: float = 0.0
    """How much the past counts in the mean of weights that is validated and kept: .995 averages
    over some 200 steps; 0 takes the weights of the last step. See `loop.run_training`."""
    checkpoint_steps: int = 200
    """Steps between checkpoints; there is one after every epoch as well."""
    log_steps: int = 20
    """Steps over which the training loss is averaged for the log."""
    precision: str = "auto"
    """One of `PRECISIONS`: `auto` is `bf16` on a GPU, `fp32` elsewhere. Weights and loss stay in
    float32."""
    seed: int = 0
    """Of dropout and of the order of batches."""

    def __post_init__(self) -> None:
        for name, choices in (("loss", LOSSES), ("precision", PRECISIONS)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )
        for name in ("batch_size", "epochs", "patience", "checkpoint_steps", "log_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "max_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name):g}")
        if not 0 <= self.warmup_share < 1:
            raise ValueError(f"`warmup_share` must be in [0, 1), got {self.warmup_share:g}")
        check_seed(self.seed)
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"`ema_decay` must be in [0, 1), got {self.ema_decay:g}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"`weight_decay` must not be negative, got {self.weight_decay:g}")


class TrainingData(Protocol):
    """The batches of a run, the same whenever they are asked for."""

    @property
    def n_batches(self) -> int:
        """About how many batches an epoch has, the same in all processes."""

    def training(self, epoch: int) -> Iterable[Batch]:
        """Give this process's part of an epoch's batches."""

    def validation(self) -> Iterable[Batch]:
        """Give this process's part of the validation batches."""


def train(
    model: nn.Module,
    data: TrainingData,
    config: TrainConfig,
    folder: Path,
    *,
    fingerprint: str,
    device: str = "cpu",
    ranks: Ranks | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> TrainState:
    """Train a scorer's model; see `run_training`, also for what is raised.

    Parameters
    ----------
    model : Module
        Gives logits, shape (n,), of a batch's inputs.
    data : TrainingData
    config : TrainConfig
    folder, fingerprint, device, ranks, on_news
        As in `run_training`.
    """
    task = _Scoring(data, config, torch.device(device))
    return run_training(
        model,
        task,
        config,
        folder,
        fingerprint=fingerprint,
        device=device,
        ranks=ranks,
        ema_decay=config.ema_decay,
        on_news=on_news,
    )


class _Scoring:
    """The task: scores of pairs are to be near their labels."""

    def __init__(self, data: TrainingData, config: TrainConfig, where: torch.device) -> None:
        self.training, self.validation = data.training, data.validation
        self._n_batches, self._config, self._where = data.n_batches, config, where
        self._loss: Loss = LOSSES[config.loss]

    def optimiser(
        self, model: nn.Module
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """AdamW, with a rate that rises and then falls to 0."""
        config = self._config
        # Fused: one pass over the weights where there would be ten, on CPUs and GPUs.
        optimiser = torch.optim.AdamW(
            list(_parameter_groups(model, config.weight_decay)),
            lr=config.learning_rate,
            fused=True,
        )
        n_steps = config.epochs * self._n_batches
        n_warmup = int(n_steps * config.warmup_share)

        def share(step: int) -> float:
            rising = (step + 1) / (n_warmup + 1)
            return max(0.0, min(rising, (n_steps - step) / max(n_steps - n_warmup, 1)))

        return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, share)

    def loss(self, model: nn.Module, batch: Batch, step: int) -> LossSum:
        """Compute the loss of a batch."""
        return self.validation_loss(model, batch)

    def validation_loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Compute the loss of a batch."""
        inputs = {name: tensor.to(self._where) for name, tensor in batch.inputs.items()}
        with precision(self._where, self._config.precision):
            logits = model(**inputs)
        return self._loss(
            logits.float(), batch.labels.to(self._where), batch.groups.to(self._where)
        )

    def timings(self) -> Mapping[str, float]:
        """Return none: a line of the log says when it was written."""
        return {}


def _parameter_groups(model: nn.Module, weight_decay: float) -> Iterator[dict[str, Any]]:
    """Keep biases and norms, which have one dimension, out of the weight decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    yield {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay}
    yield {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0}
