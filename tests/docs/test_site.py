"""The built guide: no warning, nothing from elsewhere, every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pipelines.cli.app import app
from tests.pipelines.conftest import browser, page  # noqa: F401  (fixtures)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sms", "sms.explaining", "cluster", "assay", "agreement")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A link to a page or a heading that is not there is a warning, which ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def ids_of(page_file):
    return set(re.findall(r'\bid="([^"]+)"', page_file.read_text(encoding="utf-8")))


def test_nothing_comes_from_elsewhere(site):
    pages = [file for file in site.rglob("*.html") if "_static" not in file.parts]
    assert len(pages) > 10
    for file in pages:
        text = file.read_text(encoding="utf-8")
        links = re.findall(r'<link [^>]*rel="(?:stylesheet|icon|preload)"[^>]*>', text)
        sources = re.findall(r'\b(?:src|href)="([^"?]+)', " ".join(links))
        for source in sources + re.findall(r'<[^>]* src="([^"?]+)', text):
            assert (file.parent / source).is_file(), f"{file}: {source}"
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(encoding="utf-8"), sheet


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(site, package):
    names = {f"{package}.{name}" for name in import_module(package).__all__}
    assert names <= ids_of(site / "reference" / "python.html")


def test_every_package_with_public_names_is_in_the_reference():
    with_names = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for top in ("assay", "agreement", "sms", "reffree", "reinforce", "cluster", "pipelines")
        for file in (ROOT / top).rglob("__init__.py")
        if "\n__all__ = " in file.read_text(encoding="utf-8")
    }
    assert with_names == set(PACKAGES)


def test_every_command_is_in_the_reference(site):
    assert {f"assay-{name}" for name in app.commands} <= ids_of(site / "reference/commands.html")


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["index", "tour", "metrics", "agreement", "reference/commands"])
def test_page_is_no_wider_than_the_screen(site, page, width, name):  # noqa: F811
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((site / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
