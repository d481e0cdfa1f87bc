"""Where do 1, 8, 64 and 512 GPUs saturate, and does the simulator know two on this machine?

The driver's share is measured with shards that need nothing. Then `assay score` runs with one
thread (static vectors), its `run.json` lets the simulator say how long two workers of this machine
would take, whose start is measured with a few rows, and two run. Last, a run of a neural encoder
(`--run`, any folder of `assay score`) says what a row needs, and the simulator what becomes of a
billion. What cannot be measured here are options: a GPU's tokens per second, and what storage and
starting take.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command import Finished, assay_score
from corpora import ROOT, CorpusSize, vector_file, words_of, write_corpus
from simulation import Machines, Outcome, ShardWork, simulate
from timing import finish, in_one_line, machine, say

METRICS = "wms,sms,s+wms"
N_SYSTEMS = 16
GPUS = (1, 8, 64, 512)
SLOW_AFTER_S = 1e6
MIB = 1 << 20


def predict(one: Finished, n_workers: int, hand_out_s: float, start_s: float) -> float:
    """Say how long `n_workers` would take for what one process did.

    A worker's stages overlap, so that one keeps more than a core busy; where there are fewer cores
    for each, a shard takes as long as they need for the same work.
    """
    cores = len(os.sched_getaffinity(0)) / n_workers
    planned = json.loads((one.out / "run.json").read_text())["shards"]
    shards = [
        ShardWork(n_rows=shard["n_rows"], cpu_s=max(s["seconds"], s["cpu_seconds"] / cores))
        for shard, s in zip(planned, one.result["shards"], strict=True)
    ]
    # What is not inside shards is done before or after them, however many workers there are.
    outside = one.seconds - one.shard_seconds()
    machines = Machines(
        n_workers=n_workers,
        driver_start_s=outside + start_s,
        hand_out_s=hand_out_s,
    )
    return simulate(shards, machines).seconds


def one_and_two(options: argparse.Namespace, hand_out_s: float) -> dict[str, Any]:
    """Run one and two workers in turns, and hold the second against what the first predicts."""
    rng = np.random.default_rng(options.seed)
    predicted, measured = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        vectors = vector_file(options.vectors, folder, rng).resolve()
        corpus = folder / "corpus.parquet"
        size = CorpusSize(n_systems=N_SYSTEMS, n_documents=options.rows // N_SYSTEMS, n_words=55)
        write_corpus(corpus, words_of(vectors), size, rng)
        command = ["--metrics", METRICS, "--encoder", f"glove:{vectors}", "--workers"]
        few = ["--limit", str(N_SYSTEMS)]
        for turn in range(options.rounds):
            runs, starts = {}, {}
            for n_workers in (1, 2) if turn % 2 == 0 else (2, 1):
                out = folder / f"{turn}-{n_workers}"
                asked = [*command, str(n_workers)]
                starts[n_workers] = assay_score(corpus, out.with_suffix(".few"), [*asked, *few])
                runs[n_workers] = assay_score(corpus, out, asked)
            start_s = starts[2].seconds - starts[1].seconds
            predicted.append(runs[1].seconds / predict(runs[1], 2, hand_out_s, start_s))
            measured.append(runs[1].seconds / runs[2].seconds)
    return {"predicted": predicted, "measured": measured}


def hand_out_seconds(n_shards: int, n_workers: int) -> tuple[float, float]:
    """Measure what the driver needs for a shard: seconds of its core, and of the clock."""
    sys.path.insert(0, str(ROOT))
    from cluster import Job, Piece, Shard, ShardReport
    from cluster.children import import_path
    from cluster.driver import Driver
    from cluster.facts import Facts
    from cluster.history import History
    from cluster.ray_options import Needs
    from cluster.ray_pool import Actor, RayPool, ray
    from cluster.schedule import SLOW_AFTER_S, Schedule
    from cluster.serving import Ready, Setup

    os.environ["PYTHONPATH"] = import_path()
    ray.init(
        address="local",
        num_cpus=n_workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )

    class Idle(Actor):
        """A worker with nothing to do."""

        def make_ready(self) -> Ready:
            return Ready(facts=Facts(node="node"))

        def score(self, shard: Shard) -> ShardReport:
            stages = dict.fromkeys(("read", "prepare", "compare", "write"), 0.1)
            return ShardReport(
                index=shard.index,
                n_rows=shard.n_rows,
                stage_seconds=stages,
                counters={"minilm.tokens": 1, "minilm.cached": 2},
            )

    class IdlePool(RayPool):
        actor_class = Idle

    shards = [
        Shard(
            index=i,
            pieces=(Piece(path="a.parquet", first_row=i, n_rows=1, row_groups=(0, 1)),),
        )
        for i in range(n_shards)
    ]
    history = History()

    try:
        needs = Needs(cpus=1, gpus=0.0)
        setup = Setup(make_scorer=lambda _: None)  # never called
        driver = Driver(IdlePool(setup, needs, n_workers))
        driver.start(n_workers)
        driver.wait_for(n_workers)
        started, cpu_started = time.perf_counter(), time.process_time()
        job = Job(out="", fingerprint="0")
        driver.run(Schedule(shards, 1, SLOW_AFTER_S), job, history.add)
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu_started
    finally:
        ray.shutdown()
    assert history.n_done == n_shards
    return cpu_seconds / n_shards, seconds / n_shards


def per_row(run: Path) -> dict[str, float]:
    """Read out of a run what one of its rows needed."""
    values = json.loads((run / "run.json").read_text())
    shards = [shard for shard in values["result"]["shards"] if shard.get("error") is None]
    n_rows = values["result"]["n_rows"]
    stages: dict[str, float] = {}
    for shard in shards:
        for stage, seconds in shard["stage_seconds"].items():
            stages[f"{stage}_s"] = stages.get(f"{stage}_s", 0.0) + seconds / n_rows
    tokens = sum(n for s in shards for name, n in s["counters"].items() if name.endswith(".tokens"))
    return {
        **stages,
        "tokens": tokens / n_rows,
        # Uncompressed, so rather too many.
        "read_bytes": sum(p["text_bytes"] for s in values["shards"] for p in s["pieces"]) / n_rows,
        "write_bytes": sum(path.stat().st_size for path in run.glob("scores/*")) / n_rows,
    }


def on_gpus(
    row: Mapping[str, float], options: argparse.Namespace, rows_per_shard: int, hand_out_s: float
) -> list[Outcome]:
    """Simulate GPUs, each with so many cores and workers that share it, on the whole corpus."""
    shares, cores = options.workers_per_gpu, options.cores / options.workers_per_gpu
    cpu_s = row["read_s"] + row["compare_s"] + row["write_s"]
    shard = ShardWork(
        n_rows=rows_per_shard,
        read_bytes=rows_per_shard * row["read_bytes"],
        write_bytes=rows_per_shard * row["write_bytes"],
        accelerator_s=rows_per_shard * row["tokens"] / options.tokens_per_s,
        cpu_s=rows_per_shard * cpu_s,
        text_s=rows_per_shard * row["tokens"] * options.text_s,
    )
    shards: Sequence[ShardWork] = [shard] * max(1, options.corpus_rows // rows_per_shard)
    return [
        simulate(
            shards,
            Machines(
                n_workers=n_gpus * shares,
                cores_per_worker=cores,
                workers_per_gpu=shares,
                overlaps=True,
                reads_ahead=True,
                driver_start_s=options.driver_start_s,
                worker_start_s=options.worker_start_s,
                hand_out_s=hand_out_s,
                storage_bytes_per_s=options.storage_mib_per_s * MIB,
                stream_bytes_per_s=options.stream_mib_per_s * MIB,
                request_s=options.request_s,
            ),
        )
        for n_gpus in GPUS
    ]


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    say(
        f"{'GPUs':>6}{'s':>10}{'rows/s':>12}{'of ideal':>10}{'driver':>8}{'storage':>8}{'GPU':>6}"
        f"{'cores':>7}{'text':>6}  bottleneck"
    )
    alone = outcomes[0].rows_per_s
    for n_gpus, found in zip(GPUS, outcomes, strict=True):
        busy = found.busy
        say(
            f"{n_gpus:>6}{found.seconds:>10,.0f}{found.rows_per_s:>12,.0f}"
            f"{found.rows_per_s / alone / n_gpus:>10.0%}{busy['driver']:>8.0%}"
            f"{busy['storage']:>8.0%}{busy['accelerator']:>6.0%}{busy['cpu']:>7.0%}"
            f"{busy['text']:>6.0%}"
            f"  {found.bottleneck}"
        )


def main() -> None:
    options = _options()
    facts = machine("ray", "pyarrow")
    say(in_one_line(facts))
    cpu_s, wall_s = hand_out_seconds(options.shards, options.idle_workers)
    say(
        f"handing out a shard takes the driver {cpu_s * 1e3:.2f} ms of its core; with "
        f"{options.idle_workers} idle workers on this machine {1 / wall_s:,.0f} shards/s"
    )
    result: dict[str, Any] = {"hand_out_s": cpu_s, "shards_per_s": 1 / wall_s}
    if options.rounds:
        found = one_and_two(options, cpu_s)
        predicted, measured = (statistics.median(found[name]) for name in found)
        error = predicted / measured - 1
        say(
            f"{options.rows:,} rows, two workers: {predicted:.2f} times as fast as one predicted, "
            f"{measured:.2f} measured ({min(found['measured']):.2f}–{max(found['measured']):.2f}); "
            f"{error:+.0%}"
        )
        result |= {**found, "error": error}
    if options.run is not None:
        row = per_row(options.run) | dict(options.set)
        say(f"a row of {options.run}: {', '.join(f'{k} {v:.3g}' for k, v in row.items())}")
        for rows_per_shard in options.rows_per_shard:
            say(
                f"\n{options.corpus_rows:,} rows in shards of {rows_per_shard:,}, "
                f"{options.tokens_per_s:,.0f} tokens/s, {options.cores:g} cores and "
                f"{options.workers_per_gpu} workers for each GPU"
            )
            outcomes = on_gpus(row, options, rows_per_shard, cpu_s)
            print_outcomes(outcomes)
            result[f"rows_per_s_{rows_per_shard}"] = [found.rows_per_s for found in outcomes]
    finish(options, facts, result)


def _setting(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="of one and two workers; 0: none")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--vectors", type=Path, help="GloVe text file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=2_000, help="that need nothing")
    parser.add_argument("--idle-workers", type=int, default=4)
    parser.add_argument("--run", type=Path, help="folder of a run with a neural encoder")
    parser.add_argument(
        "--set", type=_setting, nargs="+", default=(), metavar="NAME=VALUE", help="in its place"
    )
    parser.add_argument("--corpus-rows", type=int, default=1_000_000_000)
    parser.add_argument("--rows-per-shard", type=int, nargs="+", default=(1_000, 100_000))
    parser.add_argument("--tokens-per-s", type=float, default=5e6, help="that a GPU encodes")
    parser.add_argument("--text-s", type=float, default=1.2e-6, help="of a core for a token")
    parser.add_argument("--cores", type=float, default=4.0, help="beside each GPU")
    parser.add_argument("--workers-per-gpu", type=int, default=1)
    parser.add_argument("--driver-start-s", type=float, default=15.0)
    parser.add_argument("--worker-start-s", type=float, default=30.0)
    parser.add_argument("--storage-mib-per-s", type=float, default=10_000.0)
    parser.add_argument("--stream-mib-per-s", type=float, default=80.0)
    parser.add_argument("--request-s", type=float, default=0.03)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
