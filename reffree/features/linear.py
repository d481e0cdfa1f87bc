"""A scorer that is a weighted sum of features for every aspect, fitted to comparisons.

A comparison says that one summary of a document is better than another. The weights are those
under which the better ones win most likely (Bradley and Terry 1952): a logistic regression of
standardised differences without intercept, its penalty chosen by cross-validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reffree.features import FeatureConfig

BOUND = 8.0
"""Scores of heads lie within so many standard deviations of the mean."""
CLIPPED_AT = 4.0
"""Standard deviations from the mean; a feature that is farther out counts as that far."""
PENALTIES = tuple(10.0**k for k in range(-6, 2))
"""Values of C, the inverse strength, that are tried."""
N_FOLDS = 5
MIN_GROUPS = 2

_NO_SPREAD = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Which candidates are better than which others; arrays have shape (n,)."""

    better: np.ndarray  # place among the candidates, int64
    worse: np.ndarray
    weights: np.ndarray  # how much each counts, float64
    groups: np.ndarray  # what is left out together when the penalty is chosen has one number, int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The weights of one aspect."""

    weights: tuple[float, ...]  # of each feature, by standard deviation
    mean: float  # of the sums over the training candidates; it becomes 0
    deviation: float  # likewise; it becomes 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearModel:
    """Features, their scale, and the heads over them."""

    features: FeatureConfig
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    heads: Mapping[str, Head]

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Bring features to one scale; what is not known counts as average."""
        scaled = (values - np.array(self.means)) / np.array(self.deviations)
        return np.nan_to_num(np.clip(scaled, -CLIPPED_AT, CLIPPED_AT), nan=0.0)

    def contributions(self, values: np.ndarray, head: str) -> np.ndarray:
        """Split the score of a head into the parts of its features, shape (n, n_features)."""
        fitted = self.heads[head]
        return self.scaled(values) * np.array(fitted.weights) / fitted.deviation

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the score of every head, shape (n, n_heads); NaN where no feature is known."""
        by_head = [
            self.contributions(values, name).sum(axis=1) - head.mean / head.deviation
            for name, head in self.heads.items()
        ]
        scores = np.clip(np.column_stack(by_head), -BOUND, BOUND)
        scores[np.isnan(values).all(axis=1)] = np.nan
        return scores


def linear_model(said: Mapping[str, Any]) -> LinearModel:
    """Make a model again from what `dataclasses.asdict` says of it, as JSON has it, among more."""
    features: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in said["features"].items()
        if value is not None
    }
    heads = {
        name: Head(**{**values, "weights": tuple(values["weights"])})
        for name, values in said["heads"].items()
    }
    scale = {name: tuple(said[name]) for name in ("means", "deviations")}
    return LinearModel(features=FeatureConfig(**features), heads=heads, **scale)


def fit_linear(
    features: FeatureConfig,
    values: np.ndarray,
    comparisons: Mapping[str, Comparisons],
    directions: Mapping[str, Mapping[str, int]] | None = None,
    composed: Mapping[str, Sequence[str]] | None = None,
) -> LinearModel:
    """Fit a head to the comparisons of each aspect.

    `values` are the features of all candidates, shape (n, n_features). `directions` has by head the
    features that it reads, and whether more is better (1), worse (-1) or either (0); a head
    that is not there reads all. `composed` has by head the features that it reads in addition: each
    has as much weight as all that is fitted (a composite of equal parts, Dawes 1979), for made-up
    mistakes say nothing of how much such a number tells about real summaries. Parts are
    equal where they spread equally over the better candidates, for those are most like real ones.
    """
    is_known = ~np.isnan(values)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    means = np.where(is_known, values, 0.0).sum(axis=0) / n_known
    squares = np.where(is_known, values - means, 0.0) ** 2
    deviations = np.sqrt(squares.sum(axis=0) / n_known)
    deviations[deviations <= _NO_SPREAD] = 1.0
    scale = {"means": tuple(means.tolist()), "deviations": tuple(deviations.tolist())}
    plain = LinearModel(features=features, heads={}, **scale)
    scaled = plain.scaled(values)
    heads = {}
    for name, of_head in comparisons.items():
        n_groups = np.unique(of_head.groups).size
        if n_groups < MIN_GROUPS:
            raise ValueError(
                f"head `{name}` must have a better and a worse candidate in at least {MIN_GROUPS} "
                f"documents, got {n_groups}; add documents whose candidates differ in label or "
                "rating"
            )
        known = (directions or {}).get(name, dict.fromkeys(features.names, 0))
        read = np.array([place for place, one in enumerate(features.names) if one in known])
        signs = np.array([known[features.names[place]] for place in read])
        weights = np.zeros(len(features.names))
        weights[read] = fit_in_directions(scaled[:, read], of_head, signs)
        good = scaled[np.unique(of_head.better)]
        fitted = (good @ weights).std()
        for place in map(features.names.index, (composed or {}).get(name, ())):
            spread = good[:, place].std()
            weights[place] = fitted / spread if spread > _NO_SPREAD else 0.0
        sums = scaled[np.unique(np.concatenate([of_head.better, of_head.worse]))] @ weights
        heads[name] = Head(
            weights=tuple(weights.tolist()),
            mean=float(sums.mean()),
            deviation=float(max(sums.std(), _NO_SPREAD)),
        )
    return replace(plain, heads=heads)


def fit_in_directions(
    scaled: np.ndarray, comparisons: Comparisons, signs: np.ndarray
) -> np.ndarray:
    """Fit weights; where the sign is wrong they get 0, and the others are fitted again alone."""
    weights = np.zeros(scaled.shape[1])
    left = np.arange(weights.size)
    while left.size:
        fitted = fit_weights(scaled[:, left], comparisons)
        is_wrong = fitted * signs[left] < 0
        if not is_wrong.any():
            weights[left] = fitted
            break
        left = left[~is_wrong]
    return weights


def fit_weights(scaled: np.ndarray, comparisons: Comparisons) -> np.ndarray:
    """Fit weights with the penalty that has the least loss on groups that are left out in turn."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import GroupKFold

    differences = scaled[comparisons.better] - scaled[comparisons.worse]
    # Half of them turned round: scikit-learn wants two classes; without intercept the loss is the
    # same.
    signs = np.where(np.arange(len(differences)) % 2, 1.0, -1.0)
    x, y = differences * signs[:, None], signs > 0
    n_folds = min(N_FOLDS, np.unique(comparisons.groups).size)
    folds = GroupKFold(n_folds).split(x, groups=comparisons.groups)
    model = LogisticRegressionCV(
        Cs=PENALTIES,
        l1_ratios=(0.0,),
        fit_intercept=False,
        cv=list(folds),
        scoring="neg_log_loss",
        solver="newton-cholesky",
        use_legacy_attributes=False,
    ).fit(x, y, sample_weight=comparisons.weights / comparisons.weights.mean())
    weights: np.ndarray = model.coef_[0]
    return weights
