"""The built guide: no warning, no broken link, nothing from elsewhere, every public name."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from pipelines.cli.app import app
from tests.pipelines.conftest import browser, page  # noqa: F401  (fixtures)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sms", "sms.explaining", "cluster", "assay", "agreement")
WIDTHS = (360, 1280)

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """The ids of a page, where its links go, and what it loads."""

    def __init__(self, file):
        super().__init__()
        self.ids, self.targets, self.loaded = set(), [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.targets.append(given["href"])
        if "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {file: Links(file) for file in site.rglob("*.html") if "_static" not in file.parts}


def test_links_lead_somewhere(site, pages):
    broken = []
    for file, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme:
                assert parts.scheme in ("https", "http", "mailto"), target
                assert parts.netloc or parts.scheme == "mailto", target
                continue
            other = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not other.is_file() or (
                parts.fragment and unquote(parts.fragment) not in pages[other].ids
            ):
                broken.append(f"{file.relative_to(site)}: {target}")
    assert not broken


def test_nothing_comes_from_elsewhere(site, pages):
    for file, links in pages.items():
        for source in links.loaded:
            parts = urlsplit(source)
            assert not parts.scheme + parts.netloc, f"{file}: {source}"
            assert (file.parent / unquote(parts.path)).is_file(), f"{file}: {source}"
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(encoding="utf-8"), sheet


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(site, pages, package):
    ids = pages[site / "reference" / "python.html"].ids
    missing = {f"{package}.{name}" for name in import_module(package).__all__} - ids
    assert not missing


def test_every_package_with_public_names_is_in_the_reference():
    with_names = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for top in ("assay", "agreement", "sms", "reffree", "reinforce", "cluster", "pipelines")
        for file in (ROOT / top).rglob("__init__.py")
        if "\n__all__ = " in file.read_text(encoding="utf-8")
    }
    assert with_names == set(PACKAGES)


def test_every_command_is_in_the_reference(site, pages):
    ids = pages[site / "reference" / "commands.html"].ids
    assert {f"assay-{name}" for name in app.commands} <= ids


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["index", "tour", "metrics", "agreement", "reference/commands"])
def test_page_is_no_wider_than_the_screen(site, page, width, name):  # noqa: F811
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((site / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
