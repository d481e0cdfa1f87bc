"""The report of `correlate`: a page, Markdown and, if asked for, tables and plots for papers.

Only selection and order; nothing is computed anew, and how the page looks is in `templates/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from cluster.store import write_whole
from pipelines.reports.agreement_charts import (
    curves_chart,
    difference_cells,
    differences_chart,
    paper_plots,
    system_points,
    systems_chart,
)
from pipelines.reports.charts import Axis, Mark, spot, strip, ticks, upright
from pipelines.reports.numbers import UNDEFINED, count_text, interval_text, number_text, range_text
from pipelines.reports.pages import file_stem, render_page
from pipelines.reports.tables import PaperTable, escape_markdown, to_latex, to_markdown
from pipelines.reports.verdict import AspectVerdict, verdict_of
from pipelines.reports.words import (
    COEFFICIENTS,
    LEVEL_MEANINGS,
    LEVELS,
    SIGNIFICANCE,
    STATISTICS,
    in_order,
    listed,
    selection,
)
from pipelines.settings.correlate import ACCURACIES, CORRELATIONS
from pipelines.tables.records import About, AgreementResult
from sms.naming import natural

COUNTS = {
    "n_systems": "systems",
    "n_documents": "documents",
    "n_missing": "missing cells",
    "n_skipped": "skipped documents",
}
"""Columns of the correlations that stand beside every number, with what they count."""
SHOWN_DISAGREEMENTS = 6
"""Per aspect and metric; the table on disk has all."""
CHART_SIZE = 380, 260
"""Pixels between the axes of a chart on the page."""

Row = Mapping[str, Any]


def write_report(result: AgreementResult, out: Path, *, all_tables: bool = False) -> None:
    """Write the page and the Markdown; each file appears whole or not at all.

    With `all_tables` also `tables/*.tex` and `plots/*.svg`. Without a correlation to report
    nothing is written: a `ValueError`.
    """
    files = {"report.html": render_report(result), "report.md": render_markdown(result)}
    if all_tables:
        for name, table in paper_tables(result).items():
            files[f"tables/{name}.tex"] = to_latex(table, name)
        for name, plot in paper_plots(result).items():
            files[f"plots/{name}.svg"] = plot
    for name, content in files.items():
        # A command line or a file name may hold bytes that are no text.
        write_whole(out / name, content.encode("utf-8", "replace"))


def render_report(result: AgreementResult) -> str:
    """Render the page as one self-contained file."""
    return render_page(
        "agreement_report.html",
        styles=["agreement_report.css"],
        scripts=["page.js"],
        about=result.about,
        view=report_view(result),
    )


# Grids


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

    def cells(self, result: AgreementResult) -> list[tuple[str, list[Row]]]:
        """Return every metric with its row for each aspect; baselines last."""
        rows = {(row["metric"], row["aspect"]): row for row in self.rows.iter_rows(named=True)}
        of_metric: dict[str, list[Row]] = {
            metric: [rows[metric, aspect] for aspect in result.aspects]
            for metric in result.score_names
        }
        return sorted(of_metric.items(), key=lambda each: each[1][0]["is_baseline"])


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


# Markdown


def render_markdown(result: AgreementResult) -> str:
    """Write the report as Markdown: verdict, tables, and where the numbers come from."""
    about = result.about
    verdict = verdict_of(result, about.main_level, about.main_coefficient)
    is_judged = about.main_coefficient in CORRELATIONS
    parts = [
        "# Which metric agrees with people",
        *(["\n".join(map(_item, verdict.lines()))] if is_judged else []),
        f"{verdict.title}.",
        verdict.meaning,
        "\n".join(f"- {escape_markdown(note)}" for note in about.notes),
    ]
    for table in paper_tables(result).values():
        parts += [f"## {escape_markdown(table.title)}", escape_markdown(table.caption)]
        parts += [to_markdown(table).strip()]
    return "\n\n".join([*parts, "## How this was made", "\n".join(_provenance(about))]) + "\n"


def _item(paragraph: str) -> str:
    """Write a paragraph of the verdict as an item; its further lines, of aspects, are apart."""
    first, *others = (escape_markdown(line.strip()) for line in paragraph.split("\n"))
    return "\n".join([f"- {first}", *(f"  - {line}" for line in others)])


def _provenance(about: About) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in about.libraries.items())
    facts = {
        "Command": about.command,
        "Versions": f"assay {about.version}, {versions}",
        "Seed": f"{about.seed}, with {about.n_resamples:,} resamples",
        "Systems": ", ".join(sorted(about.systems, key=natural)),
        "Left out": ", ".join(about.excluded_systems) or "none",
        "Raters": about.raters,
    }
    facts |= {f"Signature of {metric}": text for metric, text in about.signatures.items()}
    facts |= {
        f"Read as {file.role}, {file.path}": f"{file.bytes:,} bytes, SHA-256 {file.sha256}"
        for file in about.inputs
    }
    return (f"- {escape_markdown(name)}: {escape_markdown(text)}" for name, text in facts.items())


def paper_tables(result: AgreementResult) -> dict[str, PaperTable]:
    """Lay out the tables that papers print, by the name of their files."""
    tables = {
        file_stem("correlations", grid.level, grid.coefficient): _correlation_table(grid, result)
        for grid in grids(result)
    }
    if not result.raters.is_empty():
        tables["raters"] = _raters_table(result.raters)
    if not result.power.is_empty():
        tables["power"] = _power_table(result.power)
    return tables


def _raters_table(raters: pl.DataFrame) -> PaperTable:
    return PaperTable(
        title="Agreement among raters",
        caption=(
            "Leave one out: each rater with the mean of the others. A low ceiling: metrics are "
            "compared with the mean of all, which is less noisy."
        ),
        header=["Aspect", "Pool", "Statistic", "Level", "Value", "Raters", "Units"],
        alignment="llllrrr",
        rows=[
            [
                *(row["aspect"], row["pool"], STATISTICS[row["statistic"]]),
                *(row["level"] or UNDEFINED, _estimate(row)),
                *(count_text(row[name]) for name in ("n_raters", "n_units")),
            ]
            for row in raters.iter_rows(named=True)
        ],
    )


def _power_table(power: pl.DataFrame) -> PaperTable:
    count_titles = {
        "n_systems": "Systems",
        "n_documents": "Documents",
        "systems_for_correlation": "Systems for power",
        "documents_for_correlation": "Documents to come within 0.05",
    }
    return PaperTable(
        title="What a larger study would need (system-level Pearson)",
        caption=(
            "Systems needed to find the correlation with a power of 0.8; the correlation expected "
            "with unlimited documents, and the number of documents that brings it within 0.05 of "
            "that."
        ),
        header=[
            *("Aspect", "Metric", "r", "r with unlimited documents", *count_titles.values()),
            "Undefined because",
        ],
        alignment="llrrrrrrl",
        rows=[
            [
                *(row["aspect"], row["metric"]),
                *(number_text(row[name]) for name in ("value", "limit")),
                *(count_text(row[name]) for name in count_titles),
                row["reason"] or UNDEFINED,
            ]
            for row in power.iter_rows(named=True)
        ],
    )


def _correlation_table(grid: Grid, result: AgreementResult) -> PaperTable:
    """Lay out the metrics by aspects of a grid, as papers do."""
    rows = grid.cells(result)
    return PaperTable(
        title=f"{grid.name} with ratings, {grid.level} level",
        caption=_caption(grid.rows, result),
        header=["Metric", *result.aspects],
        alignment="l" + "r" * len(result.aspects),
        rows=[[metric, *map(_estimate, cells)] for metric, cells in rows],
        bold=[
            (i, j)
            for i, (_, cells) in enumerate(rows)
            for j, cell in enumerate(cells, 1)
            if cell["is_best"]
        ],
    )


def _estimate(cell: Row) -> str:
    """Show a value, with its interval if it has one, or the reason if undefined."""
    if cell["value"] is None:
        return f"{UNDEFINED} ({cell['reason'] or 'undefined'})"
    interval = interval_text(cell.get("low"), cell.get("high"), 2)
    value = number_text(cell["value"])
    return value if interval == UNDEFINED else f"{value} {interval}"


def _caption(rows: pl.DataFrame, result: AgreementResult) -> str:
    chosen = selection(result.about.raters, result.about.excluded_systems)
    counts = ", ".join(f"{noun} {range_text(rows[name])}" for name, noun in COUNTS.items())
    caption = f"{chosen[:1].upper()}{chosen[1:]}. {counts[:1].upper()}{counts[1:]}."
    if rows["low"].is_not_null().any():
        share, resampled = f"{100 * result.about.confidence:g} %", result.about.resampled
        caption += f" In brackets: {share} bootstrap interval over {resampled}."
    if rows["is_best"].any():
        caption += " Bold: the best metric that is not a baseline."
    return caption


# The page


def report_view(result: AgreementResult) -> dict[str, Any]:
    """Arrange a result for the page `agreement_report.html`, besides its `about`.

    What the reader chooses among is a panel for each choice.
    """
    about = result.about
    all_grids = list(grids(result))
    panels = [panel for grid in all_grids for panel in _panels(grid, result)]
    main = {"level": about.main_level, "coefficient": about.main_coefficient}
    first = next(panel for panel in panels if main.items() <= panel.items())
    choices = {
        "level": {grid.level: LEVELS[grid.level] for grid in all_grids},
        "aspect": {name: name for name in result.aspects},
        "coefficient": {grid.coefficient: grid.name for grid in all_grids},
        "metric": {name: name for name in result.score_names},
    }
    verdicts = [_verdict(grid, result) for grid in all_grids if grid.coefficient in CORRELATIONS]
    everywhere, of_metric = ("level", "aspect", "coefficient"), ("aspect", "metric")
    views: dict[str, tuple[Iterable[dict[str, Any]], Sequence[str]]] = {
        "verdicts": (verdicts, ("level", "coefficient")),
        "panels": (panels, everywhere),
        "overviews": ((_overview(grid, result) for grid in all_grids), ("level", "coefficient")),
        "systems": (_systems(result), of_metric),
        "differences": (_differences(result), everywhere),
        "curves": (_curves(panels, result), everywhere),
        "power": (_power(result), ("aspect",)),
        "disagreements": (_disagreements(result), of_metric),
    }
    return {
        "n": about.compared,
        "selection": selection(about.raters, about.excluded_systems),
        "system_names": sorted(about.systems, key=natural),
        "confidence": f"{100 * about.confidence:g}\N{NO-BREAK SPACE}%",
        "significance": f"{SIGNIFICANCE:g}",
        "choices": choices,
        "chosen": {name: first[name] for name in ("level", "aspect", "coefficient")}
        | {"metric": _best_of(first["rows"])},
        "raters": list(_raters(result)),
    } | {name: _with_gaps(view, keys, choices) for name, (view, keys) in views.items()}


def _with_gaps(
    panels: Iterable[dict[str, Any]], keys: Sequence[str], choices: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Say where each panel is among the choices; one without rows stands for what there is not."""
    by_choice = {tuple(panel[key] for key in keys): panel for panel in panels}
    if not by_choice:
        return []
    placed = []
    for choice in product(*(choices[key] for key in keys)):
        panel = by_choice.get(choice, {"is_missing": True, **dict(zip(keys, choice, strict=True))})
        places = {key: list(choices[key]).index(panel[key]) for key in keys}
        placed.append({"is_missing": False, **panel, "places": places})
    return placed


