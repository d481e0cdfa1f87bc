"""The correlations as the page shows them: an overview and a panel for each choice.

Only selection, order and what is needed to draw; no statistic is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.reports.words import (
    ACCURACIES,
    COEFFICIENTS,
    LEAVE_ONE_OUT,
    LEVEL_MEANINGS,
    LEVELS,
    in_order,
)
from pipelines.tables.records import AgreementResult

AXIS_STEPS = ((0.3, 0.1), (0.9, 0.2), (math.inf, 0.5))
"""Up to which span of an axis its ticks are so far apart."""
NO_REASON = "no reason recorded"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewCell:
    """One metric and aspect of the overview."""

    value: float | None
    tint: float
    """From 0 to 1, for the strongest value of the overview."""
    is_best: bool
    """Whether it belongs to the best cluster."""
    reason: str | None
    """Why there is no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """One metric of the overview."""

    metric: str
    is_baseline: bool
    cells: Sequence[OverviewCell]
    """By aspect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All metrics and aspects at one level, under one coefficient."""

    level: str
    coefficient: str
    title: str
    aspects: Sequence[str]
    rows: Sequence[OverviewRow]
    ceilings: Sequence[float | None]
    """The raters among themselves, by aspect; empty where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The scale that the values of a table are drawn on."""

    low: float
    high: float
    origin: float
    """Where a metric that knows nothing would be."""
    ticks: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationPanel:
    """All metrics for one level, aspect and coefficient."""

    level: str
    aspect: str
    coefficient: str
    title: str
    meaning: str | None
    """Of the level."""
    axis: Axis
    """The same for all aspects."""
    ceiling: float | None
    """The raters among themselves, by the same level and coefficient."""
    rows: Sequence[Row]
    """Rows of the correlations with their `cluster`; the best first, undefined ones last."""


def overviews(result: AgreementResult) -> Iterator[Overview]:
    """Yield the overview of each level and coefficient; baselines come last."""
    for level, coefficient, found in _by_level_and_coefficient(result):
        rows = found.to_dicts()
        cells = {(row["metric"], row["aspect"]): row for row in rows}
        baselines = {row["metric"] for row in rows if row["is_baseline"]}
        strongest = max(map(_strength, rows))
        ceilings = _ceilings(result, level, coefficient)
        yield Overview(
            level=level,
            coefficient=coefficient,
            title=_title(level, coefficient),
            aspects=result.aspects,
            rows=[
                OverviewRow(
                    metric=metric,
                    is_baseline=metric in baselines,
                    cells=[
                        _overview_cell(cells.get((metric, aspect)), strongest)
                        for aspect in result.aspects
                    ],
                )
                for metric in sorted(result.score_names, key=baselines.__contains__)
            ],
            ceilings=[ceilings.get(aspect) for aspect in result.aspects] if ceilings else [],
        )


def correlation_panels(result: AgreementResult) -> Iterator[CorrelationPanel]:
    """Yield the panel of each level, coefficient and aspect."""
    for level, coefficient, found in _by_level_and_coefficient(result):
        ceilings = _ceilings(result, level, coefficient)
        drawn = [*found["value"], *found["low"], *found["high"], *ceilings.values()]
        axis = _axis([value for value in drawn if value is not None], _origin(coefficient))
        for aspect in result.aspects:
            rows = found.filter(aspect=aspect).sort("value", descending=True, nulls_last=True)
            if not rows.is_empty():
                yield CorrelationPanel(
                    level=level,
                    aspect=aspect,
                    coefficient=coefficient,
                    title=f"{aspect}: {_title(level, coefficient)}",
                    meaning=LEVEL_MEANINGS.get(level),
                    axis=axis,
                    ceiling=ceilings.get(aspect),
                    rows=rows.to_dicts(),
                )


def _by_level_and_coefficient(result: AgreementResult) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield each level and coefficient, as asked for, with their correlations and clusters."""
    key = ["aspect", "level", "coefficient", "metric"]
    clusters = result.clusters.select(*key, "cluster")
    found = result.correlations.join(clusters, on=key, how="left", maintain_order="left")
    for level in in_order(found["level"], LEVELS):
        at_level = found.filter(level=level)
        for coefficient in at_level["coefficient"].unique(maintain_order=True):
            yield level, coefficient, at_level.filter(coefficient=coefficient)


def _title(level: str, coefficient: str) -> str:
    return f"{COEFFICIENTS.get(coefficient, coefficient)}, {level} level"


def _overview_cell(row: Row | None, strongest: float) -> OverviewCell:
    if row is None or row["value"] is None:
        reason = "not computed" if row is None else row["reason"] or NO_REASON
        return OverviewCell(value=None, tint=0.0, is_best=False, reason=reason)
    return OverviewCell(
        value=row["value"],
        tint=round(_strength(row) / strongest, 2) if strongest else 0.0,
        is_best=row["cluster"] == 1,
        reason=None,
    )


def _strength(row: Row) -> float:
    """Say how far a value is above that of a metric that knows nothing, at least 0."""
    if row["value"] is None:
        return 0.0
    return float(max(row["value"] - _origin(row["coefficient"]), 0.0))


def _origin(coefficient: str) -> float:
    return 0.5 if coefficient in ACCURACIES else 0.0


def _ceilings(result: AgreementResult, level: str, coefficient: str) -> dict[str, float]:
    """Find how each rater agrees with the others, by aspect, in the same terms as the metrics."""
    statistic = f"{LEAVE_ONE_OUT}{coefficient}"
    found = result.raters.filter(level=level, statistic=statistic).drop_nulls("value")
    # Pools are never mixed: an aspect with several has no one ceiling.
    single = found.filter(pl.len().over("aspect") == 1)
    return dict(single.select("aspect", "value").iter_rows())


def _axis(values: Sequence[float], origin: float) -> Axis:
    shown = [*values, origin]
    step = next(step for span, step in AXIS_STEPS if max(shown) - min(shown) <= span)
    first, last = math.floor(min(shown) / step), math.ceil(max(shown) / step)
    last = max(last, first + 1)
    ticks = [round(index * step, 1) for index in range(first, last + 1)]
    return Axis(low=ticks[0], high=ticks[-1], origin=origin, ticks=ticks)
