"""A call in another process: what it says, how it ends, and that it never outlives us."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cluster.children import ProcessLost, import_path
from cluster.ray_process import call_apart
from tests.cluster import drivers
from tests.cluster.drivers import commands, descendants

ROOT = Path(__file__).resolve().parents[2]


def call(function, *arguments, **tell):
    return call_apart(function, *arguments, tell=tell, address="nowhere")


def test_result_and_what_it_says_arrive():
    heard = []
    assert call(drivers.double, 8, half=heard.append) == 16
    assert heard == [4.0]


def test_its_warnings_are_ours(caplog):
    call(drivers.warn)
    assert caplog.messages == ["3 workers are not ready"]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (drivers.fail, ConnectionError, "nobody there"),
        (drivers.end_with_a_note, ProcessLost, "^Failed to connect to GCS$"),
        (drivers.kill_itself, ProcessLost, "ended by SIGKILL"),
    ],
)
def test_its_end_is_told_in_one_line(function, error, message, capfd):
    with pytest.raises(error, match=message):
        call(function)
    assert capfd.readouterr() == ("", "")


def test_threads_that_still_run_do_not_hold_up_the_end():
    started = time.monotonic()
    call(drivers.leave_a_thread)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("entry", [None, ""], ids=["a command", "an interpreter at its prompt"])
def test_nothing_is_imported_from_the_working_directory(hostile, entry, monkeypatch):
    if entry is not None:
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
    found = call(drivers.places_of, ["cluster", "sms", "pipelines", "logging"])
    assert all(Path(found[name]).is_relative_to(ROOT) for name in ("cluster", "sms", "pipelines"))


@pytest.mark.parametrize("path", [["", "lib"], ["/lib", ""], [""]])
def test_import_path_has_no_item_that_means_the_working_directory(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", path)
    items = import_path().split(os.pathsep)
    assert items[0] == str(ROOT)  # the packages of this process, wherever they came from
    assert items[1:] == [str(tmp_path / "lib") if item == "lib" else item for item in path if item]


IMPORTS = """
import sys
import pipelines.score
from cluster import RayOptions, run_ray
from cluster.parts import Job
from cluster.shards import Shard

try:
    run_ray([Shard(index=0, pieces=())], int, Job(out="out", fingerprint="0" * 16),
            options=RayOptions(address="127.0.0.1:1"))
except ConnectionError as error:
    sys.stdout.write(str(error))
sys.exit("ray" in sys.modules)
"""


@pytest.mark.slow
def test_process_that_waits_never_imports_ray_even_where_nobody_answers():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no Ray cluster answers at `127.0.0.1:1`")


DRIVER = """
import sys
from cluster.ray_process import call_apart
from tests.cluster import drivers

def heard(pid):
    print(pid, flush=True)

call_apart(drivers.wait_and_tidy, sys.argv[1], tell={"pid": heard}, address="nowhere")
"""


# what a shell does to a job that it starts with `&`
IN_THE_BACKGROUND = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "before"),
    [(signal.SIGKILL, ""), (signal.SIGKILL, IN_THE_BACKGROUND), (signal.SIGINT, "")],
    ids=["killed", "killed-in-the-background", "interrupted"],
)
def test_it_ends_and_tidies_up_when_we_do(tmp_path, number, before):
    left = tmp_path / "tidied"
    driver = subprocess.Popen(
        [sys.executable, "-c", before + DRIVER, str(left)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    child = int(driver.stdout.readline())
    driver.send_signal(number)
    driver.wait(30)
    driver.stdout.close()
    deadline = time.monotonic() + 30
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(child)
    assert left.exists()


def listening():
    """Return the addresses at which descendants listen for TCP connections."""
    found = set()
    for process in descendants():
        with suppress(psutil.Error):
            listed = process.net_connections("tcp")
            found |= {place.laddr.ip for place in listed if place.status == psutil.CONN_LISTEN}
    return found


ASK = (
    "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).check_alive([])"
)


@pytest.mark.ray
@pytest.mark.slow
def test_own_cluster_is_out_of_reach_and_imports_nothing_that_lies_around(
    hostile, capfd, monkeypatch
):
    """One start of Ray, in a folder with hostile packages, looked at from all sides."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = dict(os.environ)
    seen = {}

    def look(address, token):
        asked = {
            mode: subprocess.run(
                [sys.executable, "-P", "-c", ASK, address],
                env={**os.environ, "RAY_AUTH_TOKEN": mine, "RAY_AUTH_MODE": mode},
                capture_output=True,
                text=True,
            ).stderr
            for mode, mine in (("disabled", ""), ("token", "0" * 64))
        }
        seen.update(token=token, places=listening(), commands=commands(), asked=asked)
        seen_all.touch()

    seen_all = hostile / "seen"
    worker = call_apart(drivers.look_around_on_ray, seen_all, tell={"up": look}, address=None)
    assert worker["OMP"] == "3"
    assert Path(worker["ours"]).is_relative_to(ROOT)
    assert not {"", ".", str(hostile)} & set(worker["path"])
    assert "/raylet/raylet" in seen["commands"]
    assert seen["places"]
    assert seen["places"] <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert all("InvalidAuthToken" in answer for answer in seen["asked"].values())
    assert len(seen["token"]) == 64
    assert seen["token"] not in seen["commands"]
    assert seen["token"] not in "".join(capfd.readouterr())
    assert dict(os.environ) == before