def _best_of(rows: Sequence[Row]) -> str:
    """Name the best metric, or the first where none can be judged."""
    return str(next((row["metric"] for row in rows if row["is_best"]), rows[0]["metric"]))


# The first screen: which metric, and can one believe it


def _verdict(grid: Grid, result: AgreementResult) -> dict[str, Any]:
    verdict = verdict_of(result, grid.level, grid.coefficient)
    values = [value for each in verdict.judged for value in (each.low, each.high)]
    axis = Axis.of_numbers([grid.origin, *grid.rows["value"], *values, *grid.ceilings.values()])
    return {
        "level": grid.level,
        "coefficient": grid.coefficient,
        "headline": verdict.headline,
        "belief": verdict.belief,
        "title": verdict.title,
        "meaning": verdict.meaning,
        "name": grid.name,
        "ticks": ticks(axis),
        "has_ceiling": bool(grid.ceilings),
        "weak": listed(verdict.judged[0].weak) if verdict.judged else "",
        "aspects": [(each, _all_metrics(each, grid, axis)) for each in verdict.judged],
    }


def _all_metrics(verdict: AspectVerdict, grid: Grid, axis: Axis) -> Markup:
    """Draw all metrics on one line, the best last and with its interval."""
    rows = grid.rows.filter(aspect=verdict.aspect).drop_nulls("value").sort("is_best", "is_tied")
    marks = [
        Mark(row["value"], _kind(row), f"{row['metric']}: {_estimate(row)}")
        for row in rows.iter_rows(named=True)
    ]
    return strip(
        axis,
        marks,
        interval=(verdict.low, verdict.high),
        lines=_lines(grid, verdict.aspect),
        label=f"All metrics for {verdict.aspect}",
    )


