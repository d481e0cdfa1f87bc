"""The charts of an agreement report."""

import dataclasses
import re
from xml.etree import ElementTree

import polars as pl
import pytest

from pipelines.reports.agreement_charts import (
    curves_chart,
    difference_cells,
    differences_chart,
    paper_plots,
    system_points,
    systems_chart,
)
from pipelines.reports.numbers import MINUS
from tests.pipelines.reports.made_up import ASPECTS, METRICS, SYSTEMS, value_of

SVG = "{http://www.w3.org/2000/svg}"
HERE = {"level": "system", "aspect": "relevance", "coefficient": "pearson"}


def marks(chart, name, kind=""):
    """The elements of a chart with a class, and their titles."""
    root = ElementTree.fromstring(chart.svg("a chart", is_file=True))
    found = (each for each in root.iter(f"{SVG}{name}") if kind in each.get("class", "").split())
    return [(each, each.findtext(f"{SVG}title")) for each in found]


def test_point_pairs_rating_and_score_by_hand(result):
    points = system_points(result.systems)
    assert len(points) == len(SYSTEMS) * len(ASPECTS) * len(METRICS)
    (row,) = points.filter(system_id="M1", aspect=ASPECTS[1], metric=METRICS[2]).to_dicts()
    assert row["y_mean"] == pytest.approx(3.0 + 0.25 + 0.01)
    assert row["x_mean"] == pytest.approx(3.0 + 0.25 + 0.02)
    assert row["x_low"] == pytest.approx(row["x_mean"] - 0.2)


def test_difference_cells_put_tests_side_by_side(result):
    cells = difference_cells(result.differences)
    assert set(cells["p_perm-both"]) == {0.024}
    pearson = cells.filter(level="system", coefficient="pearson")
    assert len(pearson) == 6 * 2  # pairs, aspects
    assert set(pearson["p_williams"]) == {0.5}
    assert set(cells.filter(level="global")["p_williams"]) == {None}


def test_what_is_undefined_is_left_out(result):
    lacking = (pl.col("system_id") == "M1") & (pl.col("name") == "sms")
    systems = result.systems.with_columns(mean=pl.when(~lacking).then("mean"))
    points = system_points(systems).filter(metric="sms")
    assert set(points["system_id"]) == set(SYSTEMS) - {"M1"}
    cells = difference_cells(result.differences).filter(level="summary")
    assert "length" not in {*cells["metric_a"], *cells["metric_b"]}


def test_each_system_is_a_dot_that_says_its_means(result):
    points = system_points(result.systems).filter(aspect="relevance", metric="sms")
    chart = systems_chart(points, "sms", "relevance")
    said = [title for _, title in marks(chart, "circle", "mark")]
    assert said[3] == (f"{SYSTEMS[3]}: score 3.7500 [3.5500, 3.9500], rating 3.750 [3.550, 3.950]")
    assert len(said) == len(SYSTEMS)
    ((whiskers, _),) = marks(chart, "path", "whisker")
    level, upright = (re.findall(rf"M\S+ \S+?{to}", whiskers.get("d")) for to in "HV")
    assert len(level) == len(upright) == len(SYSTEMS)


def test_difference_is_framed_where_the_test_finds_it(result):
    """Each of six pairs once, with what all its tests say."""
    cells = difference_cells(result.differences.filter(**HERE))
    chart = differences_chart(cells)
    assert len(marks(chart, "rect", "tint")) == 6
    titles = [title for _, title in marks(chart, "rect", "significant")]
    assert len(titles) == 6
    difference = value_of("sms", **HERE) - value_of("rouge_L", **HERE)
    assert titles[0] == (
        f"sms {MINUS} rouge_L: {difference:.3f} [{difference - 0.1:.3f}, {difference + 0.1:.3f}], "
        "Permutation (Perm-Both) p 0.024, Williams p 0.500"
    )
    unsure = cells.with_columns(pl.lit(0.3).alias("p_perm-both"))
    assert not marks(differences_chart(unsure), "rect", "significant")


def test_difference_is_that_of_the_better_metric_whichever_comes_first(result):
    cells = difference_cells(result.differences.filter(**HERE))
    names = {"metric_a": "metric_b", "metric_b": "metric_a", "value_a": "value_b"}
    turned = cells.rename({**names, "value_b": "value_a", "low": "high", "high": "low"})
    turned = turned.with_columns(-pl.col("difference"), -pl.col("low"), -pl.col("high"))
    expected = {title for _, title in marks(differences_chart(cells), "rect", "tint")}
    assert {title for _, title in marks(differences_chart(turned), "rect", "tint")} == expected


def test_curve_of_the_best_metric_has_its_band(result):
    rows = result.sample_size.filter(**HERE)
    chart = curves_chart(rows, "sms", "Pearson r")
    assert len(marks(chart, "polyline", "best")) == 1
    assert len(marks(chart, "polygon", "band")) == 1
    assert {title for _, title in marks(chart, "polyline", "other")} == set(METRICS) - {"sms"}
    shown = value_of("sms", **HERE) - 0.5
    expected = f"sms, 2 documents: {shown:.3f} [{shown - 0.1:.3f}, {shown + 0.1:.3f}]"
    assert marks(chart, "circle", "best")[0][1] == expected


def test_paper_plots_are_drawn_whatever_things_are_called(result):
    name = "two\nlines\u2028 nul\x00 back\\slash \x1b[1m"
    renamed = {METRICS[0]: name, ASPECTS[0]: name, SYSTEMS[0]: name}
    changed = dataclasses.replace(
        result,
        score_names=[renamed.get(metric, metric) for metric in METRICS],
        aspects=[renamed.get(aspect, aspect) for aspect in ASPECTS],
        **{
            table: getattr(result, table).with_columns(pl.col(pl.String).replace(renamed))
            for table in ("correlations", "differences", "sample_size", "systems")
        },
    )
    plots = paper_plots(changed)
    assert len(plots) == 2 * (3 + 3 + 1 + 1)  # aspects; three levels, or the system level alone
    for svg in plots.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert not re.search(r"<script|var\(", svg)
