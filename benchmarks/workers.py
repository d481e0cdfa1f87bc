"""What do two workers bring over one process, and does memory grow with the corpus?

Rows like SummEval's (texts of about 55 words in 3 sentences, 16 systems), static vectors or
MiniLM, the whole `assay score` from start to exit: in one process with one thread, in one process
with all cores, by default, and with two workers. Memory is that of the run's largest process, read
from the system every fifth of a second.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from command import Finished, assay_score
from corpora import CorpusSize, vector_file, words_of, write_corpus
from timing import begin, finish, say

METRICS = "wms,sms,s+wms"
N_SYSTEMS = 16
WAYS = {
    "one thread": ["--workers", "1"],
    "one process": ["--local"],
    "default": [],
    "two workers": ["--workers", "2"],
}
MIB = 1 << 20
WORKER = b"cluster.process_pool"
"""In the command line of a worker of this machine."""


class MemoryWatch:
    """Largest resident memory of a process and its descendants, in bytes."""

    def __init__(self) -> None:
        self.sampled = 0
        """As seen at any reading."""
        self.peaks = {"command": 0, "worker": 0}
        """As the kernel remembers, of the process itself and of the workers that were seen."""
        self.n_workers = 0
        """Most workers seen at once."""

    @property
    def peak(self) -> int:
        """Of any process."""
        return max(self.peaks.values())

    def __call__(self, root: int) -> None:
        """Read once."""
        n_workers = 0
        for process in {root, *descendants(root)}:
            try:
                is_worker = WORKER in Path(f"/proc/{process}/cmdline").read_bytes()
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:  # it has ended meanwhile
                continue
            n_workers += is_worker
            self.sampled = max(self.sampled, bytes_of(status, "VmRSS"))
            if is_worker or process == root:
                role = "worker" if is_worker else "command"
                self.peaks[role] = max(self.peaks[role], bytes_of(status, "VmHWM"))
        self.n_workers = max(self.n_workers, n_workers)


def descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2]
        except OSError:
            continue
        children.setdefault(int(after_name.split()[1]), []).append(int(folder.name))
    found, waiting = set(), [root]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def bytes_of(status: str, name: str) -> int:
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def make_corpus(path: Path, n_rows: int, vectors: Path, rng: np.random.Generator) -> int:
    size = CorpusSize(n_systems=N_SYSTEMS, n_documents=n_rows // N_SYSTEMS, n_words=55)
    if path.exists():
        return pq.read_metadata(path).num_rows
    return len(write_corpus(path, words_of(vectors), size, rng))


def check(run: Finished, n_rows: int, expected: np.ndarray | None) -> np.ndarray:
    """Check that all rows have scores, the same ones as before; return them."""
    if run.result["n_rows"] != n_rows or run.result["n_with_status"]:
        raise RuntimeError(f"not all {n_rows:,} rows have scores: {run.result}")
    scores = np.stack([run.scores[name].to_numpy() for name in METRICS.split(",")])
    if expected is not None:
        np.testing.assert_array_equal(scores, expected)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--small-rows", type=int, default=20_000)
    parser.add_argument("--vectors", type=Path, help="GloVe text file")
    parser.add_argument("--encoder", choices=("static", "minilm"), default="static")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keeps the corpora")
    options, facts = begin(parser, "numpy", "pyarrow")
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kept = options.folder or folder
        kept.mkdir(parents=True, exist_ok=True)
        vectors = vector_file(options.vectors, kept, rng)
        encoder = "minilm" if options.encoder == "minilm" else f"glove:{vectors.resolve()}"
        command = ["--metrics", METRICS, "--encoder", encoder]
        small, large = (kept / f"{n}.parquet" for n in (options.small_rows, options.rows))
        n_small = make_corpus(small, options.small_rows, vectors, rng)
        n_large = make_corpus(large, options.rows, vectors, rng)

        local = assay_score(small, folder / "local", [*command, "--local"])  # compiles
        expected = check(local, n_small, None)
        small_memory = MemoryWatch()
        run = assay_score(small, folder / "small", [*command, "--workers", "2"], watch=small_memory)
        check(run, n_small, expected)
        say(f"{n_small:,} rows in two workers have the scores of --local")

        expected = None
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        shards: dict[str, list[float]] = {way: [] for way in WAYS}
        memory = {way: MemoryWatch() for way in WAYS}
        for turn in range(options.rounds):
            for way in WAYS if turn % 2 == 0 else reversed(WAYS):
                out = folder / f"{turn}-{way}"
                run = assay_score(large, out, [*command, *WAYS[way]], watch=memory[way])
                expected = check(run, n_large, expected)
                seconds[way].append(run.seconds)
                shards[way].append(run.shard_seconds())
    say(
        f"{n_large:,} rows, {options.rounds} rounds; seconds from start to exit: median, fastest, "
        "slowest; seconds inside shards, added up over the workers; most workers seen at once"
    )
    for way, listed in seconds.items():
        say(
            f"{way:<12}{statistics.median(listed):>9.2f}{min(listed):>9.2f}{max(listed):>9.2f}"
            f"{statistics.median(shards[way]):>10.2f}{memory[way].n_workers:>4}"
        )
    speed_up = {}
    for way in list(WAYS)[1:]:
        pairs = zip(seconds["one thread"], seconds[way], strict=True)
        ratios = [one / other for one, other in pairs]
        speed_up[way] = statistics.median(ratios)
        say(
            f"{way}: {speed_up[way]:.2f} times as fast as one thread "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )
    growth = memory["two workers"].peak / small_memory.peak
    say("\nLargest process, MiB: seen at a reading, peak by the kernel")
    rows = [(n_small, "two workers", small_memory), *((n_large, way, memory[way]) for way in WAYS)]
    for n_rows, way, watch in rows:
        say(f"{n_rows:>9,} rows, {way:<12}{watch.sampled / MIB:>8.0f}{watch.peak / MIB:>8.0f}")
    say(f"with {n_large // n_small} times the rows the peak is {growth:.2f} times as large")
    figures = {
        "speed_up": speed_up,
        "seconds": seconds,
        "memory_growth": growth,
        "peak_mib": {f"{n} rows, {way}": watch.peak / MIB for n, way, watch in rows},
    }
    finish(options, facts, figures)


if __name__ == "__main__":
    main()
