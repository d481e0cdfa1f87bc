"""The page of an explanation in Chromium: pointer, touch, keyboard, sorting, hostile text."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.explain import open_explainer
from pipelines.reports.explain_page import ExplainedSystem, render_explanations
from pipelines.settings.explain import ExplainSettings
from sms.explaining import explain
from tests.commands import page_of
from tests.pipelines.test_explain import VECTORS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='hacked = 1'> cat & dog."
PHONE = {"width": 360, "height": 740}
COSTS = """() => [...document.querySelector('.flows').tBodies[0].rows].map((row) =>
  Number(row.cells[3].querySelector('data').value))"""

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
    const style = getComputedStyle(element);
    const own = element.localName === 'text' ? style.fill : style.color;
    const front = luminance(blend([...behind, own]));
    return (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
  }));
}"""


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
        explainer = open_explainer(
            [corpus],
            ExplainSettings(document="", metric=metric, encoders={"small": f"glove:{vectors}"}),
        )
        path = folder / f"{name}.html"
        path.write_text(page_of(explainer, "d"), encoding="utf-8")
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


def word(page, text):
    return page.locator(f".picture text:text-is('{text}')").first


def n_lines(page):
    return page.evaluate("""() => {
      const lines = [...document.querySelectorAll('[open] > article .picture path')];
      return lines.filter((line) => getComputedStyle(line).visibility === 'visible').length;
    }""")


def texts_of(page, mark):
    return page.locator(f".picture .{mark} text").all_text_contents()


def test_hover_shows_where_the_mass_goes(opened):
    assert n_lines(opened) == 7
    word(opened, "snow").hover()
    assert texts_of(opened, "is-active") == ["snow"]
    partners = set(texts_of(opened, "is-partner")) - {"snow"}
    assert partners
    assert partners <= {"Cat", "cat", "bird", "river", "market"}
    assert n_lines(opened) == opened.locator("path.is-shown").count() > 0
    told = opened.locator(".readout:visible").text_content()
    assert told.startswith("snow, mass 0.1000, is reached from ")
    opened.mouse.move(2, 2)
    assert opened.locator(".is-partner").count() == 0
    assert n_lines(opened) == 7


def test_readout_tells_of_a_word_a_sentence_and_a_dropped_word(opened):
    readout = opened.locator(".readout:visible")
    word(opened, "cat").hover()
    assert texts_of(opened, "is-active") == ["Cat", "cat"]  # a word that occurs twice is one point
    assert readout.text_content().startswith("Cat, mass 0.2000, moves to ")
    opened.locator(".picture rect[data-p^=c][rx='2']").nth(1).hover()
    assert readout.text_content().startswith("sentence 2, mass ")
    word(opened, "The").hover()
    assert readout.text_content() == "The does not count: stop word"
    assert opened.locator(".is-partner").count() == 0


def test_marks_have_titles_without_scripts(browser, address):
    context = browser.new_context(java_script_enabled=False, offline=True)
    tab = context.new_page()
    tab.goto(address)
    titles = tab.locator(".picture svg title").all_text_contents()
    assert any(title.startswith("snow, mass 0.1000, is reached from ") for title in titles)
    assert any(re.fullmatch(r".+ → .+: mass .+ at cost .+, adds .+", title) for title in titles)
    for name in ("worst", "none", "best"):
        tab.locator("details.system > summary", has_text=name).click()
        assert tab.get_by_role("article", name=name).is_visible()
    context.close()


def test_keyboard_reaches_the_lists_and_the_moves(opened):
    for where in (".units li", ".flows tbody tr"):
        opened.locator(where).first.focus()
        assert opened.locator(".picture .is-active").count() > 0
        assert "adds" in opened.locator(".readout:visible").text_content()


def test_tap_on_a_phone_shows_and_lets_go(browser, address):
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True, offline=True)
    tab = context.new_page()
    tab.goto(address)
    word(tab, "bird").tap()
    assert tab.locator(".is-partner").count() > 0
    assert tab.locator(".readout:visible").text_content().startswith("bird, mass ")
    tab.locator("h1").tap()
    assert tab.locator(".is-partner").count() == 0
    context.close()


