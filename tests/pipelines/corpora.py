"""Corpora of a few rows, runs of them, and what lies in the folder of a run."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings

METRICS = ("length", "rouge1_r")


def rows_of(n):
    return [
        {
            "document_id": f"d{i}",
            "system_id": f"s{i % 2}",
            "candidate": "cats sat" + " on mats" * i,
            "reference": "Cats sat on mats.",
        }
        for i in range(n)
    ]


def score(corpora, out, **options):
    options = {"metrics": METRICS, "local": True, "workers": 1, "rows_per_shard": 2, **options}
    return score_corpus(corpora, ScoreSettings(out=out, **options))


def table_of(out):
    """The rows that `_SUCCESS` says count."""
    parts = (out / "_SUCCESS").read_text(encoding="utf-8").split()
    return pa.concat_tables([pq.read_table(out / part) for part in parts])


def run_json(out):
    return json.loads((out / "run.json").read_text(encoding="utf-8"))


def contents_of(out):
    return {name: (out / name).read_bytes() for name in files_of(out)}


def files_of(out):
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
