"""Charts in general: places of marks, axes, names, colours, and texts of any kind."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.reports.charts import (
    FILE_COLOURS,
    LONGEST_LABEL,
    MOST_TICKS,
    Axis,
    Chart,
    Mark,
    columns,
    drawn,
    series,
    spot,
    strip,
    ticks,
    upright,
)
from pipelines.reports.numbers import MINUS

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "two\nlines\u2028 nul\x00 back\\slash \x1b[1m </text><script>alert(1)</script> \"'&"
UNIT = Axis(low=0.0, high=10.0, labels={0.0: "0", 10.0: "10"})


def parsed(svg):
    return ElementTree.fromstring(svg)


def elements(svg, name):
    """The elements of a name in a small chart, which a page has without a namespace."""
    return list(parsed(svg).iter(name))


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([-0.38, 0.9123], "-0.4 -0.2 0.0 0.2 0.4 0.6 0.8 1.0"),
        ([2, 100], "0 20 40 60 80 100"),
        ([0.00124, 0.0182], "0.000 0.005 0.010 0.015 0.020"),
        ([-2e6, 1e6], "-2e+06 -1.5e+06 -1e+06 -500000 0 500000 1e+06"),
        ([None, float("nan"), 3.0, 4.0], "3.0 3.2 3.4 3.6 3.8 4.0"),
        ([5.0, 5.0], "4.4 4.6 4.8 5.0 5.2 5.4 5.6"),
    ],
)
def test_axis_by_hand(values, labels):
    shown = " ".join(Axis.of_numbers(values).labels.values())
    assert shown.replace(MINUS, "-") == labels


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)))
def test_axis_holds_any_values(values):
    axis = Axis.of_numbers(values)
    assert 2 <= len(axis.labels) <= MOST_TICKS + 3
    assert all(len(text) < 12 for text in axis.labels.values())
    for value in values:
        if abs(value) < float("inf"):
            assert -1e-9 <= axis.share(value) <= 1 + 1e-9


def test_dot_stands_where_its_values_are():
    chart = Chart(UNIT, UNIT, width=200, height=100)
    chart.dot(5.0, 2.5, "mark", "M1: 5, 2.5")
    (dot,) = parsed(chart.svg("a", is_file=True)).iter(f"{SVG}circle")
    assert (float(dot.get("cx")), float(dot.get("cy"))) == (100.0, 75.0)
    assert dot.find(f"{SVG}title").text == "M1: 5, 2.5"


def test_marks_keep_their_corners():
    chart = Chart(UNIT, UNIT, width=200, height=100)
    chart.line([(0, 0), (10, 10)], "best")
    chart.bar((2.0, 8.0), (0.0, 6.0), "tint", text="0.5")
    root = parsed(chart.svg("a", is_file=True))
    assert next(root.iter(f"{SVG}polyline")).get("points") == "0,100 200,0"
    bar = next(each for each in root.iter(f"{SVG}rect") if each.get("class") == "tint")
    assert [bar.get(name) for name in ("x", "y", "width", "height")] == ["0", "20", "40", "20"]


def test_name_without_room_is_left_out_and_long_ones_are_cut_at_their_beginning():
    chart = Chart(UNIT, UNIT, width=200, height=100)
    for _ in range(12):
        chart.dot(5.0, 5.0, "mark", name="a-crowded-place")
    chart.dot(1.0, 9.0, "mark", name=f"an-organisation/{'x' * LONGEST_LABEL}")
    names = [
        each.text
        for each in parsed(chart.svg("a", is_file=True)).iter(f"{SVG}text")
        if each.get("class") == "name"
    ]
    assert 1 <= names.count("a-crowded-place") < 12
    assert names[-1] == "…" + "x" * (LONGEST_LABEL - 1)


def test_file_has_its_colours_and_a_page_its_own():
    chart = Chart(UNIT, UNIT)
    chart.dot(1.0, 1.0, "mark")
    in_file, on_page = chart.svg("a", is_file=True), chart.svg("a")
    assert "var(" not in in_file
    assert FILE_COLOURS["accent"] in in_file
    assert "<style" not in on_page


def test_charts_in_rows_have_one_legend_that_names_every_series():
    names = [f"series number {k}" for k in range(12)]
    chart = Chart(UNIT, UNIT, title="one")
    svg = drawn([[chart, chart], [chart]], "a", legend=names, is_file=True)
    texts = [each.text for each in parsed(svg).iter(f"{SVG}text")]
    assert [text for text in texts if text.startswith("series")] == names
    assert texts.count("one") == 3
    assert len({series(k) for k in range(12)}) == 12  # colours come twice, the second time dashed


def test_texts_of_any_kind_stay_texts():
    axis = Axis.of_names([HOSTILE, "other"], HOSTILE)
    chart = Chart(axis, axis, title=HOSTILE)
    chart.dot(0.0, 1.0, "mark", HOSTILE, HOSTILE)
    chart.bar((0.0, 0.0), (1.0, 1.0), "tint", HOSTILE, HOSTILE)
    mark = Mark(0.5, "mark", HOSTILE)
    for svg in (
        drawn([[chart]], HOSTILE, legend=[HOSTILE], is_file=True),
        chart.svg(HOSTILE),
        strip(axis, [mark], label=HOSTILE),
        ticks(axis),
        columns([1.0], [HOSTILE], HOSTILE),
    ):
        assert parsed(svg).tag.endswith("svg")
        assert "<script" not in svg


def test_strip_by_hand():
    svg = strip(
        UNIT, [Mark(2.0), Mark(10.0, "best", "B")], interval=(1, 4), lines=[Mark(0, "zero")]
    )
    assert [each.get("cx") for each in elements(svg, "circle")] == ["20.0%", "100.0%"]
    zero, interval = elements(svg, "rect")
    assert zero.get("x") == "0.0%"
    assert (interval.get("x"), interval.get("width")) == ("10.0%", "30.0%")


@pytest.mark.parametrize("interval", [(None, None), (float("nan"), float("nan")), (None, 1.0)])
def test_strip_without_an_interval(interval):
    assert not elements(strip(UNIT, [Mark(2.0)], interval=interval), "rect")


def test_whiskers_by_hand():
    chart = Chart(UNIT, UNIT, width=200, height=100)
    chart.cross(5.0, 2.0, (4.0, 6.0), (None, None))
    chart.cross(5.0, 2.0, (None, 6.0), (1.0, 3.0))
    (whiskers,) = (
        each.get("d")
        for each in parsed(chart.svg("a", is_file=True)).iter(f"{SVG}path")
        if each.get("class") == "whisker"
    )
    assert whiskers == "M80 80H120M100 90V70"


def test_spot_by_hand():
    assert spot(UNIT, 2.0, (1, 4)) == "--at:20.0;--from:10.0;--to:40.0"
    for without in ((None, None), (float("nan"), float("nan")), (None, 1.0)):
        assert spot(UNIT, 2.0, without) == "--at:20.0"
    assert upright(UNIT, [Mark(0, "zero"), Mark(9, "ceiling")]) == "--zero:0.0;--ceiling:90.0"


def test_columns_by_hand():
    svg = columns([4.0, 1.0, -2.0], ["a", "b", "c"], "differences")
    bars = elements(svg, "rect")
    assert [float(bar.get("height")) for bar in bars] == [1.0, 0.25, 0.5]
    assert [float(bar.get("y")) for bar in bars] == [-1.0, -0.25, 0.0]
    assert [bar.get("class") for bar in bars] == ["above", "above", "below"]
    assert [bar.find("title").text for bar in bars] == ["a", "b", "c"]
    assert parsed(svg).get("viewBox") == "0 -1.000 3 1.500"
