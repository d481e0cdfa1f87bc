"""The page of an explanation in Chromium: pointer, touch, keyboard, sorting, hostile text."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.explain import open_explainer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

VECTORS = """cat 0.0 0.0
dog 3.0 4.0
bird 0.0 1.0
river -1.0 2.0
snow 0.5 -0.5
market 2.0 0.25
"""
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='hacked = 1'> cat & dog."
PHONE = {"width": 360, "height": 740}
LINES = ".links path"
CANDIDATE, OTHER = ".pane[data-side=c]", ".pane[data-side=o]"
MOST_LINES = 60
COSTS = """() => [...document.querySelectorAll('.flows tbody tr')].map((row) =>
  Number(row.cells[3].querySelector('data').value))"""


@pytest.fixture(scope="module")
def render(tmp_path_factory):
    """Write the page of some candidates of one document and return its address."""
    folder = tmp_path_factory.mktemp("pages")
    vectors = folder / "vectors.txt"
    vectors.write_text(VECTORS, encoding="utf-8")

    def call(name, candidates, references, metric="s+wms"):
        rows = [
            {"document_id": "d", "system_id": k, "candidate": text, "references": references}
            for k, text in candidates.items()
        ]
        corpus = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), corpus)
        explainer = open_explainer([corpus], metric=metric, encoders={"small": f"glove:{vectors}"})
        path = folder / f"{name}.html"
        path.write_text(explainer.page("d"), encoding="utf-8")
        return path.as_uri()

    return call


@pytest.fixture(scope="module")
def address(render):
    candidates = {
        "best": "Cat cat and bird. The river market.",
        "worst": "Dog dog dog. Unheard market.",
        "none": "",
    }
    return render("small", candidates, ["Cat bird snow. River, market."])


@pytest.fixture
def opened(page, address):
    page.goto(address)
    return page


def word(page, pane, text):
    return page.locator(f"{pane} .u:text-is('{text}')").first


def settle(page):
    """Wait until the lines are drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")


def test_hover_marks_where_the_mass_goes(opened):
    word(opened, OTHER, "snow").hover()
    settle(opened)
    partners = opened.locator(f"{CANDIDATE} .is-partner").all_text_contents()
    assert partners
    assert set(partners) <= {"Cat", "cat", "bird", "river", "market", "1", "2"}
    assert opened.locator(f"{OTHER} .is-active").all_text_contents() == ["snow"]
    assert opened.locator(LINES).count() == len(partners)
    told = opened.locator(".readout").text_content()
    assert told.startswith("snow, mass 0.1000, is reached from ")
    opened.mouse.move(2, 2)
    assert opened.locator(".is-partner").count() == 0


def test_every_occurrence_of_a_word_has_its_share(opened):
    word(opened, CANDIDATE, "cat").hover()
    assert opened.locator(f"{CANDIDATE} .is-active").all_text_contents() == ["cat"]
    told = opened.locator(".readout").text_content()
    assert "(2 times, mass 0.2000 in all), mass 0.1000, moves to" in told


def test_dropped_word_says_why(opened):
    word(opened, CANDIDATE, "The").hover()
    assert opened.locator(".readout").text_content() == "The does not count: stop word."
    assert opened.locator(".is-partner").count() == 0


def test_click_holds_until_escape(opened):
    word(opened, CANDIDATE, "bird").click()
    opened.mouse.move(2, 2)
    assert opened.locator(".is-partner").count() > 0
    opened.keyboard.press("Escape")
    assert opened.locator(".is-partner").count() == 0
    assert opened.locator(".is-held").count() == 0
    assert opened.evaluate("document.activeElement.textContent") == "bird"


def test_keyboard_steps_through_words_and_sentences(opened):
    opened.locator(f"{CANDIDATE} .u").first.focus()
    assert opened.evaluate("document.activeElement.textContent") == "1"
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate("document.activeElement.textContent") == "Cat"
    assert opened.locator(f"{OTHER} .is-partner").all_text_contents()
    assert opened.locator(".readout").text_content().startswith("Cat (2 times")
    opened.keyboard.press("ArrowDown")
    assert opened.evaluate("document.activeElement.textContent") == "2"
    opened.keyboard.press("End")
    assert opened.evaluate("document.activeElement.textContent") == "."
    opened.keyboard.press("Home")
    opened.keyboard.press("Enter")
    assert opened.locator(f"{CANDIDATE} .is-held").all_text_contents() == ["1"]


