"""`assay correlate` on wrong input: one clear line, or a cell that says why it is empty."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

KEYS = ["document_id", "system_id"]


def test_keys_that_do_not_match_are_counted_and_shown(bench, refused):
    other = bench.rows.with_columns(pl.format("other-{}", "document_id").alias("document_id"))
    line = refused(scores=[bench.scores(other)])
    assert "0 of its 48 keys are among the 48 rated ones" in line
    assert "(other-d0, s0), (other-d1, s0), (other-d2, s0)" in line
    assert "ratings (d0, s0), (d0, s1), (d0, s2)" in line


def test_scores_of_no_system_that_is_kept_rejected(bench, refused):
    scores = bench.scores(bench.rows.filter(system_id="s0"))
    line = refused("--systems", "s1", scores=[scores])
    assert "are among the 8 rated ones of the systems that are kept" in line


@pytest.mark.parametrize("given", ["scores", "ratings"])
def test_time_zone_that_does_not_exist_rejected(bench, refused, given):
    """Polars panics at it, which is no `Exception`."""
    table = bench.rows.to_arrow()
    times = pa.array([0] * len(table), pa.timestamp("us", "Nowhere/Else"))
    path = bench.folder / "zone.parquet"
    pq.write_table(table.append_column("when", times), path)
    line = refused(**{given: [str(path)] if given == "scores" else str(path)})
    assert line.startswith(f"cannot read {path}: unable to parse time zone: 'Nowhere/Else'")


def test_one_system_marks_system_level(bench):
    status, out, _ = bench.correlate("--systems", "s1")
    assert status == 0
    assert "fewer than 2 systems, got 1" in out
    rows = bench.table(level="system", coefficient="pearson")
    assert rows["value"].null_count() == rows.height == 3
    assert bench.table(level="global", metric="good", coefficient="pearson")["value"][0] is not None


def test_fewer_than_four_systems_mark_williams(bench):
    bench.correlate("--systems", "s0,s1,s2")
    rows = bench.table("differences", test="williams")
    assert rows.height == 4  # two with the best, two with the baseline
    assert set(rows["reason"]) == {"needs at least 4 units, got 3"}
    assert rows["p_value"].null_count() == 4
    assert bench.table("differences", test="perm-both", level="system")["p_value"].null_count() == 0


def test_constant_ratings_mark_every_cell(bench):
    constant = bench.rows.select(*KEYS).with_columns(overall=pl.lit(4.0))
    status, out, _ = bench.correlate(ratings=bench.ratings(constant))
    assert status == 0
    assert "ratings are constant" in out
    rows = bench.table().filter(pl.col("coefficient").is_in(["pearson", "spearman", "kendall_b"]))
    assert rows["value"].null_count() == rows.height
    assert rows.filter(level="system")["reason"].unique().to_list() == ["ratings are constant"]


@pytest.mark.parametrize("name", ["ratings.csv", "ratings.parquet", "ratings.jsonl"])
def test_text_in_a_number_column_rejected(bench, refused, name):
    text = bench.rows.select(*KEYS, pl.col("overall").cast(pl.String))
    text = text.with_columns(
        overall=pl.when(pl.col("system_id") == "s2").then(pl.lit("n/a")).otherwise("overall")
    )
    line = refused(ratings=bench.ratings(text, name))
    assert "column `overall`" in line
    assert "must hold numbers, got 'n/a' for document d0, system s2 (8 such rows)" in line


@pytest.mark.parametrize("which", ["scores", "ratings"])
def test_duplicate_keys_rejected(bench, refused, which):
    twice = pl.concat([bench.rows, bench.rows.head(4)])
    inputs = {"scores": {"scores": [bench.scores(twice)]}}
    inputs["ratings"] = {"ratings": bench.ratings(twice.select(*KEYS, "overall"))}
    line = refused(**inputs[which])
    assert "4 repeat, for example (d0, s0), (d1, s0), (d2, s0)" in line


@pytest.mark.parametrize(
    ("rater", "message"),
    [
        ("expert-1", "1 repeat, for example (d0, s0, expert-1); keep one rating of each rater"),
        (
            ["Ann", "Bob"],
            "must hold text or numbers, got List(String); keep a row for each rater",
        ),
    ],
)
def test_raters_who_rate_twice_or_in_lists_rejected(bench, refused, rater, message):
    rows = bench.rows.select(*KEYS, "overall").with_columns(rater=pl.lit(rater))
    assert message in refused(ratings=bench.ratings(pl.concat([rows, rows.head(1)])))


@pytest.mark.parametrize(
    ("aspect", "message"),
    [("fluency", "is not in"), ("comment", "must hold numbers, got text only")],
)
def test_aspect_that_is_unknown_or_text_rejected(bench, refused, aspect, message):
    text = bench.rows.select(*KEYS, "overall").with_columns(comment=pl.lit("fine"))
    line = refused("--aspects", aspect, ratings=bench.ratings(text))
    assert f"aspect `{aspect}`" in line
    assert message in line


@pytest.mark.parametrize(
    ("rating", "message"),
    [
        (float("nan"), "the 48 rated rows must have a rating, but every cell of overall is empty"),
        ("4/5", "must have a column of numbers besides the keys, got overall ('4/5')"),
        (True, "must have a column of numbers besides the keys, got overall ('true')"),
    ],
)
def test_ratings_without_a_number_rejected(bench, refused, rating, message):
    ratings = bench.rows.select(*KEYS).with_columns(overall=pl.lit(rating))
    assert message in refused(ratings=bench.ratings(ratings, "ratings.csv"))


def test_missing_key_column_names_the_option(bench, refused):
    renamed = bench.rows.rename({"system_id": "model"})
    line = refused(scores=[bench.scores(renamed)])
    assert "column `system_id` is missing" in line
    assert "--columns system_id=NAME" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "rouge*"], "`--metrics` must match something, got `rouge*`"),
        (["--systems", "x*"], "`--systems` must match something, got `x*`; there are s0, s1"),
        (["--raters", "expert-*"], "`raters` needs a column `rater`"),
        (["--levels", "corpus"], "`--levels` must be one of system, summary, global"),
        (["--coefficients", "kendall"], "`--coefficients` must be one of pearson, spearman"),
        (["--levels", "system,system"], "`--levels` must not repeat a name, got 'system'"),
        (
            ["--coefficients", "pearson,spearman,pearson"],
            "`--coefficients` must not repeat a name, got 'pearson'",
        ),
        (["--aspects", "overall,overall"], "`aspects` must not repeat a name, got 'overall'"),
        (["--resamples", "0"], "`--resamples` must be at least 1, got 0"),
        (["--exclude-systems", "s*"], "must leave a system, got none"),
    ],
)
def test_wrong_option_rejected(refused, arguments, message):
    assert message in refused(*arguments)


@pytest.mark.parametrize("named", [str, Path.as_uri], ids=["path", "url"])
def test_folder_without_run_rejected(bench, refused, named):
    (bench.folder / "plain").mkdir()
    line = refused(scores=[named(bench.folder / "plain")])
    assert "must be a folder of `assay score`, but has no run.json; name files instead" in line


def test_one_input_twice_rejected(bench, refused):
    path = bench.scores()
    assert "must name every input once" in refused(scores=[path, path])
    (bench.folder / "latest.parquet").symlink_to(path)
    assert "must name every input once" in refused(
        scores=[path, str(bench.folder / "latest.parquet")]
    )


def test_no_row_with_everything_rejected(bench, refused):
    is_first = pl.col("document_id") < "d4"
    apart = bench.rows.with_columns(
        good=pl.when(is_first).then("good"), poor=pl.when(~is_first).then("poor")
    )
    line = refused(scores=[bench.scores(apart)])
    assert "got none among 48 rated rows (good lacks 24, poor lacks 24)" in line


def test_infinite_score_rejected(bench, refused):
    infinite = bench.rows.with_columns(
        good=pl.when(pl.col("system_id") == "s2").then(float("inf")).otherwise("good")
    )
    assert "column `good`" in (line := refused(scores=[bench.scores(infinite)]))
    assert "must hold finite numbers, got inf for document d0, system s2" in line
