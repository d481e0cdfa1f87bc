"""`assay score` with a row that cannot be split: it costs that row's scores and no other bit."""

import json
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from pipelines.score import score_corpus

POISON = "㌖" * 8_000
"""SudachiPy refuses it: it reads three letters in each sign, and has a limit."""
NOUNS = ["猫", "犬", "鳥", "東京", "委員会", "選手", "学校", "会社", "電車", "海"]
N = 30


def japanese(rng):
    return "".join(
        f"{rng.choice(NOUNS)}は{rng.choice(NOUNS)}で{rng.integers(100)}回眠った。"
        for _ in range(rng.integers(1, 4))
    )


@pytest.mark.skipif(find_spec("sudachipy") is None, reason="needs assay[ja]")
def test_other_rows_are_the_same(tmp_path):
    rng = np.random.default_rng(3)
    rows = [
        {"document_id": f"d{i}", "candidate": japanese(rng), "reference": japanese(rng)}
        for i in range(N)
    ]
    poisonous = {"document_id": "poison", "candidate": POISON, "reference": japanese(rng)}
    tables = []
    for name, some in (("without", rows), ("with", [*rows[:15], poisonous, *rows[15:]])):
        corpus = tmp_path / f"{name}.jsonl"
        corpus.write_text("\n".join(map(json.dumps, some)), encoding="utf-8")
        options = {"language": "ja", "local": True, "rows_per_shard": 8}
        metrics = ["length", "rouge1_f", "rougeL_f"]
        run = score_corpus(corpus, tmp_path / name, metrics=metrics, **options)
        tables.append(run.to_arrow().drop_columns(["input_file", "input_row"]))
    without, poisoned = (table.combine_chunks().replace_schema_metadata() for table in tables)
    row = poisoned.slice(15, 1).to_pylist()[0]
    nothing = dict.fromkeys(metrics)
    assert row == {
        "document_id": "poison", "system_id": "system", **nothing,
        "status": "candidate:cannot_be_split",
    }  # fmt: skip
    others = pa.concat_tables([poisoned.slice(0, 15), poisoned.slice(16)])
    assert others.combine_chunks().equals(without)
