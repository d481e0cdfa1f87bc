"""The page of a run in a real browser: commands, sorting, widths, and without scripts."""

import polars as pl
import pytest

import assay

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "M <2> 'quoted' & \"twice\""
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Address of the page of three systems, one of them with a name that a shell must quote."""
    folder = tmp_path_factory.mktemp("run")
    rows = [
        {"document_id": f"d{j}", "system_id": system, "candidate": "word " * (2 + i + j)}
        for i, system in enumerate(["M10", "M9", NAME])
        for j in range(8)
    ]
    pl.DataFrame(rows).write_parquet(folder / "corpus.parquet")
    assay.score(folder / "corpus.parquet", metrics=["length"], out=folder / "out")
    return (folder / "out" / "scores.html").as_uri()


def test_button_copies_the_command_that_is_folded(browser, scores):
    context = browser.new_context(offline=True, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(scores)
    row = page.locator(".extremes tbody tr", has_text=NAME).first
    code = row.locator("code")
    assert not code.is_visible()
    row.get_by_role("button", name="Copy command").click()
    row.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    row.locator("summary").click()
    assert copied == code.inner_text()
    assert copied.startswith("assay explain --scores ")
    context.close()


def test_command_is_shown_without_scripts(browser, scores):
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(scores)
    row = page.locator(".extremes tbody tr").first
    assert row.locator("button").is_hidden()
    row.locator("summary").click()
    assert row.locator("code").inner_text().startswith("assay explain --scores ")
    context.close()


@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 900}])
def test_explanation_unfolds_below_its_row(page, tmp_path, size):
    corpus, out = tmp_path / "corpus.parquet", tmp_path / "out"
    rows = [
        {"document_id": f"d{i}", "system_id": "s", "candidate": "One. " * i} for i in range(1, 5)
    ]
    pl.DataFrame(rows).write_parquet(corpus)
    assay.score(corpus, metrics=["length"], out=out, explain=True)
    page.set_viewport_size(size)
    page.goto((out / "scores.html").as_uri())
    row = page.locator(".extremes tbody tr.shown").first
    assert not row.locator("svg").is_visible()
    row.locator("summary").click()
    assert row.locator("svg").is_visible()
    score = row.locator("xpath=preceding-sibling::tr[1]/td[1]").inner_text()
    assert f"length = {float(score):.6f}" in row.locator("svg").text_content()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_systems_are_sorted_by_name_and_back_by_mean(page, scores):
    page.goto(scores)
    table = page.get_by_role("table", name="Means of length")
    by_mean = table.locator("tbody th").all_inner_texts()
    assert by_mean == [NAME, "M9", "M10"]
    table.get_by_role("button", name="System").click()
    assert table.locator("tbody th").all_inner_texts() == sorted(by_mean)
    table.get_by_role("button", name="Mean and interval").click()
    assert table.locator("tbody th").all_inner_texts() == by_mean


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Address of the page of 30 systems: long names, names from the right, rows without a score."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"an-organisation/with-a-long-name-{k}-that-goes-on-and-on" for k in range(28)]
    rows = [
        {"document_id": f"d{j}" * 20, "system_id": name, "candidate": "word " * (i + j) * (j > 1)}
        for i, name in enumerate([*names, "\u05de\u05e2\u05e8\u05db\u05ea", "one"], start=1)
        for j in range(6)
    ]
    pl.DataFrame(rows).write_parquet(folder / "corpus.parquet")
    assay.score(folder / "corpus.parquet", metrics=["length"], out=folder / "out")
    assay.compare(folder / "out", None, out=folder / "out" / "compared.html", resamples=50)
    return (folder / "out" / "scores.html").as_uri()


@pytest.mark.parametrize("name", ["scores.html", "compared.html"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_thirty_systems_with_long_names_fit_every_width(page, many, name, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(many.replace("scores.html", name))
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = page.locator(".means .bar-cell > i:visible")
    assert drawn.count() >= 30
    assert drawn.first.bounding_box()["width"] >= 80  # room to see an interval in


def test_metric_without_scores_has_no_empty_table(page, tmp_path):
    rows = [{"document_id": f"d{k}", "system_id": "s", "candidate": ""} for k in range(3)]
    pl.DataFrame(rows).write_parquet(tmp_path / "corpus.parquet")
    assay.score(tmp_path / "corpus.parquet", metrics=["length"], out=tmp_path / "out")
    page.goto((tmp_path / "out" / "scores.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.get_by_role("table").count() >= 1
    for table in page.get_by_role("table").all():
        assert table.locator("tbody tr").count() > 0
    assert "over 0 documents" in page.locator("section").first.inner_text()


@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 800}])
def test_first_screen_has_a_picture(page, many, size):
    page.set_viewport_size(size)
    page.goto(many)
    box = page.locator(".bar-cell svg:visible").first.bounding_box()
    assert box["y"] + box["height"] <= size["height"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_sideways_scrolling_on_a_phone_with_all_parts_open(page, scores, scheme):
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme=scheme)
    page.goto(scores)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
