"""Inputs, scores and run files changed behind a run's back: refused, repaired, or no harm."""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

from tests.fuzzing import changes
from tests.fuzzing.campaign import run_seeds
from tests.fuzzing.cases import write_vectors

N_QUICK, N_ALL = 24, 10_000

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need POSIX")


def table(kinds: Counter[str]) -> str:
    """Lay out how many changes of each kind came to what."""
    outcomes = (changes.REFUSED, changes.REPAIRED, changes.RIGHT, changes.WRONG)
    done = [f"{what} {how}" for what in changes.WHAT for how in changes.HOW]
    rows = [("", *outcomes), *((name, *(kinds[f"{name}: {o}"] for o in outcomes)) for name in done)]
    return "\n".join(f"{name:<20}" + "".join(f"{n:>10}" for n in found) for name, *found in rows)


def test_changes_are_refused_repaired_or_harmless(tmp_path, capsys):
    vectors = write_vectors(tmp_path / "vectors.txt")
    found = [changes.judge(seed, vectors) for seed in range(N_QUICK)]
    kinds = Counter(kind for _, _, kind in found)
    with capsys.disabled():
        sys.stdout.write(f"\n{table(kinds)}\n")
    assert [problem for _, problem, _ in found if problem] == []
    assert {kind.partition(": ")[2] for kind in kinds} == {"refused", "repaired", "right"}


@pytest.mark.slow
def test_ten_thousand_changes(capsys):
    findings = run_seeds(range(N_ALL), n_processes=os.cpu_count() or 1, judge="changes")
    with capsys.disabled():
        sys.stdout.write(f"\n{table(findings.kinds)}\n")
    assert not findings.problems, findings.report(" --judge changes")
    assert findings.statuses.total() == N_ALL
