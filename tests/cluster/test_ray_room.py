"""What fits where, which cluster is joined or how it is started; no run."""

import os

import pytest

from cluster import RayOptions, ray_cluster
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
    with pytest.raises(ValueError, match=said) as caught:
        ray_cluster._reachable(address)
    assert "\n" not in str(caught.value)


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


def test_own_cluster_has_the_cores_this_process_may_use(monkeypatch):
    asked = {}
    monkeypatch.setattr(ray_cluster.ray, "init", lambda **options: asked.update(options))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5, 7}, raising=False)
    for n_cpus, given in ((1, 3), (4, 4)):  # four workers share three cores
        with ray_cluster.connected(None, n_cpus):
            assert asked["num_cpus"] == given
