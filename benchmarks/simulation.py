"""Not a benchmark: a discrete-event simulator of a run, which `simulate.py` feeds with figures.

A driver hands out shards one at a time; a worker reads a shard from storage, works on it, writes
its scores and asks for the next. Storage has so much bandwidth for all together. What a stage of
a worker takes is measured; the simulation adds the waiting.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWork:
    """What one shard needs."""

    n_rows: int
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    accelerator_s: float = 0.0
    """Seconds of the worker's GPU."""
    cpu_s: float = 0.0
    """Seconds of one core, of work that all of a worker's cores share."""
    text_s: float = 0.0
    """Seconds of one core in handling text, which is one thread's work in each worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Where it runs."""

    n_workers: int
    cores_per_worker: float = 1.0
    """Cores a worker really has: fewer than it was given where a machine has not enough."""
    workers_per_gpu: int = 1
    """Workers that share a GPU."""
    overlaps: bool = False
    """Whether a worker compares one batch while it cuts and encodes the next."""
    reads_ahead: bool = False
    """Whether a worker reads what comes next of a shard while it works on what it has."""
    driver_start_s: float = 0.0
    """Planning, loading, connecting: before any worker is asked for."""
    worker_start_s: float = 0.0
    """All start at the same time."""
    hand_out_s: float = 0.0
    """Of the driver, for each shard; nothing else is handed out meanwhile."""
    end_s: float = 0.0
    """Of the driver, after the last shard."""
    storage_bytes_per_s: float = float("inf")
    """Of all workers together."""
    stream_bytes_per_s: float = float("inf")
    """Of one worker."""
    request_s: float = 0.0
    """Until a read or a write begins to flow."""


@dataclass(slots=True)
class Outcome:
    """What came of a simulation."""

    seconds: float
    n_rows: int
    n_workers: int
    busy: dict[str, float] = field(default_factory=dict)
    """Share of the time between the first shard and the last that each resource was busy:
    `driver`, `storage`, and the workers' `accelerator`, `cpu`, `text` and `waiting`."""
    start_share: float = 0.0
    """Share of all the time before the first shard and after the last."""

    @property
    def rows_per_s(self) -> float:
        """From start to exit."""
        return self.n_rows / self.seconds

    @property
    def bottleneck(self) -> str:
        """What was busiest; `start-up` if most of the time went into that."""
        if self.start_share > 0.5:
            return "start-up"
        candidates = {name: share for name, share in self.busy.items() if name != "waiting"}
        return max(candidates, key=lambda name: candidates[name])


def simulate(shards: Sequence[ShardWork], machines: Machines) -> Outcome:
    """Run the shards in their order.

    Parameters
    ----------
    shards : sequence of ShardWork
        In the order in which they are handed out.
    machines : Machines

    Returns
    -------
    Outcome
    """
    begin = machines.driver_start_s + machines.worker_start_s
    # Storage serves so many at full speed; the others wait.
    rate = min(machines.stream_bytes_per_s, machines.storage_bytes_per_s)
    is_limited = rate < float("inf")
    most = machines.storage_bytes_per_s // rate if is_limited else float("inf")
    n_streams = int(min(most, machines.n_workers))
    streams = _Servers(n_streams)
    driver = _Servers(1)
    work = dict.fromkeys(("driver", "storage", "accelerator", "cpu", "text", "busy"), 0.0)
    # When, number, what happens then (a worker asks, reads, works or writes), since when it waits.
    events: list[tuple[float, int, str, ShardWork | None, float]] = []
    for number in range(machines.n_workers):
        heapq.heappush(events, (begin, number, "ask", None, begin))
    waiting, number, end = iter(shards), machines.n_workers, begin
    while events:
        now, _, step, shard, since = heapq.heappop(events)
        end = max(end, now)
        if step == "ask":
            shard = next(waiting, None)
            if shard is None:
                continue
            after, next_step = driver.use(now, machines.hand_out_s), "read"
            work["driver"] += machines.hand_out_s
        elif step in ("read", "write") and shard is not None:
            n_bytes = shard.read_bytes if step == "read" else shard.write_bytes
            flow = n_bytes / rate if is_limited else 0.0
            after = streams.use(now, flow) + machines.request_s
            next_step = "work" if step == "read" else "ask"
            work["storage"] += flow
        elif shard is not None:
            text_s = shard.text_s / min(1, machines.cores_per_worker)
            cpu_s = (shard.cpu_s + shard.text_s) / machines.cores_per_worker
            # a batch is cut, then encoded, unless the others have the GPU for longer
            encoded_s = max(
                text_s + shard.accelerator_s, shard.accelerator_s * machines.workers_per_gpu
            )
            one_by_one = encoded_s + shard.cpu_s / machines.cores_per_worker
            busy_s = max(encoded_s, cpu_s) if machines.overlaps else one_by_one
            after = max(now, since + busy_s) if machines.reads_ahead else now + busy_s
            next_step = "write"
            work["accelerator"] += shard.accelerator_s
            work["cpu"] += cpu_s
            work["text"] += text_s
            work["busy"] += busy_s
        number += 1
        heapq.heappush(events, (after, number, next_step, shard, now))
    return _outcome(shards, machines, work, begin, end, n_streams)


class _Servers:
    """Several that serve whoever comes first, each one at a time."""

    def __init__(self, n: int) -> None:
        self._free_at = [0.0] * n

    def use(self, now: float, seconds: float) -> float:
        """Wait for one, use it, and return when that is over."""
        end = max(now, self._free_at[0]) + seconds
        heapq.heapreplace(self._free_at, end)
        return end


def _outcome(
    shards: Sequence[ShardWork],
    machines: Machines,
    work: dict[str, float],
    begin: float,
    end: float,
    n_streams: int,
) -> Outcome:
    span = max(end - begin, 1e-12)
    busy = {
        "driver": work["driver"] / span,
        "storage": work["storage"] / span / n_streams,
        "accelerator": work["accelerator"] / span / machines.n_workers * machines.workers_per_gpu,
        "cpu": work["cpu"] / span / machines.n_workers,
        "text": work["text"] / span / machines.n_workers,
    }
    busy["waiting"] = 1 - work["busy"] / span / machines.n_workers
    seconds = end + machines.end_s
    return Outcome(
        seconds=seconds,
        n_rows=sum(shard.n_rows for shard in shards),
        n_workers=machines.n_workers,
        busy=busy,
        start_share=1 - span / seconds if seconds else 0.0,
    )
