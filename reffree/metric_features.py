"""Columns of metrics as features of a scorer, such as `likelihood@lm` or `pair@nli`.

Whatever `assay score` computes without a reference may be one: the column is computed by
`sms.scoring.SummaryScorer`, with the model, settings and cache that it has there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sms.config import ScoringConfig
from sms.scoring import SummaryScorer, to_rows

UNDEFINED = ("features:undefined",)
"""Why a pair has no score where no text is to blame."""
CUT = "cut@"
"""How a column begins that says which rows were read in part."""


@dataclass(frozen=True, slots=True)
class FeatureValues:
    """Features of pairs."""

    values: np.ndarray
    """NaN where there is no such number; float64, shape (n_pairs, n_features)."""
    is_cut: np.ndarray
    """Whether a model has read only a part of some text; bool, (n_pairs,)."""
    reasons: dict[int, tuple[str, ...]]
    """By row, in the words of a status, why a metric has no value."""


class MetricFeatures:
    """Computes the columns of metrics, in fp32 wherever it runs."""

    def __init__(
        self,
        config: ScoringConfig,
        *,
        device: str = "auto",
        threads: int | None = None,
        cache_folder: str | None = None,
    ) -> None:
        self._scorer = SummaryScorer(config, threads, device=device, cache_folder=cache_folder)
        self.meanings = {r.name: r.metric.summary for r in config.requests}
        """By column, what it is."""

    @property
    def content(self) -> str:
        """Hashes of all models."""
        return "+".join(self._scorer.content.values())

    @property
    def signature(self) -> str:
        """Signatures of all columns, without the version."""
        signatures = self._scorer.signatures
        return "|".join(signatures[name].rpartition("|v:")[0] for name in self.meanings)

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> FeatureValues:
        """Compute the columns of pairs."""
        table = self._scorer.score(to_rows(candidates, sources=sources))
        values = np.column_stack([table[name].to_numpy() for name in self.meanings])
        cut = [table[name].to_numpy() for name in table.column_names if name.startswith(CUT)]
        status = table["status"].to_pylist()
        return FeatureValues(
            values,
            np.nansum(cut, axis=0) > 0 if cut else np.zeros(len(values), dtype=bool),
            {
                row: _without_models(status[row])
                for row in np.flatnonzero(np.isnan(values).any(axis=1)).tolist()
            },
        )


def _without_models(status: str | None) -> tuple[str, ...]:
    """Return why a metric has no value; what else a status says is left out."""
    whys = [why.partition("@")[0] for why in status.split("; ")] if status else []
    return tuple(why for why in whys if not why.endswith(":cut")) or UNDEFINED


def scoring_config(
    metrics: Sequence[str],
    models: Mapping[str, Any],
    paths: Mapping[str, str] | None = None,
) -> ScoringConfig:
    """Check metrics that are to be features.

    Raises `ValueError` if one is unknown, or compares with a reference.
    """
    config = ScoringConfig(
        metrics=tuple(metrics), models=models, model_paths=paths or {}, precision="fp32"
    )
    for request in config.requests:
        if "references" in request.sides:
            raise ValueError(
                f"a feature must do without a reference, got {request.name!r}; write "
                f"`{request.name.partition(':')[0]}:source` if the metric takes it"
            )
    return config
