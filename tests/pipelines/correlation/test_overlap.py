"""All numbers of a report are about the rows that scores and ratings both have."""

import json
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


@pytest.fixture
def reports(plain_bench):
    """Make a report over partial scores and partial ratings, and one over what is cut by hand."""
    bench = plain_bench
    hole = (pl.col("document_id") == "d2") & (pl.col("system_id") == "s3")
    is_scored = pl.col("document_id") < "d6"
    is_rated = pl.col("system_id") != "s5"
    scores = bench.rows.filter(is_scored).with_columns(poor=pl.when(~hole).then("poor"))
    scores = scores.with_columns(empty=pl.lit(None, pl.Float64))
    ratings = by_three(bench.rows).filter(is_rated)
    options = ["--seed", "2", "--pairs", "all"]
    found = []
    for name, table, rated in (
        ("partial", scores, ratings),
        (
            "by-hand",
            scores.filter(is_rated & ~hole).drop("empty"),
            ratings.filter(is_scored & ~hole),
        ),
    ):
        bench.out = bench.folder / name
        paths = [bench.scores(table, f"{name}/scores.parquet")]
        rated = bench.ratings(rated, f"{name}/ratings.parquet")
        bench.out = bench.folder / name / "report"
        status, out, _ = bench.correlate(*options, scores=paths, ratings=rated)
        assert status == 0
        found.append((bench.out, out))
    return found


def numbers(text):
    """Every number of a text, without what names files, their sizes and hashes."""
    kept = [
        line
        for line in text.splitlines()
        if not re.search("sha256|SHA-256|parquet|Compared:|assay correlate|Raters:", line)
    ]
    return re.findall(r"\d[\d.,]*", "\n".join(kept))


def test_report_over_partial_scores_is_that_over_files_cut_by_hand_and_says_so_once(reports):
    (partial, said), (by_hand, said_by_hand) = reports
    for name in TABLES:
        folder = "" if name == "correlations" else "tables/long"
        one, other = (
            pl.read_parquet(each / folder / f"{name}.parquet") for each in (partial, by_hand)
        )
        assert one.equals(other), name
        assert one.height, name
    assert pl.read_parquet(partial / "correlations.parquet")["n_cells"].unique().to_list() == [29]
    about, about_by_hand = (
        json.loads((each / "report.json").read_text()) for each in (partial, by_hand)
    )
    for name in about:
        if name not in ("command", "inputs", "notes"):
            assert about[name] == about_by_hand[name], name
    for name in ("report.html", "report.md"):
        one, other = ((each / name).read_text() for each in (partial, by_hand))
        assert numbers(one) == numbers(other)
    assert numbers(said) == numbers(said_by_hand)
    line = (
        "Compared: 29 rows of 5 systems and 6 documents, with every score and rating; 40 are "
        "rated: 10 without a score, poor lacks 1; without any value, and left out: empty"
    )
    assert said.count(line) == said.count("Compared:") == 1
    assert json.loads((partial / "report.json").read_text())["notes"].count(line) == 1
