"""Pages made of hostile ids, names and texts, through the commands and in a real browser."""

import json
import re

import pytest

from pipelines.cli.app import run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HACK = "window.hacked = 1"
HOSTILE = [
    f"</script><script>{HACK}</script>",
    f"\"'><img src=x onerror='{HACK}'>",
    f"<svg/onload={HACK}>",
    f"`${{{HACK}}}` {{{{7*7}}}} {{% raw %}}",
    f"javascript:{HACK}",
    f"</textarea></style></title><!--<script>{HACK}</script>-->",
    f"]]> &lt;script&gt;{HACK}&lt;/script&gt; \\u003cscript\\u003e",
]
WORDS = ["cat", "dog", "bird", "river", "snow", "market"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Score and correlate a hostile corpus; return all pages, the explained ones included."""
    folder = tmp_path_factory.mktemp("hostile")
    vectors = folder / "vectors.txt"
    vectors.write_text("".join(f"{w} {i}.5 {i * i}.25\n" for i, w in enumerate(WORDS)))
    systems, documents = HOSTILE[:4], HOSTILE[2:7]
    rows, ratings = [], []
    for i, document in enumerate(documents):
        for j, system in enumerate(systems):
            key = {"document_id": document, "system_id": system}
            said = " ".join(WORDS[(i + j + k) % 6] for k in range(3))
            rows.append(
                key
                | {
                    "candidate": f"{said} {HOSTILE[j]}. {HOSTILE[(i + j) % 7]}",
                    "reference": f"{WORDS[i]} {WORDS[(2 * j) % 6]} {HOSTILE[i]}.",
                    "source": HOSTILE[i],
                }
            )
            ratings.append(key | {HOSTILE[0]: (3 * i + j) % 7, HOSTILE[1]: (i + 5 * j) % 5})
    for name, table in (("corpus", rows), ("ratings", ratings)):
        lines = "".join(f"{json.dumps(row)}\n" for row in table)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    corpus = f"{folder}/corpus.jsonl"
    scored = ["score", "--local", "--quiet", "--explain", f"--encoder=glove:{vectors}",
              "--metrics=s+wms,rougeL",
              f"--out={folder / 'scores'}", corpus]  # fmt: skip
    assert run(scored) == 0
    compared = ["correlate", "--quiet", f"--ratings={folder}/ratings.jsonl", "--resamples=20",
                f"--out={folder / 'report'}", str(folder / "scores")]  # fmt: skip
    assert run(compared) == 0
    found = sorted(folder.rglob("*.html"))
    assert len(found) > 1
    return found


def test_nothing_hostile_runs(page, pages):
    """The fixture `page` also fails on an error in a page, and on a page that asks for a URL."""
    for path in pages:
        page.goto(path.as_uri())
        page.wait_for_load_state("load")
        assert page.evaluate("window.hacked") is None
        for element in page.locator("summary, [role=radio], th button").all()[:20]:
            if element.is_visible():
                element.click()
        assert page.evaluate("window.hacked") is None
        assert page.locator("img[src=x], [onerror], [onload]").count() == 0
        links = page.eval_on_selector_all("a[href]", "all => all.map(a => a.getAttribute('href'))")
        assert not [link for link in links if re.match(r"\s*(javascript|data):", link)]


def test_hostile_text_is_shown_as_it_is_in_files_with_tame_names(page, pages):
    report = next(path for path in pages if path.name == "report.html")
    page.goto(report.as_uri())
    assert HOSTILE[0] in page.content().replace("&lt;", "<").replace("&gt;", ">")
    names = [path.name for path in report.parent.rglob("*")]
    assert all(re.fullmatch(r"[\w.+@:-]+", name) for name in names), names
    text = report.with_suffix(".md").read_text("utf-8")
    assert not re.search(r"<(script|img|svg)\b", re.sub(r"`[^`\n]*`", "", text))
