"""Which GPUs a run uses, which stay idle, and what it says that it has found."""

import io
import sys

import pytest

from pipelines.runs import machines as module
from pipelines.runs.machines import Machines
from pipelines.runs.progress import Lines, Progress
from pipelines.settings.score import ScoreSettings

AMX = "Xeon (avx2, avx512f, avx512_bf16, amx_bf16)"


@pytest.fixture
def machine(monkeypatch):
    """Make machines of settings, with so many GPUs here and in the cluster."""

    def make(here=0, there=0, *, is_neural=True, processor="EPYC (avx2)", **settings):
        def count_there(address, *, is_open_allowed):
            assert (address, is_open_allowed) == ("head:6379", False)
            return there

        monkeypatch.setattr(module, "may_have_gpu", lambda: True)
        monkeypatch.setattr("sms.encoders.devices.count_gpus", lambda: here)
        monkeypatch.setattr("sms.compiled.available_threads", lambda: 8)
        monkeypatch.setattr(module, "gpus_of_cluster", count_there)
        monkeypatch.setattr(module, "processor_kind", lambda: processor)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        return Machines.of(ScoreSettings(out="out", **settings), is_neural=is_neural)

    return make


CLUSTER = {"address": "head:6379"}
# GPUs here and in the cluster, settings; GPUs of a worker, device of a worker, idle GPUs
SHARES = [
    pytest.param(0, 0, {}, 0, "auto", 0, id="none"),
    pytest.param(1, 0, {}, 0, "auto", 0, id="this-process"),
    pytest.param(4, 0, {}, 0, "auto", 3, id="this-process-uses-one"),
    pytest.param(4, 0, {"device": "cpu"}, 0, "cpu", 0, id="asked-for-cores"),
    pytest.param(0, 0, {"workers": 4}, 0, "cpu", 0, id="workers-without"),
    pytest.param(4, 0, {"workers": "auto"}, 1, "cuda", 0, id="a-worker-for-each"),
    pytest.param(4, 0, {"workers": 4}, 1, "cuda", 0, id="as-many-workers"),
    pytest.param(4, 0, {"workers": 3}, 1, "cuda", 1, id="fewer-workers"),
    pytest.param(2, 0, {"workers": 3}, 0.5, "cuda", 0, id="three-share-two"),
    pytest.param(1, 0, {"workers": 4}, 0.25, "cuda", 0, id="four-share-one"),
    pytest.param(4, 0, {"workers": 2, "gpus_per_worker": 2}, 2, "cuda", 0, id="two-each"),
    pytest.param(4, 0, {"workers": 2, "gpus_per_worker": 0}, 0, "cpu", 4, id="asked-for-none"),
    pytest.param(4, 0, {"gpus_per_worker": 0.5}, 0.5, "cuda", 0, id="half-each"),
    pytest.param(0, 8, CLUSTER, 1, "cuda", 0, id="cluster"),
    pytest.param(0, 8, {**CLUSTER, "workers": 2}, 1, "cuda", 6, id="two-in-a-cluster"),
    pytest.param(4, 0, CLUSTER, 0, "cpu", 0, id="cluster-without"),
]


@pytest.mark.parametrize(("here", "there", "settings", "gpus", "device", "n_idle"), SHARES)
def test_gpus_are_shared_out_and_idle_ones_named(
    machine, caplog, here, there, settings, gpus, device, n_idle
):
    found = machine(here, there, **settings)
    assert found.gpus_per_worker == gpus
    assert found.worker_device == device
    found.warn_of_idle_gpus()
    assert [record.getMessage().partition(" idle")[0] for record in caplog.records] == (
        [f"{n_idle} of {here + there} GPUs {'stays' if n_idle == 1 else 'stay'}"] if n_idle else []
    )


def test_warning_says_what_to_do(machine, caplog):
    machine(4).warn_of_idle_gpus()
    assert caplog.messages == [
        "3 of 4 GPUs stay idle; add `--workers auto`, which gives each a worker"
    ]
    caplog.clear()
    machine(2, workers=2, gpus_per_worker=0).warn_of_idle_gpus()
    assert caplog.messages == ["2 of 2 GPUs stay idle; leave out `--gpus-per-worker 0` to use them"]


def test_nobody_looks_for_gpus_without_a_neural_model(machine, monkeypatch):
    found = machine(4, 8, is_neural=False, **CLUSTER)
    assert (found.gpus_per_worker, found.n_gpus) == (0, 0)


def test_a_cluster_is_not_asked_if_the_share_is_given(machine, monkeypatch):
    found = machine(0, 8, **CLUSTER, gpus_per_worker=0.5)
    assert (found.gpus_per_worker, found.n_gpus) == (0.5, 0)


def test_gpu_that_workers_do_not_have_is_refused(machine):
    with pytest.raises(ValueError, match="`--device cuda` needs GPUs for the workers"):
        machine(0, workers=2, device="cuda")
    assert machine(2, workers=2, device="cuda").gpus_per_worker == 1


# GPUs, processor, settings, whether nobody chose the number format; what is said
NOTES = [
    pytest.param(0, "EPYC (avx2)", {}, True, "Found: 8 cores, no GPU", id="cores"),
    pytest.param(1, AMX, {}, True, "Found: 8 cores, 1 GPU", id="gpu"),
    pytest.param(0, AMX, {}, False, "Found: 8 cores", id="chosen"),
    pytest.param(
        *(0, AMX, {}, True),
        'Found: 8 cores, no GPU; this processor has AMX: `precision = "bf16"` in the '
        "`--config` file makes encoders about three times as fast",
        id="amx",
    ),
    pytest.param(
        *(2, AMX, {"device": "cpu"}, True),
        'Found: 8 cores; this processor has AMX: `precision = "bf16"` in the '
        "`--config` file makes encoders about three times as fast",
        id="amx-of-one-who-asked-for-cores",
    ),
    pytest.param(0, AMX, CLUSTER, True, "", id="cluster"),
]


@pytest.mark.parametrize(("n_gpus", "processor", "settings", "is_open", "expected"), NOTES)
def test_what_was_found_is_said(machine, n_gpus, processor, settings, is_open, expected):
    found = machine(n_gpus, processor=processor, **settings)
    assert found.found(may_use_bf16=is_open) == expected


def test_it_is_said_once_with_the_time_left_after_the_first_shards():
    now, stream = [0.0], io.StringIO()
    lines = Lines(stream, lambda: now[0])
    for n_done in (0, 100, 200):
        lines.show(Progress(stage="scoring", n_rows=1000, n_done=n_done, note="Found: 8 cores"))
        now[0] += 10
    lines.end()
    assert stream.getvalue().splitlines() == [
        "Found: 8 cores",
        "100 of 1,000 rows (10%), 10 rows/s, 1 min 30 s left",
        "200 of 1,000 rows (20%), 10 rows/s, 1 min 20 s left",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the files of Linux drivers")
@pytest.mark.parametrize("driver", [None, "nvidiactl", "kfd"])
def test_machine_without_a_driver_has_no_gpu(monkeypatch, driver):
    monkeypatch.setattr(module.os.path, "exists", lambda path: path == f"/dev/{driver}")
    assert module.may_have_gpu() == (driver is not None)
