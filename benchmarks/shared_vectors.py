"""How much memory do several workers of one core need for one table of word vectors?

The whole `assay score`. While it runs, the kernel is asked of every worker: its resident
memory, its share of the pages that several processes have (PSS), and both for the vectors' file.
The second run finds the table in the cache folder.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from command import assay_score
from corpora import vector_file
from timing import begin, finish, say
from workers import METRICS, MIB, WORKER, bytes_of, descendants, make_corpus


class SharedMemory:
    """Largest sums over the workers, in bytes."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def __call__(self, root: int) -> None:
        """Read once."""
        now = dict.fromkeys(("n_workers", "rss", "pss", "table_rss", "table_pss"), 0)
        for process in descendants(root):
            try:
                if WORKER not in Path(f"/proc/{process}/cmdline").read_bytes():
                    continue
                rolled = Path(f"/proc/{process}/smaps_rollup").read_text()
                maps = Path(f"/proc/{process}/smaps").read_text()
            except OSError:  # it has ended meanwhile
                continue
            now["n_workers"] += 1
            now["rss"] += bytes_of(rolled, "Rss")
            now["pss"] += bytes_of(rolled, "Pss")
            table = maps.partition("vectors.npy")[2][:600]
            now["table_rss"] += bytes_of(table, "Rss")
            now["table_pss"] += bytes_of(table, "Pss")
        if now["rss"] > self.found.get("rss", 0):
            self.found = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, help="GloVe text file")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=160_000)
    options, facts = begin(parser, "numpy")
    measured = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rng = np.random.default_rng(1)
        vectors = vector_file(options.vectors, folder, rng).resolve()
        corpus = folder / "corpus.parquet"
        make_corpus(corpus, options.rows, vectors, rng)
        command = ["--metrics", METRICS, "--encoder", f"glove:{vectors}"]
        workers = ["--workers", str(options.workers)]
        environment = {"ASSAY_CACHE": os.environ.get("ASSAY_CACHE") or str(folder / "cache")}
        say(f"{'run':<8}{'s':>7}{'workers':>9}{'RSS':>8}{'PSS':>8}{'table RSS':>11}{'PSS':>7}  MiB")
        for name in ("first", "second"):
            watch = SharedMemory()
            run = assay_score(
                corpus,
                folder / name,
                [*command, *workers],
                environment=environment,
                watch=watch,
            )
            measured.append({"run": name, "seconds": run.seconds, **watch.found})
            n_workers, *rest = watch.found.values()
            rss, pss, table_rss, table_pss = (value / MIB for value in rest)
            say(
                f"{name:<8}{run.seconds:>7.1f}{n_workers:>9}{rss:>8.0f}{pss:>8.0f}"
                f"{table_rss:>11.0f}{table_pss:>7.0f}"
            )
    finish(options, facts, {"measured": measured})


if __name__ == "__main__":
    main()
