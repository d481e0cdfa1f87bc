"""Where a run is computed: processes, threads, GPUs."""

import sys

import pytest

from cluster import RayOptions
from pipelines.runs import machines as module
from pipelines.runs.machines import Machines
from pipelines.settings.score import ScoreSettings

# what is asked for, RAY_ADDRESS; threads of this process of 8 cores, or processes and the threads
# of each, or what Ray is asked for
HEAD = "head:6379"
MACHINES = [
    ({}, None, 8),
    ({"workers": 1}, None, 1),
    ({"cpus_per_worker": 3}, None, 3),
    ({"local": True, "workers": 2}, None, 2),
    ({"local": True, "workers": "auto", "cpus_per_worker": 3}, None, 6),
    ({"local": True}, HEAD, 8),
    ({}, "http://head:8265", 8),  # a dashboard
    ({"workers": 2}, None, (2, 1)),
    ({"workers": "auto"}, None, (8, 1)),
    ({"workers": "auto", "cpus_per_worker": 3}, None, (2, 3)),
    ({"gpus_per_worker": 0.5}, None, (8, 1)),
    ({"workers": 1, "gpus_per_worker": 1}, None, (1, 1)),
    ({"address": "head", "workers": 1}, None, RayOptions(address="head", workers=1)),
    ({"workers": 4}, HEAD, RayOptions(address=HEAD, workers=4)),
    ({"address": "other"}, HEAD, RayOptions(address="other")),
]


