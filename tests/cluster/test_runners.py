"""Many shards, by every runner; what several processes of this machine do beside that."""

from dataclasses import replace
from pathlib import Path

import pytest

from cluster import committed, run_local
from tests.cluster.conftest import POISON
from tests.cluster.toy_scorer import CannotBeMade, MakeScorer, name_of


def test_shard_that_always_fails_is_reported_and_the_others_finish(plan, job, run, check_scores):
    """What the failure leaves in a scorer spoils no later score."""
    reports = run(plan, MakeScorer(fails_on=POISON, spoils=True), job, max_attempts=2)
    assert [report.attempts for report in reports] == [1, 1, 2, 1, 1, 1]
    assert [report.n_rows for report in reports] == [8, 8, 0, 8, 8, 8]
    rows = f"rows 16 to 23 of {plan[2].pieces[0].path}"
    assert reports[2].error == f'RuntimeError: cannot score 20 says "yes", [{rows}]'
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 3, 4, 5}
    check_scores(but=range(16, 24))


def test_scorer_that_cannot_be_made_stops_the_run(plan, job, run):
    with pytest.raises(FileNotFoundError, match="no weights"):
        run(plan, CannotBeMade(), job)


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_run_keeps_whole_shards_only(plan, job, threads):
    def interrupt(rows):
        if POISON in rows["candidate"].to_pylist():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_local(plan, MakeScorer(interrupt), replace(job, threads=threads))
    assert committed(job.out, plan, job.fingerprint) == {0, 1}
    assert len(list(Path(job.out, "scores").iterdir())) == 2


def test_scorer_other_than_the_one_that_is_expected_stops_the_run(plan, job, run):
    with pytest.raises(ValueError, match=r"the class of `name` on .* are not those the run began"):
        run(plan, MakeScorer(), job, describe=name_of, expected={"class": {"name": "Another"}})
