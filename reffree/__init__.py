"""Learned, reference-free scorers: negatives, models, training, scoring.

Pairs (`pairs`) are split without leaks (`splits`) and dealt into files (`buckets`); `examples`
turns them into positives and negatives (`negatives`, by the recipe of `mixture`) for the models
(`models`, `readers`), the training (`learning`, `training`, `loop`), the judging (`evaluation`)
and the scorer's folder (`scorer`). Text and embeddings come from `sms`; files are read and
written by `pipelines`. Importing this package loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reffree.learning import Recipe
    from reffree.mixture import NegativesConfig
    from reffree.models import ModelConfig
    from reffree.scorer import LearnedScorer, load_scorer
    from reffree.training import TrainConfig

__all__ = [
    "LearnedScorer",
    "ModelConfig",
    "NegativesConfig",
    "Recipe",
    "TrainConfig",
    "load_scorer",
]

_HOMES = {
    "LearnedScorer": "reffree.scorer",
    "ModelConfig": "reffree.models",
    "NegativesConfig": "reffree.mixture",
    "Recipe": "reffree.learning",
    "TrainConfig": "reffree.training",
    "load_scorer": "reffree.scorer",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever is asked for)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
