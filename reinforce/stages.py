"""The two stages of training: by maximum likelihood, then by likelihood and reward."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import nn

from reffree.hashing import generator_of
from reffree.neural.loop import LoopSettings, LossSum, Ranks, precision
from reinforce.documents import Document, batches_of, read_documents, repetition_rate, words_of
from reinforce.hugging_face import TransformersSummariser
from reinforce.losses import (
    advantages_of,
    divergence,
    gamma_at,
    mixed,
    negative_log_likelihood,
    scaled,
    self_critical,
)
from reinforce.summarisers import PointerSummariser, SummaryBatch

if TYPE_CHECKING:
    from sms.reward import Reward

Summariser: TypeAlias = PointerSummariser | TransformersSummariser
Figures = dict[str, tuple[float, float]]  # sums and the number of their terms, by name


@dataclass(frozen=True, kw_only=True)
class StageConfig(LoopSettings):
    """How long and how fast a stage learns."""

    is_decaying: bool = False
    """Whether the rate of Adam falls, in a straight line, to 0 in the last step."""
    max_norm: float = 2.0  # See et al. 2017, section 5
    validation_documents: int
    """Documents that are judged after every epoch, at most; buckets are random samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardConfig:
    """What is rewarded, and how much it counts against the likelihood."""

    metric: str  # a column that can be a reward, as in `sms.reward.Reward`
    encoder: str
    gamma_first: float
    """Weight of the reward in the first step (A.3), and in the last one; a straight line between
    them."""
    gamma_last: float
    advantage: str  # `raw` or `unit`; see `losses.scaled`
    n_drawn: int  # summaries drawn of every document; see `losses.advantages_of`
    kl: float = 0.0  # weight of `losses.divergence` from the summariser that the stage begins with

    @property
    def is_control(self) -> bool:
        """Whether the reward only chooses the checkpoint: nothing is learnt from it."""
        return self.gamma_last == 0


