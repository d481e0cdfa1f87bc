"""One driver at a time for a folder: by a lock on this machine, by `progress.json` elsewhere."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cluster import live
from cluster.live import FolderInUse, LiveRun, LockLost
from cluster.seals import sealed_json
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings

OTHER_DRIVER = """
import sys, time
from cluster.live import LiveRun
with LiveRun(sys.argv[1]):
    print("here", flush=True)
    time.sleep(600)
"""


def elsewhere(out, **changes):
    """Let `progress.json` be that of a driver on another machine."""
    path = Path(out, "progress.json")
    values = {**json.loads(path.read_text()), "run": "theirs", "host": "elsewhere", "pid": 1}
    del values["seal"]
    path.write_bytes(sealed_json(json.dumps(values | changes), "progress.json"))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, seconds in (("WATCH_S", 0.5), ("_LOOK_EVERY_S", 0.05), ("BEAT_EVERY_S", 0.02)):
        monkeypatch.setattr(live, name, seconds)


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
        assert sorted(os.listdir(out)) == [".lock", "progress.json"]
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
        assert Path(out, "progress.json").read_bytes() != left
    assert Path(out, "progress.json").read_bytes() == left  # no run has begun


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
        assert waited == ["process 1 on elsewhere"]
        return
    timer = threading.Timer(0.2, elsewhere, (out,), {"beat": 9})
    timer.start()
    with pytest.raises(FolderInUse, match=r"\(process 1 on elsewhere\)"), LiveRun(out):
        pass
    timer.join()


def test_driver_that_was_taken_over_stops_and_leaves_the_file_of_the_other(out):
    with LiveRun(out) as frozen:
        while not frozen._loss:
            elsewhere(out)
            time.sleep(0.01)
        with pytest.raises(LockLost, match=r"was taken over by process 1 on elsewhere"):
            frozen.check()
    assert json.loads(Path(out, "progress.json").read_text())["host"] == "elsewhere"


@pytest.mark.parametrize("beat_s", [0.02, 600])
def test_run_that_was_taken_over_stops_and_leaves_run_json(out, tmp_path, monkeypatch, beat_s):
    monkeypatch.setattr(live, "BEAT_EVERY_S", beat_s)  # it may write before it notices
    monkeypatch.setattr("pipelines.score.WRITE_EVERY_S", 0)
    monkeypatch.setattr("pipelines.score.WRITE_SHARE", math.inf)
    (tmp_path / "a.jsonl").write_text('{"candidate": "a"}\n' * 5)
    written = []

    def freeze(progress):
        if progress.n_done:
            written.append(Path(out, "run.json").read_bytes())
            for _ in range(30):
                elsewhere(out)
                time.sleep(0.01)

    options = {"metrics": ["length"], "local": True, "rows_per_shard": 1}
    with pytest.raises(LockLost):
        score_corpus(tmp_path / "a.jsonl", ScoreSettings(out=out, on_progress=freeze, **options))
    assert written == [Path(out, "run.json").read_bytes()]


def test_store_that_is_away_does_not_end_the_run(out, monkeypatch, caplog):
    with LiveRun(out):

        def is_away(*_, **__):
            raise OSError("cannot reach the store")

        with monkeypatch.context() as patch:
            patch.setattr(live, "write_whole", is_away)
            while "cannot reach the store" not in caplog.text:
                time.sleep(0.01)


def test_link_in_place_of_the_lock_rejected(out, tmp_path):
    os.makedirs(out)
    (tmp_path / "theirs").write_text("theirs")
    os.symlink(tmp_path / "theirs", f"{out}/.lock")
    with pytest.raises(ValueError, match=r"\.lock must not be a link"), LiveRun(out):
        pass
    assert (tmp_path / "theirs").read_text() == "theirs"
