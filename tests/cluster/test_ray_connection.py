"""A run on a cluster of this machine: interrupted, its servers killed; a cluster of our own."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cluster import RayOptions, run_ray
from cluster.ray_process import call_apart
from tests.cluster import drivers
from tests.cluster.toy_scorer import HeldBy, MakeScorer

pytestmark = [pytest.mark.slow, pytest.mark.ray]

ROOT = Path(__file__).resolve().parents[2]


def test_interrupted_run_ends_its_workers_and_can_be_resumed(address, plan, job, check_resumed):
    def interrupt(report):
        raise KeyboardInterrupt

    options = RayOptions(address=address, workers=1)
    with pytest.raises(KeyboardInterrupt):
        run_ray(plan, MakeScorer(), job, interrupt, options=options)
    deadline = time.monotonic() + 10
    while "ray::Actor" in commands() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "ray::Actor" not in commands()
    assert 0 < len(check_resumed(plan)) < 6


def descendants():
    """Return this process and all that it has started."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def commands():
    """Return the command lines of the descendants, but for those that end meanwhile."""
    found = []
    for process in descendants():
        with suppress(psutil.Error):
            found += process.cmdline()
    return " ".join(found)


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


# Servers of the cluster are killed


@pytest.fixture
def run_and_kill(address, make_plan, job, check_resumed, tmp_path):
    """Start a run, and kill a server of its cluster at the first report."""
    make = MakeScorer(HeldBy(tmp_path / "hold"))
    plan = make_plan(4)
    killed = []

    def run_and_kill(server):
        def kill(report):
            if not killed:
                killed.extend(one for one in descendants() if one.name() == server)
                for process in killed:
                    process.kill()

        options = RayOptions(address=address, workers=2)
        return run_ray(plan, make, job, kill, options=options)

    yield run_and_kill
    assert len(killed) == 1
    check_resumed(plan)


def test_head_killed_in_a_run_that_can_be_finished(run_and_kill):
    assert [report.error for report in run_and_kill("gcs_server")] == [None] * 12


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ("raylet", r"the Ray cluster was lost \(.*\)"),
        ("gcs_server", r"the head node of the Ray cluster at \S+ no longer answers"),
    ],
)
def test_server_killed_in_a_run_that_cannot_be_finished(run_and_kill, server, what, tmp_path):
    (tmp_path / "hold").touch()
    with pytest.raises(RuntimeError, match=f"^{what}; committed shards are kept: .*$"):
        run_and_kill(server)
