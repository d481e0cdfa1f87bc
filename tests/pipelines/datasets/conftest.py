"""Writes files in the true formats (with made-up texts), imports them, reads what came out."""

import gzip
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from tests.rare import run


@dataclass
class Imported:
    """What an import wrote."""

    corpus: pl.DataFrame
    ratings: pl.DataFrame | None
    scores: pl.DataFrame | None
    said: str

    def row(self, system_id, document_id=None):
        """Return the one row of the corpus of a system (and document)."""
        rows = self.corpus.filter(pl.col("system_id") == system_id)
        if document_id:
            rows = rows.filter(pl.col("document_id") == document_id)
        assert rows.height == 1
        return rows.row(0, named=True)


@pytest.fixture
def importing(tmp_path, capsys):
    """Import files and return what was written; each call has its own outputs."""
    n_calls = 0

    def call(name, *paths, ratings=False, scores=False):
        nonlocal n_calls
        n_calls += 1
        outs = {
            "--out": tmp_path / f"corpus{n_calls}.parquet",
            "--ratings": tmp_path / f"ratings{n_calls}.parquet" if ratings else None,
            "--scores": tmp_path / f"scores{n_calls}.parquet" if scores else None,
        }
        options = [str(part) for pair in outs.items() if pair[1] for part in pair]
        status = run(["import", name, *map(str, paths), *options])
        said = capsys.readouterr()
        assert (status, said.err) == (0, "")
        frames = [pl.read_parquet(path) if path else None for path in outs.values()]
        return Imported(*frames, said.out)

    return call


@pytest.fixture
def refused(tmp_path, capsys):
    """Import files that are wrong; return the one line that says so, and check nothing is there."""

    def call(name, *paths, ratings=False):
        out = tmp_path / "refused"
        options = ["--ratings", str(out / "ratings.parquet")] if ratings else []
        command = ["import", name, *map(str, paths), "--out", str(out / "c.parquet"), *options]
        assert run(command) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert not out.exists()
        return said.err

    return call


@pytest.fixture
def write(tmp_path):
    """Write a file (text, bytes, or objects as JSON lines), compressed if its name says so."""

    def call(name, content):
        path = tmp_path / "given" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(name, content))
        return path

    return call


def as_bytes(name, content):
    """Return what a file of that name holds; bytes are taken as they are."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, list):
        content = "".join(f"{json.dumps(item)}\n" for item in content)
    data = content.encode()
    return gzip.compress(data) if Path(name).suffix in (".gz", ".dataset") else data


def tar_of(files):
    """Pack `name: content` into the bytes of a compressed archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            data = as_bytes(name, content)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()
