"""Does a run of ten million rows lose or double one when it is killed, and can its files be read?

Short texts of two sentences, static vectors, two workers. A worker is killed once a quarter
of the shards is committed, the whole command once half of them is; then the same command is given
again. The files are counted by the place of each row in the input, and the first rows compared
with those of a run in one process. What is in `--folder` is not made again.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from command import QUIET, assay_score
from corpora import ROOT, Words, vector_file, words_of
from timing import begin, finish, say
from workers import MIB, WORKER, descendants

METRICS = "wms,sms,cosine"
N_SYSTEMS = 16
ROWS_PER_FILE = 1_000_000
ROWS_PER_SHARD = 20_000
N_COMPARED = ROWS_PER_SHARD
ZIPF_SHIFT = 20


def write_file(path: Path, words: Words, first: int, n_rows: int, rng: np.random.Generator) -> None:
    """Write rows of a candidate and a reference of some ten words, four of which they share."""
    content, stop = pa.array(words.content), pa.array(words.stop)
    shares = 1 / (np.arange(len(content)) + ZIPF_SHIFT)
    places = rng.choice(len(content), (10, n_rows), p=shares / shares.sum())
    drawn = [content.take(pa.array(row)) for row in places]
    small = [stop.take(pa.array(rng.integers(0, len(stop), n_rows))) for _ in range(4)]
    a, b, c, d, e, f, g, h, i, j = drawn

    def text(*words_: pa.Array) -> pa.Array:
        half = len(words_) // 2
        sentences = [
            pc.binary_join_element_wise(*some, " ") for some in (words_[:half], words_[half:])
        ]
        full = [pc.binary_join_element_wise(one, ".", "") for one in sentences]
        return pc.binary_join_element_wise(*map(pc.utf8_capitalize, full), " ")

    rows = np.arange(first, first + n_rows)
    table = pa.table(
        {
            "document_id": pc.binary_join_element_wise(
                "d", pa.array(rows // N_SYSTEMS).cast(pa.string()), ""
            ),
            "system_id": pc.binary_join_element_wise(
                "s", pa.array(rows % N_SYSTEMS).cast(pa.string()), ""
            ),
            "candidate": text(a, small[0], b, c, e, d, small[1], f, g),
            "reference": text(b, small[2], a, h, d, small[3], c, i, j),
        }
    )
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, row_group_size=ROWS_PER_SHARD, compression="zstd")
    partial.rename(path)


def make_corpus(folder: Path, n_rows: int, vectors: Path) -> Path:
    corpus = folder / f"corpus-{n_rows}"
    corpus.mkdir(exist_ok=True)
    words = words_of(vectors)
    for number, first in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        path = corpus / f"{number:03}.parquet"
        if not path.exists():
            rng = np.random.default_rng([1, number])
            write_file(path, words, first, min(ROWS_PER_FILE, n_rows - first), rng)
    return corpus


class Run:
    """`assay score`, given again until it ends by itself."""

    def __init__(self, command: list[str], out: Path, n_shards: int) -> None:
        self._command, self._out, self._n_shards = command, out, n_shards
        self.kills: list[str] = []

    def once(self, kills: dict[float, str]) -> int:
        """Start the command, and kill a worker or itself once a share of the shards is there."""
        left = sorted(kills.items())
        with subprocess.Popen(self._command, cwd=ROOT, env={**os.environ, **QUIET}) as process:
            while process.poll() is None:
                time.sleep(0.5)
                n_done = len(list(self._out.glob("scores/part-*.parquet")))
                if left and n_done >= left[0][0] * self._n_shards:
                    what = self._kill(left[0][1], process.pid)
                    if what:
                        self.kills.append(f"{what} after {n_done} shards")
                        left.pop(0)
            return process.returncode

    def _kill(self, what: str, root: int) -> str:
        if what == "driver":
            os.kill(root, signal.SIGKILL)
            return what
        for process in descendants(root):
            try:
                if WORKER in Path(f"/proc/{process}/cmdline").read_bytes():
                    os.kill(process, signal.SIGKILL)
                    return what
            except OSError:
                continue
        return ""


def count(out: Path, corpus: Path, n_rows: int) -> dict[str, int]:
    """Count rows by their place in the input: how many there are, doubled and lost."""
    seen = {str(path): np.zeros(ROWS_PER_FILE, np.int64) for path in corpus.iterdir()}
    listed = (out / "_SUCCESS").read_text().split()
    assert sorted(Path(one).name for one in listed) == sorted(os.listdir(out / "scores"))
    for part in listed:
        file = pq.ParquetFile(out / part)
        for batch in file.iter_batches(columns=["input_file", "input_row", "sms"]):
            table = pa.table(batch)
            assert table["sms"].null_count == 0
            files = np.asarray(table["input_file"].combine_chunks().cast(pa.string()))
            rows = np.asarray(table["input_row"])
            for name in set(files.tolist()):
                seen[name] += np.bincount(rows[files == name], minlength=ROWS_PER_FILE)
    found = np.concatenate([seen[name] for name in sorted(seen)])[:n_rows]
    sizes = [(out / part).stat().st_size for part in listed]
    return {
        "rows": int(found.sum()),
        "doubled": int((found > 1).sum()),
        "lost": int((found == 0).sum()),
        "files": len(listed),
        "bytes": sum(sizes),
        "largest": max(sizes),
        "smallest": min(sizes),
    }


def compare(out: Path, corpus: Path, folder: Path, options: list[str]) -> None:
    """Check that the first rows have, bit by bit, the scores of a run in one process."""
    limit = ["--limit", str(N_COMPARED)]
    small = assay_score(corpus, folder / "compared", [*options, "--local", *limit]).scores
    first = (out / "_SUCCESS").read_text().split()[0]
    large = pq.read_table(out / first).slice(0, N_COMPARED)
    for name in ("document_id", "system_id", *METRICS.split(",")):
        assert small[name].to_pylist() == large[name].to_pylist(), name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--vectors", type=Path, help="GloVe text file")
    parser.add_argument("--folder", type=Path, required=True, help="for the corpus and the scores")
    options, facts = begin(parser, "numpy", "pyarrow")
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    vectors = vector_file(options.vectors, folder, np.random.default_rng(1)).resolve()
    corpus, out = make_corpus(folder, options.rows, vectors), folder / "scores"
    say(f"{options.rows:,} rows, {sum(p.stat().st_size for p in corpus.iterdir()) / MIB:.0f} MiB")
    asked = ["--metrics", METRICS, "--encoder", f"glove:{vectors}"]
    command = [sys.executable, "-m", "pipelines.cli.app", "score", str(corpus), "--out", str(out)]
    run = Run(
        [*command, *asked, "--workers", "2"], out, n_shards=max(1, options.rows // ROWS_PER_SHARD)
    )
    started = time.monotonic()
    assert run.once({0.25: "worker", 0.5: "driver"}) == -signal.SIGKILL
    say(f"killed: {', '.join(run.kills)}; {time.monotonic() - started:.0f} s")
    assert run.once({}) == 0
    seconds = time.monotonic() - started
    found = count(out, corpus, options.rows)
    compare(out, corpus, folder, asked)
    summary = f"{found['rows']:,} rows, {found['doubled']} doubled, {found['lost']} lost"
    sizes = f"{found['smallest'] / MIB:.0f} to {found['largest'] / MIB:.0f} MiB"
    say(f"{seconds:.0f} s; {summary}; {found['files']} files of {sizes}")
    finish(options, facts, {**found, "seconds": seconds, "kills": run.kills})


if __name__ == "__main__":
    main()
