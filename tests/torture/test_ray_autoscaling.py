"""A cluster that scales itself (Ray's fake autoscaler) starts nodes when a run asks for them."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

import psutil
import pytest

from cluster import RayOptions, run_ray
from tests.cluster.toy_scorer import MakeScorer, UntilOnNodes
from tests.object_stores import free_port

pytestmark = [pytest.mark.slow, pytest.mark.ray]

MOST_NODES = 3
COMMANDS = ("setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
"""What the autoscaler wants to find in its configuration, and the fake one has no use for."""


@pytest.fixture
def address(monkeypatch, tmp_path):
    """Start a head without workers that keeps one node, and adds two where there is a demand.

    Ray's `AutoscalingCluster` does the same, but ends every Ray process of the machine, by name,
    and lacks its example of a configuration where Ray was installed from a wheel.
    """
    import ray
    from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

    port = free_port()
    place = f"{ray.util.get_node_ip_address()}:{port}"
    node = {"resources": {"CPU": 1, "object_store_memory": 80_000_000}, "node_config": {}}
    node |= {"min_workers": 1, "max_workers": MOST_NODES}
    head_node = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
    settings = {
        "cluster_name": "fake",
        "max_workers": MOST_NODES,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 0.1,
        "provider": {
            "type": "fake_multinode",
            "head_node_id": FAKE_HEAD_NODE_ID,
            "gcs_address": place,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {"ray.head.default": head_node, "small": node},
        "head_node_type": "ray.head.default",
    }
    settings |= {name: {} for name in ("auth", "docker", "file_mounts")}
    settings |= {f"{name}_commands": [] for name in ("initialization", *COMMANDS)}
    settings["cluster_synced_files"] = []
    config = tmp_path / "autoscaler.json"
    config.write_text(json.dumps(settings))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), *sys.path])))
    folder = tempfile.mkdtemp(prefix="as")  # short: sockets lie in it
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += ["--num-cpus=0", f"--port={port}", f"--temp-dir={folder}"]
    command += ["--include-dashboard=false", "--object-store-memory=80000000"]
    command += [f"--autoscaling-config={config}"]
    fake = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    with (tmp_path / "head.txt").open("wb") as notes:
        quiet = {"stdout": notes, "stderr": notes, "start_new_session": True}
        head = subprocess.Popen(command, env={**os.environ, **fake}, **quiet)
    try:
        deadline = time.monotonic() + 60
        while b"Ray runtime started" not in (tmp_path / "head.txt").read_bytes():
            assert head.poll() is None, (tmp_path / "head.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield place
    finally:
        for pid in psutil.pids():
            with suppress(ProcessLookupError):
                if os.getsid(pid) == head.pid:
                    os.kill(pid, signal.SIGKILL)
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_workers_auto_has_the_cluster_grow(address, make_plan, job, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    make = MakeScorer(UntilOnNodes(traces, MOST_NODES))  # goes on when all are there, in no hurry
    reports = run_ray(make_plan(4), make, job, options=RayOptions(address=address, versions={}))
    assert not any(report.error for report in reports)
    assert len(list(traces.iterdir())) == MOST_NODES
