"""The charts of an agreement report: on its page, and as files for papers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import polars as pl

from pipelines.reports.charts import Axis, Chart, short_name
from pipelines.reports.numbers import MINUS, interval_text, number_text, p_value_text
from pipelines.reports.pages import file_stem
from pipelines.reports.words import COEFFICIENTS, LEVELS, SIGNIFICANCE, TESTS, in_order
from pipelines.tables.records import ALL, AgreementResult
from sms.writing import isolated

N_TINTS = 5
"""Strengths of colour in a matrix."""
CELL = 26, 20
"""Pixels of a cell of a matrix."""


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

    Of the family of all pairs, which a matrix is about; there are no rows where it was not asked
    for. Pairs whose difference is undefined are left out.
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


# Charts


def systems_chart(
    points: pl.DataFrame, metric: str, aspect: str, width: int = 190, height: int = 150
) -> Chart:
    """Draw each system's mean score and mean rating, with both intervals; some rows are needed."""
    x = Axis.of_numbers(_ends(points, "x"), f"Mean score, {isolated(short_name(metric))}")
    y = Axis.of_numbers(_ends(points, "y"), f"Mean rating, {isolated(short_name(aspect))}")
    chart = Chart(x, y, width=width, height=height)
    for row in points.iter_rows(named=True):
        ends = [(row[f"{axis}_low"], row[f"{axis}_high"]) for axis in "xy"]
        chart.cross(row["x_mean"], row["y_mean"], *ends)
    for row in points.iter_rows(named=True):
        said = (
            f"{name} {number_text(row[f'{at}_mean'], n)} "
            f"{interval_text(row[f'{at}_low'], row[f'{at}_high'], n)}"
            for name, at, n in (("score", "x", 4), ("rating", "y", 3))
        )
        title = f"{isolated(row['system_id'])}: {', '.join(said)}"
        chart.dot(row["x_mean"], row["y_mean"], "mark", title, row["system_id"])
    return chart


def _ends(points: pl.DataFrame, axis: str) -> list[float | None]:
    return [v for end in ("mean", "low", "high") for v in points[f"{axis}_{end}"]]


def curves_chart(
    curves: pl.DataFrame, best: str, title: str, width: int = 190, height: int = 150
) -> Chart:
    """Draw a correlation against the number of documents; one metric is drawn with its band."""
    chosen = curves.filter(metric=best)
    values = [*curves["mean"], *chosen["low"], *chosen["high"]]
    x, y = Axis.of_numbers(curves["n_documents"], "Documents"), Axis.of_numbers(values, title)
    chart = Chart(x, y, width=width, height=height)
    for (metric,), rows in curves.group_by("metric", maintain_order=True):
        if metric != best:
            chart.line(rows.select("n_documents", "mean").iter_rows(), "other", str(metric))
    band = chosen.drop_nulls(["low", "high"])
    lows, highs = (list(band.select("n_documents", end).iter_rows()) for end in ("low", "high"))
    if len(band) > 1:
        chart.area([*lows, *reversed(highs)], "band")
    chart.line(chosen.select("n_documents", "mean").iter_rows(), "best")
    for row in chosen.iter_rows(named=True):
        shown = f"{number_text(row['mean'])} {interval_text(row['low'], row['high'])}"
        said = f"{best}, {row['n_documents']:,} documents: {shown}"
        chart.dot(row["n_documents"], row["mean"], "best", said)
    return chart


