"""Packages import without side effects or circles and are installed; tests mirror them."""

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


ACROSS_MODULES = {
    "assay/test_half_characters.py": "every way in has one status for half a character",
    "assay/test_pipelines.py": "a scorer in data sets of Hugging Face and Ray",
    "assay/test_processes.py": "every public function in forks, spawned processes and threads",
    "pipelines/correlation/test_bad_input.py": "what `assay correlate` refuses",
    "pipelines/correlation/test_care.py": "traps of correlating, each through the command",
    "pipelines/correlation/test_inputs.py": "what `assay correlate` reads",
    "pipelines/correlation/test_overlap.py": "numbers of a report are about the same rows",
    "pipelines/correlation/test_published_values.py": "published values through the command",
    "pipelines/papers/test_correlation_targets.py": "figures of the papers from correlations",
    "pipelines/papers/test_scorer_targets.py": "figures of the papers from scorers",
    "pipelines/reports/test_browser.py": "reports in a browser",
    "pipelines/reports/test_scores_browser.py": "pages of scores in a browser",
    "pipelines/reports/test_scripts.py": "scripts of all pages",
    "pipelines/reports/test_words_and_numbers.py": "words and numbers that all reports share",
    "pipelines/test_added_metrics.py": "metrics that are added to a finished run",
    "pipelines/test_ask_columns.py": "columns of language models that are asked",
    "pipelines/test_commands_on_stores.py": "every command on local paths, URLs and stores",
    "pipelines/test_every_metric.py": "laws that hold for every metric",
    "pipelines/test_explain_browser.py": "explanations in a browser",
    "pipelines/test_home.py": "`~` in the paths of every command",
    "pipelines/test_hostile_pages.py": "pages of hostile texts in a browser",
    "pipelines/test_kept_columns.py": "ids that may be absent, columns that are kept",
    "pipelines/test_other_languages.py": "every verb in other languages than English",
    "pipelines/test_same_rows.py": "every verb reads the same rows of a table",
    "pipelines/test_train_on_ray.py": "training in several processes",
    "pipelines/test_uneven_systems.py": "systems with different numbers of rows, everywhere",
    "pipelines/test_wrong_language.py": "every verb says that texts are in another language",
    "reffree/asking/test_published_servers.py": "servers of others with a real model",
    "reffree/judges/test_published_examples.py": "published examples with the real weights",
    "sms/encoders/test_cannot_be_split.py": "texts that no encoder's cutter can split",
    "sms/encoders/test_no_maximum.py": "models that read texts of any length, however opened",
    "sms/test_any_language.py": "every metric in every language",
    "sms/test_any_text.py": "every text is nearest to itself",
    "sms/test_reward_trl.py": "the reward in the real TRL",
    "sms/test_statuses.py": "every reason for which a row has no score",
}
"""Files of tests that are named after a behaviour, and the behaviour."""


@pytest.mark.parametrize("package", PACKAGES)
def test_tests_are_named_after_a_module_or_a_behaviour_across_modules(package):
    """The module, or package, lies in the folder of the same name or in one below it."""
    unnamed = set()
    for file in (ROOT / "tests" / package).rglob("test_*.py"):
        code = ROOT / file.parent.relative_to(ROOT / "tests")
        names = {path.stem.lstrip("_") for path in [code, *code.rglob("*.py"), *code.rglob("*/")]}
        if file.stem.removeprefix("test_") not in names:
            unnamed.add(str(file.relative_to(ROOT / "tests")))
    assert unnamed == {name for name in ACROSS_MODULES if name.startswith(f"{package}/")}
