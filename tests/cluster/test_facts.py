"""What a worker says of itself, and which workers are refused."""

from dataclasses import replace

import pytest

from cluster.facts import ABSENT, Facts, facts_here, refusal

DRIVER = Facts(
    node="laptop",
    versions={"Python": "3.11", "assay": "0.1.0", "numpy": "2.4.1"},
    packages={"sms": "a1", "cluster": "b2"},
    scorer={"files": {"glove": "c3"}},
)
WORKER = replace(DRIVER, node="gpu7", versions={"Python": "3.11", "numpy": "2.4.1"})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"versions": {"Python": "3.12", "numpy": "2.5.0"}},
            "node gpu7 has other versions than this driver: Python 3.12 there and 3.11 here, "
            "numpy 2.5.0 there and 2.4.1 here",
        ),
        ({"versions": {"numpy": ABSENT}}, "numpy none there and 2.4.1 here"),
        ({"packages": {"sms": "a1", "cluster": "b3"}}, "node gpu7 has other source files of Assay"),
        ({"sees_out": False}, "node gpu7 does not see the `--out` folder"),
        ({"scorer": {"files": {"glove": "c4"}}}, "the files of `glove` on gpu7 are not those the"),
    ],
)
def test_other_worker_is_refused_in_one_line(changes, reason):
    line = refusal(DRIVER, replace(WORKER, **changes))
    assert reason in line
    assert "\n" not in line


@pytest.mark.parametrize("changes", [{}, {"versions": {}, "packages": {}}, {"scorer": {}}])
def test_worker_that_is_equal_as_far_as_it_says_is_fit(changes):
    assert refusal(DRIVER, replace(WORKER, **changes)) is None


def test_facts_of_this_process():
    facts = facts_here(["numpy", "no-such", "assay"])
    assert facts.versions["no-such"] == ABSENT
    assert "assay" not in facts.versions  # the hashes of its packages say more
    assert len(facts.packages["cluster"]) == 64


def test_hash_follows_sources_and_data_but_not_caches(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "words.txt").write_text("a")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("cluster.facts.PACKAGES", ("some_package", "no_such"))

    def digest():
        packages = facts_here([]).packages
        assert packages["no_such"] == ABSENT
        return packages["some_package"]

    first = digest()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "kernel.nbc").write_text("compiled")
    assert digest() == first
    (package / "data" / "words.txt").write_text("b")
    assert digest() != first
