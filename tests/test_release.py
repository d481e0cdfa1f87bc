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


def pins_of(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [line.partition("#")[0].strip() for line in lines]
    pairs = [pin.split("==") for pin in pins if pin]
    return {canonicalize_name(package): Version(version) for package, version in pairs}


PINS, LOWEST = pins_of("constraints.txt"), pins_of("constraints-lowest.txt")
ONLY_TO_INSTALL = {"llvmlite"}
"""What the lowest versions need to install together, though the project does not name it."""
TOOLS = {"bench", "dev", "docs"}
"""Extras whose packages may be new, unless others of the project need them, too."""


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


def test_lowest_pins_are_the_lower_bounds():
    found = {}
    for extra, requirements in {"": PROJECT["dependencies"], **EXTRAS}.items():
        for requirement in map(Requirement, requirements):
            name = canonicalize_name(requirement.name)
            lowest = [
                Version(bound.version) for bound in requirement.specifier if bound.operator == ">="
            ]
            if requirement.name != "assay" and (extra not in TOOLS or name in LOWEST):
                assert lowest == [found.setdefault(name, *lowest)], f"{requirement} of `{extra}`"
    assert {name: LOWEST[name] for name in LOWEST.keys() - ONLY_TO_INSTALL} == found
    assert LOWEST.keys() >= ONLY_TO_INSTALL


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
    (packages,) = (environment / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    try_out(environment, tmp_path)


LISTS_AND_POLARS = """
import assay, polars

rows = [{"candidate": "A cat sat.", "reference": "A cat sat down.", "source": "A cat sat."}]
metrics = ["sms", "rougeL_f", "bleu", "chrf", "density", "reffree@news", "bertscore_f"]
from_lists = assay.score(rows, metrics=metrics)
from_polars = assay.score(polars.DataFrame(rows), metrics=metrics)
assert from_polars.to_dicts() == from_lists, (from_polars, from_lists)
assert all(from_lists[0][name] is not None for name in metrics), from_lists
run = assay.score("quality_ladder.jsonl", out="scores2", metrics=["rouge1_f"])
run.to_polars()
"""
WITHOUT = {
    "import assay; assay.score('quality_ladder.jsonl', out='s3', metrics=['rouge1_f']).to_pandas()":
        "pip install pandas",
    "import assay; assay.score('quality_ladder.jsonl', out='s4', metrics=['rouge1_f'], "
    "language='zh')": "pip install 'assay[zh]'",
    "import assay; assay.score('quality_ladder.jsonl', out='s5', metrics=['rouge1_f'], "
    "language='ja')": "pip install 'assay[ja]'",
    "import assay; assay.score('quality_ladder.jsonl', out='s6', metrics=['cosine'], "
    "encoders='use:model')": "pip install 'assay[tfhub]'",
}  # fmt: skip
"""What needs a package that only an extra or nobody brings, and what its one line says."""


@pytest.mark.slow
@pytest.mark.installs
def test_wheel_installs_into_an_empty_environment(wheel, environment, tmp_path):
    pinned = ["-c", ROOT / "constraints.txt"]
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", *pinned, wheel)
    try_out(environment, tmp_path)
    judge = ["judge", "quality_ladder.jsonl", "--ratings", "written_quality.csv"]
    assert "Use " in run(environment / "bin" / "assay", *judge, cwd=tmp_path)
    run(python, "-c", LISTS_AND_POLARS, cwd=tmp_path)
    for program, remedy in WITHOUT.items():
        done = subprocess.run(
            [python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode, program
        assert remedy in done.stderr.splitlines()[-1], done.stderr
