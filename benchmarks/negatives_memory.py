"""Does the memory of `assay negatives` grow with the corpus?

Made-up pairs, each with a name of its own, so that the vocabulary grows with the corpus as that of
real text does. The command runs in a process of its own; memory is what the kernel counts for it.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from command import QUIET
from timing import begin, finish, say

SIZES = (50_000, 200_000, 800_000)
N_WORDS = 20_000
N_SENTENCES = 50_000
SOURCE_SENTENCES = 5
REFERENCE_SENTENCES = 2
ROWS_AT_ONCE = 10_000
MIB = 1 << 20
"""Growth between the two largest sizes that counts as bounded."""


def made_up_sentences(rng: np.random.Generator) -> np.ndarray:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(word) for word in rng.choice(letters, (N_WORDS, 6))], dtype=object)
    ranks = np.minimum(rng.zipf(1.3, (N_SENTENCES, 12)), N_WORDS) - 1
    return np.array([" ".join(words[row]) for row in ranks], dtype=object)


def write_pairs(path: Path, n_pairs: int, sentences: np.ndarray, rng: np.random.Generator) -> None:
    tables = []
    for start in range(0, n_pairs, ROWS_AT_ONCE):
        numbers = range(start, min(start + ROWS_AT_ONCE, n_pairs))
        texts = [
            [
                "".join(f"Name{number} {sentence}. " for sentence in sentences[chosen]).strip()
                for number, chosen in zip(
                    numbers, rng.integers(0, N_SENTENCES, (len(numbers), n)), strict=True
                )
            ]
            for n in (SOURCE_SENTENCES, REFERENCE_SENTENCES)
        ]
        ids = [f"document-{number}" for number in numbers]
        tables.append(pa.table([ids, *texts], names=["document_id", "source", "reference"]))
    # One row group, as most writers make: reading must not take it all at once.
    pq.write_table(pa.concat_tables(tables), path, row_group_size=n_pairs)


@dataclass(frozen=True, slots=True)
class Used:
    """What a run took."""

    peak: int
    """Largest resident memory, bytes; with the pages of mapped files."""
    own: int
    """Largest part of it that is no page of a file, as seen twenty times a second."""
    seconds: float


def run(pairs: Path, out: Path, options: list[str]) -> Used:
    command = [
        sys.executable,
        "-m",
        "pipelines.cli.app",
        "negatives",
        str(pairs),
        "--out",
        str(out),
    ]
    largest = [0]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--quiet", *options], env={**os.environ, **QUIET}, stdout=subprocess.DEVNULL
    )
    watch = threading.Thread(target=_watch, args=(process.pid, largest), daemon=True)
    watch.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"`assay negatives` ended with {process.returncode}")
    return Used(usage.ru_maxrss * 1024, largest[0], time.perf_counter() - started)


def _watch(process: int, largest: list[int]) -> None:
    while True:
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("RssAnon:"):
                largest[0] = max(largest[0], int(line.split()[1]) * 1024)
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--kinds", default="cross-pair,add,delete,replace")
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "pyarrow")
    rng = np.random.default_rng(options.seed)
    sentences = made_up_sentences(rng)
    say("pairs, peak MiB, of it no file's pages, pairs per second")
    used = {}
    with tempfile.TemporaryDirectory() as temporary:
        for n_pairs in sorted(options.pairs):
            pairs, out = Path(temporary) / "pairs.parquet", Path(temporary) / "out.parquet"
            write_pairs(pairs, n_pairs, sentences, rng)
            used[n_pairs] = run(pairs, out, ["--kinds", options.kinds])
            if pq.ParquetFile(out).metadata.num_rows < n_pairs:
                raise RuntimeError(f"fewer rows than the {n_pairs:,} pairs")
            found = used[n_pairs]
            rate = n_pairs / found.seconds
            say(f"{n_pairs:>9,}{found.peak / MIB:>9.0f}{found.own / MIB:>9.0f}{rate:>9,.0f}")
            out.unlink()
    small, large = sorted(used)[-2:] if len(used) > 1 else (0, 0)
    if large:
        growth = (used[large].peak - used[small].peak) / (large - small)
        say(f"from {small:,} to {large:,} pairs {growth:.1f} bytes per pair")
    figures = {
        "peak_mib": {str(n): round(found.peak / MIB) for n, found in used.items()},
        "own_mib": {str(n): round(found.own / MIB) for n, found in used.items()},
    }
    finish(options, facts, figures)


if __name__ == "__main__":
    main()