def _kind(row: Row) -> str:
    if row["is_baseline"]:
        return "baseline"
    return "best" if row["is_best"] else "tied" if row["is_tied"] else "other"


def _axis(grid: Grid) -> Axis:
    """Return one axis for all aspects of a grid."""
    ends = [value for name in ("value", "low", "high") for value in grid.rows[name]]
    return Axis.of_numbers([grid.origin, *ends, *grid.ceilings.values()])


def _lines(grid: Grid, aspect: str) -> list[Mark]:
    """Return the upright lines: a metric that knows nothing, and the raters among themselves."""
    ceiling = grid.ceilings.get(aspect)
    above = [] if ceiling is None else [Mark(ceiling, "ceiling")]
    return [Mark(grid.origin, "zero"), *above]


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
                "is_baseline": rows[0]["is_baseline"],
                "cells": [dict(row, tint=tint(row)) for row in rows],
            }
            for metric, rows in grid.cells(result)
        ],
        "ceilings": [grid.ceilings.get(aspect) for aspect in result.aspects if grid.ceilings],
    }


def _panels(grid: Grid, result: AgreementResult) -> Iterator[dict[str, Any]]:
    """Yield the metrics of each aspect, the best first, on one axis for all aspects."""
    axis = _axis(grid)
    for aspect in result.aspects:
        rows = grid.rows.filter(aspect=aspect).sort("value", descending=True, nulls_last=True)
        yield {
            "level": grid.level,
            "aspect": aspect,
            "coefficient": grid.coefficient,
            "title": f"{aspect}: {grid.title}",
            "meaning": LEVEL_MEANINGS[grid.level],
            "ticks": ticks(axis),
            "lines": upright(axis, _lines(grid, aspect)),
            "ceiling": grid.ceilings.get(aspect),
            "n_skipped": rows.drop_nulls("value")["n_skipped"].max(),
            "rows": [row | {"drawn": _drawn(row, axis)} for row in rows.iter_rows(named=True)],
        }


