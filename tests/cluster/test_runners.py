"""Many shards, by every runner, or by the one in this process where all share the code."""

import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from cluster import committed, list_inputs, plan_shards, run_local
from tests.cluster.toy_scorer import CannotBeMade


@pytest.fixture
def plan(write_corpus, make_rows):
    return plan_shards(list_inputs([write_corpus(make_rows(40), row_group_size=8)]), 8)


def test_all_shards_are_scored_and_reported(plan, make_scorer, job, check_scores):
    seen = []
    reports = run_local(plan, make_scorer(), job, seen.append)
    assert reports == [report.without_sums() for report in seen]
    assert seen[0].sums
    assert [report.index for report in reports] == [0, 1, 2, 3, 4]
    check_scores(40)


def test_shard_that_always_fails_is_reported_and_the_others_finish(
    plan, make_scorer, job, make_rows, run
):
    poison = make_rows(40)[17]["candidate"]
    reports = run(plan, make_scorer(fails_on=poison), job, max_attempts=2)
    assert [report.attempts for report in reports] == [1, 1, 2, 1, 1]
    assert [report.n_rows for report in reports] == [8, 8, 0, 8, 8]
    rows = f"rows 16 to 23 of {plan[2].pieces[0].path}"
    assert reports[2].error == f'RuntimeError: cannot score 17 says "yes", [{rows}]'
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 3, 4}


def test_failure_that_passes_costs_an_attempt(plan, make_scorer, job):
    calls = count()

    def fail_once(rows):
        if next(calls) == 0:
            raise OSError("try again")

    reports = run_local(plan, make_scorer(fail_once), job)
    assert [report.attempts for report in reports] == [2, 1, 1, 1, 1]


def test_scorer_is_thrown_away_after_a_failure(
    plan, make_scorer, job, check_scores, make_rows, run
):
    """What a failure leaves in a scorer spoils no later score."""
    make = make_scorer(fails_on=make_rows(40)[17]["candidate"], spoils=True)
    reports = run(plan, make, job, max_attempts=2)
    assert [report.error is None for report in reports] == [True, True, False, True, True]
    check_scores(40, but=range(16, 24))


def test_resume_scores_what_is_not_committed(plan, make_scorer, job, read_scores):
    run_local(plan[1:3], make_scorer(), job)
    first = {path: path.stat().st_mtime_ns for path in Path(job.out, "scores").iterdir()}
    done = committed(job.out, plan, job.fingerprint)
    assert done == {1, 2}
    reports = run_local([shard for shard in plan if shard.index not in done], make_scorer(), job)
    assert [report.index for report in reports] == [0, 3, 4]
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert read_scores(job.out).num_rows == 40


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_run_keeps_whole_shards_only(plan, make_scorer, job, make_rows, threads):
    stop = make_rows(40)[21]["candidate"]

    def interrupt(rows):
        if stop in rows["candidate"].to_pylist():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_local(plan, make_scorer(interrupt), replace(job, threads=threads))
    assert committed(job.out, plan, job.fingerprint) == {0, 1}
    assert len(list(Path(job.out, "scores").iterdir())) == 2


def test_scorer_that_cannot_be_made_stops_the_run(plan, job, run):
    with pytest.raises(FileNotFoundError, match="no weights"):
        run(plan, CannotBeMade(), job)


def test_nothing_to_do(job):
    assert run_local([], None, job) == []


def test_importing_the_package_does_not_import_ray():
    code = "import sys, cluster; sys.exit('ray' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
