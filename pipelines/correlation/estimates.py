"""Coefficients of all metrics with all aspects, their bootstrap, and the table of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

import agreement
from agreement.intervals import bootstrap_interval
from agreement.levels import merged_means
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.study import Study, is_baseline

MOST_CELLS_IN_PAIRS = 5_000
"""Kendall at global level is resampled only up to so many cells: its cost is quadratic."""

SOFT_RESAMPLES = 1_000
"""Random signs of soft pairwise accuracy."""

SampleKey = tuple[str, str]
"""A level and a coefficient."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Coefficients at every level, each metric and aspect on the cells both have."""

    points: Mapping[SampleKey, Sequence[Sequence[agreement.Correlation]]]
    """By level and coefficient: a row per metric, an entry per aspect."""
    draws: Mapping[SampleKey, np.ndarray]
    """Shape (n_resamples, n_metrics, n_aspects); absent where it would take too long."""


def estimate(study: Study, settings: CorrelateSettings, rng: np.random.Generator) -> Estimates:
    """Compute every coefficient of every metric with every aspect, and its bootstrap."""
    shape = len(study.systems), len(study.documents)
    resamples = agreement.draw_resamples(*shape, n_resamples=settings.resamples, rng=rng)
    points, draws = {}, {}
    for key in product(settings.levels, settings.correlations):
        how = dict(zip(("level", "coefficient"), key, strict=True))
        points[key] = [
            [agreement.correlate(x, y, **how) for y in study.ratings] for x in study.scores
        ]
        if can_be_resampled(study, *key):
            draws[key] = agreement.resampled_correlations(
                study.scores, study.ratings, resamples, **how
            )
    return Estimates(points=points, draws=draws)


def can_be_resampled(study: Study, level: str, coefficient: str) -> bool:
    """Say whether thousands of resamples are affordable."""
    n_cells = len(study.systems) * len(study.documents)
    is_quadratic = level == "global" and coefficient.startswith("kendall")
    return not (is_quadratic and n_cells > MOST_CELLS_IN_PAIRS)


def correlation_rows(
    study: Study, settings: CorrelateSettings, estimates: Estimates, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.correlations`, by aspect, metric and level."""
    for k, aspect in enumerate(study.aspects):
        for m, metric in enumerate(study.metrics):
            x, y = agreement.shared_cells(study.scores[m], study.ratings[k])
            for level in settings.levels:
                common = {
                    "aspect": aspect,
                    "metric": metric,
                    "level": level,
                    "n_cells": int((~np.isnan(x)).sum()),
                    "n_ties": _tied_units(x, level),
                    "n_rating_ties": _tied_units(y, level),
                    "raters": study.pool,
                    "is_baseline": is_baseline(metric),
                }
                for coefficient in settings.correlations:
                    point = estimates.points[level, coefficient][m][k]
                    draws = estimates.draws.get((level, coefficient))
                    values = None if draws is None else draws[:, m, k]
                    yield {**common, **_described(x, y, point, values)}
                for row in (
                    *_partial_rows(study, x, y, level, settings),
                    *_accuracy_rows(x, y, level, settings, rng),
                ):
                    yield {**common, **row}


def _described(
    x: np.ndarray, y: np.ndarray, point: agreement.Correlation, draws: np.ndarray | None
) -> dict[str, Any]:
    row = asdict(point)
    if draws is None:
        row["reason"] = point.reason or f"no interval: more than {MOST_CELLS_IN_PAIRS:,} cells"
    else:
        row |= asdict(interval := bootstrap_interval(draws, point.value, point, point.reason))
        row["interval"] = None if interval.reason else interval.method
    if point.level == "system" and point.reason is None:
        fisher = agreement.fisher_interval(
            point.value, point.n_systems, coefficient=point.coefficient
        )
        row |= {"fisher_low": fisher.low, "fisher_high": fisher.high}
    if point.level != "summary":
        p_value = agreement.correlation_test(x, y, level=point.level, coefficient=point.coefficient)
        row |= {"p_value": p_value}
    return row


def _partial_rows(
    study: Study, x: np.ndarray, y: np.ndarray, level: str, settings: CorrelateSettings
) -> Iterator[dict[str, Any]]:
    if study.lengths is None:
        return
    for coefficient in settings.correlations:
        point = agreement.partial_correlate(
            x, y, study.lengths, level=level, coefficient=coefficient
        )
        n_cells = int((~np.isnan(sum(agreement.shared_cells(x, study.lengths)))).sum())
        yield {**asdict(point), "coefficient": f"partial_{coefficient}", "n_cells": n_cells}


def _accuracy_rows(
    x: np.ndarray, y: np.ndarray, level: str, settings: CorrelateSettings, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Pairs of systems, over all documents or inside each; not pairs of any two cells."""
    have = ~np.isnan(x)
    accuracies = {}
    if "pairwise_accuracy" in settings.coefficients and level != "global":
        accuracies["pairwise_accuracy"] = agreement.calibrate_ties(x, y, level=level)
    if "soft_pairwise_accuracy" in settings.coefficients and level == "system":
        soft = agreement.soft_pairwise_accuracy(x, y, n_resamples=SOFT_RESAMPLES, rng=rng)
        accuracies["soft_pairwise_accuracy"] = soft
    for name, accuracy in accuracies.items():
        yield {
            "coefficient": name,
            **asdict(accuracy),
            "n_systems": int(have.any(1).sum()),
            "n_documents": int(have.any(0).sum()),
            "n_missing": int((~have).sum()),
        }


def _tied_units(matrix: np.ndarray, level: str) -> int:
    """Count what has the value of another unit it is compared with."""
    if level == "system":
        return agreement.count_tied_cells(merged_means(matrix)[:, None])
    return agreement.count_tied_cells(matrix if level == "summary" else matrix.reshape(-1, 1))
