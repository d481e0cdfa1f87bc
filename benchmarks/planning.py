"""How long does it take, and how much memory, to plan a corpus of very many files?

Copies of one small Parquet file are the corpus: planning reads footers only, and passes over links
to a file that it has. The files are listed and looked at, cut into shards and written into
`run.json`, as `assay score` does before anything runs; then that is read again, as a run that goes
on does. The second peak is that of a quarter of the files: what is left of the difference grows
with the files.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from timing import begin, finish, say

PER_FOLDER = 10_000
MIB = 1 << 20


def make_corpus(folder: Path, n_files: int, n_groups: int, rows_per_group: int) -> None:
    """Write a file and copies of it, so many in a folder."""
    n_rows = n_groups * rows_per_group
    texts = [f"The council of town {i} has voted to raise the parking fees." for i in range(n_rows)]
    table = pa.table(
        {
            "document_id": [str(i // 5) for i in range(n_rows)],
            "system_id": [f"s{i % 5}" for i in range(n_rows)],
            "candidate": texts,
            "reference": [texts[i // 5] for i in range(n_rows)],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows_per_group)
    for i in range(n_files):
        inside = folder / f"{i // PER_FOLDER:04}"
        inside.mkdir(exist_ok=True)
        (inside / f"{i:08}.parquet").write_bytes(sink.getvalue())


def plan(folder: Path, out: Path, n_rows: int, rows_per_shard: int) -> dict[str, float]:
    """Do what a run does before it scores, and what one that goes on does; return the figures."""
    from cluster import list_inputs, plan_shards
    from cluster.manifest import Manifest, read_manifest, write_manifest

    started = {"list": time.perf_counter()}
    files = list_inputs([str(folder)])
    started["cut"] = time.perf_counter()
    asked = {"columns": {}, "rows_per_shard": rows_per_shard, "limit": None}
    shards = plan_shards(files, rows_per_shard)
    assert sum(shard.n_rows for shard in shards) == n_rows
    started["write"] = time.perf_counter()
    made = Manifest(
        configuration=asked,
        signatures={},
        encoders={},
        versions={},
        inputs=[file.without_outline() for file in files],
        shards=shards,
    )
    del files
    write_manifest(str(out), made)
    started["read"] = time.perf_counter()
    found = read_manifest(str(out))
    assert found is not None
    assert found.fingerprint == made.fingerprint
    ended = [*[*started.values()][1:], time.perf_counter()]
    seconds = {
        f"{name}_s": end - begin for (name, begin), end in zip(started.items(), ended, strict=True)
    }
    return {
        **seconds,
        "processor_s": time.process_time(),
        "n_shards": len(shards),
        "run_json_mib": (out / "run.json").stat().st_size / MIB,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_new_process(options: argparse.Namespace, n_files: int) -> dict[str, float]:
    """Plan so many files in a process of their own, whose peak memory is theirs alone."""
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        corpus = Path(temporary, "corpus")
        corpus.mkdir()
        make_corpus(corpus, n_files, options.groups, options.rows_per_group)
        n_rows = n_files * options.groups * options.rows_per_group
        arguments = [corpus, Path(temporary, "out"), n_rows, options.rows_per_shard]
        command = [sys.executable, __file__, "--inside", *map(str, arguments)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=10, help="row groups of a file")
    parser.add_argument("--rows-per-group", type=int, default=50)
    parser.add_argument("--rows-per-shard", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where the files are made, e.g. /dev/shm")
    options, facts = begin(parser, "pyarrow")
    found = in_new_process(options, options.files)
    fewer = in_new_process(options, max(options.files // 4, 1))
    seconds = found["list_s"] + found["cut_s"] + found["write_s"]
    say(
        f"{options.files:,} files x {options.groups} row groups x {options.rows_per_group} rows, "
        f"{found['n_shards']:,} shards of {options.rows_per_shard:,} rows"
    )
    say(f"{seconds:8.1f} s to plan:")
    say(f"{found['list_s']:8.1f} s listing files and reading footers")
    say(f"{found['cut_s']:8.1f} s cutting into shards")
    say(f"{found['write_s']:8.1f} s writing run.json, {found['run_json_mib']:,.1f} MiB")
    say(f"{found['read_s']:8.1f} s reading it again")
    say(f"{found['processor_s']:8.1f} s of processors in all, imports included")
    say(
        f"{found['peak_mib']:8.0f} MiB peak memory, {fewer['peak_mib']:.0f} with a quarter of the "
        "files"
    )
    finish(options, facts, {"seconds": seconds, **found})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        found = plan(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        say(json.dumps(found))
    else:
        main()
