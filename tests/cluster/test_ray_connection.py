"""A run that connects to Ray itself: interrupted, with nobody there, out of reach of others."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cluster import committed, list_inputs, plan_shards, run_local

pytestmark = pytest.mark.ray


def test_interrupted_run_stops_ray_and_can_be_resumed(
    write_corpus, make_rows, make_scorer, job, read_scores
):
    from cluster import ray_runner  # before Ray: it sets the environment

    ray = ray_runner.ray
    ray.cloudpickle.register_pickle_by_value(sys.modules[make_scorer.__module__])
    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=8)]), 8)

    def interrupt(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ray_runner.run_ray(plan, make_scorer(), job, interrupt)
    assert not ray.is_initialized()
    done = committed(job.out, plan, job.fingerprint)
    assert done

    left = [shard for shard in plan if shard.index not in done]
    run_local(left, make_scorer(), job)
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 2, 3, 4, 5}
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths


def test_address_where_nobody_answers_is_refused_at_once(write_corpus, make_rows, make_scorer, job):
    from cluster import ray_runner

    plan = plan_shards(list_inputs([write_corpus(make_rows(3))]))
    options = ray_runner.RayOptions(address="127.0.0.1:1")
    with pytest.raises(ConnectionError, match=r"no Ray cluster answers at `127\.0\.0\.1:1`"):
        ray_runner.run_ray(plan, make_scorer(), job, options=options)


def descendants(pid):
    """Return a process and all that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


def listening(pids):
    """Return the addresses, in hexadecimal, at which processes listen for TCP connections."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
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


def test_local_cluster_listens_on_loopback_alone_and_asks_for_a_token(capfd):
    from cluster import ray_cluster

    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}
    with ray_cluster.connected(None, 1, variables={"OMP_NUM_THREADS": "3"}) as is_inherited:
        token = os.environ["RAY_AUTH_TOKEN"]
        ask = ray_cluster.ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
        seen = ray_cluster.ray.get(ask.remote())  # there is a worker
        pids = descendants(os.getpid())
        places = listening(pids)
        commands = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
        address = ray_cluster.head_address()
        asked = {
            mode: subprocess.run(
                [sys.executable, "-c", ASK, address],
                env={**os.environ, "RAY_AUTH_TOKEN": mine, "RAY_AUTH_MODE": mode},
                capture_output=True,
                text=True,
            )
            for mode, mine in (("disabled", ""), ("token", "0" * 64))
        }
    assert (is_inherited, seen) == (True, "3")
    assert os.environ.get("OMP_NUM_THREADS") != "3"
    assert len(pids) > 3
    assert places
    assert places <= LOOPBACK
    assert all("InvalidAuthToken" in answer.stderr for answer in asked.values())
    assert len(token) == 64
    assert token.encode() not in commands
    assert b"/raylet/raylet" in commands
    for idle in (b"monitor.py", b"log_monitor.py", b"dashboard/dashboard.py"):
        assert idle not in commands
    assert token not in "".join(capfd.readouterr())
    now = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}
    assert now == before
    assert ray_cluster.ray_constants.ENABLE_RAY_CLUSTER
