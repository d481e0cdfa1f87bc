"""What an agreement report shows: verdicts, grids of correlations, choices, data of the charts.

Only selection and order; nothing is computed anew, and how it looks is in the template.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.reports.charts import page_charts
from pipelines.reports.numbers import range_text
from pipelines.reports.pages import explain_file
from pipelines.reports.verdict import verdict_of
from pipelines.reports.words import (
    COEFFICIENTS,
    LEVEL_MEANINGS,
    LEVELS,
    SIGNIFICANCE,
    STATISTICS,
    TESTS,
    in_order,
    selection,
)
from pipelines.runs.manifest import EXPLAIN_FOLDER
from pipelines.settings.correlate import ACCURACIES
from pipelines.settings.correlate import CORRELATIONS as TESTED
from pipelines.tables.records import AgreementResult
from sms.naming import natural

SHOWN_DISAGREEMENTS = 6
"""Per aspect and metric; the table on disk has all."""
AXIS_STEPS = ((0.3, 0.1), (1.6, 0.2), (math.inf, 0.5))
"""Up to which span of an axis its ticks are so far apart."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """The correlations of all metrics and aspects at one level, under one coefficient."""

    level: str
    coefficient: str
    rows: pl.DataFrame
    """Of the correlations."""
    ceilings: Mapping[str, float]
    """The raters among themselves in the same terms, by aspect; where that is known."""

    @property
    def name(self) -> str:
        """Return the coefficient in words."""
        return COEFFICIENTS[self.coefficient]

    @property
    def title(self) -> str:
        """Return coefficient and level in words."""
        return f"{self.name}, {self.level} level"

    @property
    def origin(self) -> float:
        """Return where a metric that knows nothing would be."""
        return 0.5 if self.coefficient in ACCURACIES else 0.0

    def cells(self, result: AgreementResult) -> Iterator[tuple[str, bool, list[Row]]]:
        """Yield metric, whether it is a baseline, and its row for each aspect; baselines last."""
        rows = {(row["metric"], row["aspect"]): row for row in self.rows.iter_rows(named=True)}
        of_metric: dict[str, list[Row]] = {
            metric: [rows[metric, aspect] for aspect in result.aspects]
            for metric in result.score_names
        }
        for metric, cells in sorted(of_metric.items(), key=lambda each: each[1][0]["is_baseline"]):
            yield metric, cells[0]["is_baseline"], cells


def grids(result: AgreementResult) -> Iterator[Grid]:
    """Yield the grid of each level and coefficient, as asked for."""
    for level in in_order(result.correlations["level"], LEVELS):
        at_level = result.correlations.filter(level=level)
        for coefficient in at_level["coefficient"].unique(maintain_order=True):
            raters = result.raters.filter(level=level, statistic=f"leave_one_out_{coefficient}")
            yield Grid(
                level=level,
                coefficient=coefficient,
                rows=at_level.filter(coefficient=coefficient),
                ceilings=dict(raters.drop_nulls("value").select("aspect", "value").iter_rows()),
            )


def report_view(result: AgreementResult, folder: Path) -> dict[str, Any]:
    """Arrange a result for the page `agreement_report.html`, besides its `about`.

    Pages in the `explain` folder of `folder`, where the page will be, are linked to.
    """
    about = result.about
    all_grids = list(grids(result))
    panels = [panel for grid in all_grids for panel in _panels(grid, result)]
    main = {"level": about.main_level, "coefficient": about.main_coefficient}
    first = next(panel for panel in panels if main.items() <= panel.items())
    chosen = {name: first[name] for name in ("level", "aspect", "coefficient")}
    best = [row["metric"] for row in first["rows"] if row["is_best"]]
    chosen["metric"] = best[0] if best else first["rows"][0]["metric"]
    tests = in_order(result.differences["test"], TESTS)
    disagreements, texts = _disagreements(result.disagreements, folder)
    return {
        "n": about.compared,
        "selection": selection(about.raters, about.excluded_systems),
        "systems": sorted(about.systems, key=natural),
        "confidence": f"{100 * about.confidence:g}\N{NO-BREAK SPACE}%",
        "significance": f"{SIGNIFICANCE:g}",
        "chosen": chosen,
        "levels": {grid.level: LEVELS[grid.level] for grid in all_grids},
        "aspects": {name: name for name in result.aspects},
        "coefficients": {grid.coefficient: grid.name for grid in all_grids},
        "metrics": {name: name for name in result.score_names},
        "tests": {test: TESTS[test] for test in tests},
        "verdicts": [
            verdict_of(result, grid.level, grid.coefficient)
            for grid in all_grids
            if grid.coefficient in TESTED
        ],
        "overviews": [_overview(grid, result) for grid in all_grids],
        "panels": panels,
        "raters": list(_raters(result)),
        "power": [
            {"aspect": aspect, "rows": rows.to_dicts()}
            for aspect in result.aspects
            if not (rows := result.power.filter(aspect=aspect)).is_empty()
        ],
        "disagreements": disagreements,
        "texts": texts,
        "charts": page_charts(result, chosen, tests),
    }


# Correlations


def _overview(grid: Grid, result: AgreementResult) -> dict[str, Any]:
    """Show all metrics and aspects, tinted by how far each is above a metric that knows nothing."""
    above = (pl.col("value") - grid.origin).clip(lower_bound=0.0)
    strongest = grid.rows.select(above.max()).item() or 0.0

    def tint(row: Row) -> float:
        if row["value"] is None or not strongest:
            return 0.0
        return round(max(row["value"] - grid.origin, 0.0) / strongest, 2)

    return {
        "level": grid.level,
        "coefficient": grid.coefficient,
        "title": grid.title,
        "rows": [
            {
                "metric": metric,
                "is_baseline": is_baseline,
                "cells": [dict(row, tint=tint(row)) for row in rows],
            }
            for metric, is_baseline, rows in grid.cells(result)
        ],
        "ceilings": [grid.ceilings.get(aspect) for aspect in result.aspects if grid.ceilings],
    }


def _panels(grid: Grid, result: AgreementResult) -> Iterator[dict[str, Any]]:
    """Yield the metrics of each aspect, the best first, on one axis for all aspects."""
    drawn = [*grid.rows["value"], *grid.rows["low"], *grid.rows["high"], *grid.ceilings.values()]
    ticks = _ticks([grid.origin, *(value for value in drawn if value is not None)])
    for aspect in result.aspects:
        rows = grid.rows.filter(aspect=aspect).sort("value", descending=True, nulls_last=True)
        yield {
            "level": grid.level,
            "aspect": aspect,
            "coefficient": grid.coefficient,
            "title": f"{aspect}: {grid.title}",
            "meaning": LEVEL_MEANINGS[grid.level],
            "origin": grid.origin,
            "ticks": ticks,
            "ceiling": grid.ceilings.get(aspect),
            "n_skipped": rows.drop_nulls("value")["n_skipped"].max(),
            "rows": rows.to_dicts(),
        }


def _ticks(shown: Sequence[float]) -> list[float]:
    step = next(step for span, step in AXIS_STEPS if max(shown) - min(shown) <= span)
    first, last = math.floor(min(shown) / step), math.ceil(max(shown) / step)
    return [round(index * step, 1) for index in range(first, max(last, first + 1) + 1)]


# Raters and disagreements


def _raters(result: AgreementResult) -> Iterator[dict[str, Any]]:
    """Put the aspects of each statistic side by side."""
    index = ["pool", "statistic", "level"]
    for (pool, statistic, level), rows in result.raters.group_by(index, maintain_order=True):
        yield {
            "pool": pool,
            "statistic": STATISTICS[str(statistic)],
            "level": level,
            "cells": rows.to_dicts(),
        } | {name: range_text(rows[name]) for name in ("n_raters", "n_units", "n_missing")}


def _disagreements(
    disagreements: pl.DataFrame, folder: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Arrange them by aspect and metric, and each reference and source once, whoever names it."""
    of_text = ["document_id", "reference", "source"]
    shown = disagreements.group_by("aspect", "metric", maintain_order=True).head(
        SHOWN_DISAGREEMENTS
    )
    texts = (
        shown.filter(pl.any_horizontal(pl.col(of_text[1:]).is_not_null()))
        .select(of_text)
        .unique(maintain_order=True)
        .with_columns(text_id=pl.format("text-{}", pl.int_range(pl.len())))
    )
    names = shown.select("document_id", "system_id", "metric").iter_rows()
    pages = [f"{EXPLAIN_FOLDER}/{explain_file(*each)}" for each in names]
    links = [page if (folder / page).is_file() else None for page in pages]
    linked = shown.with_columns(explain=pl.Series(links, dtype=pl.String)).join(
        texts, on=of_text, how="left", nulls_equal=True, maintain_order="left"
    )
    return [
        {"aspect": aspect, "metric": metric, "rows": rows.to_dicts()}
        for (aspect, metric), rows in linked.group_by("aspect", "metric", maintain_order=True)
    ], texts.to_dicts()
