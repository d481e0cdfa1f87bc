"""Writes files in the true formats (with made-up texts), imports them, reads what came out."""

import gzip
import itertools
import json
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from pipelines.cli.app import run


class Imported(NamedTuple):
    """What an import wrote."""

    corpus: pl.DataFrame
    ratings: pl.DataFrame | None
    said: str


@pytest.fixture
def importing(tmp_path, capsys):
    """Import files and return what was written; each call has its own outputs."""
    numbers = itertools.count()

    def call(name, *paths, ratings=False):
        folder = tmp_path / f"out{next(numbers)}"
        outs = {"--out": folder / "corpus.parquet"}
        outs |= {"--ratings": folder / "ratings.parquet"} if ratings else {}
        options = [str(part) for pair in outs.items() for part in pair]
        status = run(["import", name, *map(str, paths), *options])
        said = capsys.readouterr()
        assert (status, said.err) == (0, "")
        frames = [pl.read_parquet(path) for path in outs.values()]
        return Imported(frames[0], frames[1] if ratings else None, said.out)

    return call


@pytest.fixture
def refused(tmp_path, capsys):
    """Import files that are wrong; return the one line that says so, and check nothing is there."""

    def call(name, *paths, ratings=False):
        out = tmp_path / "refused"
        options = ["--ratings", str(out / "ratings.parquet")] if ratings else []
        command = ["import", name, *map(str, paths), "--out", str(out / "c.parquet"), *options]
        status, said = run(command), capsys.readouterr()
        assert (status, said.out, said.err.count("\n"), out.exists()) == (2, "", 1, False)
        return said.err

    return call


@pytest.fixture
def write(tmp_path):
    """Write a file (text, bytes, or objects as JSON lines), compressed if its name says so."""

    def call(name, content):
        path = tmp_path / "given" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(f"{json.dumps(item)}\n" for item in content)
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if Path(name).suffix in (".gz", ".dataset") else data)
        return path

    return call
