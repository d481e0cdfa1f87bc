"""Does a row cost the same, and need no more memory, among 10 thousand, 100 thousand and a million?

Static vectors, the whole `assay score` from start to exit, in one process (`--local`) and with one
worker in a process of its own, both with all cores, taking turns. "Without start-up" is the time
that a size takes longer than the smallest. Memory is the peak by the kernel of the process that
was started, and of the worker. What has been measured is kept in `--folder`: the same command goes
on where it was stopped.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from command import assay_score
from corpora import CorpusSize, Words, vector_file, words_of, write_corpus
from timing import begin, finish, say
from workers import MIB, MemoryWatch

METRICS = "wms,sms,s+wms"
N_SYSTEMS = 16
ROWS_PER_FILE = 96_000
SIZES = (9_600, 96_000, 960_000)


def corpus(folder: Path, n_rows: int, words: Words, seed: int) -> Path:
    """Make a corpus of several files, unless it is there; every text is another one."""
    made = folder / f"corpus-{n_rows}"
    if made.is_dir():
        return made
    partial = folder / f"corpus-{n_rows}.partial"
    partial.mkdir(exist_ok=True)
    for number, first in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        n = min(ROWS_PER_FILE, n_rows - first)
        size = CorpusSize(n_systems=N_SYSTEMS, n_documents=n // N_SYSTEMS, n_words=55)
        rng = np.random.default_rng([seed, number])
        write_corpus(partial / f"{number:04}.parquet", words, size, rng)
    partial.rename(made)
    return made


def measure(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, object]]:
    """Take every measurement that is not in the folder yet; return all."""
    kept = folder / "measured.jsonl"
    lines = kept.read_text().splitlines() if kept.is_file() else []
    found = {(one["round"], one["rows"], one["how"]): one for one in map(json.loads, lines)}
    vectors = vector_file(options.vectors, folder, np.random.default_rng(options.seed)).resolve()
    words = words_of(vectors)
    one_worker = ["--workers", "auto", "--cpus-per-worker", str(len(os.sched_getaffinity(0)))]
    ways = {"local": ["--local"], "worker": one_worker}
    for turn in range(options.rounds):
        for n_rows in options.rows:
            for how in sorted(ways, reverse=turn % 2 == 1):
                key = (turn, n_rows, how)
                if key not in found:
                    watch = MemoryWatch()
                    with tempfile.TemporaryDirectory(dir=folder) as out:
                        run = assay_score(
                            corpus(folder, n_rows, words, options.seed),
                            Path(out, "scores"),
                            ["--metrics", METRICS, "--encoder", f"glove:{vectors}", *ways[how]],
                            watch=watch,
                        )
                    assert run.result["n_rows"] == n_rows
                    assert run.result["n_with_status"] == 0
                    found[key] = {
                        "round": turn,
                        "rows": n_rows,
                        "how": how,
                        "seconds": run.seconds,
                        "shard_seconds": run.shard_seconds(),
                        "peak_mib": {role: peak / MIB for role, peak in watch.peaks.items()},
                    }
                    with kept.open("a") as file:
                        file.write(f"{json.dumps(found[key])}\n")
                yield found[key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vectors", type=Path, help="GloVe text file")
    parser.add_argument("--folder", type=Path, help="keeps corpora and what has been measured")
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "numpy", "pyarrow")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rounds: dict[tuple[int, str], list[dict]] = {}
        for one in measure(options, folder):
            rounds.setdefault((one["rows"], one["how"]), []).append(one)
    print_table(options.rows, rounds)
    summary = compare(options.rows, rounds)
    measured = [one for listed in rounds.values() for one in listed]
    finish(options, facts, {**summary, "measured": measured})


def print_table(sizes: list[int], rounds: dict[tuple[int, str], list[dict]]) -> None:
    say("medians; seconds from start to exit, rows/s in all and without start-up, peak MiB")
    say(f"{'rows':>10} {'how':<6}{'s':>9}{'rows/s':>9}{'without':>9}{'command':>9}{'worker':>8}")
    for n_rows in sizes:
        for how in ("local", "worker"):
            listed = rounds[n_rows, how]
            seconds = statistics.median(one["seconds"] for one in listed)
            without = statistics.median(marginal(sizes[0], n_rows, how, rounds))
            peaks = [
                statistics.median(one["peak_mib"][role] for one in listed)
                for role in ("command", "worker")
            ]
            say(
                f"{n_rows:>10,} {how:<6}{seconds:>9.2f}{n_rows / seconds:>9,.0f}"
                f"{1 / without if without else 0:>9,.0f}"
                f"{peaks[0]:>9.0f}{peaks[1]:>8.0f}"
            )


def marginal(
    least: int, n_rows: int, how: str, rounds: dict[tuple[int, str], list[dict]]
) -> list[float]:
    """Seconds per row beyond the smallest size, by round; 0 for the smallest itself."""
    if n_rows == least:
        return [0.0]
    return [
        (large["seconds"] - small["seconds"]) / (n_rows - least)
        for small, large in zip(rounds[least, how], rounds[n_rows, how], strict=True)
    ]


def compare(sizes: list[int], rounds: dict[tuple[int, str], list[dict]]) -> dict[str, object]:
    """Print and return what is asked for."""
    least, most = sizes[0], sizes[-1]
    middle = sizes[-2] if len(sizes) > 1 else most
    summary: dict[str, object] = {}
    for how in ("local", "worker"):
        if middle not in (least, most):
            inside = [statistics.median(marginal(least, n, how, rounds)) for n in (middle, most)]
            summary[f"{how}_speed_change"] = inside[0] / inside[1] - 1
            say(
                f"{how}: rows/s without start-up change by {summary[f'{how}_speed_change']:+.1%} "
                f"from {middle:,} to {most:,} rows"
            )
        for role in ("command", "worker"):
            small, large = (
                statistics.median(one["peak_mib"][role] for one in rounds[n, how])
                for n in (middle, most)
            )
            if small:
                summary[f"{how}_{role}_growth"] = large / small - 1
                say(f"{how}: {role} memory {large / small - 1:+.1%}")
    for name, pairs in (
        (
            "with start-up",
            [
                apart["seconds"] / local["seconds"]
                for local, apart in zip(rounds[most, "local"], rounds[most, "worker"], strict=True)
            ],
        ),
        (
            "without start-up",
            [
                apart / local if local else float("nan")
                for local, apart in zip(
                    marginal(least, most, "local", rounds),
                    marginal(least, most, "worker", rounds),
                    strict=True,
                )
            ],
        ),
        (
            "inside shards",
            [
                apart["shard_seconds"] / local["shard_seconds"]
                for local, apart in zip(rounds[most, "local"], rounds[most, "worker"], strict=True)
            ],
        ),
    ):
        overhead = statistics.median(pairs) - 1
        summary[f"worker_overhead_{name.replace(' ', '_')}"] = overhead
        say(
            f"A worker takes {overhead:+.1%} of the time of --local for {most:,} rows, {name} "
            f"({min(pairs) - 1:+.1%} to {max(pairs) - 1:+.1%})"
        )
    return summary


if __name__ == "__main__":
    main()
