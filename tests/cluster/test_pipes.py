"""Pipes and standard input: read once, and then as files are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

import assay
from cluster import list_inputs
from cluster.reading import Wanted, read_files
from tests.pipelines.written_tables import ROWS, write_table

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pipe(tmp_path):
    """Make pipes, each of which gives out the bytes of a file once."""
    threads = []

    def make(content, name="pipe"):
        path = tmp_path / name
        os.mkfifo(path)
        thread = threading.Thread(target=path.write_bytes, args=(content,))
        thread.start()
        threads.append(thread)
        return str(path)

    yield make
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("plain.parquet", "parquet"),
        ("plain.csv", "csv"),
        ("semicolons.csv", "csv"),
        ("unicode.csv", "csv"),
        ("gzip.csv.gz", "csv"),
        ("lines.jsonl", "jsonl"),
        ("mark.jsonl", "jsonl"),
        ("indented.json", "jsonl"),
        ("packed.jsonl.zst", "jsonl"),
    ],
)
def test_content_tells_the_format_of_a_pipe(tmp_path, pipe, name, format):
    (file,) = list_inputs([pipe(write_table(tmp_path, name).read_bytes())])
    assert (file.format, file.needs_copy) == (format, True)
    for _ in range(2):  # as often as one likes
        tables = read_files([file], Wanted(needed=("candidate",)))
        texts = [text or "" for table in tables for text in table["candidate"].to_pylist()]
        assert texts == [row["candidate"] for row in ROWS]


@pytest.mark.parametrize("name", ["plain.parquet", "plain.csv"])
def test_scored_pipe_is_gone_on_with_if_it_gives_the_same(tmp_path, pipe, name):
    content = write_table(tmp_path, name).read_bytes()
    options = {"metrics": "length", "local": True, "out": tmp_path / "run"}
    path = pipe(content)
    run = assay.score(path, **options)
    assert (run.n_rows, run.n_new_shards) == (len(ROWS), 1)
    frame = pl.read_parquet(f"{run.out}/scores/*.parquet")
    assert frame["input_file"].unique().to_list() == [path]
    assert assay.score(path, **options).n_new_shards == 0  # in this process it is kept


def test_device_without_an_end_is_no_input():
    with pytest.raises(FileNotFoundError, match="no such file or folder: /dev/zero"):
        list_inputs(["/dev/zero"])


COMMAND = "score - --out run --metrics length --quiet"


def assay_command(folder, command, content):
    return subprocess.run(
        [sys.executable, "-m", "assay", *command.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        input=content,
        capture_output=True,
        check=False,
    )


@pytest.mark.slow
def test_standard_input(tmp_path):
    content = write_table(tmp_path, "plain.csv").read_bytes()
    first = assay_command(tmp_path, COMMAND, content)
    assert (first.returncode, b"15 of 15" in first.stdout) == (0, True), first
    again = assay_command(tmp_path, COMMAND.replace("-", "/dev/stdin", 1), content)
    assert b"Already scored: 15 rows" in again.stdout, again
    other = assay_command(tmp_path, COMMAND, content.replace(b"storm", b"wind"))
    assert other.returncode == 2
    assert b"holds another run: input file changed: /dev/stdin" in other.stderr
    explain = "explain --scores run --document d1 --metric length --out page.html"
    said = assay_command(tmp_path, explain, b"").stderr
    assert b"through a pipe (/dev/stdin), which cannot be read a second time; name the" in said
    assert not list(tmp_path.glob("assay-pipe-*"))  # they go with their process
