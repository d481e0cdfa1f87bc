"""Shards that several processes of this machine score: the scores are those of one process."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from cluster import (
    Job,
    Workers,
    committed,
    list_inputs,
    plan_shards,
    process_runner,
    run_local,
    run_processes,
)
from tests.cluster.toy_scorer import HeldBy, MakeScorer


class Dies:
    """A scorer for which there is no memory."""

    def __call__(self, threads):
        os.kill(os.getpid(), signal.SIGKILL)


class HangsOnce:
    """Never ends with a text, the first time it sees it."""

    def __init__(self, text, once):
        self.text, self.once = text, once

    def __call__(self, rows):
        if self.text in rows["candidate"].to_pylist() and not self.once.exists():
            self.once.touch()
            time.sleep(600)


class Interrupts:
    """Interrupts the driver, whose number it is given, with the first rows of a corpus."""

    def __init__(self, driver):
        self.driver = driver

    def __call__(self, rows):
        if rows["candidate"][0].as_py().startswith("0 says"):
            os.kill(self.driver, signal.SIGINT)
        time.sleep(60)


@pytest.fixture
def plan(write_corpus, make_rows):
    return plan_shards(list_inputs([write_corpus(make_rows(40), row_group_size=4)]), 4)


@pytest.fixture
def run(plan, job):
    """Two processes."""

    def run(make, on_report=None, **more):
        return run_processes(plan, make, job, on_report, **{"n_workers": 2, **more})

    return run


def children():
    """The workers of this process."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            parent = int(place.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"process_worker" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def test_scores_and_reports_are_those_of_one_process(plan, run, job, read_scores):
    here = run_local(plan, MakeScorer(), job)
    expected = read_scores(job.out)
    for path in Path(job.out, "scores").iterdir():
        path.unlink()
    started, seen = [], []
    reports = run(MakeScorer(), seen.append, on_start=lambda *told: started.append(told[0]))
    assert read_scores(job.out).equals(expected)
    assert sorted(started) == [report.index for report in reports] == list(range(10))
    assert [(r.index, r.n_rows, r.seal) for r in reports] == [
        (r.index, r.n_rows, r.seal) for r in here
    ]
    assert all(report.sums for report in seen)
    assert children() == []


def test_worker_that_is_killed_loses_nothing(run, make_rows, tmp_path, check_scores):
    poison = make_rows(40)[17]["candidate"]
    reports = run(MakeScorer(kills_on=poison, once=str(tmp_path / "once")))
    assert [report.attempts for report in reports] == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    check_scores(40)


def test_shard_that_kills_every_worker_is_given_up(run, make_rows, check_scores):
    reports = run(MakeScorer(kills_on=make_rows(40)[17]["candidate"]), max_attempts=2)
    assert [report.index for report in reports if report.error] == [4]
    assert reports[4].error == "the worker was lost while scoring it (ended by SIGKILL)"
    check_scores(40, but=range(16, 20))


def test_workers_that_die_before_they_are_ready_stop_the_run(run, monkeypatch):
    monkeypatch.setattr(process_runner, "MAX_FAILED_STARTS", 1)
    with pytest.raises(
        RuntimeError, match=r"all workers died 1 times .* ended by SIGKILL\); is there"
    ):
        run(Dies())


def test_worker_that_hangs_is_started_anew(
    run, make_rows, monkeypatch, tmp_path, check_scores, caplog
):
    monkeypatch.setattr(process_runner, "SLOW_AFTER_S", 0.05)  # a limit of a second
    make = MakeScorer(HangsOnce(make_rows(40)[17]["candidate"], tmp_path / "once"))
    reports = run(make, n_workers=1)
    assert reports[4].error is None
    assert "a worker has had shard 4 for" in caplog.text
    check_scores(40)


def name_of(scorer):
    return type(scorer).__name__


def number_of(scorer):
    return os.getpid()


def test_workers_say_what_they_load_before_there_is_a_shard(plan, run, job, check_scores):
    workers = Workers(MakeScorer(), 3, 1, name_of)
    assert workers.description() == "CountCharacters"
    assert len(children()) == 3
    run(None, started=workers)  # which loads nothing itself
    assert children() == []
    check_scores(40)


def test_worker_that_loads_another_scorer_is_left_out(monkeypatch):
    monkeypatch.setattr(process_runner, "MAX_FAILED_STARTS", 1)
    with closing(Workers(MakeScorer(), 2, 1, number_of)) as workers:
        workers.description()
        for other in [worker for worker in workers.all if not worker.is_ready]:
            workers.take_ready(other, other.answer())  # unless both were ready at once
        assert len(workers.all) == 1
        assert "a worker has loaded another scorer" in workers.last_failure


def test_interrupt_leaves_whole_shards_and_no_process(plan, run, job):
    with pytest.raises(KeyboardInterrupt):
        run(MakeScorer(Interrupts(os.getpid())))
    assert children() == []
    assert committed(job.out, plan, job.fingerprint) == set()


def test_workers_end_with_a_driver_that_is_killed(write_corpus, make_rows, tmp_path):
    (tmp_path / "held").touch()
    corpus = write_corpus(make_rows(40), row_group_size=4)
    words = [sys.executable, "-m", "tests.cluster.test_process_runner", corpus, str(tmp_path)]
    driver = subprocess.Popen(words, cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 60
    mark = f"ASSAY_TEST_MARK={tmp_path}".encode()

    def alive():
        found = []
        for place in Path("/proc").iterdir():
            try:
                if mark in place.joinpath("environ").read_bytes().split(b"\0"):
                    found.append(place.name)
            except OSError:
                continue
        return found

    while len(alive()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(alive()) == 2
    driver.kill()
    driver.wait()
    while alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive() == []


if __name__ == "__main__":
    corpus, folder = sys.argv[1:]
    os.environ["ASSAY_TEST_MARK"] = folder
    run_processes(
        plan_shards(list_inputs([corpus]), 4),
        MakeScorer(HeldBy(Path(folder, "held"))),
        Job(out=f"{folder}/out", fingerprint="0123456789abcdef"),
        n_workers=2,
    )
