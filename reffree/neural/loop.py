"""The training loop, whatever is trained: steps, checkpoints, validation, the log.

A run is a function of its task, settings and number of processes: killed anywhere and started
again with the same folder it ends with the same weights. For that every batch and random number
follows from seed, epoch and place, and a checkpoint keeps the rest.

The folder of a run has `checkpoint.pt`, `best.safetensors` and `metrics.jsonl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import distributed, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from reffree.hashing import check_seed
from reffree.neural.checkpoint import CHECKPOINT_FILE, Log, TrainNews, read_checkpoint, replace_file

BEST_FILE = "best.safetensors"
_SHOWN_DOCUMENTS = 8

Sums = tuple[float, float]  # a sum and the number of its terms


@dataclass(frozen=True, slots=True)
class LossSum:
    """A loss as the sum of its terms and their number, so that no batch size is in it.

    Whoever averages divides the sums of all batches (of all processes) by all terms, and gets the
    same however the terms were dealt out.
    """

    total: torch.Tensor  # sum of the terms, a scalar that has a gradient even if there is no term
    n_terms: int
    figures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Further sums and their numbers; the log gets their means."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where a process stands among those that train one model together; alone by default."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """Return the place in the group that `torch.distributed` has set up, if it has."""
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls()

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def sum(self, *values: float, device: torch.device) -> list[float]:
        """Add up numbers over all processes, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401  (any picklable value)
        """Return the values of all processes, in their order, on every one."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What the loop reads of a configuration."""

    epochs: int  # passes over the training documents, at most
    batch_size: int  # of one step, over all processes
    patience: int  # validations without a better figure after which training stops
    max_norm: float  # gradients longer than this are cut down to it
    learning_rate: float  # the highest
    checkpoint_steps: int  # steps between checkpoints; there is one after every epoch as well
    log_steps: int  # steps over which figures are averaged for the log
    seed: int  # of the random numbers of a process, and of the order of batches

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "patience", "checkpoint_steps", "log_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "max_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name):g}")
        check_seed(self.seed)


class DocumentBatch(Protocol):
    """What the loop asks of a batch."""

    def document_ids(self) -> list[str]:
        """Name the documents, each once."""


B = TypeVar("B", bound=DocumentBatch)


