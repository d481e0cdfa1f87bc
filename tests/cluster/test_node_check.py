"""What makes a node unfit for a driver's run, and what is sent to it."""

from dataclasses import replace

import pytest

from cluster.node_check import ABSENT, NodeFacts, node_facts, refusal

DRIVER = NodeFacts(
    node="laptop",
    python="3.11",
    packages={"sms": "a1", "cluster": "b2"},
    versions={"assay": "0.1.0", "numpy": "2.4.1"},
    sees_file=True,
)
NODE = replace(DRIVER, node="gpu7")


def test_equal_node_is_fit():
    assert refusal(DRIVER, NODE) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"python": "3.12"}, "node gpu7 has Python 3.12 and this driver 3.11", id="python"
        ),
        pytest.param(
            {"versions": {"assay": "0.1.0", "numpy": "2.5.0"}},
            "node gpu7 has other versions than this driver: numpy 2.5.0 there and 2.4.1 here",
            id="numpy",
        ),
        pytest.param(
            {"versions": {"assay": "0.2.0", "numpy": "2.4.1"}, "packages": {"sms": "a2"}},
            "assay 0.2.0 there and 0.1.0 here",
            id="assay",
        ),
        pytest.param({"versions": {"assay": "0.1.0"}}, "numpy none there and 2.4.1", id="absent"),
        pytest.param({"sees_file": False}, "node gpu7 does not see the `--out` folder", id="out"),
    ],
)
def test_other_node_is_refused_in_one_line(changes, reason):
    line = refusal(DRIVER, replace(NODE, **changes))
    assert reason in line
    assert "\n" not in line


def test_node_without_our_packages_is_fit_since_they_are_sent():
    sent = replace(NODE, versions={"assay": ABSENT, "numpy": "2.4.1"})
    assert refusal(DRIVER, sent) is None
    bare = replace(
        NODE,
        packages={"sms": ABSENT, "cluster": ABSENT},
        versions={"assay": ABSENT, "numpy": "2.4.1"},
    )
    assert refusal(DRIVER, bare) is None


def test_facts_of_this_process(tmp_path):
    facts = node_facts(["cluster", "no_such"], ["numpy", "no-such"], str(tmp_path))
    assert facts.packages["no_such"] == facts.versions["no-such"] == ABSENT
    assert facts.sees_file
    assert len(facts.packages["cluster"]) == 64


def test_hash_follows_sources_and_data_but_not_caches(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "words.txt").write_text("a")
    monkeypatch.syspath_prepend(tmp_path)

    def digest():
        return node_facts(["some_package"], [], "").packages["some_package"]

    first = digest()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "kernel.nbc").write_text("compiled")
    assert digest() == first
    (package / "data" / "words.txt").write_text("b")
    assert digest() != first