def test_each_text_is_one_stop_for_the_tab_key(opened):
    stops = opened.locator(".pane [tabindex='0'], .pane button:not([tabindex='-1'])")
    assert stops.count() == 2


def test_tap_on_a_phone_shows_and_lets_go(browser, address):
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True, offline=True)
    tab = context.new_page()
    tab.goto(address)
    word(tab, CANDIDATE, "bird").tap()
    settle(tab)
    assert tab.locator(f"{OTHER} .is-partner").count() > 0
    assert tab.locator(LINES).count() > 0
    assert tab.locator(".readout").is_visible()
    word(tab, CANDIDATE, "bird").tap()
    assert tab.locator(".is-held").count() == 0
    context.close()


def test_flows_table_sorts_by_number(opened):
    heading = opened.locator(".flows th", has_text="Cost").first
    heading.locator("button").click()
    costs = opened.evaluate(COSTS)
    assert costs == sorted(costs, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert opened.evaluate(COSTS) == sorted(costs)
    assert opened.locator(".flows th[aria-sort=ascending]").count() == 1


def test_row_of_the_table_shows_its_move(opened):
    button = opened.locator(".flows tbody button").first
    button.focus()
    assert opened.locator(f"{CANDIDATE} .is-active").count() > 0
    assert opened.locator(f"{OTHER} .is-active").count() > 0
    assert "adds" in opened.locator(".readout").text_content()


def test_another_system_is_shown_and_the_first_comes_back(opened):
    assert opened.locator("article.system").get_attribute("aria-label") == "best"
    opened.get_by_role("button", name="worst").click()
    assert opened.locator("article.system").get_attribute("aria-label") == "worst"
    word(opened, CANDIDATE, "Unheard").hover()
    assert "out of vocabulary" in opened.locator(".readout").text_content()
    opened.get_by_role("button", name="none").click()
    assert "candidate:empty" in opened.locator(".status").text_content()
    opened.get_by_role("button", name="best").click()
    word(opened, OTHER, "snow").hover()
    assert opened.locator(f"{CANDIDATE} .is-partner").count() > 0


def test_lines_can_be_chosen(opened):
    settle(opened)
    assert opened.locator(LINES).count() > 0
    opened.get_by_text("None", exact=True).click()
    settle(opened)
    assert opened.locator(LINES).count() == 0


def test_lines_chosen_meanwhile_hold_for_a_system_shown_before(opened):
    settle(opened)
    opened.get_by_role("button", name="worst").click()
    opened.get_by_text("None", exact=True).click()
    opened.get_by_role("button", name="best").click()
    settle(opened)
    assert opened.locator(LINES).count() == 0
    assert opened.locator(".readout").text_content() == "Point at a word or a number."


# Where the digits of an element's text stand, from left to right.
DIGITS = """(element) => {
  const found = [];
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    [...texts.currentNode.data].forEach((character, k) => {
      if (!/[0-9.]/.test(character)) return;
      const range = document.createRange();
      range.setStart(texts.currentNode, k);
      range.setEnd(texts.currentNode, k + 1);
      found.push([range.getBoundingClientRect().left, character]);
    });
  }
  return found.sort(([one], [two]) => one - two).map(([, character]) => character).join("");
}"""
BACKWARDS = "\N{RIGHT-TO-LEFT OVERRIDE}dog"


def test_names_and_words_do_not_turn_the_numbers_beside_them(page, render):
    page.goto(render("backwards", {BACKWARDS: "Cat dog."}, ["Cat snow."], "wms"))
    heading = page.locator("article h2")
    assert heading.evaluate(DIGITS) == heading.locator(".score").text_content()
    word(page, CANDIDATE, "dog").evaluate("(unit, text) => (unit.textContent = text)", BACKWARDS)
    page.locator(f"{CANDIDATE} .w").last.hover()
    readout = page.locator(".readout")
    told = "".join(c for c in readout.text_content() if c in "0123456789.")
    assert told
    assert readout.evaluate(DIGITS) == told


@pytest.mark.parametrize("metric", ["s+wms", "rouge1"])
def test_phone_has_no_sideways_scrolling(page, render, metric):
    texts = {"a": "Cat dog snow. " * 3 + "Incomprehensibilities " * 5, HOSTILE: HOSTILE}
    page.set_viewport_size(PHONE)
    page.goto(render(f"phone-{metric}", texts, ["River market. Cat.", HOSTILE], metric))
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_hostile_text_stays_text(page, render):
    page.goto(render("hostile", {HOSTILE: HOSTILE, "b": "Cat."}, [HOSTILE]))
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img").count() == 0
    assert "window.hacked = 1" in page.locator(CANDIDATE).inner_text()
    word(page, CANDIDATE, "cat").hover()
    assert "cat" in page.locator(".readout").text_content()


def test_left_out_sentences_are_linked_to_their_rows(page, render):
    page.goto(render("effects", {"a": "Cat dog. River snow."}, ["Cat. Snow."], "rouge1"))
    bars = page.locator(f"{CANDIDATE} .effect")
    assert bars.count() == 2
    bars.nth(1).click()
    assert page.locator(".sentence.is-shown").count() == 1
    assert "River snow." in page.locator(".flows tr.is-active").inner_text()


def test_scores_without_a_sentence_sort_by_number(page, render):
    texts = {"a": "Cat dog. River snow bird. " + "Cat " * 12 + "."}
    page.goto(render("sorting", texts, ["Cat."], "length"))
    heading = page.locator(".flows th", has_text="Score without it")
    shown = []
    for _direction in ("descending", "ascending"):
        heading.locator("button").click()
        cells = page.locator(".flows tbody tr td:nth-child(4)").all_text_contents()
        shown.append([float(cell) for cell in cells])
    assert shown == [[15, 14, 5], [5, 14, 15]]


def test_text_meets_contrast_in_both_schemes(browser, address):
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, offline=True)
        tab = context.new_page()
        tab.goto(address)
        for selector in (f"{CANDIDATE} .w", f"{CANDIDATE} .dropped", "button.bar", ".muted"):
            assert tab.evaluate(CONTRAST, selector) >= 4.5, (scheme, selector)
        context.close()


