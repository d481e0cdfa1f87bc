"""The simulator of a run, against cases worked out by hand."""

import runpy
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "simulation.py"
NAMES = runpy.run_path(str(PATH), run_name="simulation")
Machines, ShardWork, simulate = (NAMES[name] for name in ("Machines", "ShardWork", "simulate"))

# seconds of a core for each shard of ten rows, machines, seconds worked out by hand
BY_HAND = [
    ([1, 1, 1], {"n_workers": 2}, 2.0),
    ([1, 1, 1, 3], {"n_workers": 2}, 4.0),  # the straggler is last
    ([2, 2], {"n_workers": 1, "cores_per_worker": 2}, 2.0),
    ([1, 1], {"n_workers": 2, "driver_start_s": 3, "worker_start_s": 2, "end_s": 1}, 7.0),
    # The second worker waits until the first has been served.
    ([1, 1], {"n_workers": 2, "hand_out_s": 0.5}, 2.0),
    # 10 bytes at 10 bytes/s before, 5 after. The second reads from 1 to 2; the first writes from 2
    # to 2.5, the second from 3 to 3.5.
    ([1, 1], {"n_workers": 2, "storage_bytes_per_s": 10}, 3.5),
    ([1, 1], {"n_workers": 2, "storage_bytes_per_s": 20, "stream_bytes_per_s": 10}, 2.5),
    ([1], {"n_workers": 1, "request_s": 0.25}, 1.5),
    # Reading takes 1 s, beside which 3 s of work begin; then half a second of writing.
    ([3], {"n_workers": 1, "storage_bytes_per_s": 10, "reads_ahead": True}, 3.5),
]


@pytest.mark.parametrize(("cpu_seconds", "machines", "seconds"), BY_HAND)
def test_seconds_by_hand(cpu_seconds, machines, seconds):
    shards = [ShardWork(n_rows=10, cpu_s=s, read_bytes=10, write_bytes=5) for s in cpu_seconds]
    found = simulate(shards, Machines(**machines))
    assert found.seconds == pytest.approx(seconds)
    assert found.n_rows == 10 * len(shards)


@pytest.mark.parametrize(
    ("machines", "work", "name"),
    [
        ({"hand_out_s": 0.5}, {"cpu_s": 1.0}, "driver"),
        ({"storage_bytes_per_s": 1}, {"cpu_s": 1.0}, "storage"),
        ({"overlaps": True}, {"cpu_s": 2.0, "accelerator_s": 1.0}, "cpu"),
        ({"overlaps": True}, {"cpu_s": 1.0, "accelerator_s": 2.0}, "accelerator"),
        ({"overlaps": True, "cores_per_worker": 8}, {"text_s": 2.0, "cpu_s": 8.0}, "text"),
        ({"worker_start_s": 1e3}, {"cpu_s": 1.0}, "start-up"),
    ],
)
def test_bottleneck_is_what_is_busiest(machines, work, name):
    shards = [ShardWork(n_rows=1, read_bytes=1, write_bytes=1, **work)] * 40
    assert simulate(shards, Machines(n_workers=4, **machines)).bottleneck == name


@pytest.mark.parametrize(("workers_per_gpu", "seconds"), [(1, 3), (2, 4), (4, 8)])
def test_workers_that_share_a_gpu_wait_for_it_by_hand(workers_per_gpu, seconds):
    """Text takes each worker 1 s, and the GPU 2 s for each of them."""
    machines = Machines(n_workers=workers_per_gpu, workers_per_gpu=workers_per_gpu, overlaps=True)
    shards = [ShardWork(n_rows=1, text_s=1.0, accelerator_s=2.0)] * workers_per_gpu
    found = simulate(shards, machines)
    assert found.seconds == pytest.approx(seconds)
    assert found.busy["accelerator"] == pytest.approx(2 * workers_per_gpu / seconds)
