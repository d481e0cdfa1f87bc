"""What a training run leaves in its folder: a checkpoint, whole or not at all, and its figures.

A checkpoint holds all that the rest of the run depends on: weights, the optimiser, the place in
the data, the best figure so far and every process's random numbers. It carries a fingerprint of
the request, so that another request does not go on with it.
"""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

CHECKPOINT_FILE = "checkpoint.pt"
METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainNews:
    """One line of `metrics.jsonl`."""

    step: int
    epoch: int
    learning_rate: float
    train_loss: float | None = None  # mean over the last `log_steps` steps
    validation_loss: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """What else there is to say; every figure is a column of the line."""

    def line(self) -> dict[str, float]:
        """Return the line, without what is not known."""
        named = asdict(self)
        figures = named.pop("figures")
        return {name: value for name, value in named.items() if value is not None} | figures


class Log:
    """Writes `metrics.jsonl`, going on after `n_lines`; without a folder it only counts."""

    def __init__(
        self, folder: Path | None, n_lines: int, on_news: Callable[[TrainNews], None] | None
    ) -> None:
        self.n_lines, self._on_news = n_lines, on_news
        self._path = folder and folder / METRICS_FILE
        self._started = time.monotonic()
        if self._path is not None and folder is not None:
            kept = read_metrics(folder)[:n_lines]  # later ones are written again
            self._path.write_text("".join(f"{json.dumps(line)}\n" for line in kept), "utf-8")

    def add(self, news: TrainNews) -> None:
        """Write a line and tell whoever listens."""
        self.n_lines += 1
        if self._path is None:
            return
        line = news.line() | {"seconds": round(time.monotonic() - self._started, 3)}
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(line)}\n")
        if self._on_news is not None:
            self._on_news(news)


def read_metrics(folder: Path) -> list[Mapping[str, Any]]:
    """Read the figures of a run, without a last line that was not finished."""
    path = folder / METRICS_FILE
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def read_checkpoint(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """Read the checkpoint of a folder; None if there is none."""
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    try:
        payload: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"`{path}` must be a whole checkpoint, got {type(error).__name__} when reading it; "
            "delete the folder and train again"
        ) from error
    if payload.get("fingerprint") != fingerprint:
        raise ValueError(
            f"`{path}` is from a training with other data, options or number of workers; give the "
            "same ones again, or train into another folder"
        )
    return payload


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file aside, flush it to the disk and rename it."""
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    try:
        write(partial)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
