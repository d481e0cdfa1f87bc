"""What is asked of Ray: what fits where, and which cluster is joined."""

import pytest

from cluster import RayOptions
from cluster.ray_options import Needs, cluster_address


@pytest.mark.parametrize(
    ("cpus", "gpus", "resources", "room"),
    [
        (3, 0, {"CPU": 8.0}, 2),  # a rest stays free
        (4, 1, {"CPU": 64.0, "GPU": 8.0}, 8),
        (16, 1, {"CPU": 64.0, "GPU": 8.0}, 4),
        (1, 0.1, {"CPU": 64.0, "GPU": 1.0}, 10),
        (1, 0.4, {"CPU": 64.0, "GPU": 2.0}, 4),  # no worker on two halves
        (1, 2, {"CPU": 64.0, "GPU": 5.0}, 2),
    ],
)
def test_room_by_hand(cpus, gpus, resources, room):
    assert Needs(cpus=cpus, gpus=gpus).room_on(resources) == room


@pytest.mark.parametrize("gpus", [1.5, -1])
def test_gpus_that_ray_cannot_give_rejected(gpus):
    with pytest.raises(ValueError, match="must be a fraction of one GPU or a whole number, got"):
        RayOptions(gpus_per_worker=gpus)


@pytest.mark.parametrize(
    ("gpus", "nodes", "cpus"),
    [
        (0, [{"CPU": 64.0, "GPU": 8.0}], 1),
        (1, [{"CPU": 64.0, "GPU": 8.0}], 8),
        (1, [{"CPU": 4.0}, {"CPU": 64.0, "GPU": 8.0}], 8),
        (1, [{"CPU": 64.0, "GPU": 8.0}, {"CPU": 8.0, "GPU": 2.0}], 4),
        (0.25, [{"CPU": 2.0, "GPU": 1.0}], 1),
    ],
)
def test_cores_beside_a_gpu(gpus, nodes, cpus):
    assert Needs.of(RayOptions(gpus_per_worker=gpus), nodes).cpus == cpus


@pytest.mark.parametrize(
    ("asked", "variable", "address"),
    [
        (None, None, None),
        (None, "10.0.0.1:6379", "10.0.0.1:6379"),
        (None, "http://127.0.0.1:8265", None),  # a dashboard, for `ray job submit`
        ("head", "10.0.0.1:6379", "head"),
    ],
)
def test_address_of_the_environment_is_the_default(asked, variable, address, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    assert cluster_address(asked) == address
