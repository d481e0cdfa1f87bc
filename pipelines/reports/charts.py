"""The charts of an agreement report, drawn once and used twice: on the page and in papers.

On the page a chart holds all rows and shows those of the reader's choices, which are Vega
parameters; its colours are variables of the page's style sheet, so that it follows the light and
the dark theme. For a paper the same chart is drawn from the rows of one choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import altair as alt
import polars as pl

from pipelines.reports.file_names import file_stem
from pipelines.reports.pages import vega_lite_version
from pipelines.reports.words import COEFFICIENTS, LEVELS, SIGNIFICANCE, TESTS, in_order
from pipelines.tables.records import AgreementResult

EXPRESSION = "="
"""A title that begins with it is an expression over the reader's choices."""
TICKS = 5
"""About so many on an axis: few, for numbers are read from the tables."""
PNG_SCALE = 3.0
"""Pixels of a PNG per pixel of the SVG: 300 per inch at one column's width."""
ROWS = "rows"
"""Name of the dataset that the page's script puts into a specification."""
SIGNIFICANT_DIGITS = 8
"""Of a number in a chart, enough for the decimals shown of one below 10,000; tables have all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Colours, font and sizes of a chart."""

    ink: str
    muted: str
    rule: str
    accent: str
    counter: str
    surface: str
    """Behind the marks."""
    background: str
    """Of the whole chart."""
    font: str
    font_size: float
    """Pixels."""
    step: int
    """Pixels per row of a matrix."""


PAGE = Look(
    ink="var(--ink)",
    muted="var(--muted)",
    rule="var(--rule)",
    accent="var(--accent)",
    counter="var(--counter)",
    surface="var(--paper)",
    background="transparent",
    font="sans-serif",
    font_size=12,
    step=26,
)
# One column of a two-column paper is about 240 points wide: at that width the text has 8 points.
PAPER = Look(
    ink="#000000",
    muted="#333333",
    rule="#dddddd",
    accent="#17568c",
    counter="#b4500f",
    surface="#ffffff",
    background="#ffffff",
    font="Liberation Sans, Helvetica, Arial, sans-serif",
    font_size=11,
    step=13,
)


# Rows


def system_points(systems: pl.DataFrame) -> pl.DataFrame:
    """Pair each system's mean rating with its mean score, for every aspect and metric."""
    ends = ["mean", "low", "high"]
    kept = systems.drop_nulls("mean").select("system_id", "kind", "name", *ends)
    ratings = kept.filter(kind="rating").drop("kind")
    scores = kept.filter(kind="metric").drop("kind")
    return ratings.rename({"name": "aspect"} | {end: f"y_{end}" for end in ends}).join(
        scores.rename({"name": "metric"} | {end: f"x_{end}" for end in ends}),
        on="system_id",
        maintain_order="left_right",
    )


def difference_cells(differences: pl.DataFrame) -> pl.DataFrame:
    """Put the tests of one pair of metrics into one row: Holm's p-value under `p_TEST`.

    Pairs whose difference is undefined are left out: Vega would draw them as equal.
    """
    index = ["aspect", "level", "coefficient", "metric_a", "metric_b"]
    shown = ["value_a", "value_b", "difference", "low", "high"]
    cells = (
        differences.drop_nulls("difference")
        .group_by(index, maintain_order=True)
        .agg(pl.col(shown).first())
    )
    for test in in_order(differences["test"], TESTS):
        one = differences.filter(test=test).select(*index, pl.col("p_holm").alias(f"p_{test}"))
        cells = cells.join(one, on=index, how="left", maintain_order="left")
    return cells


def curve_points(sample_size: pl.DataFrame) -> pl.DataFrame:
    """Keep the sizes whose correlation is defined, and the columns that are drawn."""
    kept = ["aspect", "metric", "level", "coefficient", "n_documents", "mean", "low", "high"]
    return sample_size.drop_nulls("mean").select(kept)


def compact(frame: pl.DataFrame) -> dict[str, Any]:
    """Turn rows into columns and lists for JSON, with repeated texts written once.

    Returns
    -------
    dict
        `columns`: names; `rows`: one list per row; `texts`: for a column of texts, the distinct
        ones, to which its cells are indices.
    """
    texts = {}
    columns = []
    for column in frame:
        if column.dtype == pl.String:
            distinct = column.unique(maintain_order=True).to_list()
            position = {text: index for index, text in enumerate(distinct)}
            texts[column.name] = distinct
            columns.append([position[text] for text in column])
        elif column.dtype.is_float():
            columns.append(column.fill_nan(None).round_sig_figs(SIGNIFICANT_DIGITS).to_list())
        else:
            columns.append(column.to_list())
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"columns": frame.columns, "rows": rows, "texts": texts}