@dataclass(kw_only=True)
class LikelihoodStage:
    """Maximum likelihood (equation 6), averaged over words; the least cross-entropy is best."""

    summariser: Summariser
    config: StageConfig
    buckets: Mapping[str, Sequence[Path]]  # files of prepared pairs, by side
    n_steps: int
    device: str
    ranks: Ranks

    def optimiser(
        self, model: nn.Module
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Adam at one rate (A.3), or one that falls."""
        optimiser = torch.optim.Adam(model.parameters(), lr=self.config.learning_rate)

        def share(step: int) -> float:
            return max(0.0, 1 - step / self.n_steps) if self.config.is_decaying else 1.0

        return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, share)

    def training(self, epoch: int) -> Iterator[SummaryBatch]:
        """Give this process's part of an epoch's batches."""
        seed = self.config.seed
        documents = read_documents(self.buckets["train"], seed=seed, epoch=epoch)
        return self._batches(documents, epoch, generator_of("batches", seed, epoch))

    def validation(self) -> Iterator[SummaryBatch]:
        """Give this process's part of the validation batches, the same in every epoch."""
        documents = read_documents(self.buckets["validation"], seed=0)
        return self._batches(islice(documents, self.config.validation_documents), 0, None)

    def loss(self, model: nn.Module, batch: SummaryBatch, step: int) -> LossSum:
        """Compute the loss of a batch."""
        (log_probabilities,) = self._log_probabilities(model, batch, [batch.target])
        is_counted = self.summariser.is_counted(batch.target)
        total = negative_log_likelihood(log_probabilities, is_counted).sum()
        return LossSum(total, int(is_counted.sum()))

    def validation_loss(self, model: nn.Module, batch: SummaryBatch) -> LossSum:
        """Compute the loss of a batch."""
        return self.loss(model, batch, 0)

    def _batches(
        self, documents: Iterator[Document], epoch: int, rng: np.random.Generator | None
    ) -> Iterator[SummaryBatch]:
        ranks, size = self.ranks, self.config.batch_size
        parts = batches_of(documents, size=size, rng=rng, rank=ranks.rank, n_ranks=ranks.size)
        for part in parts:
            references = [document.reference(epoch) for document in part]
            yield self.summariser.batch(part, references, self.device)

    def _log_probabilities(
        self, model: nn.Module, batch: SummaryBatch, targets: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        with precision(torch.device(self.device)):
            outputs = model(**batch.inputs, targets=targets)
        return [log_probabilities.float() for log_probabilities in outputs]


@dataclass(kw_only=True)
class MixedStage(LikelihoodStage):
    """Likelihood and reward (equations 7 and 8); the highest greedy reward is best.

    The loss of a batch is the sum of equation 8 over its documents, divided by the number of
    words of their references: the same proportions, at the scale of the first stage. Without
    any weight on the reward it is that stage once more, but for how the best weights are chosen.

    A summary is drawn, and its probability computed, without dropout: what is learnt from is what
    was drawn. A weight on the divergence from `start`, the summariser as the stage began, holds
    the model to texts that it found likely before, since any reward can be gamed.
    """

    reward_config: RewardConfig
    reward: Reward
    start: nn.Module | None = None  # the module of that summariser
    _reward_s: float = field(init=False, default=0.0)
    _since: float = field(init=False, default_factory=time.perf_counter)

    def loss(self, model: nn.Module, batch: SummaryBatch, step: int) -> LossSum:
        """Write some summaries of every document, reward them, and compute the mixed loss."""
        config = self.reward_config
        if config.is_control:
            return super().loss(model, batch, step)
        is_counted = self.summariser.is_counted
        # As the probabilities are computed: without dropout, in the same number format.
        with without_dropout(self.summariser.module), precision(torch.device(self.device)):
            greedy, drawn = self.summariser.greedy_and_drawn(batch, config.n_drawn)
        texts = [self.summariser.texts(batch, summaries) for summaries in (greedy, *drawn)]
        (reward_greedy, *of_drawn), figures = self._rewards(batch, *texts)
        reward_drawn = torch.stack(of_drawn)
        advantages = advantages_of(reward_drawn, reward_greedy)
        square_sum, n = self.ranks.sum(
            float(advantages.square().sum()), advantages.numel(), device=advantages.device
        )
        weights = scaled(advantages, square_sum / n, config.advantage)
        (likely,) = self._log_probabilities(model, batch, [batch.target])
        with without_dropout(model):
            chosen = self._log_probabilities(model, batch, drawn)
        are_chosen = [is_counted(summaries) for summaries in drawn]
        likelihood = negative_log_likelihood(likely, is_counted(batch.target))
        gamma = gamma_at(step, self.n_steps, config.gamma_first, config.gamma_last)
        losses = map(self_critical, chosen, are_chosen, weights)
        total = mixed(torch.stack(list(losses)).mean(dim=0), likelihood, gamma)
        n_words = int(is_counted(batch.target).sum())
        n_chosen = sum(int(each.sum()) for each in are_chosen)
        if self.start is not None:
            with torch.no_grad():
                of_start = self._log_probabilities(self.start, batch, drawn)
            moved = torch.stack(list(map(divergence, chosen, of_start, are_chosen)))
            total = total + config.kl * moved.sum(dim=0) / len(drawn)
            figures["kl"] = float(moved.detach().sum()), n_chosen
        surprises = map(negative_log_likelihood, chosen, are_chosen)
        figures |= {
            "mle_loss": (float(likelihood.detach().sum()), n_words),
            "reward_drawn": _sum(reward_drawn),
            "reward_greedy": _sum(reward_greedy),
            "advantage": _sum(advantages),
            "advantage_squared": _sum(advantages.square()),
            # The mean of -log p over what is drawn from p estimates the entropy of a word.
            "entropy": (math.fsum(float(each.detach().sum()) for each in surprises), n_chosen),
            "gamma": (gamma, 1),
            "reward_share": self._share_of_reward(),
            **_figures_of(texts[0], "{}_greedy"),
            **_figures_of(list(chain.from_iterable(texts[1:])), "{}_drawn"),
        }
        return LossSum(total.sum(), n_words, figures)

    def validation_loss(self, model: nn.Module, batch: SummaryBatch) -> LossSum:
        """Return minus the rewards of the greedy summaries."""
        with precision(torch.device(self.device)):
            texts = self.summariser.texts(batch, self.summariser.greedy_and_drawn(batch, 0)[0])
        (rewards,), figures = self._rewards(batch, texts, name="validation_reward")
        figures |= {"validation_reward": _sum(rewards), **_figures_of(texts, "validation_{}")}
        self._share_of_reward()  # the next step's begins anew
        return LossSum(-rewards.double().sum(), len(texts), figures)

    def _share_of_reward(self) -> tuple[float, float]:
        """Return the seconds that rewards took since this was asked last, and all seconds."""
        now = time.perf_counter()
        share = self._reward_s, now - self._since
        self._reward_s, self._since = 0.0, now
        return share

    def _rewards(
        self, batch: SummaryBatch, *candidates: Sequence[str], name: str = "reward"
    ) -> tuple[list[torch.Tensor], Figures]:
        """Reward some summaries of each document, all in one call; sum up each part of a sum."""
        started, k = time.perf_counter(), len(candidates)
        parts = self.reward.parts(
            [text for texts in candidates for text in texts],
            references=[document.references for document in batch.documents] * k,
            sources=[document.source for document in batch.documents] * k,
        )
        combined = self.reward.combined(parts)
        self._reward_s += time.perf_counter() - started
        rewards = torch.tensor(combined, dtype=torch.float32, device=self.device)
        figures: Figures = {
            f"{name}[{part}]": (float(np.nansum(values)), int(np.isfinite(values).sum()))
            for part, values in (parts.items() if len(parts) > 1 else ())
        }
        return list(rewards.view(k, -1)), figures


@contextmanager
def without_dropout(module: nn.Module) -> Iterator[None]:
    """Switch dropout off, and gradients not: on a GPU, LSTMs have those in training mode only."""
    were = {part: part.training for part in module.modules()}
    rates = {part: part.dropout for part in were if isinstance(part, nn.RNNBase)}
    module.eval()
    for lstm in rates:
        lstm.train()
        lstm.dropout = 0.0
    try:
        yield
    finally:
        for part, was in were.items():
            part.training = was
        for lstm, rate in rates.items():
            lstm.dropout = rate


def _sum(values: torch.Tensor) -> tuple[float, float]:
    return float(values.double().sum()), values.numel()


def _figures_of(texts: Sequence[str], name: str) -> Figures:
    """Sum up repetition and words of summaries."""
    words = [words_of(text) for text in texts]
    return {
        name.format("repetition"): (math.fsum(map(repetition_rate, words)), len(texts)),
        name.format("words"): (sum(map(len, words)), len(texts)),
    }