def _drawn(row: Row, axis: Axis) -> str | None:
    value = row["value"]
    return None if value is None else spot(axis, value, (row["low"], row["high"]))


# Charts


def _systems(result: AgreementResult) -> Iterator[dict[str, Any]]:
    points = system_points(result.systems)
    for (aspect, metric), rows in points.group_by("aspect", "metric", maintain_order=True):
        chart = systems_chart(rows, str(metric), str(aspect), *CHART_SIZE)
        label = f"Mean rating ({aspect}) of each system against its mean score ({metric})"
        yield {"aspect": aspect, "metric": metric, "chart": chart.svg(label)}


def _differences(result: AgreementResult) -> Iterator[dict[str, Any]]:
    """Yield the differences under the coefficient of the verdict; of all they would be too many."""
    index = ["level", "aspect", "coefficient"]
    cells = difference_cells(result.differences.filter(coefficient=result.about.main_coefficient))
    for place, rows in cells.group_by(index, maintain_order=True):
        chart = differences_chart(rows).svg("Differences between metrics")
        yield {**dict(zip(index, place, strict=True)), "chart": chart}


def _curves(panels: Sequence[dict[str, Any]], result: AgreementResult) -> Iterator[dict[str, Any]]:
    for panel in panels:
        here = {name: panel[name] for name in ("level", "aspect", "coefficient")}
        rows = result.sample_size.filter(**here).drop_nulls("mean")
        if not rows.is_empty():
            best, title = _best_of(panel["rows"]), COEFFICIENTS[here["coefficient"]]
            chart = curves_chart(rows, best, title, *CHART_SIZE)
            yield {**here, "best": best, "chart": chart.svg(f"{title} and number of documents")}


# Tables


def _power(result: AgreementResult) -> Iterator[dict[str, Any]]:
    for (aspect,), rows in result.power.group_by("aspect", maintain_order=True):
        yield {"aspect": aspect, "rows": rows.to_dicts()}


def _disagreements(result: AgreementResult) -> Iterator[dict[str, Any]]:
    index = ["aspect", "metric"]
    for (aspect, metric), rows in result.disagreements.group_by(index, maintain_order=True):
        shown = rows.head(SHOWN_DISAGREEMENTS).to_dicts()
        yield {"aspect": aspect, "metric": metric, "rows": shown}


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
