"""What the page of an agreement report shows: choices, panels and the data of its charts.

Only selection and order; nothing is computed anew, and how it looks is in the template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.reports import charts
from pipelines.reports.correlation_panels import (
    CorrelationPanel,
    Overview,
    Row,
    correlation_panels,
    overviews,
)
from pipelines.reports.file_names import EXPLAIN_FOLDER, explain_file
from pipelines.reports.numbers import range_text
from pipelines.reports.words import (
    COEFFICIENTS,
    LEVELS,
    SIGNIFICANCE,
    TESTS,
    counted,
    in_order,
    listed,
    selection,
    statistic_name,
)
from pipelines.tables.records import AgreementResult

SHOWN_DISAGREEMENTS = 6
"""Per aspect and metric; the table on disk has all."""

NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One choice of a control."""

    value: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A number of the header."""

    label: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the page shows first."""

    level: str
    aspect: str
    coefficient: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatersRow:
    """One statistic of agreement among raters, for all aspects."""

    statistic: str
    level: str | None
    pool: str
    cells: Sequence[Row | None]
    """By aspect; None where there is no such row."""
    n_raters: str
    n_units: str
    n_missing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPanel:
    """Rows for one aspect, and one metric where it is named."""

    aspect: str
    metric: str | None = None
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Reference and source that disagreements link to."""

    id: str
    document_id: str
    reference: str | None
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """Everything `agreement_report.html` shows, besides `AgreementResult.about`."""

    title: str
    lead: str
    facts: Sequence[Fact]
    selection: str
    """Whose ratings, and which systems were left out."""
    confidence: str
    significance: str
    chosen: Choices
    levels: Sequence[Option]
    aspects: Sequence[Option]
    coefficients: Sequence[Option]
    metrics: Sequence[Option]
    tests: Sequence[Option]
    overviews: Sequence[Overview]
    panels: Sequence[CorrelationPanel]
    raters: Sequence[RatersRow]
    power: Sequence[RowsPanel]
    disagreements: Sequence[RowsPanel]
    texts: Sequence[Texts]
    charts: Mapping[str, Any]
    """Specification, data and choices of each chart, by name."""


def report_view(result: AgreementResult, folder: Path) -> ReportView:
    """Arrange a result for the page.

    Parameters
    ----------
    result : AgreementResult
        What was computed.
    folder : path
        Where the page will be: pages in its `explain` folder are linked to.

    Raises
    ------
    ValueError
        If there is no correlation to show.
    """
    panels = list(correlation_panels(result))
    if not panels:
        raise ValueError("`result.correlations` must have rows, got none; there is no report")
    chosen = _first_choices(panels[0])
    tests = in_order(result.differences["test"], TESTS)
    shown = result.disagreements.group_by("aspect", "metric", maintain_order=True).head(
        SHOWN_DISAGREEMENTS
    )
    texts = _texts(shown)
    return ReportView(
        title="Agreement with human ratings",
        lead=_lead(result),
        facts=_facts(result),
        selection=selection(result.about.raters, result.about.excluded_systems),
        confidence=f"{100 * result.about.confidence:g}{NO_BREAK}%",
        significance=f"{SIGNIFICANCE:g}",
        chosen=chosen,
        levels=_options((panel.level for panel in panels), LEVELS),
        aspects=_options(panel.aspect for panel in panels),
        coefficients=_options((panel.coefficient for panel in panels), COEFFICIENTS),
        metrics=_options(result.score_names),
        tests=_options(tests, TESTS),
        overviews=list(overviews(result)),
        panels=panels,
        raters=list(_raters(result)),
        power=[
            RowsPanel(aspect=aspect, rows=rows.to_dicts())
            for aspect in result.aspects
            if not (rows := result.power.filter(aspect=aspect)).is_empty()
        ],
        disagreements=list(_disagreements(shown, texts, folder)),
        texts=list(texts.values()),
        charts=_charts(result, chosen, tests),
    )


def _options(values: Iterable[str], names: Mapping[str, str] | None = None) -> list[Option]:
    names = names or {}
    distinct = dict.fromkeys(values)
    return [Option(value=value, label=names.get(value, value)) for value in distinct]


# Header


def _lead(result: AgreementResult) -> str:
    about = result.about
    return (
        f"How well the scores of {counted(len(result.score_names), 'metric')} agree with what "
        f"people say about {listed(result.aspects)}, over {counted(len(about.systems), 'system')} "
        f"and {counted(about.n_documents, 'document')}."
    )


def _facts(result: AgreementResult) -> list[Fact]:
    about = result.about
    facts = {
        "Metrics": f"{len(result.score_names):,}",
        "Aspects": f"{len(result.aspects):,}",
        "Systems": f"{len(about.systems):,}",
        "Documents": f"{about.n_documents:,}",
        "Raters": about.raters,
        "Resamples": f"{about.n_resamples:,}",
        "Seed": str(about.seed),
    }
    return [Fact(label=label, value=value) for label, value in facts.items()]


def _first_choices(panel: CorrelationPanel) -> Choices:
    """Begin with a panel and its best metric that is no baseline."""
    best = min(panel.rows, key=lambda row: row["is_baseline"])
    return Choices(
        level=panel.level,
        aspect=panel.aspect,
        coefficient=panel.coefficient,
        metric=best["metric"],
    )


# Raters


def _raters(result: AgreementResult) -> Iterator[RatersRow]:
    """Put the aspects side by side."""
    index = ["pool", "statistic", "level"]
    for (pool, statistic, level), rows in result.raters.group_by(index, maintain_order=True):
        by_aspect = {row["aspect"]: row for row in rows.iter_rows(named=True)}
        yield RatersRow(
            statistic=statistic_name(str(statistic)),
            level=level,
            pool=pool,
            cells=[by_aspect.get(aspect) for aspect in result.aspects],
            n_raters=range_text(rows["n_raters"]),
            n_units=range_text(rows["n_units"]),
            n_missing=range_text(rows["n_missing"]),
        )


# Disagreements


def _texts(disagreements: pl.DataFrame) -> dict[tuple[str, str | None, str | None], Texts]:
    """Collect each reference and source once, however many disagreements name it."""
    kept = disagreements.select("document_id", "reference", "source").unique(maintain_order=True)
    return {
        key: Texts(id=f"text-{index}", document_id=key[0], reference=key[1], source=key[2])
        for index, key in enumerate(kept.iter_rows())
        if key[1] is not None or key[2] is not None
    }


def _disagreements(
    disagreements: pl.DataFrame,
    texts: Mapping[tuple[str, str | None, str | None], Texts],
    folder: Path,
) -> Iterator[RowsPanel]:
    for (aspect, metric), rows in disagreements.group_by("aspect", "metric", maintain_order=True):
        items = []
        for row in rows.iter_rows(named=True):
            text = texts.get((row["document_id"], row["reference"], row["source"]))
            name = explain_file(row["document_id"], row["system_id"], row["metric"])
            page = f"{EXPLAIN_FOLDER}/{name}"
            items.append(
                row
                | {
                    "text_id": text.id if text else None,
                    "explain": page if (folder / page).is_file() else None,
                }
            )
        yield RowsPanel(aspect=aspect, metric=metric, rows=items)


# Charts


def _charts(result: AgreementResult, chosen: Choices, tests: Sequence[str]) -> dict[str, Any]:
    """Specify the charts that have rows."""
    label = COEFFICIENTS.get(chosen.coefficient, chosen.coefficient)
    found = {
        "systems": charts.page_chart(
            charts.scatter(
                charts.PAGE,
                x_title="='Mean score, ' + metric",
                y_title="='Mean rating, ' + aspect",
            ),
            charts.system_points(result.systems),
            matching={"aspect": chosen.aspect, "metric": chosen.metric},
            height=440,
        ),
        "differences": charts.page_chart(
            charts.difference_map(charts.PAGE, p_value="datum['p_' + test]"),
            charts.difference_cells(result.differences),
            matching={
                "level": chosen.level,
                "aspect": chosen.aspect,
                "coefficient": chosen.coefficient,
            },
            parameters={"test": tests[0] if tests else ""},
            height=charts.PAGE.step * len(result.score_names),
        ),
        "sample-size": charts.page_chart(
            charts.sample_size_curve(charts.PAGE, chosen="metric", y_title="=coefficient_label"),
            charts.curve_points(result.sample_size),
            matching={
                "level": chosen.level,
                "aspect": chosen.aspect,
                "coefficient": chosen.coefficient,
            },
            parameters={"metric": chosen.metric, "coefficient_label": label},
            height=360,
        ),
    }
    return {name: chart for name, chart in found.items() if chart["data"]["rows"]}
