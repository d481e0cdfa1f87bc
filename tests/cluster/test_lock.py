"""One driver at a time, whatever becomes of the one before."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import lock
from cluster.lock import FolderInUse, FolderLock, Holder, LockLost

QUICK = {"beat_s": 0.05, "lease_s": 0.4, "settle_s": 0.2}

HOLD = """
import sys, time
from cluster.lock import FolderLock
with FolderLock(sys.argv[1], beat_s=0.05, lease_s=0.4, settle_s=0.0):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def out(tmp_path):
    return str(tmp_path / "new" / "run")


@pytest.fixture
def other_driver():
    """Starts processes that hold a folder."""
    started = []

    def start(out):
        process = subprocess.Popen([sys.executable, "-c", HOLD, out], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def without_flock(monkeypatch):
    """As in an object store, and where the filesystem cannot lock."""
    monkeypatch.setattr(lock, "fcntl", None)


def someone_elsewhere(**changes):
    return replace(Holder.this_process(), host="elsewhere", machine="another", **changes)


def write_lock(out, holder):
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/.lock", "wb") as file:
        file.write(holder.write())


def in_lock(out):
    return Holder.read(Path(out, ".lock").read_bytes())


def test_folder_is_left_as_it_was(out, tmp_path):
    with FolderLock(out) as held:
        held.check()
        assert os.listdir(out) == [".lock"]
    assert os.listdir(tmp_path) == []


def test_folder_with_output_stays(out):
    with FolderLock(out), open(f"{out}/run.json", "w"):
        pass
    assert os.listdir(out) == ["run.json"]


@pytest.mark.parametrize("flock", [True, False])
def test_second_driver_is_told_who_the_first_is(out, other_driver, flock, monkeypatch):
    if not flock:
        monkeypatch.setattr(lock, "fcntl", None)
    first = other_driver(out)
    message = rf"run is in use by another run \(process {first.pid} on .+, since 20.* UTC\); wait"
    began = time.monotonic()
    with pytest.raises(FolderInUse, match=message), FolderLock(out):
        pass
    assert time.monotonic() - began < 5  # a lease is a minute
    assert in_lock(out).pid == first.pid


@pytest.mark.parametrize("flock", [True, False])
def test_lock_of_a_killed_driver_is_taken_over_at_once(out, other_driver, flock, monkeypatch):
    if not flock:
        monkeypatch.setattr(lock, "fcntl", None)
    first = other_driver(out)
    first.kill()
    first.wait()
    assert os.path.exists(f"{out}/.lock")
    began = time.monotonic()
    with FolderLock(out, settle_s=0.1) as held:
        assert time.monotonic() - began < 5
        held.check()
    assert not os.path.exists(f"{out}/.lock")


@pytest.mark.parametrize("flock", [True, False])
def test_lock_of_a_stopped_driver_is_not_taken(out, other_driver, flock, monkeypatch):
    if not flock:
        monkeypatch.setattr(lock, "fcntl", None)
    first = other_driver(out)
    first.send_signal(signal.SIGSTOP)
    time.sleep(2 * QUICK["lease_s"])
    with pytest.raises(FolderInUse), FolderLock(out, **QUICK):
        pass


def test_number_of_a_dead_process_may_be_used_again(out, without_flock):
    mine = Holder.this_process()
    write_lock(out, replace(mine, process=f"{mine.process.partition(':')[0]}:1"))
    with FolderLock(out, settle_s=0.1) as held:
        held.check()


@pytest.mark.parametrize("since", ["1990-01-01 00:00:00", "2190-01-01 00:00:00"])
def test_silent_driver_of_another_machine_is_replaced_after_a_lease(out, since):
    """Whatever its clock has said."""
    write_lock(out, someone_elsewhere(since=since))
    waited = []
    began = time.monotonic()
    with FolderLock(out, waited.append, **QUICK) as held:
        assert time.monotonic() - began >= QUICK["lease_s"]
        held.check()
    assert len(waited) == 1
    assert "on elsewhere" in waited[0]


@pytest.mark.parametrize("since", ["1990-01-01 00:00:00", "2190-01-01 00:00:00"])
def test_driver_of_another_machine_that_shows_life_is_left_alone(out, since):
    holder = someone_elsewhere(since=since)
    write_lock(out, holder)
    timer = threading.Timer(0.2, write_lock, (out, replace(holder, beat=1)))
    timer.start()
    with pytest.raises(FolderInUse, match=f"on elsewhere, since {since} UTC"):
        FolderLock(out, **QUICK).__enter__()
    timer.join()
    assert in_lock(out).host == "elsewhere"


@pytest.mark.parametrize("left", [b"", b"{broken", b'{"pid": 1}'])
def test_lock_that_says_nothing_is_watched_like_any_other(out, left):
    os.makedirs(out)
    with open(f"{out}/.lock", "wb") as file:
        file.write(left)
    began = time.monotonic()
    with FolderLock(out, **QUICK):
        assert time.monotonic() - began >= QUICK["lease_s"]


@pytest.mark.parametrize("seed", range(5))
def test_of_drivers_that_start_together_one_gets_the_lock(out, without_flock, seed):
    rng = random.Random(seed)
    delays = [rng.uniform(0, 0.1) for _ in range(4)]
    held, refused, gate = [], [], threading.Event()

    def drive(delay):
        time.sleep(delay)
        try:
            with FolderLock(out, beat_s=10.0, lease_s=0.4, settle_s=0.6):
                held.append(delay)
                gate.wait(5)
        except FolderInUse:
            refused.append(delay)

    drivers = [threading.Thread(target=drive, args=(delay,)) for delay in delays]
    for driver in drivers:
        driver.start()
    while len(held) + len(refused) < len(delays):
        time.sleep(0.01)
    gate.set()
    for driver in drivers:
        driver.join()
    assert len(held) == 1


def test_frozen_driver_finds_its_lock_gone_and_leaves_the_new_one(out, without_flock):
    with FolderLock(out, **QUICK) as frozen:
        write_lock(out, someone_elsewhere())  # it had not been heard of for long
        frozen._thread.join(10)
        with pytest.raises(LockLost, match=r"was taken over by process .* on elsewhere"):
            frozen.check()
    assert in_lock(out).host == "elsewhere"


def test_store_that_is_away_does_not_lose_the_lock(out, without_flock, monkeypatch, caplog):
    with FolderLock(out, **QUICK) as held:

        def is_away(*_):
            raise OSError("cannot reach the store")

        monkeypatch.setattr(lock, "read_whole", is_away)
        while "cannot reach the store" not in caplog.text:
            time.sleep(0.01)
        held.check()


def test_count_of_the_holder_moves(out):
    def beat():
        return in_lock(out).beat

    with FolderLock(out, **QUICK):
        end = time.monotonic() + 10
        while beat() < 2:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_link_in_place_of_the_lock_rejected(out, tmp_path):
    os.makedirs(out)
    (tmp_path / "theirs").write_text("theirs")
    os.symlink(tmp_path / "theirs", f"{out}/.lock")
    with pytest.raises(ValueError, match=r"\.lock must not be a link"), FolderLock(out):
        pass
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_holder_survives_its_file():
    holder = Holder.this_process()
    assert Holder.read(holder.write()) == holder
    assert holder.is_alive() is True
    assert someone_elsewhere().is_alive() is None


def test_moment_in_which_a_store_replaces_the_lock_is_not_taken_for_its_end(out, without_flock):
    """As on HDFS, where the old file goes before the new one comes."""
    write_lock(out, Holder.this_process())
    os.rename(f"{out}/.lock", f"{out}/aside")
    timer = threading.Timer(0.1, os.rename, (f"{out}/aside", f"{out}/.lock"))
    timer.start()
    with pytest.raises(FolderInUse), FolderLock(out, **QUICK):
        pass
    timer.join()


@pytest.mark.parametrize("value", [None, 1, [], {}])
def test_lock_with_a_value_of_another_kind_makes_no_sense(value):
    values = json.loads(Holder.this_process().write())
    assert Holder.read(json.dumps({**values, "since": value}).encode()) is None
