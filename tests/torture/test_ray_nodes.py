"""A Ray cluster of which nodes, workers or servers go in a run, on one machine.

Runs whose patience is shortened use a connection of the test's process.
"""

import os
import signal
import time

import pytest

from cluster import RayOptions, ray_cluster, run_ray
from tests.cluster.drivers import commands, descendants
from tests.cluster.raylets import SETTINGS, SMALL, add_node, set_all
from tests.cluster.toy_scorer import HeldBy, MakeScorer, Slowly

pytestmark = [pytest.mark.slow, pytest.mark.ray]


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


@pytest.fixture
def connection(cluster):
    """Have this process joined, so that runs use its connection."""
    ray = ray_cluster.ray
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def workers_of(folder):
    return {int(path.name.partition("-")[0]) for path in folder.iterdir()}


@pytest.fixture
def traces(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


def test_workers_come_when_a_node_joins_and_their_shards_when_it_is_lost(
    cluster, connection, run_joined, check_scores, traces, monkeypatch
):
    monkeypatch.setattr("cluster.driver.LOOK_AROUND_EVERY_S", 0.3)
    nodes = []

    def on_report(report):
        if not nodes:
            nodes.append(add_node(cluster))
        elif len(nodes) == 1 and len(workers_of(traces)) == 2:
            cluster.remove_node(nodes[0], allow_graceful=False)
            nodes.append(None)

    reports = run_joined(MakeScorer(Slowly(traces, 0.8)), on_report)
    assert len(nodes) == 2, "the new node got no worker"
    assert not any(report.error for report in reports)
    check_scores()


def test_shard_of_a_frozen_worker_is_given_to_another(
    cluster, connection, run_joined, check_scores, traces, monkeypatch
):
    monkeypatch.setattr("cluster.ray_driver.SLOW_AFTER_S", 1.0)
    frozen = []

    def on_report(report):
        if not frozen and len(workers_of(traces)) == 2:
            frozen.append(max(workers_of(traces)))
            os.kill(frozen[0], signal.SIGSTOP)

    node = add_node(cluster)
    try:
        reports = run_joined(MakeScorer(Slowly(traces)), on_report, workers=2)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)
        cluster.remove_node(node)
    assert frozen
    assert not any(report.error for report in reports)
    check_scores()


def test_lost_head_ends_the_run_in_one_line_and_it_can_be_resumed(
    run_joined, plan, check_resumed, traces, capfd, monkeypatch
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
            run_joined(MakeScorer(Slowly(traces)), on_report, address=cluster.address)
    finally:
        noise = capfd.readouterr()
        cluster.shutdown()
    assert "\n" not in str(caught.value)
    assert noise == ("", "")
    assert check_resumed(plan)
