"""The training loop, from top to bottom.

A run is a function of its data, configuration and number of processes: killed anywhere and
started again with the same folder it ends with the same weights. For that every example, batch
and random number follows from seed, epoch and place, and a checkpoint keeps the rest.

The folder of a run has `checkpoint.pt`, `best.safetensors` and `metrics.jsonl`. Where TensorBoard
is installed, `tensorboard/` has the same figures.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from reffree.batches import Batch
from reffree.checkpoint import read_checkpoint, replace_file, write_checkpoint
from reffree.losses import LOSSES, Loss
from reffree.ranks import Ranks

BEST_FILE = "best.safetensors"
METRICS_FILE = "metrics.jsonl"
_SHOWN_DOCUMENTS = 8


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
    checkpoint_steps: int = 200
    """Steps between checkpoints; there is one after every epoch as well."""
    log_steps: int = 20
    """Steps over which the training loss is averaged for the log."""
    seed: int = 0
    """Of dropout and of the order of batches."""

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"`loss` must be one of {', '.join(LOSSES)}, got {self.loss!r}")
        for name in ("batch_size", "epochs", "patience", "checkpoint_steps", "log_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "max_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name):g}")
        if not 0 <= self.warmup_share < 1:
            raise ValueError(f"`warmup_share` must be in [0, 1), got {self.warmup_share:g}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"`weight_decay` must not be negative, got {self.weight_decay:g}")


class TrainingData(Protocol):
    """The batches of a run, the same whenever they are asked for."""

    @property
    def n_examples(self) -> int:
        """About how many examples an epoch has, over all processes."""

    def training(self, epoch: int) -> Iterable[Batch]:
        """Give this process's part of an epoch's batches."""

    def validation(self) -> Iterable[Batch]:
        """Give this process's part of the validation batches."""


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
    """Train a model; in the end it has the weights that were best on the validation data.

    Goes on from the checkpoint in `folder` where there is one. A run that is finished is not
    trained further.

    Parameters
    ----------
    model : Module
        Gives logits, shape (n,), of a batch's inputs.
    data : TrainingData
    config : TrainConfig
    folder : Path
        Of this run alone.
    fingerprint : str
        Of everything the weights depend on.
    device : str
    ranks : Ranks, optional
        The processes that do this together.
    on_news : callable, optional
        Told of every line that is logged, by the first process.

    Raises
    ------
    ValueError
        If the folder's checkpoint is damaged or of another request.
    RuntimeError
        If a loss is not a number, with the step and the documents of the batch.
    """
    ranks = ranks or Ranks()
    folder.mkdir(parents=True, exist_ok=True)
    where = torch.device(device)
    gpus = [where] if where.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(config.seed * ranks.size + ranks.rank)
        model.to(where)
        run = _Run(model, config, data.n_examples, folder, fingerprint, where, ranks)
        state = run.restore()
        with _Log(folder if ranks.is_first else None, state, on_news) as log:
            while not state.is_finished:
                _train_epoch(run, data.training(state.epoch), log)
                _validate(run, data.validation(), log)
                state.epoch, state.position = state.epoch + 1, 0
                state.is_finished = state.epoch >= config.epochs or state.n_worse >= config.patience
                run.save()
    model.load_state_dict(load_file(folder / BEST_FILE))
    return state


def _train_epoch(run: _Run, batches: Iterable[Batch], log: _Log) -> None:
    """Go through what is left of an epoch."""
    state, config = run.state, run.config
    run.parallel.train()
    for batch in islice(batches, state.position, None):
        loss_sum, n_terms = _take_step(run, batch)
        state.step, state.position = state.step + 1, state.position + 1
        state.loss_sum, state.n_terms = state.loss_sum + loss_sum, state.n_terms + n_terms
        if state.step % config.log_steps == 0:
            log.add(run.news(train_loss=state.loss_sum / max(state.n_terms, 1)))
            state.loss_sum, state.n_terms = 0.0, 0.0
        if state.step % config.checkpoint_steps == 0:
            run.save()
    if not state.position:
        raise ValueError("`pairs` must have training examples, got none; see `assay negatives`")


