"""`assay score` with a row that cannot be split: it costs that row's scores and no other bit."""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.app import run

POISON = "㌖" * 8_000
"""SudachiPy refuses it: it reads three letters in each sign, and has a limit."""
NOUNS = ["猫", "犬", "鳥", "東京", "委員会", "選手", "学校", "会社", "電車", "海"]
VERBS = ["眠った", "走った", "決めた", "負けた", "始まった", "見つけた"]

pytestmark = pytest.mark.skipif(find_spec("sudachipy") is None, reason="needs assay[ja]")


def japanese(rng: np.random.Generator) -> str:
    return "".join(
        f"{rng.choice(NOUNS)}は{rng.choice(NOUNS)}で{rng.integers(100)}回{rng.choice(VERBS)}。"
        for _ in range(rng.integers(1, 4))
    )


def score_both(tmp_path: Path, n: int, rows_per_shard: int, monkeypatch, *options: str):
    """Score `n` rows without the poisonous one, and with it in their middle."""
    module = importlib.import_module("pipelines.score")
    monkeypatch.setattr(module, "ROWS_PER_SHARD", rows_per_shard)
    rng = np.random.default_rng(3)
    rows = [
        {"document_id": f"d{i}", "candidate": japanese(rng), "reference": japanese(rng)}
        for i in range(n)
    ]
    poisonous = {"document_id": "poison", "candidate": POISON, "reference": japanese(rng)}
    tables, statuses = [], []
    for name, listed in (
        ("without", rows),
        ("with", [*rows[: n // 2], poisonous, *rows[n // 2 :]]),
    ):
        corpus, out = tmp_path / f"{name}.jsonl", tmp_path / name
        lines = [json.dumps({**row, "system_id": "s"}, ensure_ascii=False) for row in listed]
        corpus.write_text("\n".join(lines), encoding="utf-8")
        command = ("score", corpus, "--out", out, "--local", "--language", "ja", *options)
        statuses.append(run([*map(str, command)]))
        parts = (out / "_SUCCESS").read_text(encoding="utf-8").split()
        tables.append(pa.concat_tables([pq.read_table(out / part) for part in parts]))
    return tables, statuses


def check(tables: list[pa.Table], n: int) -> None:
    without, poisoned = (
        table.drop_columns(["input_file", "input_row"]).combine_chunks().replace_schema_metadata()
        for table in tables
    )
    row = poisoned.slice(n // 2, 1)
    assert row["document_id"].to_pylist() == ["poison"]
    assert row["status"].to_pylist() == ["candidate:cannot_be_split"]
    scores = row.drop_columns(["document_id", "system_id", "status"])
    assert all(column.null_count == 1 for column in scores.columns)
    others = pa.concat_tables([poisoned.slice(0, n // 2), poisoned.slice(n // 2 + 1)])
    assert others.combine_chunks().equals(without)


def test_other_rows_are_the_same(tmp_path, monkeypatch):
    options = ("--metrics", "length,rouge1_f,rougeL_f")
    tables, statuses = score_both(tmp_path, 30, 8, monkeypatch, *options)
    assert statuses == [0, 0]
    assert tables[0]["status"].null_count == 30
    check(tables, 30)


@pytest.mark.slow
def test_two_thousand_other_rows_are_the_same(tmp_path, monkeypatch):
    # minilm knows little Japanese, and is refused for it; what it knows is scored here all the same
    monkeypatch.setattr("sms.scoring.LEAST_KNOWN", 0.0)
    options = ("--metrics", "sms,wms,s+wms,cosine,rouge1_f,rouge2_f,rougeL_f,rougeLsum_f,length")
    tables, statuses = score_both(tmp_path, 2_000, 500, monkeypatch, *options)
    assert statuses == [0, 0]
    check(tables, 2_000)
