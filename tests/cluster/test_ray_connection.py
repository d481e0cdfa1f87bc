"""A run that starts Ray itself: interrupted, out of reach of all others, its servers killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from glob import glob
from pathlib import Path

import pytest

from cluster import RayOptions, committed, run_local, run_ray
from cluster.ray_process import call_apart
from tests.cluster import drivers
from tests.cluster.drivers import marked_processes
from tests.cluster.toy_scorer import HeldBy, MakeScorer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
]

ROOT = Path(__file__).resolve().parents[2]


def test_interrupted_run_stops_ray_and_can_be_resumed(plan, job, check_scores):
    def interrupt(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_ray(plan, MakeScorer(), job, interrupt, options=RayOptions(workers=1))
    assert not [pid for pid in descendants(os.getpid()) if b"raylet" in command_of(pid)]
    done = committed(job.out, plan, job.fingerprint)
    assert done

    left = [shard for shard in plan if shard.index not in done]
    run_local(left, MakeScorer(), job)
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 2, 3, 4, 5}
    check_scores()


def command_of(pid):
    with suppress(OSError):  # it has ended meanwhile
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def descendants(pid):
    """Return a process and all that it has started."""
    found = [pid]
    for children in glob(f"/proc/{pid}/task/*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in Path(children).read_text().split():
                found += descendants(int(child))
    return found


def listening(pids):
    """Return the addresses, in hexadecimal, at which processes listen for TCP connections."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                inodes.add(os.readlink(handle).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == LISTEN and cells[9] in inodes:
                found.add(cells[1].partition(":")[0])
    return found


LISTEN = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
ASK = (
    "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).check_alive([])"
)


def test_own_cluster_is_out_of_reach_and_imports_nothing_that_lies_around(
    hostile, capfd, monkeypatch
):
    """One start of Ray, in a folder with hostile packages, looked at from all sides."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = dict(os.environ)
    seen = {}

    def look(address, token):
        pids = descendants(os.getpid())
        asked = {
            mode: subprocess.run(
                [sys.executable, "-P", "-c", ASK, address],
                env={**os.environ, "RAY_AUTH_TOKEN": mine, "RAY_AUTH_MODE": mode},
                capture_output=True,
                text=True,
            ).stderr
            for mode, mine in (("disabled", ""), ("token", "0" * 64))
        }
        commands = b"".join(map(command_of, pids))
        seen.update(token=token, places=listening(pids), commands=commands, asked=asked)
        seen_all.touch()

    seen_all = hostile / "seen"
    worker = call_apart(drivers.look_around_on_ray, seen_all, tell={"up": look}, address=None)
    assert worker["OMP"] == "3"
    assert Path(worker["ours"]).is_relative_to(ROOT)
    assert not {"", ".", str(hostile)} & set(worker["path"])
    assert b"/raylet/raylet" in seen["commands"]
    assert seen["places"]
    assert seen["places"] <= LOOPBACK
    assert all("InvalidAuthToken" in answer for answer in seen["asked"].values())
    assert len(seen["token"]) == 64
    assert seen["token"].encode() not in seen["commands"]
    assert seen["token"] not in "".join(capfd.readouterr())
    assert dict(os.environ) == before


# Its servers are killed


@pytest.fixture
def run_and_kill(make_plan, job, check_scores, tmp_path, monkeypatch):
    """Start a run on a cluster of its own, and kill a server of it at the first report."""
    monkeypatch.setenv("ASSAY_TEST_MARK", str(tmp_path))
    make = MakeScorer(HeldBy(tmp_path / "hold"))
    plan = make_plan(4)
    killed = []

    def run_and_kill(server):
        def kill(report):
            if not killed:
                killed.extend(
                    pid for pid, name in marked_processes(tmp_path).items() if name == server
                )
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)

        return run_ray(plan, make, job, kill, options=RayOptions(workers=2))

    yield run_and_kill
    assert len(killed) == 1
    deadline = time.monotonic() + 10  # a killed process takes a moment to end
    while marked_processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked_processes(tmp_path) == {}
    (tmp_path / "hold").unlink(missing_ok=True)
    left = [s for s in plan if s.index not in committed(job.out, plan, job.fingerprint)]
    run_local(left, make, job)
    check_scores()


def test_head_killed_in_a_run_that_can_be_finished(run_and_kill):
    assert [report.error for report in run_and_kill("gcs_server")] == [None] * 12


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ("raylet", r"the Ray cluster was lost \(.*\)"),
        ("gcs_server", r"the head node of the Ray cluster at 127\S* no longer answers"),
    ],
)
def test_server_killed_in_a_run_that_cannot_be_finished(run_and_kill, server, what, tmp_path):
    (tmp_path / "hold").touch()
    with pytest.raises(RuntimeError, match=f"^{what}; committed shards are kept: .*$"):
        run_and_kill(server)