def test_flows_table_sorts_by_number(opened):
    heading = opened.locator(".flows th", has_text="Cost").first
    heading.locator("button").click()
    costs = opened.evaluate(COSTS)
    assert len(costs) > 1
    assert costs == sorted(costs, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert opened.evaluate(COSTS) == sorted(costs)
    assert opened.locator(".flows th[aria-sort=ascending]").count() == 1


def test_another_system_is_shown_and_the_first_comes_back(opened):
    shown = opened.locator("article:visible")
    assert shown.get_attribute("aria-label") == "best"
    opened.get_by_role("link", name="worst").click()
    assert shown.get_attribute("aria-label") == "worst"
    shown.locator(".picture text:text-is('Unheard')").hover()
    assert "out of vocabulary" in shown.locator(".readout").text_content()
    opened.get_by_role("link", name="none").click()
    assert "candidate:empty" in shown.locator(".status").text_content()
    opened.get_by_role("link", name="best").click()
    word(opened, "snow").hover()
    assert opened.locator(".is-partner").count() > 0


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
    heading = page.locator("details.system > summary")
    shown = "".join(c for c in heading.text_content() if c in "0123456789.")
    assert shown
    assert heading.evaluate(DIGITS) == shown


@pytest.mark.parametrize("metric", ["s+wms", "rouge1"])
def test_phone_has_no_sideways_scrolling(page, render, metric):
    texts = {"a": "Cat dog snow. " * 3 + "Incomprehensibilities " * 5, HOSTILE: HOSTILE}
    page.set_viewport_size(PHONE)
    page.goto(render(f"phone-{metric}", texts, ["River market. Cat.", HOSTILE], metric))
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


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
        for selector in (".picture [data-p] text", ".picture [data-why] text", ".muted"):
            assert tab.evaluate(CONTRAST, selector) >= 4.5, (scheme, selector)
        context.close()


def test_long_text_shows_the_sentences_that_matter(page, render):
    words = ["cat", "dog", "bird", "river", "snow", "market"]
    long = " ".join(
        f"{words[k % 6].capitalize()} {words[k // 6 % 6]} {words[k // 36 % 6]}." for k in range(400)
    )
    page.goto(render("long", {"a": "Cat dog snow. River market.", "b": "Bird."}, [long]))
    assert page.locator("article:visible .picture rect[data-p^=o][rx='2']").count() == 30
    assert page.evaluate("document.querySelectorAll('*').length") < 7_000
    assert n_lines(page) == 12  # those that add most
    word(page, "dog").hover()
    assert n_lines(page) == page.locator("path.is-shown").count() > 0


def test_print_has_the_picture(opened):
    opened.emulate_media(media="print")
    assert opened.locator(".picture svg").first.is_visible()
    assert opened.locator(".readout:visible").count() == 0
    assert opened.locator(".arithmetic").first.is_visible()


# The words of each line of a picture from left to right, and the same words as the browser lays
# them out itself.
ORDERS = """() => [...document.querySelectorAll('[open] > article .picture svg g[*|lang]')].map(
  (sentence) => {
    const boxes = [...sentence.querySelectorAll('text')].map((text) => {
      const box = text.getBoundingClientRect();
      return { text: text.textContent, left: box.left, top: Math.round(box.top) };
    });
    const lines = new Map();
    for (const box of boxes) lines.set(box.top, [...(lines.get(box.top) ?? []), box]);
    return [...lines.values()].map((line) =>
      line.sort((one, other) => one.left - other.left).map((box) => box.text));
  })"""
LAID_OUT = """(words) => {
  const line = document.createElement('p');
  line.dir = 'rtl';
  line.style = 'white-space: nowrap; position: absolute; max-width: none';
  words.forEach((word, k) => {
    if (k) line.append(' ');
    const span = document.createElement('span');
    span.textContent = word;
    line.append(span);
  });
  document.body.append(line);
  const left = (span) => span.getBoundingClientRect().left;
  const spans = [...line.children].sort((one, other) => left(one) - left(other));
  line.remove();
  return spans.map((span) => span.textContent);
}"""


def test_words_from_the_right_stand_as_the_browser_puts_them(page, tmp_path):
    sentence = "في 14 مايو افتتحت Solar One محطة قرب القاهرة 120 مليون"
    explained = explain(sentence, sentence, metric="rouge1", language="ar")
    page_text = render_explanations("d", [ExplainedSystem(system_id="s", explanation=explained)])
    path = tmp_path / "page.html"
    path.write_text(page_text, encoding="utf-8")
    page.goto(path.as_uri())
    candidate, reference = page.evaluate(ORDERS)
    assert candidate == reference
    n_seen = 0
    for line in candidate:
        words = sentence.split()[n_seen : n_seen + len(line)]
        n_seen += len(line)
        assert sorted(words) == sorted(line)
        assert page.evaluate(LAID_OUT, words) == line
    assert n_seen == len(sentence.split())
    assert "Solar" in candidate[0]
    cell = page.locator("td[lang=ar]").first
    assert cell.evaluate("(cell) => getComputedStyle(cell).direction") == "rtl"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "text", ["要約の評価に" * 60, "กรุงเทพมหานครเมื่อวันที่" * 30, "الطاقة الشمسية " * 60]
)
def test_page_of_a_text_without_spaces_is_no_wider_than_the_screen(page, tmp_path, text, width):
    explained = explain(f"{text}.", f"{text}.", metric="length")
    systems = [ExplainedSystem(system_id=text[:80], explanation=explained)]
    path = tmp_path / "page.html"
    path.write_text(render_explanations(text[:80], systems), encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sentence = page.locator("td[dir=auto]").first
    assert sentence.inner_text() == f"{text}."
    assert sentence.bounding_box()["width"] > 250  # no pile of single characters