# Where a chart is shown


def page_chart(
    chart: alt.LayerChart,
    rows: pl.DataFrame,
    *,
    matching: Mapping[str, str],
    parameters: Mapping[str, str] | None = None,
    height: int,
) -> dict[str, Any]:
    """Specify a chart that shows the rows of the reader's choices.

    Parameters
    ----------
    chart : LayerChart
        Drawn with `PAGE`; titles may be expressions over the choices.
    rows : DataFrame
        All rows.
    matching : mapping
        First choice by column: a row is shown if it has the chosen value in each.
    parameters : mapping, optional
        First values of other Vega parameters that the chart uses.
    height : int
        Pixels.

    Returns
    -------
    dict
        For JSON: `spec`, without its data; `data`, see `compact`; `matching`, the columns.
    """
    named = chart.properties(data=alt.NamedData(ROWS)).configure(**_config(PAGE))
    spec = _live_titles(named.to_dict())
    matches = " && ".join(f"datum.{name} === {name}" for name in matching)
    spec["transform"] = [{"filter": matches}, *spec.get("transform", [])]
    values = {**matching, **(parameters or {})}
    spec["params"] = [{"name": name, "value": value} for name, value in values.items()]
    spec |= {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
    }
    return {"spec": spec, "data": compact(rows), "matching": list(matching)}


