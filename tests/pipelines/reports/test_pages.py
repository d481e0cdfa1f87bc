import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from pipelines.reports import pages
from pipelines.reports.pages import BASE_STYLES, explain_file, file_stem


@pytest.fixture
def render(tmp_path, monkeypatch):
    """Render a page of our own, as another report would have it."""
    for name in BASE_STYLES:
        (tmp_path / name).write_text(":root { --paper: white; }\n")
    (tmp_path / "own.css").write_text("p > b { color: var(--ink); }\n")
    (tmp_path / "own.js").write_text('const both = 1 < 2 && "a";\n')
    (tmp_path / "other.js").write_text("let other;\n")
    (tmp_path / "end.js").write_text("const end = '</script>';")
    (tmp_path / "base.html").write_text((pages.TEMPLATES / "base.html").read_text())
    (tmp_path / "own.html").write_text(
        '{% extends "base.html" %}{% block content %}<p>{{ text }}</p>{% endblock %}'
    )
    monkeypatch.setattr(pages, "TEMPLATES", tmp_path)
    pages._environment.cache_clear()
    yield lambda **how: pages.render_page("own.html", **how)
    pages._environment.cache_clear()


def test_styles_and_scripts_inlined_as_they_are_and_text_escaped(render):
    page = render(styles=["own.css"], scripts=["own.js"], text="<script>alert(1)</script> & 'x'")
    assert "p > b { color: var(--ink); }" in page
    assert 'const both = 1 < 2 && "a";' in page
    assert page.index("--paper:") < page.index("p > b")  # base.css first
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;x&#39;</p>" in page


def test_policy_allows_exactly_the_inlined_scripts(render):
    page = render(scripts=["own.js", "other.js"], text="x")
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
    assert len(hashes) == 2
    assert policy.startswith("default-src 'none';")
    without = render(text="x")
    assert "script-src &#39;none&#39;" in without
    assert "<script" not in without


def test_name_the_template_lacks_and_script_that_ends_its_element_rejected(render):
    with pytest.raises(UndefinedError, match="text"):
        render()
    with pytest.raises(ValueError, match="an inlined script must not contain `</script`"):
        render(scripts=["end.js"], text="x")


def test_no_file_of_ours_asks_for_another():
    for path in pages.TEMPLATES.iterdir():
        text = path.read_text("utf-8")
        assert not re.search(r"https?://|@import|url\(|<link|<img", text), path


# File names

TRICKY = [("a", "b"), ("a.b",), ("a/b",), ("a b",), ("a", "", "b"), ("..",), ("",), ("ä",), ("ab",)]


def test_different_parts_give_different_names():
    assert len({file_stem(*parts) for parts in TRICKY}) == len(TRICKY)


@pytest.mark.parametrize("text", ["../../etc/passwd", "a\\b", "C:x", "x\x00y", "~root", "a" * 300])
def test_name_stays_in_its_folder(text):
    name = file_stem(text, "svg")
    assert not set(name) & set("/\\:\x00~")
    assert len(name) < 100


def test_explain_file_by_hand():
    assert explain_file("cnn-1", "M0", "s+wms@minilm") == "cnn-1.M0.s+wms@minilm.html"
