"""The page in a real browser: sorting, hovering, switching, widths, and paper."""

import dataclasses
from itertools import combinations

import polars as pl
import pytest

from pipelines.reports.agreement_report import render_report
from pipelines.reports.numbers import number_text
from tests.pipelines.reports.made_up import METRICS, SYSTEMS, value_of
from tests.pipelines.test_explain_browser import CONTRAST

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PHONE = {"width": 360, "height": 740}
SHOWN = "table.correlations:visible"
BOXES = """() => [...document.querySelectorAll(".chart circle.mark, .chart text.name")]
  .filter((mark) => mark.checkVisibility())
  .map((mark) => {
    const { x, y, width, height } = mark.getBBox(), { e, f } = mark.getCTM();
    return [x + e, y + f, x + e + width, y + f + height];
  })"""
"""Of the dots of systems, and of the names that found room."""


@pytest.fixture(scope="module")
def report(result, tmp_path_factory):
    """Address of the page on disk."""
    folder = tmp_path_factory.mktemp("report")
    file = folder / "report.html"
    file.write_text(render_report(result), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def opened(page, report):
    page.goto(report)
    return page


def open_changed(page, result, folder, **tables):
    """Open the page of a result with other tables."""
    file = folder / "report.html"
    file.write_text(render_report(dataclasses.replace(result, **tables)), encoding="utf-8")
    page.goto(file.as_uri())


def unfold(page, title):
    """Open a folded part and return it."""
    part = page.locator("details.more", has=page.locator("summary", has_text=title))
    part.locator("summary").first.click()
    return part


def test_names_of_systems_lie_on_no_dot_and_on_no_other_name(page, result, tmp_path):
    named = {name: f"an-organisation/with-a-long-name-{name}" for name in SYSTEMS}
    systems = result.systems.with_columns(pl.col("system_id").replace(named))
    open_changed(page, result, tmp_path, systems=systems)
    boxes = page.evaluate(BOXES)
    assert len(boxes) > len(SYSTEMS)  # dots, and at least some names
    for (left, top, right, bottom), other in combinations(boxes, 2):
        assert (
            right <= other[0] + 1
            or other[2] <= left + 1
            or bottom <= other[1] + 1
            or (other[3] <= top + 1)
        )


def level_control(page, name):
    return page.get_by_role("radio", name=name)


def first_column(page):
    names = page.locator(f"{SHOWN} tbody th").all_inner_texts()
    return [name.removesuffix("baseline").strip() for name in names]


def shown_value(page, metric):
    row = page.locator(f"{SHOWN} tbody tr").filter(has_text=metric)
    return row.locator("data").first.inner_text()


def test_click_sorts_says_so_and_keeps_undefined_last(opened):
    assert first_column(opened) == METRICS  # by value, highest first
    value = opened.locator(f"{SHOWN} th", has_text="Value").first
    value.get_by_role("button").click()
    assert value.get_attribute("aria-sort") == "ascending"
    assert first_column(opened) == METRICS[::-1]
    name = opened.locator(f"{SHOWN} th", has_text="Metric").first
    name.get_by_role("button").click()
    assert name.get_attribute("aria-sort") == "ascending"
    assert value.get_attribute("aria-sort") == "none"
    assert first_column(opened) == sorted(METRICS)
    level_control(opened, "Summary").check()
    button = opened.locator(f"{SHOWN} th", has_text="Value").first.get_by_role("button")
    for _direction in ("ascending", "descending"):
        button.click()
        assert first_column(opened)[-1] == "length"


def test_choices_change_the_numbers(opened):
    for level in ("system", "summary", "global"):
        level_control(opened, level.capitalize()).check()
        expected = value_of("sms", "relevance", level, "pearson")
        assert shown_value(opened, "sms") == number_text(expected)
    opened.get_by_role("combobox", name="Aspect").select_option("fluency & flow")
    opened.get_by_role("combobox", name="Coefficient").select_option(label="Kendall τ-b")
    expected = value_of("rouge_L", "fluency & flow", "global", "kendall_b")
    assert shown_value(opened, "rouge_L") == number_text(expected)


def test_choice_that_was_not_computed_says_so(page, result, tmp_path):
    only_system = pl.col("coefficient").eq("pearson") | pl.col("level").eq("system")
    open_changed(page, result, tmp_path, correlations=result.correlations.filter(only_system))
    page.get_by_role("combobox", name="Coefficient").select_option(label="Kendall τ-b")
    notes = page.locator("section .panel:visible", has_text="Not computed for this choice.")
    assert notes.count() == 0
    assert page.locator(SHOWN).count() == 1
    level_control(page, "Global").check()
    assert notes.count() == 1
    assert page.locator(SHOWN).count() == 0


def chart(page, label):
    return page.locator(f"svg.chart[aria-label^='{label}']:visible")


def test_a_point_names_its_system_and_follows_the_metric(opened):
    shown = chart(opened, "Mean rating (relevance)")
    assert shown.locator("circle.mark").count() == len(SYSTEMS)
    title = shown.locator("circle.mark title").nth(3).text_content()
    assert title == f"{SYSTEMS[3]}: score 3.7500 [3.5500, 3.9500], rating 3.750 [3.550, 3.950]"
    assert opened.title() == "Agreement with human ratings"  # the name's script did not run
    assert shown.get_by_text("Mean score, sms").count() == 1
    opened.get_by_role("combobox", name="Metric").select_option("rouge_L")
    assert shown.count() == 1
    assert shown.get_by_text("Mean score, rouge_L").count() == 1


def test_folded_charts_follow_the_choices(opened):
    curves = unfold(opened, "How many documents it takes")
    assert chart(opened, "Pearson r and number of documents").count() == 1
    level_control(opened, "Global").check()
    assert chart(opened, "Pearson r and number of documents").count() == 0
    assert curves.get_by_text("Not computed for this choice.").locator("visible=true").count() == 1
    unfold(opened, "Which metrics differ")
    cells = chart(opened, "Differences between metrics").locator("rect.tint")
    assert cells.count() == 6  # pairs of four metrics
    level_control(opened, "Summary").check()  # one of the four metrics is undefined there
    assert cells.count() == 3


def test_first_screen_shows_the_verdict_and_all_metrics(opened):
    for level in ("System", "Summary", "Global"):
        level_control(opened, level).check()
        assert opened.locator("h1:visible").all_inner_texts() == ["sms agrees best with people"]
        strips = opened.locator(".verdicts .bar-cell svg:visible")
        assert strips.count() == 2  # aspects
        box = strips.last.bounding_box()
        assert box["y"] + box["height"] < 800
        dots = strips.first.locator("circle")
        xs = {dot.get_attribute("class"): dot.bounding_box()["x"] for dot in dots.all()}
        assert xs["best"] == max(xs.values())


SCREENS = [(390, 844), (768, 1024), (1280, 800), (1600, 1000)]


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_first_screen_has_verdict_picture_scale_and_key(page, report, width, height):
    page.set_viewport_size({"width": width, "height": height})
    page.goto(report)
    for selector in ("h1", ".keys", ".verdicts .ticks", ".verdicts .bar-cell svg"):
        box = page.locator(f"{selector}:visible").first.bounding_box()
        assert min(box["x"], box["y"]) >= 0, selector
        assert box["y"] + box["height"] <= height, selector
        assert box["x"] + box["width"] <= width, selector


def test_scale_stands_above_the_picture_at_every_width(page, report):
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        page.goto(report)
        scale = page.locator(".verdicts .ticks:visible").bounding_box()
        picture = page.locator(".verdicts .bar-cell svg:visible").first.bounding_box()
        assert scale["x"] == pytest.approx(picture["x"], abs=1)
        assert scale["width"] == pytest.approx(picture["width"], abs=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE["width"], 390, 768, 1280])
