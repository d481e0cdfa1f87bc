"""From the answers for every two pieces to one score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reffree.pair.settings import HISTOGRAM, PairSettings
from sms.encoders.hugging_face import one_line

_OVER: Mapping[str, Callable[..., Any]] = {"max": np.max, "mean": np.mean, "min": np.min}
_LOW = (0, 0.01, 0.02, 0.03, 0.04, 0.07, 0.13, 0.37, 0.9, 0.91, 0.92, 0.93, 0.94)
_HIGH = (0.95, 0.955, 0.96, 0.965, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1)
PERCENTILES = np.array([*_LOW, *_HIGH])
"""Edges of SummaC-Conv's bins, by what share of probabilities lies below them."""


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """The trained layers of SummaC-Conv: a value by bins for every piece, and one for their mean.

    Laban et al. 2022, section 4.2; `SummaCConv` of summac/model_summac.py.
    """

    by_bin: np.ndarray  # weight of every bin, then a constant; float64, (n_bins + 1,)
    final: np.ndarray
    """Weights of three means, which are one, then a constant, for both classes; (2, 4)."""

    @classmethod
    def read(cls, path: Path) -> Convolution:
        """Read the published file, as numbers alone.

        Raises `ValueError` if it is missing, damaged or another.
        """
        if not path.is_file():
            raise ValueError(f"no file `{path}`")
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            parts = [
                np.column_stack([state[f"{name}.weight"].numpy(), state[f"{name}.bias"].numpy()])
                for name in ("mlp", "layer_final")
            ]
        except Exception as error:  # whatever a damaged pickle does
            raise ValueError(
                f"`{path}` must be the state of SummaC-Conv, got {type(error).__name__}: "
                f"{one_line(error)}"
            ) from error
        if (parts[0].shape, parts[1].shape) != ((1, PERCENTILES.size), (2, 4)):
            raise ValueError(
                f"`{path}` must have the layers of SummaC-Conv for one class, got shapes "
                f"{parts[0].shape} and {parts[1].shape}"
            )
        return cls(parts[0][0].astype(np.float64), parts[1].astype(np.float64))

    def score(self, values: np.ndarray) -> float:
        """Return the score of a summary by its values, shape (n_document, n_summary)."""
        counts = np.array([np.histogram(own, bins=PERCENTILES)[0] for own in values.T])
        mean = float((counts @ self.by_bin[:-1] + self.by_bin[-1]).mean())
        logits = self.final[:, :3].sum(axis=1) * mean + self.final[:, 3]
        return float(1 / (1 + np.exp(logits[0] - logits[1])))


def score_of(
    values: np.ndarray, settings: PairSettings, convolution: Convolution | None = None
) -> float:
    """Put the answers for every two pieces together, shape (n_document, n_summary, n_answers).

    They are of the positive answer and, for a `difference`, the negative one.
    """
    if settings.over_document == HISTOGRAM:
        assert convolution is not None, "it is loaded with the model"  # noqa: S101
        return convolution.score(values[:, :, 0])
    return float(_OVER[settings.over_summary](by_summary_piece(values, settings)))


def by_summary_piece(values: np.ndarray, settings: PairSettings) -> np.ndarray:
    """Return the value of every piece of the summary, shape (n_summary,)."""
    over = "max" if settings.over_document == HISTOGRAM else settings.over_document
    each = _OVER[over](values, axis=0)
    return each[:, 0] - each[:, 1] if settings.value == "difference" else each[:, 0]