@pytest.mark.parametrize(("settings", "variable", "expected"), MACHINES)
def test_ray_is_used_where_it_is_asked_for(monkeypatch, settings, variable, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("RAY_ADDRESS", variable or "")
    found = Machines.of(ScoreSettings(out="out", **settings), is_neural=False)
    if found.is_local:
        assert found.driver_threads == expected
    elif found.is_on_ray:
        assert found.ray == expected
    else:
        assert (found.n_workers, found.worker_threads) == expected


MANY = module.ROWS_WORTH_WORKERS
GIB = 1 << 30
# rows, cores, memory, settings; workers, None for this process
SUITED = [
    (MANY, 2, 16 * GIB, {}, 2),
    (MANY, 64, 64 * GIB, {}, 4),
    (100 * MANY, 64, 64 * GIB, {}, 64),
    (100 * MANY, 64, 8 * GIB, {}, 8),
    (100 * MANY, 64, 3 * GIB // 2, {}, None),
    (100 * MANY, 1, 64 * GIB, {}, None),
    (MANY - 1, 64, 64 * GIB, {}, None),
    (MANY, 2, 16 * GIB, {"local": True}, None),
    (MANY, 2, 16 * GIB, {"workers": 1}, None),
    (MANY, 2, 16 * GIB, {"cpus_per_worker": 2}, None),
    (MANY, 2, 16 * GIB, {"workers": 8}, 8),
]


@pytest.mark.parametrize(("n_rows", "cores", "memory", "settings", "n_workers"), SUITED)
def test_many_rows_get_processes_unless_it_is_said_who_scores(
    monkeypatch, n_rows, cores, memory, settings, n_workers
):
    monkeypatch.setenv("OMP_NUM_THREADS", str(cores))
    monkeypatch.setattr(module, "memory_bytes", lambda: memory)
    monkeypatch.setenv("RAY_ADDRESS", "")
    asked = Machines.of(ScoreSettings(out="out", device="cpu", **settings), is_neural=False)
    suited = asked.suited_to(n_rows)
    assert suited.is_local == (n_workers is None)
    if n_workers:
        assert (suited.n_workers, suited.worker_threads) == (n_workers, 1)


@pytest.fixture
def machine(monkeypatch):
    """Make machines of settings, with so many GPUs here and in the cluster."""

    def make(here=0, there=0, *, is_neural=True, **settings):
        def count_there(address, *, is_open_allowed):
            assert (address, is_open_allowed) == ("head:6379", False)
            return there

        monkeypatch.setattr(module, "may_have_gpu", lambda: True)
        monkeypatch.setattr("sms.encoders.devices.count_gpus", lambda: here)
        monkeypatch.setattr(module, "gpus_of_cluster", count_there)
        monkeypatch.setattr(module, "processor_kind", lambda: "EPYC (avx2)")
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        return Machines.of(ScoreSettings(out="out", **settings), is_neural=is_neural)

    return make


CLUSTER = {"address": HEAD}
# GPUs here and in the cluster, settings; GPUs of a worker, device of a worker, idle GPUs
SHARES = [
    (4, 0, {}, 0, "auto", 3),
    (4, 0, {"device": "cpu"}, 0, "cpu", 0),
    (0, 0, {"workers": 4}, 0, "cpu", 0),
    (4, 0, {"workers": "auto"}, 1, "cuda", 0),
    (4, 0, {"workers": 3}, 1, "cuda", 1),
    (2, 0, {"workers": 3}, 0.5, "cuda", 0),
    (4, 0, {"workers": 2, "gpus_per_worker": 2}, 2, "cuda", 0),
    (3, 0, {"workers": 3, "gpus_per_worker": 0.6}, 0.6, "cuda", 0),
    (4, 0, {"workers": 2, "gpus_per_worker": 0}, 0, "cpu", 4),
    (0, 8, {**CLUSTER, "workers": 2}, 1, "cuda", 6),
    (4, 0, CLUSTER, 0, "cpu", 0),
]


@pytest.mark.parametrize(("here", "there", "settings", "gpus", "device", "n_idle"), SHARES)
def test_gpus_are_shared_out_and_idle_ones_named(
    machine, caplog, here, there, settings, gpus, device, n_idle
):
    found = machine(here, there, **settings)
    assert found.ray.gpus_per_worker == gpus
    assert found.worker_device == device
    if not found.is_local:
        assert found.precision == ("bf16" if device == "cuda" else "fp32")
    found.warn_of_idle_gpus()
    remedy = "add `--workers auto`, which gives each a worker"
    if settings.get("gpus_per_worker") == 0:
        remedy = "leave out `--gpus-per-worker 0` to use them"
    idle = [f"GPUs that stay idle: {n_idle} of {here + there}; {remedy}"]
    assert caplog.messages == (idle if n_idle else [])


AMX = "Xeon (avx2, avx512f, avx512_bf16, amx_bf16)"
SLOW = (
    '; this processor has AMX: `precision = "bf16"` in the file of `--config` makes encoders about '
    "three times as fast"
)


SHARED = "; `--workers 8` keeps a GPU busier than one process does"
FOUND = [
    (0, "EPYC (avx2)", {}, "Found: 8 cores, no GPU"),
    (1, AMX, {}, f"Found: 8 cores, 1 GPU{SHARED}"),
    (1, AMX, {"local": True}, "Found: 8 cores, 1 GPU"),
    (0, AMX, {"is_neural": False}, "Found: 8 cores"),
    (0, AMX, {"precision": "fp32"}, "Found: 8 cores, no GPU"),
    (0, AMX, {}, f"Found: 8 cores, no GPU{SLOW}"),
    (2, AMX, {"device": "cpu"}, f"Found: 8 cores{SLOW}"),
    (0, AMX, CLUSTER, ""),
]


@pytest.mark.parametrize(("here", "processor", "settings", "expected"), FOUND)
def test_what_was_found_is_said(machine, monkeypatch, here, processor, settings, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    found = machine(here, **settings)
    monkeypatch.setattr(module, "processor_kind", lambda: processor)
    assert found.found(is_neural=settings.get("is_neural", True)) == expected


@pytest.mark.parametrize("asked", [{"is_neural": False}, {"gpus_per_worker": 0.5}])
def test_nobody_looks_for_gpus_that_nothing_depends_on(machine, asked):
    assert machine(0, 8, **CLUSTER, **asked).n_gpus == 0


def test_gpu_that_workers_do_not_have_is_refused(machine):
    with pytest.raises(ValueError, match="`--device cuda` needs GPUs for the workers"):
        machine(0, workers=2, device="cuda")
    assert machine(2, workers=2, device="cuda").ray.gpus_per_worker == 1


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the files of Linux drivers")
@pytest.mark.parametrize("driver", [None, "nvidiactl", "kfd"])
def test_machine_without_a_driver_has_no_gpu(monkeypatch, driver):
    monkeypatch.setattr(module.os.path, "exists", lambda path: path == f"/dev/{driver}")
    assert module.may_have_gpu() == (driver is not None)


@pytest.mark.parametrize(
    ("n_gpus", "settings", "expected"),
    [
        (4, {"workers": "auto"}, (4, 2)),
        (4, {"workers": 2}, (2, 2)),
        (2, {"workers": 8}, (8, 1)),
        (2, {"gpus_per_worker": 0.5}, (4, 2)),
        (4, {"gpus_per_worker": 2, "cpus_per_worker": 3}, (2, 3)),
    ],
)
def test_gpus_of_one_machine_are_shared_out_among_processes_with_its_cores(
    machine, monkeypatch, n_gpus, settings, expected
):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    found = machine(n_gpus, **settings)
    assert not found.is_on_ray
    assert (found.n_workers, found.worker_threads) == expected


@pytest.mark.parametrize("n_gpus", [0, 2])
def test_more_gpus_than_there_are_refused(machine, n_gpus):
    said = r"no room for 3 workers of \d CPUs? and 1 GPU; it has .* GPUs?; use fewer workers"
    with pytest.raises(ValueError, match=said):
        machine(n_gpus, workers=3, gpus_per_worker=1)
