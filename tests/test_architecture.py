"""The packages import without side effects and without circles, and each of them is installed."""

import os
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["assay", "agreement", "sms", "reffree", "reinforce", "cluster", "pipelines"]

# Run in a new interpreter with a package's name as its argument. Any name look-up or connection
# ends the import with an error.
IMPORT_ALONE = """
import logging, sys

def refuse_network(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        raise RuntimeError(f"network used while importing: {event} {args}")

sys.addaudithook(refuse_network)
__import__(sys.argv[1])
heavy = {"torch", "ray", "tensorflow", "transformers"} & set(sys.modules)
if heavy:
    sys.exit(f"importing {sys.argv[1]} also imports {sorted(heavy)}")
if logging.getLogger().handlers:
    sys.exit(f"importing {sys.argv[1]} adds {logging.getLogger().handlers}")
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_import_is_light_and_offline(package):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_ALONE, package],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_no_circle_of_imports():
    graph = grimp.build_graph(*PACKAGES)
    below = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(below).prepare()  # raises with the circle


def test_every_package_named_in_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    on_disk = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
    }
    assert on_disk == set(project["tool"]["setuptools"]["packages"])
