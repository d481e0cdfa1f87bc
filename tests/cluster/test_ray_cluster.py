"""Several raylets on one machine: who may join, what is sent to nodes, what happens when they go.

The cluster has the token of all tests. Runs that join it do so as a user's do, in a process of
their own; those whose patience is shortened use a connection of the test's process.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cluster import RayOptions, committed, run_local, run_ray
from cluster.children import import_path
from sms.scoring import ScoringConfig, SummaryScorer
from tests.cluster.toy_scorer import MakeScorer, Slowly

pytestmark = [pytest.mark.ray, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "PYTHONPATH": import_path(),  # nodes can import the toys
    # Read when the head starts: a node is found dead in a second.
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "300",
    "RAY_health_check_timeout_ms": "600",
    "RAY_health_check_failure_threshold": "3",
}
SMALL = {"object_store_memory": 80_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def ray_cluster():
    from cluster import ray_cluster

    return ray_cluster


@pytest.fixture(scope="module")
def cluster(ray_cluster):
    """A head node without workers, and a node with one."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        set_all(patch, SETTINGS)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
        add_node(cluster)
        yield cluster
        cluster.shutdown()


def add_node(cluster):
    return cluster.add_node(num_cpus=1, object_store_memory=80_000_000)


def set_all(patch, variables):
    for name, value in variables.items():
        patch.setenv(name, value)


@pytest.fixture
def connection(cluster, ray_cluster):
    """Have this process joined, so that runs use its connection."""
    ray = ray_cluster.ray
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture
def run(plan, job):
    def run(make, on_report=None, **options):
        return run_ray(plan, make, job, on_report, options=RayOptions(**options))

    return run


def workers_of(folder):
    return {int(path.name.partition("-")[0]) for path in folder.iterdir()}


@pytest.fixture
def traces(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


def test_workers_come_when_a_node_joins_and_their_shards_when_it_is_lost(
    cluster, connection, run, check_scores, traces, monkeypatch
):
    monkeypatch.setattr("cluster.driver.LOOK_AROUND_EVERY_S", 0.3)
    nodes = []

    def on_report(report):
        if not nodes:
            nodes.append(add_node(cluster))
        elif len(nodes) == 1 and len(workers_of(traces)) == 2:
            cluster.remove_node(nodes[0], allow_graceful=False)
            nodes.append(None)

    reports = run(MakeScorer(Slowly(traces, 0.8)), on_report)
    assert len(nodes) == 2, "the new node got no worker"
    assert not any(report.error for report in reports)
    check_scores()


def test_shard_of_a_frozen_worker_is_given_to_another(
    cluster, connection, run, check_scores, traces, monkeypatch
):
    monkeypatch.setattr("cluster.ray_driver.SLOW_AFTER_S", 1.0)
    frozen = []

    def on_report(report):
        if not frozen and len(workers_of(traces)) == 2:
            frozen.append(max(workers_of(traces)))
            os.kill(frozen[0], signal.SIGSTOP)

    node = add_node(cluster)
    try:
        reports = run(MakeScorer(Slowly(traces)), on_report, workers=2)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)
        cluster.remove_node(node)
    assert frozen
    assert not any(report.error for report in reports)
    check_scores()


@pytest.mark.parametrize("host", [None, "[::1]"], ids=["IPv4", "IPv6"])
def test_run_joins_with_the_token_and_gives_the_same_files(
    cluster, run, job, check_scores, host, hostile
):
    """Wherever the command is: nothing is imported from its folder."""
    own_host, _, port = cluster.address.rpartition(":")
    reports = run(MakeScorer(), address=f"{host or own_host}:{port}", versions={})
    assert not any(report.error for report in reports)
    check_scores()
    assert not list(Path(job.out).glob(".*"))


def test_wrong_token_is_refused(cluster, run, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong" * 8)
    with pytest.raises(ConnectionError, match=r"another token than this driver has; set RAY_"):
        run(MakeScorer(), address=cluster.address)


def test_other_versions_on_a_node_are_refused(cluster, run, plan, job):
    with pytest.raises(ValueError, match=r"numpy \d.* there and 0\.9 here") as caught:
        run(MakeScorer(), address=cluster.address, versions={"numpy": "0.9"})
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


def test_another_ray_on_the_head_is_refused_with_both_versions(cluster, ray_cluster):
    said = subprocess.run(
        [sys.executable, "-c", OTHER_RAY, cluster.address], cwd=ROOT, capture_output=True, text=True
    )
    (line,) = said.stdout.splitlines()
    assert "Ray: 2.59.0" in line
    assert f"Ray: {ray_cluster.ray.__version__}" in line


def test_packages_are_sent_to_a_node_that_lacks_them(
    cluster, run, plan, job, read_scores, tmp_path
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
        reports = run(make_scorer, address=cluster.address)
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


def test_cluster_without_a_token_is_refused_unless_told(run, plan, job, monkeypatch, request):
    from ray.cluster_utils import Cluster

    set_all(monkeypatch, {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": import_path()})
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})
    request.getfixturevalue("hostile")  # who asks without a token imports nothing from there
    try:
        with pytest.raises(ValueError, match=r"asks for no token, .* `insecure_cluster = true`"):
            run(MakeScorer(), address=cluster.address)
        assert not Path(job.out).exists()
        run(MakeScorer(), address=cluster.address, is_open_allowed=True)
    finally:
        cluster.shutdown()
    assert committed(job.out, plan, job.fingerprint) == set(range(len(plan)))


def test_lost_head_ends_the_run_in_one_line_and_it_can_be_resumed(
    run, plan, check_resumed, traces, capfd, monkeypatch
):
    from ray.cluster_utils import Cluster

    set_all(monkeypatch, {**SETTINGS, "RAY_gcs_rpc_server_reconnect_timeout_s": "3"})
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})

    def on_report(report):
        cluster.head_node.kill_gcs_server()

    capfd.readouterr()
    try:
        said = r"the Ray cluster was lost .* run the same"
        with pytest.raises(RuntimeError, match=said) as caught:
            run(MakeScorer(Slowly(traces)), on_report, address=cluster.address)
    finally:
        noise = capfd.readouterr()
        cluster.shutdown()
    assert "\n" not in str(caught.value)
    assert noise == ("", "")
    assert check_resumed(plan)
