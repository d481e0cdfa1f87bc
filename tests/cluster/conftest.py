"""A toy scorer, and corpora of every format, for the tests of `cluster`."""

import csv
import json
import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cluster import Job

FORMATS = ["parquet", "jsonl", "csv"]


class CountCharacters:
    """Scores a candidate by its length; can be told to fail, or to kill its process once."""

    input_columns = ("candidate",)
    score_fields = ("characters", "half")

    def __init__(self, fails_on=None, kills_on=None, once=None):
        self.fails_on, self.kills_on, self.once = fails_on, kills_on, once
        self.n_rows = 0

    def counters(self):
        return {"rows": self.n_rows}

    def prepare(self, rows):
        self.n_rows += rows.num_rows
        texts = rows["candidate"].to_pylist()
        if self.fails_on is not None and self.fails_on in texts:
            raise RuntimeError(f"cannot score {self.fails_on}")
        if self.kills_on is not None and self.kills_on in texts and not self._has_killed():
            os.kill(os.getpid(), signal.SIGKILL)
        return rows["candidate"].combine_chunks()

    def _has_killed(self):
        """Whether `once` is there already; it is from now on."""
        if self.once is None:
            return False
        has_killed = Path(self.once).exists()
        Path(self.once).touch()
        return has_killed

    def compare(self, prepared):
        characters = pc.utf8_length(prepared).cast(pa.float64())
        status = pc.if_else(pc.is_null(prepared), "no candidate", pa.scalar(None, pa.string()))
        return pa.table(
            {"characters": characters, "half": pc.divide(characters, 2.0), "status": status}
        )


class MakeScorer:
    """What a runner is given."""

    def __init__(self, **how):
        self.how = how

    def __call__(self, threads):
        return CountCharacters(**self.how)


@pytest.fixture
def make_scorer():
    return MakeScorer


def rows_of(n):
    """Rows whose candidates need quoting in CSV; candidate i begins with its number."""
    return [
        {
            "document_id": f"d{i // 3}",
            "system_id": f"s{i % 3}",
            "candidate": f'{i} says "yes",\nthen é{"x" * (i % 7)}',
        }
        for i in range(n)
    ]


@pytest.fixture
def write_corpus(tmp_path):
    """Write rows as one file and return its path."""

    def write(rows, format="parquet", name="corpus", row_group_size=None):
        path = tmp_path / f"{name}.{format}"
        if format == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)
        elif format == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        else:
            with path.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        return str(path)

    return write


@pytest.fixture
def make_rows():
    return rows_of


@pytest.fixture
def job(tmp_path):
    return Job(
        out=str(tmp_path / "out"),
        fingerprint="0123456789abcdef",
        metadata={"signature": "characters|v:1"},
        batch_rows=4,
    )


@pytest.fixture
def read_scores():
    """All scores of a run, shard after shard."""

    def read(out):
        parts = sorted(Path(out, "scores").glob("part-*.parquet"))
        return pa.concat_tables([pq.read_table(part) for part in parts])

    return read
