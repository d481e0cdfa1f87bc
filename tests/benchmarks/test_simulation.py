"""The simulator of a run, against cases worked out by hand."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def simulation():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "simulation.py"
    spec = importlib.util.spec_from_file_location("simulation", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulation"] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["simulation"]


# shards (seconds of a core), machines, seconds worked out by hand
BY_HAND = [
    pytest.param([1, 1, 1, 1], {"n_workers": 1}, 4.0, id="one-worker"),
    pytest.param([1, 1, 1, 1], {"n_workers": 2}, 2.0, id="two-workers"),
    pytest.param([1, 1, 1], {"n_workers": 2}, 2.0, id="one-left-over"),
    pytest.param([1, 1, 1, 3], {"n_workers": 2}, 4.0, id="straggler-last"),
    pytest.param([3, 1, 1, 1], {"n_workers": 2}, 3.0, id="straggler-first"),
    pytest.param([2, 2], {"n_workers": 1, "cores_per_worker": 2}, 2.0, id="two-cores"),
    pytest.param(
        [1, 1],
        {"n_workers": 2, "driver_start_s": 3, "worker_start_s": 2, "end_s": 1},
        7.0,
        id="start-and-end",
    ),
    # The second worker waits until the first has been served.
    pytest.param([1, 1], {"n_workers": 2, "hand_out_s": 0.5}, 2.0, id="hand-out"),
    # Ten workers could do ten a second, but the driver hands out two.
    pytest.param([1] * 20, {"n_workers": 10, "hand_out_s": 0.5}, 11.0, id="driver-saturates"),
    # 10 bytes at 10 bytes/s before, 5 after, for one at a time: r 0-1, work 1-2, w 2-2.5.
    pytest.param([1], {"n_workers": 1, "storage_bytes_per_s": 10}, 2.5, id="storage"),
    # The second reads from 1 to 2; the first writes from 2 to 2.5, the second from 3 to 3.5.
    pytest.param([1, 1], {"n_workers": 2, "storage_bytes_per_s": 10}, 3.5, id="storage-shared"),
    pytest.param(
        [1, 1],
        {"n_workers": 2, "storage_bytes_per_s": 20, "stream_bytes_per_s": 10},
        2.5,
        id="two-streams",
    ),
    pytest.param([1], {"n_workers": 1, "request_s": 0.25}, 1.5, id="requests"),
    # Reading takes 1 s, beside which 3 s of work begin; then half a second of writing.
    pytest.param(
        [3],
        {"n_workers": 1, "storage_bytes_per_s": 10, "reads_ahead": True},
        3.5,
        id="reads-ahead",
    ),
    # Reading takes longer than the work beside it.
    pytest.param(
        [0.25],
        {"n_workers": 1, "storage_bytes_per_s": 10, "reads_ahead": True},
        1.5,
        id="waits-for-reading",
    ),
]


@pytest.mark.parametrize(("cpu_seconds", "machines", "seconds"), BY_HAND)
def test_seconds_by_hand(simulation, cpu_seconds, machines, seconds):
    shards = [
        simulation.ShardWork(n_rows=10, cpu_s=s, read_bytes=10, write_bytes=5) for s in cpu_seconds
    ]
    found = simulation.simulate(shards, simulation.Machines(**machines))
    assert found.seconds == pytest.approx(seconds)
    assert found.n_rows == 10 * len(shards)


@pytest.mark.parametrize(("overlaps", "seconds"), [(False, 5.0), (True, 3.0)])
def test_cores_and_accelerator_overlap_or_do_not(simulation, overlaps, seconds):
    shard = simulation.ShardWork(n_rows=1, cpu_s=2.0, accelerator_s=3.0)
    found = simulation.simulate([shard], simulation.Machines(n_workers=1, overlaps=overlaps))
    assert found.seconds == seconds


# text processes, cores, whether stages overlap, seconds by hand of 4 s of text, 2 s of other work
# of cores and 3 s of a GPU
TEXT = [
    pytest.param(1, 1, False, 9.0, id="one-by-one"),
    pytest.param(1, 4, False, 7.5, id="text-is-one-thread"),  # 4 + 2 / 4 + 3
    pytest.param(1, 4, True, 4.0, id="more-cores-do-not-help-text"),
    pytest.param(2, 4, True, 3.0, id="two-text-processes"),
    pytest.param(2, 1, True, 6.0, id="no-more-processes-than-cores"),
    pytest.param(4, 1.5, True, 4.0, id="cores-do-all-the-work"),
]


@pytest.mark.parametrize(("processes", "cores", "overlaps", "seconds"), TEXT)
def test_text_is_one_thread_of_each_text_process(simulation, processes, cores, overlaps, seconds):
    shard = simulation.ShardWork(n_rows=1, cpu_s=2.0, text_s=4.0, accelerator_s=3.0)
    machines = simulation.Machines(
        n_workers=1, cores_per_worker=cores, text_processes=processes, overlaps=overlaps
    )
    assert simulation.simulate([shard], machines).seconds == pytest.approx(seconds)


# what is slow, the name of the bottleneck
BOTTLENECKS = [
    pytest.param({"hand_out_s": 0.5}, {"cpu_s": 1.0}, "driver", id="driver"),
    pytest.param({"storage_bytes_per_s": 1}, {"cpu_s": 1.0}, "storage", id="storage"),
    pytest.param({"overlaps": True}, {"cpu_s": 2.0, "accelerator_s": 1.0}, "cpu", id="cpu"),
    pytest.param(
        {"overlaps": True}, {"cpu_s": 1.0, "accelerator_s": 2.0}, "accelerator", id="accelerator"
    ),
    pytest.param(
        {"overlaps": True, "cores_per_worker": 8}, {"text_s": 2.0, "cpu_s": 8.0}, "text", id="text"
    ),
    pytest.param({"worker_start_s": 1e3}, {"cpu_s": 1.0}, "start-up", id="start-up"),
]


@pytest.mark.parametrize(("machines", "work", "name"), BOTTLENECKS)
def test_bottleneck_is_what_is_busiest(simulation, machines, work, name):
    shards = [simulation.ShardWork(n_rows=1, read_bytes=1, write_bytes=1, **work)] * 40
    found = simulation.simulate(shards, simulation.Machines(n_workers=4, **machines))
    assert found.bottleneck == name


def test_longest_first_leaves_no_straggler(simulation):
    """A twentieth of the shards is ten times the work; last in line they double the time."""
    usual, long = (simulation.ShardWork(n_rows=1, cpu_s=s) for s in (1.0, 10.0))
    machines = simulation.Machines(n_workers=10)
    as_planned = simulation.simulate([*[usual] * 95, *[long] * 5], machines)
    longest_first = simulation.simulate([*[long] * 5, *[usual] * 95], machines)
    assert longest_first.seconds == pytest.approx(15.0)  # 145 s of work on 10 workers
    assert as_planned.seconds == pytest.approx(19.0)
