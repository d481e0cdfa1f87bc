"""One driver at a time for a folder: known by its process here, by what it writes elsewhere."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cluster import live
from cluster.live import FolderInUse, LiveRun, read_progress
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.tables.scores import find_scores
from tests.cluster import drivers
from tests.cluster.drivers import changed, elsewhere

OTHER_DRIVER = """
import sys, time
from cluster.live import LiveRun
with LiveRun(sys.argv[1]):
    print("here", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(live, "WATCH_S", 0.5)
    monkeypatch.setattr(live, "BEAT_EVERY_S", 0.02)


@pytest.fixture
def out(tmp_path):
    return str(tmp_path / "new" / "run")


@pytest.fixture
def other_driver(out):
    child = subprocess.Popen([sys.executable, "-c", OTHER_DRIVER, out], stdout=subprocess.PIPE)
    child.stdout.readline()
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_folder_is_left_as_it_was_but_for_output(out, tmp_path):
    with LiveRun(out):
        assert os.listdir(out) == ["progress.json"]
    assert os.listdir(tmp_path) == []
    with LiveRun(out), open(f"{out}/run.json", "w"):
        pass
    assert os.listdir(out) == ["run.json"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_second_driver_is_told_who_the_first_is(out, other_driver, is_stopped):
    if is_stopped:
        other_driver.send_signal(signal.SIGSTOP)
    message = rf"run is in use by another run \(process {other_driver.pid} on .+\); wait"
    with pytest.raises(FolderInUse, match=message), LiveRun(out):
        pass


def test_folder_of_a_killed_driver_is_taken_over_at_once(out, other_driver, monkeypatch):
    other_driver.kill()
    other_driver.wait()
    monkeypatch.setattr(live, "WATCH_S", 600)
    left = Path(out, "progress.json").read_bytes()
    with LiveRun(out):
        assert read_progress(out).pid == os.getpid()
    assert Path(out, "progress.json").read_bytes() == left  # no run has begun


@pytest.mark.parametrize("how", ["another process", "this process"])
def test_number_of_a_dead_driver_that_another_process_has_now_blocks_nothing(
    out, other_driver, how
):
    """As in a container that was started again; where another has it, nobody writes any more."""
    other_driver.kill()
    other_driver.wait()
    if how == "this process":
        changed(out, pid=os.getpid())
    else:
        changed(out, pid=os.getppid(), time=time.time() - 60)
    with LiveRun(out):
        pass


def test_damaged_progress_of_a_dead_driver_blocks_nothing(out):
    Path(out).mkdir(parents=True)
    Path(out, "progress.json").write_text('{"fingerprint')
    with LiveRun(out):
        assert read_progress(out).pid == os.getpid()


@pytest.mark.parametrize("is_alive", [False, True])
def test_driver_of_another_machine_is_watched(out, is_alive):
    """Whatever its clock says."""
    Path(out).mkdir(parents=True)
    LiveRun(out).write()
    elsewhere(out, time=0.0)
    waited = []
    if not is_alive:
        with LiveRun(out, waited.append):
            pass
        assert {*waited} == {"process 1 on elsewhere"}
        return
    timer = threading.Timer(0.2, elsewhere, (out,), {"time": 5.0})
    timer.start()
    with pytest.raises(FolderInUse, match=r"\(process 1 on elsewhere\)"), LiveRun(out):
        pass
    timer.join()


def test_one_of_two_drivers_that_begin_at_once_goes_on(tmp_path, other_driver, out):
    """In new folders, and in those of a driver that has died."""
    outs = [str(tmp_path / f"{turn}") for turn in range(60)]
    other_driver.kill()
    other_driver.wait()
    for folder in outs[30:]:
        shutil.copytree(out, folder)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2, timeout=60), context.SimpleQueue()
    both = [
        context.Process(target=drivers.enter_all, args=(outs, barrier, answers)) for _ in range(2)
    ]
    for driver in both:
        driver.start()
    first, second = (answers.get() for _ in both)
    for driver in both:
        driver.join()
    assert sorted([*first, *second]) == sorted(outs)


def test_fresh_run_keeps_others_out_whatever_it_deletes(out, tmp_path):
    corpus = tmp_path / "a.jsonl"
    corpus.write_text('{"candidate": "a"}\n')
    entered, refused = set(), set()

    def look(progress):
        try:
            with LiveRun(out):
                entered.add(progress.stage)
        except FolderInUse:
            refused.add(progress.stage)

    settings = ScoreSettings(out=out, metrics=["length"], local=True, fresh=True, on_progress=look)
    for _ in range(2):
        score_corpus(corpus, settings)
    assert entered == {"reading the inputs"}
    assert "converting the inputs to Parquet" in refused  # what was there is deleted just before


def test_two_drivers_in_one_folder_harm_nothing(out, tmp_path, monkeypatch):
    """As both began at once. One may miss what the other has deleted, and says so."""
    corpus = tmp_path / "a.jsonl"
    corpus.write_text("".join(f'{{"candidate": "{"a " * i}"}}\n' for i in range(40)))
    monkeypatch.setattr(live, "is_alive", lambda *_: False)
    options = {"metrics": ["length"], "local": True, "rows_per_shard": 1}
    expected = score_corpus(corpus, ScoreSettings(out=tmp_path / "alone", **options))
    runs = []

    def drive():
        with suppress(OSError, RuntimeError):
            runs.append(score_corpus(corpus, ScoreSettings(out=out, **options)))

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    runs.append(score_corpus(corpus, ScoreSettings(out=out, **options)))
    assert runs[-1].is_complete
    for run in (run for run in runs if run.is_complete):
        assert (run.means, run.n_rows, run.statuses) == (expected.means, 40, expected.statuses)
    assert runs[-1].to_arrow().equals(expected.to_arrow())
    assert len(find_scores(out).files) == 40


def test_store_that_is_away_does_not_end_the_run(out, monkeypatch, caplog):
    with LiveRun(out):

        def is_away(*_, **__):
            raise OSError("cannot reach the store")

        with monkeypatch.context() as patch:
            patch.setattr(live, "write_whole", is_away)
            while "cannot reach the store" not in caplog.text:
                time.sleep(0.01)
