"""Processes of this machine as workers: killed, interrupted, with GPUs; what each says."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cluster import committed, driver, run_local, run_processes, start_processes
from cluster.serving import no_description
from tests.cluster.conftest import POISON
from tests.cluster.drivers import marked_processes
from tests.cluster.toy_scorer import MakeScorer, name_of


class Dies:
    """A scorer for which there is no memory."""

    def __call__(self, threads):
        os.kill(os.getpid(), signal.SIGKILL)


class Interrupts:
    """Interrupts the driver, whose number it is given, with the first rows of a corpus."""

    def __init__(self, driver):
        self.driver = driver

    def __call__(self, rows):
        if rows["candidate"][0].as_py().startswith("0 says"):
            os.kill(self.driver, signal.SIGINT)
        time.sleep(60)


@pytest.fixture
def run_two(plan, job):
    """Two processes."""

    def run(make, on_report=None, *, n_workers=2, describe=no_description, **more):
        workers = start_processes(make, n_workers, describe=describe)
        return run_processes(plan, workers, job, on_report, **more)

    return run


def children():
    """The workers of this process."""
    alive = psutil.Process().children()
    return [process for process in alive if "process_pool" in str(process.cmdline())]


def test_scores_and_reports_are_those_of_one_process(plan, run_two, job, check_scores):
    seen_here, started, seen = [], [], []
    here = run_local(plan, MakeScorer(), job, seen_here.append)
    assert here == seen_here
    for path in Path(job.out, "scores").iterdir():
        path.unlink()
    reports = run_two(MakeScorer(), seen.append, on_start=lambda *told: started.append(told[0]))
    check_scores()
    assert sorted(started) == [report.index for report in reports] == list(range(6))
    assert [(r.index, r.n_rows) for r in reports] == [(r.index, r.n_rows) for r in here]
    assert children() == []


def test_worker_that_is_killed_loses_nothing(run_two, tmp_path, check_scores):
    reports = run_two(MakeScorer(kills_on=POISON, once=str(tmp_path / "once")))
    assert [report.attempts for report in reports] == [1, 1, 2, 1, 1, 1]
    check_scores()


def test_shard_that_kills_every_worker_is_given_up(run_two, check_scores):
    reports = run_two(MakeScorer(kills_on=POISON), max_attempts=2)
    assert [report.index for report in reports if report.error] == [2]
    assert reports[2].error == "the worker was lost while scoring it (ended by SIGKILL)"
    check_scores(but=range(16, 24))


def test_workers_that_die_before_they_are_ready_stop_the_run(run_two, monkeypatch):
    monkeypatch.setattr(driver, "MAX_FAILED_STARTS", 1)
    said = r"all workers ended 1 times .* ended by SIGKILL\); is there"
    with pytest.raises(RuntimeError, match=said):
        run_two(Dies())


def number_of(scorer):
    return {"number": {"process": str(os.getpid())}}


def test_workers_say_what_they_load_before_there_is_a_shard(plan, job, check_scores):
    workers = start_processes(MakeScorer(), 3, 1, describe=name_of)
    assert workers.description() == name_of(MakeScorer()(1))
    assert len(children()) == 3
    run_processes(plan, workers, job)
    assert children() == []
    check_scores()


def test_worker_that_loads_another_scorer_is_left_out(run_two, check_scores, caplog):
    run_two(MakeScorer(time_passes), describe=number_of)
    said = r"one worker cannot score and is left out: ValueError: the number of `process` on "
    assert re.search(said, caplog.text)
    check_scores()


def time_passes(rows):
    time.sleep(0.5)  # until the other worker has loaded its scorer, too


@pytest.mark.parametrize(
    ("n_gpus", "share", "visible", "seen"),
    [(2, 1, "", {"0", "1"}), (2, 0.5, "5,GPU-7", {"5", "GPU-7"}), (5, 2, "", {"0,1", "2,3"})],
)
def test_gpus_are_dealt_out_among_the_processes(
    monkeypatch, tmp_path, n_gpus, share, visible, seen
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    how = {"n_gpus": n_gpus, "gpus_per_worker": share}
    with closing(start_processes(TellsDevices(tmp_path), 4, 1, **how)) as workers:
        workers.wait_for(4)
    devices = [path.read_text() for path in tmp_path.glob("seen-*")]
    assert (len(devices), set(devices)) == (4, seen)


class TellsDevices(MakeScorer):
    """Leaves a file that says which GPUs its process may use."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __call__(self, threads):
        devices = os.environ["CUDA_VISIBLE_DEVICES"]
        (self.folder / f"seen-{os.getpid()}").write_text(devices)
        return super().__call__(threads)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fails_on", "kills_on"])
def test_fault_beside_another_shard_of_a_gpu_loses_and_doubles_nothing(
    plan, job, check_scores, fault
):
    """Each process has two shards under way."""
    how = {fault: POISON, "spoils": True}
    gpu_job = replace(job, has_gpu=True)
    reports = run_processes(plan, start_processes(MakeScorer(**how), 1), gpu_job, max_attempts=2)
    wrong = [report for report in reports if report.error is not None]
    assert [(report.index, report.attempts) for report in wrong] == [(2, 2)]
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 3, 4, 5}
    check_scores(but=range(16, 24))


def test_interrupt_leaves_whole_shards_and_no_process(plan, run_two, job):
    with pytest.raises(KeyboardInterrupt):
        run_two(MakeScorer(Interrupts(os.getpid())))
    assert children() == []
    assert committed(job.out, plan, job.fingerprint) == set()


DRIVER = """
import sys
from pathlib import Path
from cluster import Job, list_inputs, plan_shards, run_processes, start_processes
from tests.cluster.toy_scorer import HeldBy, MakeScorer

corpus, folder = sys.argv[1:]
plan = plan_shards(list_inputs([corpus]), 4)
job = Job(out=f"{folder}/out", fingerprint="0123456789abcdef")
run_processes(plan, start_processes(MakeScorer(HeldBy(Path(folder, "held"))), 2), job)
"""


def test_workers_end_with_a_driver_that_is_killed(plan, tmp_path):
    (tmp_path / "held").touch()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, plan[0].pieces[0].path, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "ASSAY_TEST_MARK": str(tmp_path)},
    )
    deadline = time.monotonic() + 60

    def workers():
        return set(marked_processes(tmp_path)) - {driver.pid}

    while len(workers()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(workers()) == 2
    driver.kill()
    driver.wait()
    while workers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers() == set()
