"""Untrained metrics of a pair as further inputs of a model.

A model reads the lead of a document and has to learn what matters; a metric such as `coverage` or
`sms:source` reads all of it and says one thing. Here such values are brought to one scale and a
weighted sum of them is added to the model's logit. The weights begin as those of a logistic
regression of the labels, so that the model has to learn only what the metrics do not say, and are
trained with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from scipy.optimize import minimize
from torch import nn

from reffree.examples import Example
from reffree.readers import Reader, Reading
from sms.scoring import ScoringConfig, SummaryScorer, to_rows

STANDARD = (
    "length", "compression", "coverage", "density", "novelty", "lead3", "rouge2_f:source",
    "rougeL_f:source", "cosine:source", "sms:source", "wms:source", "s+wms:source",
)  # fmt: skip
"""Those that `standard` stands for. Chosen on rated news, see `docs/results.md`: without the last
two, ROUGE and the lead a scorer agreed less with people."""
MEASURED_EXAMPLES = 4_000
"""Training examples by which the scale and the first weights are chosen."""
CLIPPED_AT = 4.0
"""Standard deviations from the mean; what is farther out counts as that far."""
PENALTY = 1e-2
"""Of the squared first weights, beside a mean loss per example: metrics that say the same share
their weight instead of cancelling each other."""

_PAIRS_AT_ONCE = 256
_NO_SPREAD = 1e-9
# exp(-distance): by their logarithm a step is a step of the distance, near or far.
_BY_LOGARITHM = ("sms", "wms", "s+wms")
_COUNTS = ("length", "compression", "density")


class PairFeatures:
    """Values of untrained metrics, by the encoder of a specification where they need one."""

    def __init__(
        self, names: Sequence[str], encoder: str, *, cache_folder: str | None = None
    ) -> None:
        config = feature_metrics(names, encoder)
        self._columns = {
            column: _transform_of(request.metric.name)
            for request in config.requests
            for column in request.columns
        }
        self._scorer = SummaryScorer(
            config, threads=torch.get_num_threads(), cache_folder=cache_folder
        )

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def content(self) -> str:
        """Hash of the encoder, empty if none is needed."""
        return "+".join(self._scorer.content.values())

    def values(self, sources: Sequence[str], candidates: Sequence[str]) -> np.ndarray:
        """Compute the features of pairs: float32, shape (n_pairs, n_features).

        Some are logarithms; NaN where a metric has no value for the texts.
        """
        found = np.empty((len(sources), len(self)), dtype=np.float32)
        for start in range(0, len(sources), _PAIRS_AT_ONCE):
            rows = slice(start, start + _PAIRS_AT_ONCE)
            table = self._scorer.score(to_rows(candidates[rows], sources=sources[rows]))
            for place, (name, change) in enumerate(self._columns.items()):
                values = table[name].to_numpy(zero_copy_only=False).astype(np.float64)
                found[rows, place] = change(values)
        return found


def feature_metrics(names: Sequence[str], encoder: str) -> ScoringConfig:
    """Check metrics that are to be features; see `PairFeatures`."""
    config = ScoringConfig(metrics=tuple(names), encoders={"own": encoder})
    for name in names:
        if "references" in replace(config, metrics=(name,)).input_columns:
            raise ValueError(
                f"`features` must read no reference, got {name}; {name}:source compares with the "
                "source"
            )
    return config


def _transform_of(metric: str) -> np.ufunc:
    if metric in _BY_LOGARITHM:
        return np.log
    return np.log1p if metric in _COUNTS else np.positive


class FeatureReader:
    """Reads pairs for a model, and their features beside it."""

    def __init__(self, reader: Reader, features: PairFeatures) -> None:
        self._reader, self._features = reader, features

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> list[Reading]:
        """Read as the model does, and add the features as a last array.

        Of a pair with a feature something is known, whatever the model sees of it.
        """
        values = self._features.values(sources, candidates)
        readings = self._reader.read(sources, candidates)
        return [
            replace(
                reading,
                arrays=(*reading.arrays, own),
                unseen=reading.unseen if np.isnan(own).all() else (),
            )
            for reading, own in zip(readings, values, strict=True)
        ]

    def collate(self, readings: Sequence[Reading]) -> dict[str, torch.Tensor]:
        """Give what the model reads, and `features`, float32, shape (n, n_features)."""
        inner = [replace(reading, arrays=reading.arrays[:-1]) for reading in readings]
        values = np.stack([reading.arrays[-1] for reading in readings])
        return {**self._reader.collate(inner), "features": torch.from_numpy(values)}


@dataclass(frozen=True, slots=True)
class FeatureScale:
    """What training examples say of the features; arrays are float64, (n_features,)."""

    means: np.ndarray
    deviations: np.ndarray
    """Standard deviations; 1 where a feature is constant."""
    weights: np.ndarray
    """First weights."""
    bias: float

    @classmethod
    def of(cls, features: PairFeatures, examples: Iterable[Example] | None) -> FeatureScale:
        """Measure the first training examples; without any it is to be filled from a file."""
        if examples is None:
            n = len(features)
            return cls(np.zeros(n), np.ones(n), np.zeros(n), 0.0)
        chosen = list(islice(examples, MEASURED_EXAMPLES))
        values = features.values([e.source for e in chosen], [e.candidate for e in chosen])
        values = values.astype(np.float64)
        is_known = np.isfinite(values)
        n_known = np.maximum(is_known.sum(axis=0), 1)
        means = np.where(is_known, values, 0).sum(axis=0) / n_known
        spread = np.where(is_known, values - means, 0)
        deviations = np.sqrt(np.square(spread).sum(axis=0) / n_known)
        deviations[deviations <= _NO_SPREAD] = 1.0
        scaled = np.clip(spread / deviations, -CLIPPED_AT, CLIPPED_AT)
        labels = np.array([example.label for example in chosen])
        return cls(means, deviations, *_logistic_regression(scaled, labels))


def _logistic_regression(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
    r"""Find the weights w and the bias b that make least

    .. math:: \frac{1}{n} \sum_i \left( \log(1 + e^{x_i}) - y_i x_i \right) + \lambda |w|^2

    with x = Xw + b and labels y in [0, 1], which scikit-learn's has not.
    """  # noqa: D400  (the sentence goes on)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, bias = parameters[:-1], parameters[-1]
        logits = values @ weights + bias
        gap = (1 / (1 + np.exp(-logits)) - labels) / labels.size
        value = (np.logaddexp(0, logits) - labels * logits).mean() + PENALTY * weights @ weights
        return value, np.append(values.T @ gap + 2 * PENALTY * weights, gap.sum())

    found = minimize(loss, np.zeros(values.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1], float(found[-1])


class WithFeatures(nn.Module):
    """A model whose logit gets a weighted sum of the features added."""

    means: torch.Tensor
    deviations: torch.Tensor

    def __init__(self, model: nn.Module, scale: FeatureScale) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("means", torch.tensor(scale.means, dtype=torch.float32))
        self.register_buffer("deviations", torch.tensor(scale.deviations, dtype=torch.float32))
        self.sum = nn.Linear(scale.means.size, 1)
        with torch.no_grad():
            self.sum.weight.copy_(torch.from_numpy(scale.weights)[None])
            self.sum.bias.fill_(scale.bias)

    def forward(self, features: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """Return logits, float32, shape (n,); a feature without a value counts as average."""
        scaled = ((features - self.means) / self.deviations).clamp(-CLIPPED_AT, CLIPPED_AT)
        added: torch.Tensor = self.sum(torch.nan_to_num(scaled, nan=0.0))[:, 0]
        logits: torch.Tensor = self.model(**inputs) + added.float()
        return logits
