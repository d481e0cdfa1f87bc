"""The training loop, whatever is trained: steps, checkpoints, validation, the log.

A run is a function of its task, settings and number of processes: killed anywhere and started
again with the same folder it ends with the same weights. For that every batch and random number
follows from seed, epoch and place, and a checkpoint keeps the rest.

The folder of a run has `checkpoint.pt`, `best.safetensors` and `metrics.jsonl`. Where TensorBoard
is installed, `tensorboard/` has the same figures.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from reffree.checkpoint import read_checkpoint, replace_file, write_checkpoint
from reffree.losses import LossSum
from reffree.ranks import Ranks

BEST_FILE = "best.safetensors"
METRICS_FILE = "metrics.jsonl"
_SHOWN_DOCUMENTS = 8


class Settings(Protocol):
    """What the loop reads of a configuration."""

    @property
    def epochs(self) -> int:
        """At most so many."""

    @property
    def patience(self) -> int:
        """Validations without a better loss after which training stops."""

    @property
    def max_norm(self) -> float:
        """Gradients longer than this are cut down to it."""

    @property
    def checkpoint_steps(self) -> int:
        """Steps between checkpoints; there is one after every epoch as well."""

    @property
    def log_steps(self) -> int:
        """Steps over which figures are averaged for the log."""

    @property
    def seed(self) -> int:
        """Of the random numbers of a process."""


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

    def timings(self) -> Mapping[str, float]:
        """Return figures of speed since they were last asked for; they may differ every time."""


@dataclass(slots=True)
class TrainState:
    """How far a run is."""

    epoch: int = 0
    position: int = 0
    """Batches of this epoch that are done."""
    step: int = 0
    """Optimiser steps done."""
    best_loss: float = math.inf
    best_step: int = 0
    n_worse: int = 0
    """Validations since the best one."""
    is_finished: bool = False
    loss_sum: float = 0.0
    """Training loss since it was last logged."""
    n_terms: float = 0.0
    figure_sums: dict[str, list[float]] = field(default_factory=dict)
    """Sums and their numbers, of the other figures since then."""
    n_lines: int = 0
    """Lines of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainNews:
    """One line of `metrics.jsonl`."""

    step: int
    epoch: int
    learning_rate: float
    train_loss: float | None = None
    """Mean over the last `log_steps` steps."""
    validation_loss: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """What else there is to say; every figure is a column of the line."""

    def line(self) -> dict[str, float]:
        """Return the line, without what is not known."""
        named = asdict(self)
        figures = named.pop("figures")
        return {name: value for name, value in named.items() if value is not None} | figures


def run_training(
    model: nn.Module,
    task: Task[B],
    settings: Settings,
    folder: Path,
    *,
    fingerprint: str,
    device: str = "cpu",
    ranks: Ranks | None = None,
    ema_decay: float = 0.0,
    on_news: Callable[[TrainNews], None] | None = None,
) -> TrainState:
    """Train a model; in the end it has the weights that were best on the validation data.

    Goes on from the checkpoint in `folder` where there is one. A run that is finished is not
    trained further.

    Parameters
    ----------
    model : Module
    task : Task
    settings : Settings
    folder : Path
        Of this run alone.
    fingerprint : str
        Of everything the weights depend on.
    device : str
    ranks : Ranks, optional
        The processes that do this together.
    ema_decay : float
        In [0, 1): the weights that are validated and kept are the mean of those after every step,
        in which a step counts `ema_decay` times as much as the next one (Polyak and Juditsky 1992),
        less at the start. 0 takes the weights of the last step.
    on_news : callable, optional
        Told of every line that is logged, by the first process.

    Raises
    ------
    ValueError
        If the folder's checkpoint is damaged or of another request, or a side has no batch.
    RuntimeError
        If a loss is not a number, with the step and the documents of the batch.
    """
    ranks = ranks or Ranks()
    folder.mkdir(parents=True, exist_ok=True)
    where = torch.device(device)
    gpus = [where] if where.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(settings.seed * ranks.size + ranks.rank)
        model.to(where)
        run = _Run(model, task, settings, folder, fingerprint, where, ranks, ema_decay)
        state = run.restore()
        with _Log(folder if ranks.is_first else None, state, on_news) as log:
            while not state.is_finished:
                _train_epoch(run, task, log)
                _validate(run, task, log)
                state.epoch, state.position = state.epoch + 1, 0
                state.is_finished = (
                    state.epoch >= settings.epochs or state.n_worse >= settings.patience
                )
                run.save()
    model.load_state_dict(load_file(folder / BEST_FILE))
    return state


