"""Several raylets on one machine, with the token of all tests, and runs that join them."""

import pytest

from cluster import RayOptions, run_ray
from cluster.children import import_path

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
def cluster():
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
def run_joined(plan, job):
    """Score the plan on a cluster whose address is given, or to which this process is joined."""

    def run(make, on_report=None, **options):
        return run_ray(plan, make, job, on_report, options=RayOptions(**options))

    return run