# The lowest contrast of some elements with what lies behind them (WCAG 2.2, 1.4.3).
CONTRAST = """(selector) => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const blend = (colours) => {
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => rgb
    .map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, k) => sum + value * [0.2126, 0.7152, 0.0722][k], 0);
  return Math.min(...[...document.querySelectorAll(selector)].map((element) => {
    const behind = [];
    for (let each = element; each; each = each.parentElement) {
      behind.unshift(getComputedStyle(each).backgroundColor);
    }
    const back = luminance(blend(behind));
    const front = luminance(blend([...behind, getComputedStyle(element).color]));
    return (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
  }));
}"""


def test_long_text_draws_few_lines(page, render):
    words = ["cat", "dog", "bird", "river", "snow", "market"]
    long = " ".join(
        f"{words[k % 6].capitalize()} {words[k // 6 % 6]} {words[k // 36 % 6]}." for k in range(400)
    )
    page.goto(render("long", {"a": "Cat dog snow. River market.", "b": "Bird."}, [long]))
    assert page.locator(f"{OTHER} .sentence").count() == 400
    assert page.evaluate("document.querySelectorAll('*').length") < 7_000
    assert page.locator(".matrix rect").count() < 2_000
    for text in ("Cat", "dog"):
        word(page, CANDIDATE, text).hover()
        settle(page)
        assert 0 < page.locator(LINES).count() <= MOST_LINES
    word(page, CANDIDATE, "dog").click()
    settle(page)
    box = page.locator(f"{OTHER} .text")
    assert box.evaluate("(box) => box.scrollHeight > box.clientHeight")


def test_print_has_the_picture_in_place_of_the_lines(opened):
    assert not opened.locator(".picture").first.is_visible()
    opened.emulate_media(media="print")
    assert opened.locator(".picture svg").first.is_visible()
    assert not opened.locator(".stage").first.is_visible()
    assert opened.locator(".arithmetic").first.is_visible()
