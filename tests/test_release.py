"""What is given out: one version, pinned extras, a citation, and a wheel that works on its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
UNPACKAGED = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "scores", "docs")


LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PAIRS = [line.split("==") for line in LINES if line and not line.startswith("#")]
PINS = {canonicalize_name(name): Version(version) for name, version in PAIRS}


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_requirement_is_pinned_within_its_bounds(extra):
    for requirement in map(Requirement, EXTRAS[extra] if extra else PROJECT["dependencies"]):
        if requirement.name == "assay":
            assert requirement.extras <= set(EXTRAS)
            continue
        name = canonicalize_name(requirement.name)
        assert name in PINS, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(PINS[name]), f"{requirement}, pinned {PINS[name]}"
        assert requirement.specifier, f"{requirement.name} has no bounds"


def test_changelog_begins_with_this_version_and_is_in_order():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = [Version(found) for found in re.findall(r"^## (\S+)", text, re.MULTILINE)]
    assert versions[0] == Version(PROJECT["version"])
    assert versions == sorted(set(versions), reverse=True)


def test_version_stands_in_one_place():
    # the signature and `assay --version` read the metadata that pyproject.toml makes
    for file in [*ROOT.glob("*/__init__.py"), ROOT / "CITATION.cff", ROOT / "docs" / "conf.py"]:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"^(__version__|version: )", text, re.MULTILINE), file


def test_citation_names_the_three_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["cff-version"], citation["license"]) == ("1.2.0", PROJECT["license"])
    first_authors = [entry["authors"][0]["family-names"] for entry in citation["references"]]
    assert first_authors == ["Clark", "Sun", "Bao"]


# The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the sdist, so that what is missing from either is noticed."""
    source = tmp_path_factory.mktemp("source") / "assay"
    shutil.copytree(ROOT, source, ignore=UNPACKAGED)
    out = source.parent / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source)
    assert len(list(out.glob("*.tar.gz"))) == 1
    (built,) = out.glob("*.whl")
    return built


def run(*command, cwd=None):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def try_out(environment, folder):
    """Run the first commands of the tour far from the checkout."""
    assay = environment / "bin" / "assay"
    locate = "import pipelines; print(pipelines.__file__)"
    where = run(environment / "bin" / "python", "-c", locate, cwd=folder)
    assert Path(where.strip()).is_relative_to(environment)
    assert run(assay, "--version", cwd=folder).split() == ["assay", PROJECT["version"]]
    assert "sentence mover" in run(assay, "metrics", cwd=folder)
    run(assay, "example", cwd=folder)
    corpus = "quality_ladder.jsonl"
    summary = run(assay, "score", corpus, "--local", "--out", "scores", "--limit", 5, cwd=folder)
    assert "Rows scored: 5 of 5" in summary
    assert "Rows with a status: 0" in summary
    row = ["--document", "harbour-bridge", "--system", "good"]
    run(assay, "explain", corpus, *row, "--metric", "sms", "--out", "page.html", cwd=folder)
    assert "<html" in (folder / "page.html").read_text(encoding="utf-8")


@pytest.fixture
def environment(tmp_path):
    venv.create(tmp_path / "environment", with_pip=True)
    return tmp_path / "environment"


@pytest.mark.slow
def test_wheel_works_with_the_libraries_that_are_installed(wheel, environment, tmp_path):
    # An empty environment but for this one's libraries: shows a file that is missing from the
    # wheel, not a requirement that is missing from its metadata; the next test does.
    run(environment / "bin" / "python", "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    (own,) = (environment / "lib").glob("python*/site-packages")
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    try_out(environment, tmp_path)


@pytest.mark.slow
@pytest.mark.installs
def test_wheel_installs_into_an_empty_environment(wheel, environment, tmp_path):
    pinned = ["-c", ROOT / "constraints.txt"]
    run(environment / "bin" / "python", "-m", "pip", "install", *pinned, wheel)
    try_out(environment, tmp_path)
