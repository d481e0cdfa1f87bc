"""How many workers fit where; no cluster is started."""

import pytest

from cluster import ray_cluster
from cluster.ray_cluster import Needs, cpus_beside


@pytest.mark.parametrize(
    ("cpus", "gpus", "resources", "room"),
    [
        pytest.param(1, 0, {"CPU": 8.0}, 8, id="cores"),
        pytest.param(3, 0, {"CPU": 8.0}, 2, id="a-rest-stays-free"),
        pytest.param(1, 0, {}, 0, id="no-cores"),
        pytest.param(4, 1, {"CPU": 64.0, "GPU": 8.0}, 8, id="gpus-are-fewer"),
        pytest.param(16, 1, {"CPU": 64.0, "GPU": 8.0}, 4, id="cores-are-fewer"),
        pytest.param(1, 0.1, {"CPU": 64.0, "GPU": 1.0}, 10, id="tenths"),
        pytest.param(1, 0.4, {"CPU": 64.0, "GPU": 2.0}, 4, id="no-worker-on-two-halves"),
        pytest.param(1, 2, {"CPU": 64.0, "GPU": 5.0}, 2, id="pairs"),
        pytest.param(1, 0.5, {"CPU": 64.0}, 0, id="no-gpu"),
    ],
)
def test_room_by_hand(cpus, gpus, resources, room):
    assert Needs(cpus=cpus, gpus=gpus).room_on(resources) == room


@pytest.mark.parametrize("gpus", [1.5, -1])
def test_gpus_that_ray_cannot_give_rejected(gpus):
    with pytest.raises(ValueError, match="must be a fraction of one GPU or a whole number, got"):
        Needs(cpus=1, gpus=gpus)


@pytest.mark.parametrize(
    ("gpus", "nodes", "cpus"),
    [
        pytest.param(0, [{"CPU": 64.0, "GPU": 8.0}], 1, id="no-gpu-asked-for"),
        pytest.param(1, [{"CPU": 64.0, "GPU": 8.0}], 8, id="its-share"),
        pytest.param(0.25, [{"CPU": 64.0, "GPU": 8.0}], 2, id="share-of-a-fraction"),
        pytest.param(1, [{"CPU": 4.0}, {"CPU": 64.0, "GPU": 8.0}], 8, id="head-without-gpu"),
        pytest.param(1, [{"CPU": 64.0, "GPU": 8.0}, {"CPU": 8.0, "GPU": 2.0}], 4, id="the-least"),
        pytest.param(1, [{"CPU": 4.0}], 1, id="gpus-are-still-to-come"),
        pytest.param(0.25, [{"CPU": 2.0, "GPU": 1.0}], 1, id="never-none"),
    ],
)
def test_cores_beside_a_gpu(gpus, nodes, cpus, monkeypatch):
    records = [{"Resources": resources} for resources in nodes]
    monkeypatch.setattr(ray_cluster, "alive_nodes", lambda: records)
    assert cpus_beside(gpus) == cpus


def test_address_of_ray_client_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match="use `ray job submit`"):
        ray_cluster._reachable("ray://head:10001")