def _take_step(run: _Run, batch: Batch) -> tuple[float, float]:
    """Take one step; return the sum of the loss's terms and their number, over all processes."""
    part = _loss_of(run, run.parallel, batch)
    loss_sum, n_terms = run.ranks.sum(float(part.total.detach()), part.n_terms, device=run.where)
    if not math.isfinite(loss_sum):
        names = batch.document_ids()
        more = len(names) - _SHOWN_DOCUMENTS
        others = f" and {more} more" if more > 0 else ""
        raise RuntimeError(
            f"the loss must be a number, got {loss_sum} at step {run.state.step} with the "
            f"documents {', '.join(names[:_SHOWN_DOCUMENTS])}{others}; "
            "look at their texts, or lower the learning rate"
        )
    # Gradients are averaged over the processes; the loss is a mean over the terms of all.
    (part.total * (run.ranks.size / max(n_terms, 1))).backward()
    nn.utils.clip_grad_norm_(run.model.parameters(), run.config.max_norm)
    run.optimiser.step()
    run.schedule.step()
    run.optimiser.zero_grad(set_to_none=True)
    return loss_sum, n_terms


@torch.no_grad()
def _validate(run: _Run, batches: Iterable[Batch], log: _Log) -> None:
    """Compute the validation loss; keep the weights if there was none better."""
    state = run.state
    run.model.eval()
    parts = [_loss_of(run, run.model, batch) for batch in batches]
    loss_sum, n_terms = run.ranks.sum(
        math.fsum(float(part.total) for part in parts),
        sum(part.n_terms for part in parts),
        device=run.where,
    )
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
    log.add(run.news(validation_loss=loss))


def _loss_of(run: _Run, model: nn.Module, batch: Batch) -> Any:  # noqa: ANN401  (LossSum)
    inputs = {name: tensor.to(run.where) for name, tensor in batch.inputs.items()}
    with run.precision():
        logits = model(**inputs)
    return run.loss(logits.float(), batch.labels.to(run.where), batch.groups.to(run.where))


class _Run:
    """What the steps of a run share."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        n_examples: int,
        folder: Path,
        fingerprint: str,
        where: torch.device,
        ranks: Ranks,
    ) -> None:
        self.model, self.parallel = model, ranks.wrap(model)
        self.config, self.folder, self.fingerprint = config, folder, fingerprint
        self.where, self.ranks = where, ranks
        self.loss: Loss = LOSSES[config.loss]
        self.state = TrainState()
        self.optimiser = torch.optim.AdamW(
            list(_parameter_groups(model, config.weight_decay)), lr=config.learning_rate
        )
        n_steps = config.epochs * math.ceil(n_examples / config.batch_size)
        n_warmup = int(n_steps * config.warmup_share)

        def share(step: int) -> float:
            rising = (step + 1) / (n_warmup + 1)
            return max(0.0, min(rising, (n_steps - step) / max(n_steps - n_warmup, 1)))

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, share)

    def precision(self) -> AbstractContextManager[Any]:
        """Compute in bfloat16 on a GPU; weights and loss stay in float32."""
        if self.where.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def news(self, **figures: float) -> TrainNews:
        """Say how far it is."""
        state = self.state
        (rate,) = {group["lr"] for group in self.optimiser.param_groups}
        return TrainNews(step=state.step, epoch=state.epoch, learning_rate=rate, **figures)

    def keep_best(self) -> None:
        """Keep the weights as the best so far."""
        if self.ranks.is_first:
            weights = {k: v.contiguous().cpu() for k, v in self.model.state_dict().items()}
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
            write_checkpoint(self.folder, payload, self.fingerprint)

    def restore(self) -> TrainState:
        """Go on from the checkpoint, if there is one."""
        payload = read_checkpoint(self.folder, self.fingerprint)
        if payload is not None:
            self.model.load_state_dict(payload["model"])
            self.optimiser.load_state_dict(payload["optimiser"])
            self.schedule.load_state_dict(payload["schedule"])
            self.state = TrainState(**payload["state"])
            random = payload["random"][self.ranks.rank]
            torch.set_rng_state(random["cpu"])
            if "cuda" in random:
                torch.cuda.set_rng_state(random["cuda"], self.where)
        return self.state


def _parameter_groups(model: nn.Module, weight_decay: float) -> Iterator[dict[str, Any]]:
    """Keep biases and norms, which have one dimension, out of the weight decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    yield {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay}
    yield {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0}


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
        line = {name: value for name, value in asdict(news).items() if value is not None}
        line["seconds"] = round(time.monotonic() - self._started, 3)
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
