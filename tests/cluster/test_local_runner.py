"""Many shards in one process."""

import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

from cluster import committed, list_inputs, plan_shards, run_local


@pytest.fixture
def plan(write_corpus, make_rows):
    return plan_shards(list_inputs([write_corpus(make_rows(40), row_group_size=8)]), 8)


def test_all_shards_are_scored_and_reported(plan, make_scorer, job, read_scores, make_rows):
    seen = []
    reports = run_local(plan, make_scorer(), job, seen.append)
    assert reports == [report.without_sums() for report in seen]
    assert seen[0].sums
    assert [report.index for report in reports] == [0, 1, 2, 3, 4]
    lengths = [float(len(row["candidate"])) for row in make_rows(40)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths


def test_shard_that_always_fails_is_reported_and_the_others_finish(
    plan, make_scorer, job, make_rows
):
    poison = make_rows(40)[17]["candidate"]
    reports = run_local(plan, make_scorer(fails_on=poison), job, max_attempts=2)
    failed = [report for report in reports if report.error is not None]
    assert [(report.index, report.attempts, report.n_rows) for report in failed] == [(2, 2, 0)]
    rows = f"rows 16 to 23 of {plan[2].pieces[0].path}"
    assert failed[0].error == f'RuntimeError: cannot score 17 says "yes", [{rows}]'
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 3, 4}


def test_failure_that_passes_costs_an_attempt(plan, make_scorer, job):
    class FailsOnce(type(make_scorer()(1))):
        n_calls = 0

        def prepare(self, rows):
            FailsOnce.n_calls += 1  # of all scorers: the failed one is thrown away
            if FailsOnce.n_calls == 1:
                raise OSError("try again")
            return super().prepare(rows)

    reports = run_local(plan, lambda threads: FailsOnce(), job)
    assert [report.attempts for report in reports] == [2, 1, 1, 1, 1]


def test_scorer_is_thrown_away_after_a_failure(plan, make_scorer, job, read_scores, make_rows):
    """What a failure leaves in a scorer spoils no later score."""

    class Spoilt(type(make_scorer()(1))):
        offset = 0.0

        def prepare(self, rows):
            try:
                return super().prepare(rows)
            except RuntimeError:
                self.offset = 1000.0
                raise

        def compare(self, prepared):
            scores = super().compare(prepared)
            return scores.set_column(0, "characters", pc.add(scores["characters"], self.offset))

    made = []

    def make(threads):
        made.append(Spoilt(fails_on=make_rows(40)[17]["candidate"]))
        return made[-1]

    reports = run_local(plan, make, job, max_attempts=2)
    assert [report.error is None for report in reports] == [True, True, False, True, True]
    lengths = [float(len(row["candidate"])) for row in make_rows(40)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths[:16] + lengths[24:]
    assert len(made) == 3


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

    class Interrupted(type(make_scorer()(1))):
        def prepare(self, rows):
            if stop in rows["candidate"].to_pylist():
                raise KeyboardInterrupt
            return super().prepare(rows)

    with pytest.raises(KeyboardInterrupt):
        run_local(plan, lambda threads: Interrupted(), job)
    assert committed(job.out, plan, job.fingerprint) == {0, 1}
    assert len(list(Path(job.out, "scores").iterdir())) == 2


def test_scorer_that_cannot_be_made_stops_the_run(plan, job):
    def make(threads):
        raise FileNotFoundError("no weights")

    with pytest.raises(FileNotFoundError, match="no weights"):
        run_local(plan, make, job)


def test_nothing_to_do(job):
    assert run_local([], None, job) == []


def test_importing_the_package_does_not_import_ray():
    code = "import sys, cluster; sys.exit('ray' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
