"""A cluster of one's own or of others: its address, who may join, what is sent to nodes.

The cluster has the token of all tests. Runs join it as a user's do, in a process of their own. What
happens when nodes go is in `tests/torture/test_ray_nodes.py`.
"""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cluster import committed, ray_cluster, run_local
from cluster.children import import_path
from sms.scoring import ScoringConfig, SummaryScorer
from tests.cluster.raylets import SMALL, add_node, set_all
from tests.cluster.toy_scorer import MakeScorer

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("host", [None, "[::1]"], ids=["IPv4", "IPv6"])
def test_run_joins_with_the_token_and_gives_the_same_files(
    cluster, run_joined, job, check_scores, host, hostile
):
    """Wherever the command is: nothing is imported from its folder."""
    own_host, _, port = cluster.address.rpartition(":")
    reports = run_joined(MakeScorer(), address=f"{host or own_host}:{port}", versions={})
    assert not any(report.error for report in reports)
    check_scores()
    assert not list(Path(job.out).glob(".*"))


@pytest.mark.ray
@pytest.mark.slow
def test_wrong_token_is_refused(cluster, run_joined, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong" * 8)
    with pytest.raises(ConnectionError, match=r"another token than this process has; set RAY_"):
        run_joined(MakeScorer(), address=cluster.address)


@pytest.mark.ray
@pytest.mark.slow
def test_other_versions_on_a_node_are_refused(cluster, run_joined, plan, job):
    with pytest.raises(ValueError, match=r"numpy \d.* there and 0\.9 here") as caught:
        run_joined(MakeScorer(), address=cluster.address, versions={"numpy": "0.9"})
    assert "\n" not in str(caught.value)
    assert committed(job.out, plan, job.fingerprint) == set()


OTHER_RAY = """
import sys
import ray
from cluster import ray_cluster
ray.__version__ = "2.59.0"
try:
    ray_cluster._join(sys.argv[1], ".")
except ValueError as error:
    print(error)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_another_ray_on_the_head_is_refused_with_both_versions(cluster):
    said = subprocess.run(
        [sys.executable, "-c", OTHER_RAY, cluster.address], cwd=ROOT, capture_output=True, text=True
    )
    (line,) = said.stdout.splitlines()
    assert "Ray: 2.59.0" in line
    assert f"Ray: {ray_cluster.ray.__version__}" in line


@pytest.mark.ray
@pytest.mark.slow
def test_packages_are_sent_to_a_node_that_lacks_them(
    cluster, run_joined, plan, job, read_scores, tmp_path
):
    (bare,) = cluster.worker_nodes
    cluster.remove_node(bare)
    python = bare_python(tmp_path / "bare")
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    tried = [python, "-c", "import ray, numba; import sms"]
    cannot = subprocess.run(tried, cwd="/", env=alone, capture_output=True)
    assert b"No module named 'sms'" in cannot.stderr
    start = [python, "-m", "ray.scripts.scripts", "start", f"--address={cluster.address}"]
    start += ["--num-cpus=1", "--object-store-memory=80000000", "--block"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    node = subprocess.Popen(start, cwd="/", env=alone, **quiet)
    make_scorer = partial(SummaryScorer, ScoringConfig(metrics=("length",)))
    try:
        wait_for_nodes(cluster, 2)
        reports = run_joined(make_scorer, address=cluster.address)
    finally:
        node.terminate()
        node.wait()
        add_node(cluster)
    assert not any(report.error for report in reports)
    here = replace(job, out=str(tmp_path / "here"))
    run_local(plan, make_scorer, here)
    assert read_scores(job.out).equals(read_scores(here.out))


def wait_for_nodes(cluster, n_nodes):
    from ray._raylet import GcsClient

    deadline, client = time.monotonic() + 60, GcsClient(address=cluster.address)
    while sum(node.state == 0 for node in client.get_all_node_info(timeout=10).values()) < n_nodes:
        assert time.monotonic() < deadline, "the node has not joined"
        time.sleep(0.2)


def bare_python(folder):
    """An interpreter with all libraries, and without our packages."""
    import ray

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder that a .pth file names is searched, but its own .pth files, by which a checkout is
    # installed in place, are not read.
    (packages / "libraries.pth").write_text(str(Path(ray.__file__).parents[1]))
    return str(folder / "bin" / "python")


@pytest.mark.ray
@pytest.mark.slow
def test_cluster_without_a_token_is_refused_unless_told(
    run_joined, plan, job, monkeypatch, request
):
    from ray.cluster_utils import Cluster

    set_all(monkeypatch, {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": import_path()})
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})
    request.getfixturevalue("hostile")  # who asks without a token imports nothing from there
    try:
        with pytest.raises(ValueError, match=r"has no token, .* `insecure_cluster = true`"):
            run_joined(MakeScorer(), address=cluster.address)
        assert not Path(job.out).exists()
        run_joined(MakeScorer(), address=cluster.address, is_open_allowed=True)
    finally:
        cluster.shutdown()
    assert committed(job.out, plan, job.fingerprint) == set(range(len(plan)))


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("head", ("head", 6379)),
        ("head.example:7000", ("head.example", 7000)),
        ("::1", ("::1", 6379)),
        ("[FD00::2]:7000", ("fd00::2", 7000)),
    ],
)
def test_address_by_hand(address, place):
    assert ray_cluster._host_and_port(address) == place


@pytest.mark.parametrize(
    "address",
    ["ray://head:10001", "", ":6379", "head:x", "head:70000", "[::1:7", "me@head", "head/path"],
)
def test_address_that_is_none_is_refused_with_a_way_out(address):
    said = r"must be `auto` or HOST\[:PORT\] .* IPv6 .* use `ray job submit`"
    with pytest.raises(ValueError, match=said) as caught, ray_cluster.connected(address):
        pass
    assert "\n" not in str(caught.value)


def test_own_cluster_has_the_cores_this_process_may_use(monkeypatch):
    asked = {}
    monkeypatch.setattr(ray_cluster.ray, "init", lambda **options: asked.update(options))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5, 7}, raising=False)
    for n_cpus, given in ((1, 3), (4, 4)):  # four workers share three cores
        with ray_cluster.connected(None, n_cpus):
            assert asked["num_cpus"] == given