def paper_chart(
    chart: alt.LayerChart, rows: pl.DataFrame, *, width: int = 190, height: int = 150
) -> alt.LayerChart:
    """Give a chart that was drawn with `PAPER` its rows and its size without axes, in pixels."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    printed = rows.with_columns(pl.col(texts).map_elements(printed_text, pl.String))
    data = alt.Data(values=printed.to_dicts())
    return chart.properties(data=data, width=width, height=height).configure(**_config(PAPER))


def printed_text(text: str) -> str:
    """Write a name so that it can stand in a plot for a paper, in its SVG and in its titles.

    What is not printable becomes a space: the drawing library ends the process at a control
    character, and cannot read a title of two lines. A backslash, which it takes for an escape in
    a title, becomes a sign that looks like one.
    """
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.replace("\\", "\N{SET MINUS}")


def _config(look: Look) -> dict[str, Any]:
    text = {"font": look.font, "color": look.ink, "fontSize": look.font_size}
    axis = {
        "labelColor": look.muted,
        "titleColor": look.ink,
        "labelFontSize": look.font_size,
        "titleFontSize": look.font_size,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": look.rule,
        "gridOpacity": 0.6,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "labelLimit": 160,
    }
    return {
        "background": look.background,
        "font": look.font,
        "axis": axis,
        "axisBand": {"grid": False},
        "text": text,
        "view": {"stroke": None},
    }


def _live_titles(part: Any) -> Any:  # noqa: ANN401  (any part of a JSON document)
    """Turn titles that are expressions into signals, which Vega has and Vega-Lite's schema not."""
    if isinstance(part, list):
        return [_live_titles(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {"signal": value.removeprefix(EXPRESSION)}
        if key == "title" and isinstance(value, str) and value.startswith(EXPRESSION)
        else _live_titles(value)
        for key, value in part.items()
    }


# Charts


def _layers(*charts: alt.Chart) -> alt.LayerChart:
    # `alt.layer` may also return a facet, which none of these is.
    return alt.LayerChart(layer=list(charts))


def scatter(look: Look, *, x_title: str, y_title: str) -> alt.LayerChart:
    """Draw systems: mean score against mean rating, with both intervals and the names."""
    free, ticks = alt.Scale(zero=False, nice=True), alt.Axis(tickCount=TICKS)
    x = alt.X("x_mean:Q", title=x_title, scale=free, axis=ticks)
    y = alt.Y("y_mean:Q", title=y_title, scale=free, axis=ticks)
    hover = [
        alt.Tooltip("system_id:N", title="System"),
        alt.Tooltip("y_mean:Q", title="Mean rating", format=".3f"),
        alt.Tooltip("y_low:Q", title="Rating from", format=".3f"),
        alt.Tooltip("y_high:Q", title="Rating to", format=".3f"),
        alt.Tooltip("x_mean:Q", title="Mean score", format=".4f"),
        alt.Tooltip("x_low:Q", title="Score from", format=".4f"),
        alt.Tooltip("x_high:Q", title="Score to", format=".4f"),
    ]
    base = alt.Chart()
    whisker = base.mark_rule(color=look.rule, strokeWidth=1.5)
    return _layers(
        whisker.encode(x=x, y=alt.Y("y_low:Q"), y2="y_high:Q"),
        whisker.encode(x=alt.X("x_low:Q"), x2="x_high:Q", y=y),
        base.mark_text(
            align="left", dx=7, dy=-6, color=look.muted, fontSize=look.font_size - 2
        ).encode(x=x, y=y, text="system_id:N"),
        base.mark_circle(
            size=70, color=look.accent, opacity=1, stroke=look.surface, strokeWidth=1
        ).encode(x=x, y=y, tooltip=hover),
    )


def difference_map(look: Look, *, p_value: str) -> alt.LayerChart:
    """Draw a matrix of metrics: blue where the row agrees better than the column.

    A ring marks a difference that is significant after Holm's correction.

    Parameters
    ----------
    look : Look
        Colours and sizes.
    p_value : str
        Vega expression for the corrected p-value of a row of `difference_cells`.
    """
    by_value = alt.EncodingSortField(field="row_value", op="max", order="descending")
    by_column_value = alt.EncodingSortField(field="column_value", op="max", order="descending")
    x = alt.X("column:N", title=None, sort=by_column_value, axis=alt.Axis(orient="top"))
    y = alt.Y("row:N", title=None, sort=by_value)
    hover = [
        alt.Tooltip("row:N", title="Row"),
        alt.Tooltip("column:N", title="Column"),
        alt.Tooltip("signed:Q", title="Row – column", format="+.3f"),
        alt.Tooltip("signed_low:Q", title="from", format="+.3f"),
        alt.Tooltip("signed_high:Q", title="to", format="+.3f"),
        alt.Tooltip("p:Q", title="p (Holm)", format=".3~g"),
    ]
    strength = alt.Scale(range=[0.05, 0.95], domainMin=0)
    base = alt.Chart()
    return (
        _layers(
            base.mark_rect(stroke=look.surface, strokeWidth=1).encode(
                x=x,
                y=y,
                color=alt.Color(
                    "is_better:N",
                    scale=alt.Scale(domain=[True, False], range=[look.accent, look.counter]),
                    legend=None,
                ),
                fillOpacity=alt.FillOpacity("size:Q", scale=strength, legend=None),
                tooltip=hover,
            ),
            base.transform_filter(f"datum.p !== null && datum.p < {SIGNIFICANCE}")
            .mark_point(
                shape="circle",
                size=28,
                filled=True,
                opacity=1,
                color=look.surface,
                stroke=look.ink,
                strokeWidth=1,
            )
            .encode(x=x, y=y, tooltip=hover),
        )
        .transform_fold(["metric_a", "metric_b"], as_=["side", "row"])
        .transform_calculate(
            is_a="datum.side === 'metric_a'",
        )
        .transform_calculate(
            column="datum.is_a ? datum.metric_b : datum.metric_a",
            row_value="datum.is_a ? datum.value_a : datum.value_b",
            column_value="datum.is_a ? datum.value_b : datum.value_a",
            signed="datum.is_a ? datum.difference : -datum.difference",
            # the negative of nothing would be 0
            signed_low="datum.is_a || datum.high === null ? datum.low : -datum.high",
            signed_high="datum.is_a || datum.low === null ? datum.high : -datum.low",
            size="abs(datum.difference)",
            p=p_value,
        )
        .transform_calculate(is_better="datum.signed > 0")
    )


def sample_size_curve(look: Look, *, chosen: str, y_title: str) -> alt.LayerChart:
    """Draw correlation against the number of documents, one metric with its band.

    Parameters
    ----------
    look : Look
        Colours and sizes.
    chosen : str
        Vega expression for the metric that stands out; the others are thin lines.
    y_title : str
        Name of the coefficient.
    """
    ticks = alt.Axis(tickCount=TICKS)
    x = alt.X("n_documents:Q", title="Documents", scale=alt.Scale(nice=False), axis=ticks)
    y = alt.Y("mean:Q", title=y_title, scale=alt.Scale(zero=False), axis=ticks)
    is_chosen = f"datum.metric === {chosen}"
    hover = [
        alt.Tooltip("metric:N", title="Metric"),
        alt.Tooltip("n_documents:Q", title="Documents"),
        alt.Tooltip("mean:Q", title="Mean", format=".3f"),
        alt.Tooltip("low:Q", title="from", format=".3f"),
        alt.Tooltip("high:Q", title="to", format=".3f"),
    ]
    base = alt.Chart()
    one = base.transform_filter(is_chosen)
    return _layers(
        base.mark_line(strokeWidth=1, color=look.muted, opacity=0.35).encode(
            x=x, y=y, detail="metric:N", tooltip="metric:N"
        ),
        one.mark_area(color=look.accent, opacity=0.16).encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        one.mark_line(strokeWidth=2.5, color=look.accent).encode(x=x, y=y),
        one.mark_circle(size=40, color=look.accent, opacity=1).encode(x=x, y=y, tooltip=hover),
    )


def interval_chart(look: Look, *, x_title: str) -> alt.LayerChart:
    """Draw the correlations of metrics as dots with their intervals, the best on top."""
    y = alt.Y(
        "metric:N",
        title=None,
        sort=alt.EncodingSortField(field="value", op="max", order="descending"),
    )
    base = alt.Chart()
    return _layers(
        base.mark_rule(strokeWidth=2, color=look.muted).encode(
            x=alt.X("low:Q", title=x_title), x2="high:Q", y=y
        ),
        base.mark_circle(size=50, color=look.accent, opacity=1).encode(x="value:Q", y=y),
    )


# Files for papers


def paper_plots(result: AgreementResult) -> dict[str, alt.LayerChart]:
    """Draw what papers show, for every aspect and level, by the coefficient asked for first.

    Intervals of the metrics, their differences by the first test, the sample-size curves with the
    best metric's band and, at system level, the systems under the best metric.

    Returns
    -------
    dict
        By file name without a suffix; a plot without rows is left out.
    """
    coefficient = result.correlations["coefficient"][0]
    levels = in_order(result.correlations["level"], LEVELS)
    return {
        file_stem(name, level, coefficient, aspect): chart
        for aspect, level in product(result.aspects, levels)
        for name, chart in _plots_of(result, aspect, level, coefficient)
    }


def _plots_of(
    result: AgreementResult, aspect: str, level: str, coefficient: str
) -> Iterator[tuple[str, alt.LayerChart]]:
    here = {"aspect": aspect, "level": level, "coefficient": coefficient}
    found = result.correlations.filter(**here).drop_nulls("value")
    found = found.sort("is_baseline", "value", descending=[False, True])
    if found.is_empty():
        return
    best, title = found["metric"][0], COEFFICIENTS.get(coefficient, coefficient)
    best_printed = printed_text(best)
    matrix_size = PAPER.step * len(found)
    yield (
        "correlations",
        paper_chart(interval_chart(PAPER, x_title=title), found, width=130, height=matrix_size),
    )
    tests = in_order(result.differences["test"], TESTS)
    differences = difference_cells(result.differences.filter(**here))
    if not differences.is_empty():
        chart = difference_map(PAPER, p_value=f"datum['p_{tests[0]}']")
        size = {"width": matrix_size, "height": matrix_size}
        yield "differences", paper_chart(chart, differences, **size)
    curves = curve_points(result.sample_size).filter(**here)
    if not curves.is_empty():
        chart = sample_size_curve(PAPER, chosen=json.dumps(best_printed), y_title=title)
        yield "sample_size", paper_chart(chart, curves)
    points = system_points(result.systems).filter(aspect=aspect, metric=best)
    if level == "system" and not points.is_empty():
        y_title = f"Mean rating, {printed_text(aspect)}"
        chart = scatter(PAPER, x_title=f"Mean score, {best_printed}", y_title=y_title)
        yield "systems", paper_chart(chart, points)


def draw_files(plot: alt.TopLevelMixin) -> dict[str, bytes]:
    """Draw a plot as SVG and as PNG.

    Returns
    -------
    dict
        Content by suffix.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg(plot.to_dict(), vl_version=vega_lite_version())
    return {".svg": svg.encode(), ".png": vl_convert.svg_to_png(svg, scale=PNG_SCALE)}
