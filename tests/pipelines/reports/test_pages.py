import base64
import hashlib
import re
from itertools import combinations

import pytest
from jinja2 import UndefinedError

from pipelines.reports.pages import charts_bundle, explain_file, file_stem, render_page


@pytest.fixture
def folder(tmp_path):
    """A page of our own, as another report would have it."""
    (tmp_path / "own.html").write_text(
        '{% extends "base.html" %}{% block content %}<p>{{ text }}</p>{% endblock %}'
    )
    (tmp_path / "own.css").write_text("p > b { color: var(--ink); }\n")
    (tmp_path / "own.js").write_text('const both = 1 < 2 && "a";\n')
    return tmp_path


def test_styles_and_scripts_inlined_as_they_are(folder):
    page = render_page("own.html", folder=folder, styles=["own.css"], scripts=["own.js"], text="x")
    assert "p > b { color: var(--ink); }" in page
    assert 'const both = 1 < 2 && "a";' in page
    assert page.index("--paper:") < page.index("p > b")  # base.css first


def test_policy_allows_exactly_the_inlined_scripts(folder):
    page = render_page("own.html", folder=folder, scripts=["own.js"], with_charts=True, text="x")
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
    assert len(hashes) == 2
    assert policy.startswith("default-src 'none';")


def test_page_without_scripts_allows_none(folder):
    page = render_page("own.html", folder=folder, text="x")
    assert "script-src &#39;none&#39;" in page
    assert "<script" not in page


def test_text_escaped(folder):
    page = render_page("own.html", folder=folder, text="<script>alert(1)</script> & 'x'")
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;x&#39;</p>" in page


def test_name_the_template_lacks_is_an_error(folder):
    with pytest.raises(UndefinedError, match="text"):
        render_page("own.html", folder=folder)


def test_script_that_ends_its_element_rejected(folder):
    (folder / "own.js").write_text("const end = '</script>';")
    with pytest.raises(ValueError, match="an inlined script must not contain `</script`"):
        render_page("own.html", folder=folder, scripts=["own.js"], text="x")


def test_charts_bundle_names_no_content_delivery_network():
    bundle = charts_bundle()
    assert "vegaEmbed" in bundle
    assert not re.search(r"jsdelivr|unpkg|cdnjs|googleapis", bundle)


# File names

TRICKY = [("a", "b"), ("a.b",), ("a/b",), ("a b",), ("a", "", "b"), ("..",), ("",), ("ä",), ("ab",)]


@pytest.mark.parametrize(("one", "other"), [*combinations(TRICKY, 2)])
def test_different_parts_give_different_names(one, other):
    assert file_stem(*one) != file_stem(*other)


@pytest.mark.parametrize(
    "text", ["../../etc/passwd", "a\\b", "C:x", "x\x00y", "~root", "-", "a" * 300]
)
def test_name_stays_in_its_folder(text):
    name = file_stem(text, "svg")
    assert not set(name) & set("/\\:\x00~")
    assert len(name) < 100


def test_explain_file_by_hand():
    assert explain_file("cnn-1", "M0", "s+wms@minilm") == "cnn-1.M0.s+wms@minilm.html"
