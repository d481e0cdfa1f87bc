import dataclasses
from xml.etree import ElementTree

import polars as pl
import pytest

from pipelines.reports.charts import (
    compact,
    curve_points,
    difference_cells,
    draw_svg,
    page_charts,
    paper_plots,
    system_points,
)
from tests.pipelines.reports.made_up import ASPECTS, METRICS, SYSTEMS


def unpacked(data):
    """The rows again, as the page's script reads them."""
    return [
        {
            name: data["texts"][name][cell] if name in data["texts"] else cell
            for name, cell in zip(data["columns"], row, strict=True)
        }
        for row in data["rows"]
    ]


def test_compact_keeps_every_row():
    frame = pl.DataFrame(
        {"name": ["b", "a", "b"], "n": [1, 2, None], "value": [73.4567891234, None, float("nan")]}
    )
    assert unpacked(compact(frame)) == [
        {"name": "b", "n": 1, "value": 73.456789},
        {"name": "a", "n": 2, "value": None},
        {"name": "b", "n": None, "value": None},
    ]


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
    emptied = result.sample_size.with_columns(mean=pl.when(metric="sms").then("mean"))
    assert set(curve_points(emptied)["metric"]) == {"sms"}


def test_page_chart_filters_by_the_choices(result):
    chosen = {"level": "global", "aspect": ASPECTS[0], "coefficient": "pearson", "metric": "sms"}
    charts = page_charts(result, chosen, ["williams", "perm-both"])
    assert set(charts) == {"systems", "differences", "sample-size"}
    spec = charts["systems"]["spec"]
    condition = "datum.aspect === aspect && datum.metric === metric"
    assert spec["transform"] == [{"filter": condition}]
    values = {each["name"]: each["value"] for each in charts["differences"]["spec"]["params"]}
    here = {name: chosen[name] for name in ("level", "aspect", "coefficient")}
    assert values == here | {"test": "williams"}
    titles = [layer["encoding"]["x"].get("title") for layer in spec["layer"]]
    assert {"signal": "'Mean score, ' + metric"} in titles


def test_paper_plots_are_drawn_whatever_things_are_called(result):
    # a name with a control character ended the process, one of two lines the report
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
    for plot in paper_plots(changed).values():
        svg = draw_svg(plot)
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "<script" not in svg


def test_names_of_systems_stand_beside_their_dots_on_paper(result, capfd):
    (plot,) = [plot for name, plot in paper_plots(result).items() if name.startswith("systems")][:1]
    svg = draw_svg(plot)
    assert capfd.readouterr().err == ""  # where a mark cannot be placed it is dropped and said
    drawn = ElementTree.fromstring(svg)
    places = {
        element.text: element.get("transform")
        for element in drawn.iter("{http://www.w3.org/2000/svg}text")
        if element.text in SYSTEMS
    }
    assert len(set(places.values())) == len(places) > 1
