"""A run that starts Ray itself: interrupted, out of reach of others and of what lies around."""

import os
import subprocess
import sys
from contextlib import suppress
from glob import glob
from pathlib import Path

import pytest

from cluster import RayOptions, committed, list_inputs, plan_shards, run_local, run_ray
from cluster.ray_process import call_apart
from tests.cluster import drivers

pytestmark = [pytest.mark.ray, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]


def test_interrupted_run_stops_ray_and_can_be_resumed(
    write_corpus, make_rows, make_scorer, job, check_scores
):
    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=8)]), 8)

    def interrupt(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_ray(plan, make_scorer(), job, interrupt, options=RayOptions(workers=1))
    assert not [pid for pid in descendants(os.getpid()) if b"raylet" in command_of(pid)]
    done = committed(job.out, plan, job.fingerprint)
    assert done

    left = [shard for shard in plan if shard.index not in done]
    run_local(left, make_scorer(), job)
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 2, 3, 4, 5}
    check_scores(48)


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
