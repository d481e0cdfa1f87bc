"""Fits a scorer of features to examples, and judges it by others: some seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Any

import numpy as np

from reffree.features import FeatureConfig, PairFeatures
from reffree.features.aspects import NEWS_HEADS, Heads, comparisons_of, heads_of
from reffree.features.linear import LinearModel, fit_linear
from reffree.negatives import POSITIVE, REFERENCE, NegativesConfig
from reffree.scorers.evaluation import Judged, KindFigures
from reffree.scorers.scorer import LinearPairs
from reffree.training_pairs.examples import Example

FITTED_DOCUMENTS = 400  # documents that weights are fitted to, at most
MEASURED_COPIES = 500  # positives that the shares of the copy model are fitted to

DEFAULT_RECIPE = "few features, each in one direction"
RECIPES: dict[str, tuple[bool, tuple[str, ...] | None]] = {
    DEFAULT_RECIPE: (True, None),
    "all features, in any direction": (False, None),
    "few features, from references alone": (True, (REFERENCE,)),
    "few features, from copied summaries alone": (True, ("lead", "extract")),
}
"""What may be tried: whether `Heads` says what a head reads, and the positives (None for all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRecipe:
    """All that decides what a scorer of features becomes, given its pairs."""

    negatives: NegativesConfig
    metrics: tuple[str, ...] = ()  # whose columns are features, in addition to those of words
    models: Mapping[str, Any] = field(default_factory=dict)  # of these metrics, by alias
    heads: Heads = NEWS_HEADS
    is_by_kind: bool = False
    """Whether every path has another kind of text, which counts as much as each of the others."""

    @property
    def feature_config(self) -> FeatureConfig:
        """What is read of each pair."""
        return FeatureConfig.of(self.metrics, self.models)


def fit_scorer(
    examples: Sequence[Example],
    config: FeatureConfig,
    *,
    heads: Heads = NEWS_HEADS,
    device: str = "cpu",
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> tuple[LinearPairs, np.ndarray]:
    """Fit the copy model, then a head to the comparisons of each aspect; return the features, too.

    `on_stage` is called with what is being done. Raises `ValueError` if no document has a better
    and a worse candidate, or too few have.
    """
    if not comparisons_of(examples, heads.kinds):
        raise ValueError(
            f"nothing to compare in {len(examples)} training rows: a document needs a good "
            "candidate and a worse one, told apart by `label` or `kind`"
        )
    on_stage("computing the features")
    features = PairFeatures(config, device=device)
    good = [one for one in examples if one.kind == POSITIVE] or list(examples)
    features.fit_copies(*texts_of(good[:MEASURED_COPIES]))
    values = features.read(*texts_of(examples)).values
    on_stage("fitting")
    model = fit_heads(examples, values, features.config, heads=heads)
    assert model is not None, "there is something to compare"  # noqa: S101
    return LinearPairs(model, features), values


def fit_heads(
    examples: Sequence[Example],
    values: np.ndarray,
    config: FeatureConfig,
    *,
    heads: Heads = NEWS_HEADS,
    least_groups: int = 0,
    recipe: str = DEFAULT_RECIPE,
) -> LinearModel | None:
    """Fit a head to the comparisons of each aspect; None where there is nothing to compare."""
    has_directions, bases = RECIPES[recipe]
    is_kept = np.array([bases is None or one.base in bases for one in examples], dtype=bool)
    examples, values = list(compress(examples, is_kept)), values[is_kept]
    comparisons = {
        head: of_head
        for head, of_head in comparisons_of(examples, heads.kinds).items()
        if np.unique(of_head.groups).size >= least_groups
    }
    if not comparisons:
        return None
    if not has_directions:
        return fit_linear(config, values, comparisons)
    directions = {
        head: by_feature for head in comparisons if (by_feature := heads.directions_of(head))
    }
    composed = {head: config.metrics or heads.composed[head] for head in directions}
    return fit_linear(config, values, comparisons, directions, composed)


def judge_heads(
    groups: Sequence[Sequence[Example]], pairs: LinearPairs, heads: Heads = NEWS_HEADS
) -> dict[str, KindFigures]:
    """Judge each head by the kinds that teach it, as `HEAD: KIND`."""
    rows = list(chain.from_iterable(groups))
    scores = pairs.score(*texts_of(rows)).scores
    by_kind: dict[str, KindFigures] = {}
    for place, head in enumerate(pairs.heads):
        teaches = [one.kind == POSITIVE or head in heads_of(one, heads.kinds) for one in rows]
        head_scores = np.where(teaches, scores[:, place], np.nan)
        judged = Judged.of(groups, 0, head_scores, np.zeros(len(rows), dtype=bool))
        figures_of_head = judged.by_kind(has_threshold=False)
        by_kind |= {f"{head}: {kind}": figures for kind, figures in figures_of_head.items()}
    return by_kind


def texts_of(examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    """Return the sources and the candidates."""
    return [one.source for one in examples], [one.candidate for one in examples]