class Task(Protocol[B]):
    """What is trained, and by what."""

    def optimiser(
        self, model: nn.Module
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Make what changes the weights, and its schedule, which goes on with every step."""

    def training(self, epoch: int) -> Iterable[B]:
        """Give this process's part of an epoch's batches, the same whenever asked."""

    def validation(self) -> Iterable[B]:
        """Give this process's part of the validation batches."""

    def loss(self, model: nn.Module, batch: B, step: int) -> LossSum:
        """Return what a step makes smaller; `model` averages gradients over the processes."""

    def validation_loss(self, model: nn.Module, batch: B) -> LossSum:
        """Return that by which the best weights are chosen; smaller is better."""


@dataclass(slots=True)
class TrainState:
    """How far a run is."""

    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    step: int = 0  # optimiser steps done
    best_loss: float = math.inf
    best_step: int = 0
    n_worse: int = 0  # validations since the best one
    is_finished: bool = False
    loss_sum: float = 0.0  # training loss since it was last logged
    n_terms: float = 0.0
    figure_sums: dict[str, list[float]] = field(default_factory=dict)
    """Sums and their numbers, of the other figures since then."""
    n_lines: int = 0  # lines of the log


def run_training(
    model: nn.Module,
    task: Task[B],
    settings: LoopSettings,
    folder: Path,
    *,
    fingerprint: str,
    device: str = "cpu",
    ranks: Ranks | None = None,
    ema_decay: float = 0.0,
    on_news: Callable[[TrainNews], None] | None = None,
) -> TrainState:
    """Train a model; in the end it has the weights that were best on the validation data.

    Goes on from the checkpoint in `folder`, which is of this run alone, where there is one.
    `fingerprint` is of everything the weights depend on. With an `ema_decay` in (0, 1) the weights
    that are validated and kept are the mean of those after every step, in which a step counts
    `ema_decay` times as much as the next one (Polyak and Juditsky 1992), less at the start.
    """
    ranks = ranks or Ranks()
    folder.mkdir(parents=True, exist_ok=True)
    where = torch.device(device)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(settings.seed * ranks.size + ranks.rank)
        run = _Run(
            model=model.to(where), task=task, settings=settings, folder=folder,
            fingerprint=fingerprint, where=where, ranks=ranks, ema_decay=ema_decay,
        )  # fmt: skip
        state = run.state
        run.log = Log(folder if ranks.is_first else None, state.n_lines, on_news)
        while not state.is_finished:
            run.train_epoch()
            run.validate()
            state.epoch, state.position = state.epoch + 1, 0
            state.is_finished = state.epoch >= settings.epochs or state.n_worse >= settings.patience
            run.save()
    model.load_state_dict(load_file(folder / BEST_FILE))
    return state


def precision(device: torch.device, chosen: str = "auto") -> AbstractContextManager[Any]:
    """Compute products in `fp32` or `bf16`; `auto` is `bf16` on a GPU. Weights stay in float32."""
    if chosen == "bf16" or (chosen == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


@dataclass(kw_only=True)
class _Run:
    """What the steps of a run share, and what is done in them."""

    model: nn.Module
    task: Task[Any]
    settings: LoopSettings
    folder: Path
    fingerprint: str
    where: torch.device
    ranks: Ranks
    ema_decay: float

    def __post_init__(self) -> None:
        self.parallel = self.model
        if self.ranks.size > 1:  # gradients of all processes are averaged
            self.parallel = nn.parallel.DistributedDataParallel(self.model)
        self.optimiser, self.schedule = self.task.optimiser(self.model)
        self.averaged: AveragedModel | None = None
        if self.ema_decay:
            self.averaged = AveragedModel(self.model, multi_avg_fn=_ema(self.ema_decay))
        names = ("model", "optimiser", "schedule", "averaged")  # what has a state of its own
        self.parts = {name: part for name in names if (part := getattr(self, name)) is not None}
        self.state = self._restored()
        self.log = Log(None, 0, None)

    def train_epoch(self) -> None:
        """Go through what is left of an epoch."""
        state, settings = self.state, self.settings
        self.parallel.train()
        for batch in islice(self.task.training(state.epoch), state.position, None):
            self._take_step(batch)
            state.step, state.position = state.step + 1, state.position + 1
            if state.step % settings.log_steps == 0:
                self._tell(
                    train_loss=state.loss_sum / max(state.n_terms, 1),
                    figures=_means(state.figure_sums),
                )
                state.loss_sum, state.n_terms, state.figure_sums = 0.0, 0.0, {}
            if state.step % settings.checkpoint_steps == 0:
                self.save()
        if not state.position:
            raise ValueError("`pairs` must have training examples, got none; see `assay negatives`")

    def _take_step(self, batch: DocumentBatch) -> None:
        """Take one step; add the loss, over all processes, to what is logged."""
        state = self.state
        part = self.task.loss(self.parallel, batch, state.step)
        (loss_sum, n_terms), figures = self._summed([part])
        if not math.isfinite(loss_sum):
            names = batch.document_ids()
            more = len(names) - _SHOWN_DOCUMENTS
            others = f" and {more} more" if more > 0 else ""
            raise RuntimeError(
                f"the loss must be a number, got {loss_sum} at step {state.step} with the "
                f"documents {', '.join(names[:_SHOWN_DOCUMENTS])}{others}; "
                "check their texts, or lower the learning rate"
            )
        # Gradients are averaged over the processes; the loss is a mean over the terms of all.
        (part.total * (self.ranks.size / max(n_terms, 1))).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_norm)
        self.optimiser.step()
        self.schedule.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.averaged is not None:
            self.averaged.update_parameters(self.model)
        state.loss_sum, state.n_terms = state.loss_sum + loss_sum, state.n_terms + n_terms
        for name, (total, n) in figures.items():
            before = state.figure_sums.get(name, [0.0, 0.0])
            state.figure_sums[name] = [before[0] + total, before[1] + n]

    @torch.no_grad()
    def validate(self) -> None:
        """Compute the validation loss; keep the weights if there was none better."""
        state = self.state
        judged = self.model if self.averaged is None else self.averaged.module
        judged.eval()
        parts = [self.task.validation_loss(judged, batch) for batch in self.task.validation()]
        (loss_sum, n_terms), figures = self._summed(parts)
        if not n_terms:
            raise ValueError(
                "`pairs` must have validation examples that the loss can use, got none; give more "
                "documents"
            )
        loss = loss_sum / n_terms
        if not math.isfinite(loss):
            raise RuntimeError(
                f"the validation loss must be a number, got {loss} after step {state.step}; lower "
                "the learning rate"
            )
        if loss < state.best_loss:
            state.best_loss, state.best_step, state.n_worse = loss, state.step, 0
            if self.ranks.is_first:
                weights = {k: v.clone().contiguous().cpu() for k, v in judged.state_dict().items()}
                replace_file(self.folder / BEST_FILE, lambda path: save_file(weights, path))
        else:
            state.n_worse += 1
        self._tell(validation_loss=loss, figures=_means(figures))

    def _summed(self, parts: Sequence[LossSum]) -> tuple[Sums, dict[str, Sums]]:
        """Add up parts, over all processes: the loss, and figures by name."""
        # in an order that all processes share; all have the same figures
        names = sorted({name for part in parts for name in part.figures})
        terms = [[(float(part.total.detach()), float(part.n_terms)) for part in parts]]
        terms += [[part.figures[name] for part in parts if name in part.figures] for name in names]
        sums = [math.fsum(of_part[k] for of_part in each) for each in terms for k in (0, 1)]
        total = self.ranks.sum(*sums, device=self.where)
        pairs = list(zip(total[::2], total[1::2], strict=True))
        return pairs[0], dict(zip(names, pairs[1:], strict=True))

    def _tell(self, **told: Any) -> None:  # noqa: ANN401  (fields of `TrainNews`)
        """Log how far it is."""
        state = self.state
        rate = self.optimiser.param_groups[0]["lr"]
        self.log.add(TrainNews(step=state.step, epoch=state.epoch, learning_rate=rate, **told))
        state.n_lines = self.log.n_lines

    def save(self) -> None:
        """Write a checkpoint."""
        random = {"cpu": torch.get_rng_state()}
        if self.where.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.where)
        of_all = self.ranks.gather(random)
        if self.ranks.is_first:
            payload = {name: part.state_dict() for name, part in self.parts.items()}
            payload |= {"state": asdict(self.state), "random": of_all}
            payload |= {"fingerprint": self.fingerprint}
            replace_file(self.folder / CHECKPOINT_FILE, lambda path: torch.save(payload, path))

    def _restored(self) -> TrainState:
        """Go on from the checkpoint, if there is one."""
        payload = read_checkpoint(self.folder, self.fingerprint)
        if payload is None:
            return TrainState()
        for name, part in self.parts.items():
            part.load_state_dict(payload[name])
        random = payload["random"][self.ranks.rank]
        torch.set_rng_state(random["cpu"])
        if "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], self.where)
        return TrainState(**payload["state"])


def _ema(decay: float) -> Callable[[Any, Any, Any], None]:
    """Average weights so that the past counts `decay`, and less while it is short."""

    def update(means: Any, weights: Any, n_averaged: Any) -> None:  # noqa: ANN401  (of torch)
        n = int(n_averaged)
        get_ema_multi_avg_fn(min(decay, (1 + n) / (10 + n)))(means, weights, n_averaged)

    return update


def _means(sums: Mapping[str, Sums | list[float]]) -> dict[str, float]:
    return {name: total / n for name, (total, n) in sums.items() if n}
