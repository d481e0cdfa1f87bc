"""Every verb that scores says, once and before it scores, that texts are in another language."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay import explain, judge, score
from sms.data_files import data_text

BY_CODE = dict(line.split("\t") for line in data_text("samples.tsv").splitlines())
LOUD = logging.WARNING


def rows_of(*codes: str) -> list[dict[str, str]]:
    return [
        {
            "document_id": f"d{k}",
            "system_id": "a",
            "candidate": BY_CODE[code],
            "reference": BY_CODE[code],
        }
        for k, code in enumerate(codes)
    ]


def remarks(caplog) -> list[str]:
    return [r.message for r in caplog.records if "--language" in r.message]


@pytest.mark.parametrize("workers", [None, 2])
def test_run_says_it_once_whatever_the_workers(workers, tmp_path, caplog):
    codes = ["en"] * 7 + ["ru"] * 3
    for k in range(2):
        pq.write_table(pa.Table.from_pylist(rows_of(*codes)), tmp_path / f"{k}.parquet")
    how = {} if workers is None else {"workers": workers}
    with caplog.at_level(LOUD):
        run = score(
            str(tmp_path / "*.parquet"), out=tmp_path / "out", metrics=("rougeLsum_f", "length"),
            rows_per_shard=5, **how,
        )  # fmt: skip
    assert run.n_rows == 20
    (remark,) = remarks(caplog)
    assert remark.startswith("in 6 of 20 texts of a sample, most letters are Cyrillic")


@pytest.mark.parametrize(("code", "language"), [("en", "en"), ("ru", "ru"), ("ru", "und")])
def test_run_in_the_right_language_says_nothing(code, language, caplog):
    with caplog.at_level(LOUD):
        table = score(rows_of(*[code] * 12), metrics="chrf", language=language)
    assert [row["chrf"] for row in table] == [pytest.approx(100.0)] * 12
    assert not caplog.records


def test_no_guess_changes_a_score(caplog):
    rows = rows_of(*["de"] * 3)
    with caplog.at_level(LOUD):
        table = score(rows, metrics=("rouge1_f", "length"))
    assert remarks(caplog)
    alone = score(rows_of("en", "en", "en", "de"), metrics=("rouge1_f", "length"))
    assert table[0]["length"] == alone[3]["length"]
    assert table[0]["rouge1_f"] == 1.0


def test_encoder_that_reads_fragments_is_named(caplog):
    rows = rows_of("so", "sq", "is", "mt")  # whose stop words are not known
    with caplog.at_level(LOUD):
        score(rows, metrics="sms")
    (remark,) = [r.message for r in caplog.records if "encoder `minilm`" in r.message]
    assert "or reads them in fragments; choose one" in remark


def test_explain_and_judge_say_it(tmp_path, caplog):
    path, ratings = tmp_path / "rows.parquet", tmp_path / "ratings.csv"
    rows = [row | {"source": row["reference"]} for row in rows_of(*["el"] * 12)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    lines = [f"{row['document_id']},a,{k % 5}" for k, row in enumerate(rows)]
    ratings.write_text("\n".join(["document_id,system_id,quality", *lines]))
    with caplog.at_level(LOUD):
        explain(path, document="d0", metric="length")
    assert len(remarks(caplog)) == 1
    caplog.clear()
    with caplog.at_level(LOUD), pytest.raises(ValueError, match="no metric can be judged"):
        judge(path, ratings=ratings, metrics=("chrf",), resamples=10)
    assert len(remarks(caplog)) == 1
