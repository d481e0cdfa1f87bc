"""Corrupt inputs end in a status or in one clear line: no traceback, crash, hang or missing row.

What is wrong is printed with the seed of its input; `tests.fuzzing.campaign` runs one again.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzzing.campaign import run_seeds
from tests.fuzzing.hostile import damaged

N_QUICK, N_ALL = 60, 10_000


@pytest.mark.skipif(os.name != "posix", reason="hostile names and pipes need POSIX")
def test_corrupt_inputs_end_in_a_status_or_one_line():
    findings = run_seeds(range(N_QUICK))
    assert not findings.problems, findings.report()
    assert findings.statuses.total() == N_QUICK
    assert set(findings.statuses) == {0, 1, 2}  # the inputs reach every way to end


@pytest.mark.slow
def test_ten_thousand_corrupt_inputs():
    findings = run_seeds(range(N_ALL), n_processes=os.cpu_count() or 1)
    assert not findings.problems, findings.report()
    assert findings.statuses.total() == N_ALL


def test_inputs_of_a_seed_are_the_same_every_time(tmp_path):
    from tests.fuzzing.cases import write_vectors
    from tests.fuzzing.judging import make

    vectors = write_vectors(tmp_path / "vectors.txt")
    for seed in range(40):
        written = []
        for name in ("first", "second"):
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir()
            make(seed, folder, vectors)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            written.append([(path.name, path.read_bytes()) for path in files])
        assert written[0] == written[1]


def test_damage_changes_a_file():
    import numpy as np

    data = bytes(range(256)) * 20
    changed = [damaged(np.random.default_rng(seed), data) != data for seed in range(200)]
    assert np.mean(changed) > 0.9


@pytest.mark.parametrize(
    ("what", "found"),
    [
        pytest.param("raise KeyError('x')", "KeyError", marks=pytest.mark.slow),
        ("import os; os.abort()", "died with status -6"),
        pytest.param("while True: pass", "takes too long", marks=pytest.mark.slow),
    ],
)
def test_trouble_is_seen(monkeypatch, tmp_path, what, found):
    """A command that raises, dies or hangs is found, and the input before it has its answer."""
    (tmp_path / "sitecustomize.py").write_text(
        "import pipelines.cli.app as cli\n"
        "usual = cli.run\n"
        "def run(arguments):\n"
        "    if 'compare' in arguments:\n"
        f"        {what}\n"
        "    return usual(arguments)\n"
        "cli.run = run\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    findings = run_seeds([2, 4], limit_cpu_s=2)  # seed 4 compares two tables
    assert list(findings.problems) == [4]
    assert found in findings.problems[4]
    assert findings.statuses.total() >= 1
