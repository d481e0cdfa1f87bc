"""`assay correlate` on wrong input: one clear line, or a cell that says why it is empty."""

import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

KEYS = ["document_id", "system_id"]
IS_S2, IS_EARLY = pl.col("system_id") == "s2", pl.col("document_id") < "d4"
APART = {"good": pl.when(IS_EARLY).then("good"), "poor": pl.when(~IS_EARLY).then("poor")}
TEXT_IN_S2 = pl.when(IS_S2).then(pl.lit("n/a")).otherwise(pl.col("overall").cast(pl.String))
COMMENT = {"comment": pl.lit("fine")}

# what is wrong: columns of a table, options; the line says, in this order
WRONG = [
    ("scores", {"document_id": pl.format("other-{}", "document_id")}, [],
     r"0 of its 48 keys .* 48 rated .*\(other-d0, s0\).* ratings \(d0, s0\), \(d0, s1\), "),
    ("scores", {"system_id": pl.lit("s0")}, ["--systems", "s1"], "the 8 rated ones of the systems"),
    ("scores", {"good": pl.when(IS_S2).then(float("inf")).otherwise("good")}, [],
     "`good`.* finite numbers, got inf for document d0, system s2"),
    ("scores", APART, [], r"got none among 48 rated rows \(good lacks 24, poor lacks 24\)"),
    ("scores", {"document_id": pl.int_range(48) + 0.5}, [], r"have \(0.5, s0\), \(1.5, s0\)"),
    ("ratings", {"overall": TEXT_IN_S2}, [], r"`overall`.* got 'n/a' for document d0.*\(8 such"),
    ("ratings", COMMENT, ["--aspects", "fluency"], "aspect `fluency` is not in"),
    ("ratings", COMMENT, ["--aspects", "comment"], "must hold numbers, got text only"),
    ("ratings", {"overall": pl.lit("4/5")}, [], r"in addition to the ids, got overall \('4/5'\)"),
    ("ratings", {"overall": pl.lit(float("nan"))}, [],
     "48 rated rows must have a rating, but every"),
    ("ratings", {"rater": pl.lit(["Ann"])}, [], r"`rater` in \S+ must be text or a number"),
    ("ratings", {}, ["--metrics", "rouge*"], r"`--metrics` must match a name, got `rouge\*`"),
    ("ratings", {}, ["--systems", "x*"], r"must match a name, got `x\*`; there are s0, s1"),
    ("ratings", {}, ["--raters", "expert-*"], "`raters` needs a column `rater`"),
    ("ratings", {}, ["--levels", "corpus"], "`--levels` must be one of system, summary, global"),
    ("ratings", {}, ["--levels", "system,system"], "must not repeat a name, got 'system'"),
    ("ratings", {}, ["--coefficients", "kendall"], "must be one of pearson, spearman"),
    ("ratings", {}, ["--aspects", "overall,overall"], "must not repeat a name, got 'overall'"),
    ("ratings", {}, ["--resamples", "0"], "`--resamples` must be at least 1, got 0"),
    ("ratings", {}, ["--exclude-systems", "s*"], "must leave a system, got none"),
    ("scores", {"model": "system_id", "system_id": None}, [],
     "column `system_id` is missing .*--columns system_id=NAME"),
]  # fmt: skip


@pytest.mark.parametrize(("which", "columns", "options", "message"), WRONG)
def test_wrong_table_or_option_rejected(bench, refused, which, columns, options, message):
    gone = [name for name, column in columns.items() if column is None]
    frame = bench.rows.with_columns(**columns).drop(gone)
    if which == "ratings":
        kind = "parquet" if "rater" in frame.columns else "csv"
        ratings = bench.ratings(frame.drop("good", "poor", "length"), f"ratings.{kind}")
        line = refused(*options, ratings=ratings)
    else:
        line = refused(*options, scores=[bench.scores(frame)])
    assert re.search(message, line)


@pytest.mark.parametrize("given", ["scores", "ratings"])
def test_column_that_polars_panics_at_is_no_number(bench, given):
    """A time zone that does not exist."""
    table = bench.rows.to_arrow()
    times = pa.array([0] * len(table), pa.timestamp("us", "Nowhere/Else"))
    path = bench.folder / "zone.parquet"
    pq.write_table(table.append_column("when", times), path)
    status, _, _ = bench.correlate(**{given: [str(path)] if given == "scores" else str(path)})
    assert status == 0
    assert "when" not in {*bench.table()["metric"], *bench.table()["aspect"]}


def test_duplicate_keys_rejected(bench, refused):
    twice = pl.concat([bench.rows, bench.rows.head(4)])
    line = refused(scores=[bench.scores(twice)])
    assert "4 repeat, for example (d0, s0), (d1, s0), (d2, s0)" in line
    twice = twice.select(*KEYS, "overall", rater=pl.lit("expert-1"))
    line = refused(ratings=bench.ratings(twice))
    assert re.search(
        r"4 repeat, for example \(d0, s0, expert-1\), .*one rating of each rater", line
    )


@pytest.mark.parametrize("named", [str, Path.as_uri], ids=["path", "url"])
def test_folder_without_run_rejected(bench, refused, named):
    (bench.folder / "plain").mkdir()
    line = refused(scores=[named(bench.folder / "plain")])
    assert "must be a folder of `assay score`, but has no run.json; name files instead" in line


def test_one_input_twice_rejected(bench, refused):
    path = bench.scores()
    (bench.folder / "latest.parquet").symlink_to(path)
    for other in (path, str(bench.folder / "latest.parquet")):
        assert "must name every input once" in refused(scores=[path, other])


# Cells that say why they are empty


def test_fewer_than_four_systems_mark_williams(bench):
    bench.correlate("--systems", "s0,s1,s2")
    rows = bench.table("differences", test="williams")
    assert rows.height == 4  # two with the best, two with the baseline
    assert set(rows["reason"]) == {"needs at least 4 units, got 3"}
    assert rows["p_value"].null_count() == 4
    assert bench.table("differences", test="perm-both", level="system")["p_value"].null_count() == 0


def test_constant_ratings_mark_every_cell(bench):
    constant = bench.rows.select(*KEYS, overall=pl.lit(4.0))
    status, out, _ = bench.correlate(ratings=bench.ratings(constant))
    assert status == 0
    assert "ratings are constant" in out
    rows = bench.table().filter(~pl.col("coefficient").str.ends_with("accuracy"))
    assert rows["value"].null_count() == rows.height
    assert set(rows.filter(level="system")["reason"]) == {"ratings are constant"}
