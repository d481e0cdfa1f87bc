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

DRAWN = "html[data-charts=drawn]"
PHONE = {"width": 360, "height": 740}
SHOWN = ".panel.is-chosen table.correlations"
BOXES = """() => [...document.querySelectorAll(
  "#chart-systems .mark-symbol path, #chart-systems .mark-text.role-mark text:not([opacity='0'])"
)].map((mark) => {
  const { x, y, width, height } = mark.getBBox(), { e, f } = mark.getCTM();
  return [x + e, y + f, x + e + width, y + f + height];
})"""
"""Of dots without their edge, and of the names that found room."""


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
    page.wait_for_selector(DRAWN)
    return page


def open_changed(page, result, folder, **tables):
    """Open the page of a result with other tables."""
    file = folder / "report.html"
    file.write_text(render_report(dataclasses.replace(result, **tables)), encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector(DRAWN)


def unfold(page, title):
    """Open a folded part; its chart is drawn then."""
    part = page.locator("details.more", has=page.locator("summary", has_text=title))
    part.locator("summary").first.click()
    if part.locator("[data-chart]").count():
        part.locator("[data-chart] svg").wait_for()


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
    return row.locator("data").inner_text()


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
    opened.get_by_role("combobox", name="Coefficient").select_option("kendall_b")
    expected = value_of("rouge_L", "fluency & flow", "global", "kendall_b")
    assert shown_value(opened, "rouge_L") == number_text(expected)


def test_choice_that_was_not_computed_says_so(page, result, tmp_path):
    only_system = pl.col("coefficient").eq("pearson") | pl.col("level").eq("system")
    open_changed(page, result, tmp_path, correlations=result.correlations.filter(only_system))
    page.get_by_role("combobox", name="Coefficient").select_option("kendall_b")
    note = page.locator("section:has(table.correlations) .nothing-chosen")
    assert not note.is_visible()
    level_control(page, "Global").check()
    assert note.inner_text() == "Not computed for this choice."


def test_choices_survive_in_the_address_and_unknown_ones_are_passed_over(opened, report):
    level_control(opened, "Global").check()
    aspect = opened.get_by_role("combobox", name="Aspect")
    aspect.select_option("fluency & flow")
    for address, level, chosen in (
        (opened.url, "Global", "fluency & flow"),
        (f"{report}#level=none&aspect=none&coefficient=kendall_b", "System", "relevance"),
    ):
        opened.goto("about:blank")
        opened.goto(address)
        opened.wait_for_selector(DRAWN)
        assert level_control(opened, level).is_checked()
        assert aspect.input_value() == chosen
    expected = value_of("sms", "relevance", "system", "kendall_b")
    assert shown_value(opened, "sms") == number_text(expected)


def points(page):
    return page.locator("#chart-systems .mark-symbol path")


def test_a_point_names_its_system_and_follows_the_metric(opened):
    assert points(opened).count() == len(SYSTEMS)
    points(opened).nth(3).hover()
    tooltip = opened.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    lines = [line.split("\t")[-1] for line in tooltip.inner_text().splitlines()]
    assert SYSTEMS[3] in lines
    assert {"3.750", "3.550", "3.950", "3.7500", "3.5500", "3.9500"} <= set(lines)
    assert opened.title() == "Agreement with human ratings"  # the name's script did not run
    assert opened.locator("#chart-systems").get_by_text("Mean score, sms").count() == 1
    opened.get_by_role("combobox", name="Metric").select_option("rouge_L")
    opened.locator("#chart-systems").get_by_text("Mean score, rouge_L").wait_for()
    assert points(opened).count() == len(SYSTEMS)


def test_chart_without_rows_says_so(opened):
    unfold(opened, "How many documents it takes")
    level_control(opened, "Global").check()
    note = opened.locator("figure:has(#chart-sample-size) .chart-note")
    note.wait_for(state="visible")
    assert note.inner_text() == "Not computed for global, relevance, pearson."
    assert not opened.locator("#chart-sample-size").is_visible()


def test_difference_map_has_both_halves_and_is_faint_where_the_test_finds_nothing(opened):
    unfold(opened, "Which metrics differ")
    cells = opened.locator("#chart-differences .mark-rect.role-mark path")
    note = opened.locator("figure:has(#chart-differences) .chart-note")
    faint = opened.locator("#chart-differences .mark-text.role-mark text[opacity='0.45']")
    assert cells.count() == 4 * 3
    assert faint.count() == 0  # every pair is significant by permutation
    opened.get_by_role("combobox", name="Test").select_option("williams")
    faint.nth(4 * 3 - 1).wait_for()
    assert not note.is_visible()  # tested, and nothing found
    level_control(opened, "Global").check()
    assert note.inner_text().startswith("This test was not made for global, relevance, pearson")
    level_control(opened, "Summary").check()  # one of the four metrics is undefined there
    opened.locator("#chart-differences .role-axis-label text").nth(6).wait_for(state="detached")
    assert cells.count() == 3 * 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_page_does_not_scroll_sideways(page, report, scheme):
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme=scheme)
    page.goto(report)
    page.wait_for_selector(DRAWN)
    for level in ("System", "Summary", "Global"):
        level_control(page, level).check()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_paper_has_what_is_chosen_and_an_appendix(opened):
    level_control(opened, "Summary").check()
    opened.emulate_media(media="print")
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.locator("table.correlations:visible").count() == 1
    assert opened.locator("table.overview:visible").count() == 1
    assert opened.locator(".verdict:visible").count() == 1
    assert opened.locator("summary", has_text="The raters among themselves").is_visible()
    assert opened.locator(".choices").is_hidden()
    assert opened.locator(".more:not(.appendix):visible").count() == 0
    assert opened.locator(".chart svg:visible").count() == 1


def test_page_without_scripts_shows_every_table(browser, report):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(report)
    assert page.locator("table.correlations:visible").count() == 12
    assert page.locator(".choices").is_hidden()
    assert page.get_by_text("The plot needs JavaScript").first.is_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrast(page, report, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(report)
    for selector in ("h1", ".eyebrow", "summary", ".ceiling-key", ".tag"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
