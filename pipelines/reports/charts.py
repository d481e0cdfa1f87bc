"""The charts of an agreement report, specified once and used twice: on the page and in papers.

What they look like is in `templates/charts/*.json` (Vega-Lite). On the page a chart holds all rows
and shows those of the reader's choices, which are Vega parameters; its colours are variables of
the page's style sheet, so that it follows the light and the dark theme. For a paper the same chart
is drawn from the rows of one choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipelines.reports.pages import TEMPLATES, VEGA_LITE, file_stem
from pipelines.reports.words import COEFFICIENTS, LEVELS, SIGNIFICANCE, TESTS, in_order
from pipelines.tables.records import ALL, AgreementResult

SIGNIFICANT_DIGITS = 8
"""Of a number in a chart, enough for the decimals shown of one below 10,000; tables have all."""
LONGEST_LABEL = 20
"""Characters of a system's name in a plot; pointing at its dot shows all."""

Spec = dict[str, Any]
# One column of a two-column paper is about 240 points wide: at that width the text has 8 points.
PAGE, PAPER = json.loads((TEMPLATES / "charts" / "looks.json").read_text("utf-8")).values()
"""Colours, font (sizes in pixels)."""
PAGE_STEP, PAPER_STEP = 26, 13
"""Pixels per row of a matrix."""

_TEMPLATES = Environment(loader=FileSystemLoader(TEMPLATES / "charts"), undefined=StrictUndefined)


# Rows


def system_points(systems: pl.DataFrame) -> pl.DataFrame:
    """Pair each system's mean rating with its mean score, for every aspect and metric.

    `label` is the system's name as there is room for it beside a dot: what tells systems apart is
    mostly at the end.
    """
    ends = ["mean", "low", "high"]
    kept = systems.drop_nulls("mean").select("system_id", "kind", "name", *ends)
    ratings = kept.filter(kind="rating").drop("kind")
    scores = kept.filter(kind="metric").drop("kind")
    points = ratings.rename({"name": "aspect"} | {end: f"y_{end}" for end in ends}).join(
        scores.rename({"name": "metric"} | {end: f"x_{end}" for end in ends}),
        on="system_id",
        maintain_order="left_right",
    )
    name, end = pl.col("system_id"), pl.col("system_id").str.tail(LONGEST_LABEL - 1)
    is_long = name.str.len_chars() > LONGEST_LABEL
    return points.with_columns(label=pl.when(is_long).then(pl.format("…{}", end)).otherwise(name))


def difference_cells(differences: pl.DataFrame) -> pl.DataFrame:
    """Put the tests of one pair of metrics into one row: Holm's p-value under `p_TEST`.

    Of the family of all pairs, which a matrix is about; there are no rows where it was not asked
    for. Pairs whose difference is undefined are left out: Vega would draw them as equal.
    """
    differences = differences.filter(against=ALL)
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
    return sample_size.drop_nulls("mean").drop("n_draws", "n_undefined")


def compact(frame: pl.DataFrame) -> dict[str, Any]:
    """Turn a table into `columns`, `rows` and, for cells that are indices to them, `texts`."""
    texts = {}
    columns = []
    for column in frame:
        if column.dtype == pl.String:
            texts[column.name] = column.unique(maintain_order=True).to_list()
            position = {text: index for index, text in enumerate(texts[column.name])}
            columns.append([position[text] for text in column])
        elif column.dtype.is_float():
            columns.append(column.fill_nan(None).round_sig_figs(SIGNIFICANT_DIGITS).to_list())
        else:
            columns.append(column.to_list())
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"columns": frame.columns, "rows": rows, "texts": texts}


# On the page


