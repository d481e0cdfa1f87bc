"""A call in another process: what it says, how it ends, and that it never outlives us."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.ray_process import DriverProcess, ProcessLost, call_apart

ROOT = Path(__file__).resolve().parents[2]


def test_result_and_what_it_says_arrive():
    heard = []

    def work(number, say):
        say("half", number / 2)
        return number * 2

    assert call_apart(work, 8, tell={"half": heard.append}) == 16
    assert heard == [4.0]


def test_its_exception_is_ours():
    def work(say):
        raise ConnectionError("nobody there")

    with pytest.raises(ConnectionError, match="nobody there"):
        call_apart(work, tell={})


def test_its_warnings_are_ours(caplog):
    def work(say):
        import logging

        logging.getLogger("cluster.ray_runner").warning("%d workers are not ready", 3)

    call_apart(work, tell={})
    assert caplog.messages == ["3 workers are not ready"]


def test_end_without_an_answer_is_told_in_one_line(capfd):
    def work(say):
        import os

        words = (
            b"[2026-11-21 14:55:38 E 7 9] rpc_client.h:204: Failed to connect to GCS\n*** Stack\n"
        )
        os.write(2, words)
        os._exit(1)

    with pytest.raises(ProcessLost, match=r"^Failed to connect to GCS$"):
        call_apart(work, tell={})
    assert capfd.readouterr() == ("", "")


def test_end_by_a_signal_is_told():
    def work(say):
        import os

        os.kill(os.getpid(), 9)

    with pytest.raises(ProcessLost, match="ended by SIGKILL"):
        call_apart(work, tell={})


def test_process_that_is_not_called_ends_at_once():
    with DriverProcess() as process:
        child = process._child
    assert child.returncode == -signal.SIGKILL


def test_process_that_is_ready_is_called():
    with DriverProcess() as process:
        assert process.call(lambda number, say: number + 1, 2, tell={}) == 3
        assert process._child.returncode == 0


def test_threads_that_still_run_do_not_hold_up_the_end():
    def work(say):
        import threading
        import time

        threading.Thread(target=time.sleep, args=(60,)).start()

    started = time.monotonic()
    call_apart(work, tell={})
    assert time.monotonic() - started < 30


DRIVER = """
import sys
from cluster.ray_process import call_apart

def heard(pid):
    print(pid, flush=True)

def work_in(path):
    def inner(say):
        import os, time
        try:
            say("pid", os.getpid())
            time.sleep(600)
        finally:
            open(path, "w").close()
    return inner

call_apart(work_in(sys.argv[1]), tell={"pid": heard})
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_it_ends_and_tidies_up_when_we_do(tmp_path, number):
    left = tmp_path / "tidied"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(left)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    child = int(driver.stdout.readline())
    driver.send_signal(number)
    driver.wait(30)
    driver.stdout.close()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
    assert left.exists()