def test_page_does_not_scroll_sideways(page, report, scheme, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(report)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for level in ("System", "Summary", "Global"):
        level_control(page, level).check()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_both_ends_of_a_scale_are_written_on_a_phone(page, report):
    page.set_viewport_size(PHONE)
    page.goto(report)
    for level in ("System", "Summary", "Global"):
        level_control(page, level).check()
        for scale in page.locator(".ticks:visible").all():
            texts = scale.locator("text")
            assert texts.first.is_visible()
            assert texts.last.is_visible()


DRAWN = """() => [...document.querySelectorAll("table.correlations tbody tr")]
  .filter((row) => row.checkVisibility())
  .map((row) => {
    const cell = row.querySelector(".bar-cell > i");
    if (!cell) return null;
    const dot = getComputedStyle(cell, "::after"), line = getComputedStyle(cell, "::before");
    return [dot.left, line.left, line.width].map((each) => parseFloat(each) / cell.offsetWidth);
  })"""
"""Of each row the places of its dot, and the start and width of its line, as shares of the cell."""


def test_values_and_intervals_are_drawn_where_the_axis_has_them(opened):
    low, high = -0.4, 1.0  # ends of the axis, as in `test_axis_by_hand`
    drawn = opened.evaluate(DRAWN)
    assert len(drawn) == len(METRICS)
    for metric, shares in zip(first_column(opened), drawn, strict=True):
        value = value_of(metric, "relevance", "system", "pearson")
        expected = [value, value - 0.1234, value + 0.0987 - (value - 0.1234) + low]
        for share, number in zip(shares, expected, strict=True):
            assert share == pytest.approx((number - low) / (high - low), abs=0.005)


def test_paper_has_what_is_chosen(opened):
    level_control(opened, "Summary").check()
    opened.emulate_media(media="print")
    assert opened.locator(SHOWN).count() == 1
    assert opened.locator(".verdict:visible").count() == 1
    assert opened.locator(".choices").is_hidden()
    assert opened.locator("svg.chart:visible").count() == 1


def test_page_without_scripts_has_charts_and_choices(browser, report):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(report)
    assert page.locator(SHOWN).count() == 1
    assert page.locator("svg.chart:visible").count() == 1
    page.get_by_role("radio", name="Global").check()
    page.get_by_role("combobox", name="Metric").select_option("rouge_L")
    assert "global level" in page.locator(f"{SHOWN} caption").inner_text()
    assert page.locator("svg.chart:visible").get_by_text("Mean score, rouge_L").count() == 1
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrast(page, report, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(report)
    for selector in ("h1", ".eyebrow", "summary", ".ceiling-key", ".tag", ".chart text"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
