"""`assay correlate --explain`: every score it lists as a disagreement has a page."""

import re

import polars as pl

from pipelines.score import score_corpus

WORDS = ["cat", "dog", "hen", "cow", "pig", "fox"]


def test_every_disagreement_links_to_its_page(plain_bench, tmp_path):
    bench = plain_bench
    rows = bench.rows.with_columns(
        candidate=pl.concat_str(
            pl.lit("The "), pl.col("system_id").replace_strict(dict(zip(
                [f"s{i}" for i in range(6)], WORDS, strict=True
            ))), pl.lit(" sat near the fox.")
        ),
        reference=pl.concat_str(
            pl.lit("A fox sat near the "), pl.col("document_id").replace_strict(dict(zip(
                [f"d{j}" for j in range(8)], [*WORDS, "ant", "bee"], strict=True
            )), default="ant"), pl.lit(".")
        ),
    )  # fmt: skip
    corpus = bench.write(
        "corpus.parquet", rows.select("document_id", "system_id", "candidate", "reference")
    )
    scores = str(tmp_path / "scores")
    score_corpus([corpus], scores, metrics=["rougeL", "length"], local=True)
    other = bench.write("other.parquet", rows.select("document_id", "system_id", "good"))

    status, _, error = bench.correlate("--explain", scores=[scores, other])

    assert (status, error) == (0, "")
    report = (bench.out / "report.html").read_text()
    links = set(re.findall(r'href="explain/([^"]+)"', report))
    assert {link.split(".")[2] for link in links} == {"rougeL_f", "length"}
    for row in bench.table("disagreements").iter_rows(named=True):
        name = f"{row['document_id']}.{row['system_id']}.{row['metric']}.html"
        assert (bench.out / "explain" / name).is_file() == (row["metric"] != "good")
        links.discard(name)
    assert not links  # each of them is one of these pages
