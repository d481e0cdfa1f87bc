"""A small study in files, and the command line that reads it."""

import json

import numpy as np
import polars as pl
import pytest

from pipelines.cli.app import run

KEYS = ["document_id", "system_id"]


def study_rows():
    """Keys, two metrics and a length, and one aspect; seeded, without ties."""
    rng = np.random.default_rng(11)
    shape = 6, 8
    quality = rng.normal(size=(6, 1))
    systems, documents = np.indices(shape)
    return pl.DataFrame(
        {
            "document_id": [f"d{j}" for j in documents.ravel()],
            "system_id": [f"s{i}" for i in systems.ravel()],
            "good": (quality + rng.normal(size=shape)).ravel(),
            "poor": (0.1 * quality + rng.normal(size=shape)).ravel(),
            "length": rng.integers(20, 90, size=shape).ravel(),
            "overall": (quality + 0.5 * rng.normal(size=shape)).ravel(),
        }
    )


class Bench:
    """Writes inputs and runs `assay correlate` on them."""

    def __init__(self, folder, capsys):
        self.folder = folder
        self.out = folder / "report"
        self.rows = study_rows()
        self._capsys = capsys

    def write(self, name, frame):
        """Write a table in the format its name says; return the path as text."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = {".parquet": "parquet", ".csv": "csv", ".jsonl": "ndjson"}[path.suffix]
        getattr(frame, f"write_{kind}")(path)
        return str(path)

    def scores(self, frame=None, name="scores.parquet"):
        frame = self.rows if frame is None else frame
        return self.write(name, frame.drop("overall", strict=False))

    def ratings(self, frame=None, name="ratings.parquet"):
        return self.write(name, self.rows.select(*KEYS, "overall") if frame is None else frame)

    def correlate(self, *arguments, scores=None, ratings=None, n_resamples=20):
        """Run the command; return its status and what it wrote to both streams."""
        scores = [self.scores()] if scores is None else scores
        ratings = self.ratings() if ratings is None else ratings
        settings = ["--out", str(self.out), "--quiet", "--all-tables"]
        settings += ["--resamples", str(n_resamples), *arguments]
        status = run(["correlate", *scores, "--ratings", ratings, *settings])
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def table(self, name="correlations", /, **wanted):
        """Read a table of the report, and the rows that have the wanted values."""
        folder = self.out if name == "correlations" else self.out / "tables" / "long"
        return pl.read_parquet(folder / f"{name}.parquet").filter(**wanted)

    def about(self):
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def plain_bench(tmp_path, capsys):
    """The command as it is."""
    return Bench(tmp_path, capsys)


@pytest.fixture
def bench(plain_bench, monkeypatch):
    """The command without the pages, which have tests of their own."""
    monkeypatch.setattr(
        "pipelines.reports.agreement_report.write_report", lambda _result, _out, all_tables: None
    )
    return plain_bench


@pytest.fixture
def refused(bench):
    """Run the command on something wrong; return the one line it says, with status 2."""

    def refuse(*arguments, **inputs):
        status, out, err = bench.correlate(*arguments, **inputs)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert not bench.out.exists()
        return err.removeprefix("assay: ").strip()

    return refuse