def page_charts(
    result: AgreementResult, chosen: Mapping[str, str], tests: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Specify the charts that have rows, by name; each shows the rows of the reader's choices.

    `chosen` are the first choices. Each chart has, for JSON, `spec` without its data, `data` (see
    `compact`), and `matching`, the columns whose values must be as chosen.
    """
    here = {name: chosen[name] for name in ("level", "aspect", "coefficient")}
    of_system = {name: chosen[name] for name in ("aspect", "metric")}
    of_curve = {"metric": chosen["metric"], "coefficient_label": COEFFICIENTS[here["coefficient"]]}
    titles = {"x_title": {"signal": "'Mean score, ' + metric"}}
    titles |= {"y_title": {"signal": "'Mean rating, ' + aspect"}}
    label = {"signal": "coefficient_label"}
    scatter = _specified("systems", PAGE, **titles)
    matrix = _specified("differences", PAGE, p_value="datum['p_' + test]")
    curves = _specified("sample-size", PAGE, chosen="metric", y_title=label)
    cells, height = difference_cells(result.differences), PAGE_STEP * len(result.score_names)
    charts = {
        "systems": _live(scatter, system_points(result.systems), of_system, 440),
        "differences": _live(matrix, cells, here, height, test=next(iter(tests), "")),
        "sample-size": _live(curves, curve_points(result.sample_size), here, 360, **of_curve),
    }
    return {name: chart for name, chart in charts.items() if chart["data"]["rows"]}


def _specified(name: str, look: Mapping[str, str | int], **values: object) -> Spec:
    """Read the specification of a chart, without data and size."""
    values |= {"look": look, "significance": SIGNIFICANCE}
    return json.loads(_TEMPLATES.get_template(f"{name}.json").render(values))


def _live(
    spec: Spec, rows: pl.DataFrame, matching: Mapping[str, str], height: int, **others: str
) -> dict[str, Any]:
    """Let a chart follow the choices: it shows the rows that have the value of each `matching`."""
    matches = " && ".join(f"datum.{name} === {name}" for name in matching)
    values = {**matching, **others}
    spec |= {
        "config": _specified("config", PAGE),
        "data": {"name": "rows"},  # the page's script puts them there
        "transform": [{"filter": matches}, *spec.get("transform", [])],
        "params": [{"name": name, "value": value} for name, value in values.items()],
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
    }
    return {"spec": spec, "data": compact(rows), "matching": list(matching)}


# For papers


def paper_plots(result: AgreementResult) -> dict[str, Spec]:
    """Draw what papers show, for every aspect and level, by the coefficient asked for first.

    Intervals of the metrics, their differences by the first test, the sample-size curves with the
    best metric's band and, at system level, the systems under the best metric; by file name
    without a suffix.
    """
    coefficient = result.correlations["coefficient"][0]
    levels = in_order(result.correlations["level"], LEVELS)
    return {
        file_stem(name, level, coefficient, aspect): spec
        for aspect, level in product(result.aspects, levels)
        for name, spec in _plots_of(result, aspect, level, coefficient)
    }


def _plots_of(
    result: AgreementResult, aspect: str, level: str, coefficient: str
) -> Iterator[tuple[str, Spec]]:
    here = {"aspect": aspect, "level": level, "coefficient": coefficient}
    defined = result.correlations.filter(**here).drop_nulls("value")
    defined = defined.sort("is_baseline", "value", descending=[False, True])
    if defined.is_empty():
        return
    best, title = defined["metric"][0], COEFFICIENTS[coefficient]
    size = PAPER_STEP * len(defined)
    spec = _specified("correlations", PAPER, x_title=title)
    yield "correlations", paper_chart(spec, defined, width=130, height=size)
    differences = difference_cells(result.differences.filter(**here))
    if not differences.is_empty():
        test = in_order(result.differences["test"], TESTS)[0]
        spec = _specified("differences", PAPER, p_value=f"datum['p_{test}']")
        yield "differences", paper_chart(spec, differences, width=size, height=size)
    curves = curve_points(result.sample_size).filter(**here)
    if not curves.is_empty():
        chosen = json.dumps(printed_text(best))
        spec = _specified("sample-size", PAPER, chosen=chosen, y_title=title)
        yield "sample_size", paper_chart(spec, curves)
    points = system_points(result.systems).filter(aspect=aspect, metric=best)
    if level == "system" and not points.is_empty():
        spec = _specified(
            "systems",
            PAPER,
            x_title=f"Mean score, {printed_text(best)}",
            y_title=f"Mean rating, {printed_text(aspect)}",
        )
        yield "systems", paper_chart(spec, points)


def paper_chart(spec: Spec, rows: pl.DataFrame, *, width: int = 190, height: int = 150) -> Spec:
    """Give a chart for a paper its rows, its look and its size without axes, in pixels."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    printed = rows.with_columns(pl.col(texts).map_elements(printed_text, pl.String))
    data = {"values": printed.to_dicts()}
    config = _specified("config", PAPER)
    return {**spec, "config": config, "data": data, "width": width, "height": height}


def printed_text(text: str) -> str:
    """Write a name so that it can stand in a plot for a paper, in its SVG and in its titles.

    What is not printable becomes a space: the drawing library ends the process at a control
    character, and cannot read a title of two lines. A backslash, which it takes for an escape in
    a title, becomes a sign that looks like one.
    """
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.replace("\\", "\N{SET MINUS}")


def draw_svg(spec: Spec) -> str:
    """Draw a chart."""
    import vl_convert

    vega = vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE)
    for each in spec.get("usermeta", {}).get("embedOptions", {}).get("patch", []):
        # vegaEmbed applies these patches on a page. Placing names needs a canvas, which is missing
        # here, so names stand at a fixed offset.
        names = deepcopy(each["value"])
        del names["transform"]
        names["encode"]["update"] |= {"x": {"field": "x"}, "y": {"field": "y"}}
        names["encode"]["update"] |= {"dx": {"value": 7}, "dy": {"value": -6}}
        vega["marks"].append(names)
    return vl_convert.vega_to_svg(vega)