def precision(device: torch.device, chosen: str = "auto") -> AbstractContextManager[Any]:
    """Compute products in `fp32` or `bf16`; `auto` is `bf16` on a GPU. Weights stay in float32."""
    if chosen == "bf16" or (chosen == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def _train_epoch(run: _Run, task: Task[B], log: _Log) -> None:
    """Go through what is left of an epoch."""
    state, settings = run.state, run.settings
    run.parallel.train()
    for batch in islice(task.training(state.epoch), state.position, None):
        _take_step(run, task, batch)
        state.step, state.position = state.step + 1, state.position + 1
        if state.step % settings.log_steps == 0:
            log.add(run.training_news(task.timings()))
        if state.step % settings.checkpoint_steps == 0:
            run.save()
    if not state.position:
        raise ValueError("`pairs` must have training examples, got none; see `assay negatives`")


def _take_step(run: _Run, task: Task[B], batch: B) -> None:
    """Take one step; add the loss, over all processes, to what is logged."""
    state = run.state
    part = task.loss(run.parallel, batch, state.step)
    (loss_sum, n_terms), figures = run.summed([part])
    if not math.isfinite(loss_sum):
        names = batch.document_ids()
        more = len(names) - _SHOWN_DOCUMENTS
        others = f" and {more} more" if more > 0 else ""
        raise RuntimeError(
            f"the loss must be a number, got {loss_sum} at step {state.step} with the "
            f"documents {', '.join(names[:_SHOWN_DOCUMENTS])}{others}; "
            "look at their texts, or lower the learning rate"
        )
    # Gradients are averaged over the processes; the loss is a mean over the terms of all.
    (part.total * (run.ranks.size / max(n_terms, 1))).backward()
    nn.utils.clip_grad_norm_(run.model.parameters(), run.settings.max_norm)
    run.optimiser.step()
    run.schedule.step()
    run.optimiser.zero_grad(set_to_none=True)
    if run.averaged is not None:
        run.averaged.update_parameters(run.model)
    state.loss_sum, state.n_terms = state.loss_sum + loss_sum, state.n_terms + n_terms
    for name, (total, n) in figures.items():
        before = state.figure_sums.get(name, [0.0, 0.0])
        state.figure_sums[name] = [before[0] + total, before[1] + n]


@torch.no_grad()
def _validate(run: _Run, task: Task[B], log: _Log) -> None:
    """Compute the validation loss; keep the weights if there was none better."""
    state = run.state
    run.judged.eval()
    parts = [task.validation_loss(run.judged, batch) for batch in task.validation()]
    (loss_sum, n_terms), figures = run.summed(parts)
    if not n_terms:
        raise ValueError(
            "`pairs` must have validation examples that the loss can use, got none; give more "
            "documents"
        )
    loss = loss_sum / n_terms
    if not math.isfinite(loss):
        raise RuntimeError(
            f"the validation loss must be a number, got {loss} after step {state.step}; lower the "
            "learning rate"
        )
    if loss < state.best_loss:
        state.best_loss, state.best_step, state.n_worse = loss, state.step, 0
        run.keep_best()
    else:
        state.n_worse += 1
    task.timings()  # of the validation; those of the steps begin anew
    log.add(run.news(validation_loss=loss, figures=_means(figures)))


def _ema(decay: float) -> Callable[[Any, Any, Any], None]:
    """Average weights so that the past counts `decay`, and less while it is short."""

    def update(means: Any, weights: Any, n_averaged: Any) -> None:  # noqa: ANN401  (of torch)
        n = int(n_averaged)
        get_ema_multi_avg_fn(min(decay, (1 + n) / (10 + n)))(means, weights, n_averaged)

    return update


def _means(sums: Mapping[str, tuple[float, float] | list[float]]) -> dict[str, float]:
    return {name: total / n for name, (total, n) in sums.items() if n}


class _Run:
    """What the steps of a run share."""

    def __init__(
        self,
        model: nn.Module,
        task: Task[B],
        settings: Settings,
        folder: Path,
        fingerprint: str,
        where: torch.device,
        ranks: Ranks,
        ema_decay: float,
    ) -> None:
        self.model, self.parallel = model, ranks.wrap(model)
        self.settings, self.folder, self.fingerprint = settings, folder, fingerprint
        self.where, self.ranks = where, ranks
        self.state = TrainState()
        self.optimiser, self.schedule = task.optimiser(model)
        self.averaged = AveragedModel(model, multi_avg_fn=_ema(ema_decay)) if ema_decay else None

    @property
    def judged(self) -> nn.Module:
        """The model that is validated and kept."""
        return self.model if self.averaged is None else self.averaged.module

    def summed(
        self, parts: Iterable[LossSum]
    ) -> tuple[tuple[float, float], dict[str, tuple[float, float]]]:
        """Add up parts, over all processes: the loss, and figures by name."""
        listed = list(parts)
        # In an order that all processes share; all have the same figures.
        names = sorted({name for part in listed for name in part.figures})
        sums = [
            math.fsum(float(part.total.detach()) for part in listed),
            float(sum(part.n_terms for part in listed)),
        ]
        for name in names:
            found = [part.figures[name] for part in listed if name in part.figures]
            sums += [math.fsum(total for total, _ in found), math.fsum(n for _, n in found)]
        total = self.ranks.sum(*sums, device=self.where)
        pairs = list(zip(total[::2], total[1::2], strict=True))
        return pairs[0], dict(zip(names, pairs[1:], strict=True))

    def training_news(self, timings: Mapping[str, float]) -> TrainNews:
        """Say what the last steps came to, and begin anew."""
        state = self.state
        news = self.news(
            train_loss=state.loss_sum / max(state.n_terms, 1),
            figures=dict(chain(_means(state.figure_sums).items(), timings.items())),
        )
        state.loss_sum, state.n_terms, state.figure_sums = 0.0, 0.0, {}
        return news

    def news(self, **told: Any) -> TrainNews:  # noqa: ANN401  (fields of `TrainNews`)
        """Say how far it is."""
        state = self.state
        rate = self.optimiser.param_groups[0]["lr"]
        return TrainNews(step=state.step, epoch=state.epoch, learning_rate=rate, **told)

    def keep_best(self) -> None:
        """Keep the weights as the best so far."""
        if self.ranks.is_first:
            weights = {k: v.clone().contiguous().cpu() for k, v in self.judged.state_dict().items()}
            replace_file(self.folder / BEST_FILE, lambda path: save_file(weights, path))

    def save(self) -> None:
        """Write a checkpoint."""
        random = {"cpu": torch.get_rng_state()}
        if self.where.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.where)
        of_all = self.ranks.gather(random)
        if self.ranks.is_first:
            payload = {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "schedule": self.schedule.state_dict(),
                "state": asdict(self.state),
                "random": of_all,
            }
            if self.averaged is not None:
                payload["averaged"] = self.averaged.state_dict()
            write_checkpoint(self.folder, payload, self.fingerprint)

    def restore(self) -> TrainState:
        """Go on from the checkpoint, if there is one."""
        payload = read_checkpoint(self.folder, self.fingerprint)
        if payload is not None:
            self.model.load_state_dict(payload["model"])
            self.optimiser.load_state_dict(payload["optimiser"])
            self.schedule.load_state_dict(payload["schedule"])
            if self.averaged is not None:
                self.averaged.load_state_dict(payload["averaged"])
            self.state = TrainState(**payload["state"])
            random = payload["random"][self.ranks.rank]
            torch.set_rng_state(random["cpu"])
            if "cuda" in random:
                torch.cuda.set_rng_state(random["cuda"], self.where)
        return self.state


class _Log:
    """Writes `metrics.jsonl`, and TensorBoard's files where it is installed."""

    def __init__(
        self,
        folder: Path | None,
        state: TrainState,
        on_news: Callable[[TrainNews], None] | None,
    ) -> None:
        self._state, self._on_news = state, on_news
        self._board: Any = None
        self._path = folder and folder / METRICS_FILE
        self._started = time.monotonic()
        if self._path is None or folder is None:
            return
        kept = read_metrics(folder)[: state.n_lines]  # later ones are written again
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in kept), "utf-8")
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=state.step)

    def add(self, news: TrainNews) -> None:
        """Write a line and tell whoever listens."""
        self._state.n_lines += 1
        if self._path is None:
            return
        line = news.line() | {"seconds": round(time.monotonic() - self._started, 3)}
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(line)}\n")
        if self._board is not None:
            for name in line.keys() - {"step", "seconds"}:
                self._board.add_scalar(name, line[name], news.step)
        if self._on_news is not None:
            self._on_news(news)

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._board is not None:
            self._board.close()


def read_metrics(folder: Path) -> list[Mapping[str, Any]]:
    """Read the figures of a run, without a last line that was not finished."""
    path = folder / METRICS_FILE
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
