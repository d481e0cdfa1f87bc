"""All numbers of a report are about the rows that scores and ratings both have."""

import re

import polars as pl
import pytest

from pipelines.tables.records import TABLES

KEYS = ["document_id", "system_id"]


def by_three(rows):
    """Ratings of three raters, of whom the third has rated few rows."""
    parts = [
        rows.select(*KEYS, overall=pl.col("overall") + k * pl.col("good"), focus=-pl.col("poor"))
        .with_columns(rater=pl.lit(f"expert-{k}"))
        .filter(pl.lit(k < 2) | (pl.col("document_id") == "d7"))
        for k in range(3)
    ]
    return pl.concat(parts)


def numbers(text):
    """Every number of a text, without what names files, their sizes and hashes."""
    other = re.compile("sha256|SHA-256|parquet|Compared:|assay correlate|Raters:")
    return re.findall(r"\d[\d.,]*", "\n".join(x for x in text.splitlines() if not other.search(x)))


@pytest.mark.slow
def test_report_over_partial_scores_is_that_over_files_cut_by_hand_and_says_so_once(plain_bench):
    bench = plain_bench
    hole = (pl.col("document_id") == "d2") & (pl.col("system_id") == "s3")
    is_scored, is_rated = pl.col("document_id") < "d6", pl.col("system_id") != "s5"
    scores = bench.rows.filter(is_scored).with_columns(poor=pl.when(~hole).then("poor"))
    ratings = by_three(bench.rows).filter(is_rated)
    cut = scores.filter(is_rated & ~hole), ratings.filter(is_scored & ~hole)
    partial = scores.with_columns(empty=pl.lit(None, pl.Float64)), ratings
    found = []
    for name, (table, rated) in (("partial", partial), ("by-hand", cut)):
        bench.out = bench.folder / name
        paths = [bench.scores(table, f"{name}-scores.parquet")]
        rated = bench.ratings(rated, f"{name}-ratings.parquet")
        status, out, _ = bench.correlate("--pairs", "all", scores=paths, ratings=rated)
        assert status == 0
        tables = {each: bench.table(each) for each in TABLES}
        pages = [(bench.out / each).read_text() for each in ("report.html", "report.md")]
        found.append((tables, bench.about(), out, *pages))
    (tables, about, said, *pages), (tables_by_hand, about_by_hand, *pages_by_hand) = found
    for name in TABLES:
        assert tables[name].equals(tables_by_hand[name]), name
        assert tables[name].height, name
    assert set(tables["correlations"]["n_cells"]) == {29}
    for name in about.keys() - {"command", "inputs", "notes"}:
        assert about[name] == about_by_hand[name], name
    assert [*map(numbers, (said, *pages))] == [*map(numbers, pages_by_hand)]
    line = (
        "Compared: 29 rows of 5 systems and 6 documents, with every score and rating; 40 are "
        "rated: 10 without a score, poor lacks 1; without any value, and left out: empty"
    )
    assert said.count(line) == said.count("Compared:") == about["notes"].count(line) == 1