def differences_chart(cells: pl.DataFrame) -> Chart:
    """Draw how much better each metric is than those after it, the best first.

    A cell is framed if the first of its tests finds the difference significant; its title has all.
    """
    values = dict(cells.select("metric_a", "value_a").iter_rows())
    values |= dict(cells.select("metric_b", "value_b").iter_rows())
    ranked = sorted(values, key=lambda name: -values[name])
    place = {name: k for k, name in enumerate(ranked)}
    rows = [f"{name} {k}" for k, name in enumerate(ranked[:-1], 1)]
    columns = [str(k) for k in range(2, len(ranked) + 1)]
    size = CELL[0] * len(columns), CELL[1] * len(rows)
    y, x = Axis.of_names(rows[::-1]), Axis.of_names(columns)
    chart = Chart(x, y, width=size[0], height=size[1], has_grid=False)
    tests = [test for test in TESTS if f"p_{test}" in cells.columns]
    largest = cells["difference"].abs().max() or 1.0
    for row in cells.sort(pl.col(f"p_{tests[0]}") <= SIGNIFICANCE, nulls_last=False).iter_rows(
        named=True
    ):
        better, worse = sorted((row["metric_a"], row["metric_b"]), key=place.__getitem__)
        is_turned = better != row["metric_a"]
        size_of, ends = abs(row["difference"]), [row["low"], row["high"]]
        if is_turned:
            ends = [None if end is None else -end for end in reversed(ends)]
        p_values = [(TESTS[test], row[f"p_{test}"]) for test in tests]
        said = ", ".join(f"{name} p {p_value_text(p)}" for name, p in p_values if p is not None)
        pair = f"{isolated(better)} {MINUS} {isolated(worse)}"
        title = f"{pair}: {number_text(size_of)} {interval_text(*ends)}, {said}"
        first = p_values[0][1]
        kind = f"tint tint-{min(int(N_TINTS * size_of / largest), N_TINTS - 1)}"
        kind += " significant" * (first is not None and first <= SIGNIFICANCE)
        i, j = len(rows) - 1 - place[better], place[worse] - 1
        shown = number_text(size_of, 2).removeprefix("0")
        chart.bar((j - 0.5, i - 0.5), (j + 0.5, i + 0.5), kind, title, shown)
    return chart


def correlations_chart(rows: pl.DataFrame, title: str) -> Chart:
    """Draw the values of metrics with their intervals, the first metric on top."""
    x = Axis.of_numbers([*rows["value"], *rows["low"], *rows["high"], 0.0], title)
    y = Axis.of_names(rows["metric"].to_list()[::-1])
    chart = Chart(x, y, width=150, height=16 * len(rows))
    for k, row in enumerate(rows.reverse().iter_rows(named=True)):
        chart.cross(row["value"], k, (row["low"], row["high"]), (None, None))
        shown = f"{number_text(row['value'])} {interval_text(row['low'], row['high'])}"
        chart.dot(row["value"], k, "mark", f"{isolated(row['metric'])}: {shown}")
    return chart


# For papers


def paper_plots(result: AgreementResult) -> dict[str, str]:
    """Draw what papers show, for every aspect and level, by the coefficient asked for first.

    Intervals of the metrics, their differences, the sample-size curves with the best metric's band
    and, at system level, the systems under the best metric; by file name without a suffix.
    """
    coefficient = result.correlations["coefficient"][0]
    levels = in_order(result.correlations["level"], LEVELS)
    return {
        file_stem(name, level, coefficient, aspect): chart.svg(
            f"{name}: {aspect}, {level} level, {COEFFICIENTS[coefficient]}", is_file=True
        )
        for aspect, level in product(result.aspects, levels)
        for name, chart in _plots_of(result, aspect, level, coefficient)
    }


def _plots_of(
    result: AgreementResult, aspect: str, level: str, coefficient: str
) -> Iterator[tuple[str, Chart]]:
    here = {"aspect": aspect, "level": level, "coefficient": coefficient}
    defined = result.correlations.filter(**here).drop_nulls("value")
    defined = defined.sort("is_baseline", "value", descending=[False, True])
    if defined.is_empty():
        return
    best, title = defined["metric"][0], COEFFICIENTS[coefficient]
    yield "correlations", correlations_chart(defined, title)
    cells = difference_cells(result.differences.filter(**here))
    if not cells.is_empty():
        yield "differences", differences_chart(cells)
    curves = result.sample_size.filter(**here).drop_nulls("mean")
    if not curves.is_empty():
        yield "sample_size", curves_chart(curves, best, title)
    points = system_points(result.systems).filter(aspect=aspect, metric=best)
    if level == "system" and not points.is_empty():
        yield "systems", systems_chart(points, best, aspect)
