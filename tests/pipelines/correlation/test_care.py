"""The traps of correlating with human ratings, each through the command line."""

import re

import polars as pl
import pytest

KEYS = ["document_id", "system_id"]


def test_constant_documents_are_skipped_and_counted(bench):
    overall = pl.when(pl.col("document_id").is_in(["d2", "d5"])).then(3.0).otherwise("overall")
    _, out, _ = bench.correlate(ratings=bench.ratings(bench.rows.select(*KEYS, overall=overall)))
    rows = bench.table(metric="good", coefficient="spearman")
    skipped = {"system": 0, "summary": 2, "global": 0}
    assert dict(rows.select("level", "n_skipped").iter_rows()) == skipped
    assert rows["n_documents"].unique().to_list() == [8]
    assert "Summary level, overall: up to 2 documents skipped" in out


def test_duplicate_systems_are_named(bench):
    again = bench.rows.filter(system_id="s1").with_columns(system_id=pl.lit("s4"))
    rows = pl.concat([bench.rows.filter(pl.col("system_id") != "s4"), again])
    _, out, _ = bench.correlate(scores=[bench.scores(rows)])
    assert re.search("s1 and s4 have the same scores on every document .*: probably one", out)


def test_filter_is_printed(bench):
    _, out, _ = bench.correlate("--exclude-systems", "s3,s[45]")
    assert "3 of 6 systems are kept; left out: s3, s4, s5" in out
    about = bench.about()
    kept = about["systems"], about["excluded_systems"]
    assert kept == (["s0", "s1", "s2"], ["s3", "s4", "s5"])
    assert "--exclude-systems 's3,s[45]'" in about["command"]


def rated_by(rows, names):
    """Ratings of raters who differ by a constant of 1."""
    named = enumerate(names)
    return pl.concat(rows.select(*KEYS, pl.col("overall") + k, rater=pl.lit(n)) for k, n in named)


def test_mean_is_over_the_raters_who_rated(bench):
    is_missing = (pl.col("rater") == "Bob") & (pl.col("system_id") == "s1")
    ratings = rated_by(bench.rows, ["Ann", "Bob"])
    ratings = ratings.with_columns(overall=pl.when(~is_missing).then("overall"))
    bench.correlate(ratings=bench.ratings(ratings))
    for system, shift in (("s1", 0), ("s0", 0.5)):
        (mean,) = bench.table("systems", name="overall", system_id=system)["mean"]
        overall = bench.rows.filter(system_id=system)["overall"].mean()
        assert mean == pytest.approx(overall + shift, abs=1e-12)


def test_too_many_raters_for_the_cells_are_said(bench, monkeypatch):
    ratings = bench.ratings(rated_by(bench.rows, ["Ann", "Bob"]))
    bench.correlate(ratings=ratings)
    expected = bench.table()
    monkeypatch.setattr("pipelines.tables.study.MOST_RATER_CELLS", 10)
    _, out, _ = bench.correlate("--fresh", ratings=ratings)
    assert "Agreement among raters is not computed" in out
    assert bench.table().equals(expected)
    assert bench.table("raters").height == 0


def test_equal_means_of_ratings_are_tied_in_any_order(bench):
    by_rater = {"A": [0.1, 0.2, 0.3], "B": [0.3, 0.2, 0.1], "C": [0.9, 0.9, 0.9]}
    keys = {"document_id": "d", "system_id": [*by_rater]}
    scores = pl.DataFrame(keys | {"m": [1, 2, 3]})
    ratings = pl.DataFrame(keys | {"rater": [["x", "y", "z"]] * 3, "overall": [*by_rater.values()]})
    bench.correlate(
        *("--coefficients", "kendall_b,spearman"),
        scores=[bench.scores(scores)],
        ratings=bench.ratings(ratings.explode("rater", "overall")),
    )
    for coefficient, expected in (("kendall_b", (2 / 3) ** 0.5), ("spearman", 0.75**0.5)):
        values = bench.table(coefficient=coefficient)["value"].to_list()
        assert values == pytest.approx([expected] * 3, abs=1e-12)


def test_one_metric_has_nobody_to_be_compared_with(bench):
    assert bench.correlate("--metrics", "good")[0] == 0
    assert bench.table("differences").height == 0
    assert set(bench.table().select("is_best", "is_tied", "p_best").rows()) == {(True, True, None)}


def test_what_was_not_tested_is_not_called_told_apart(bench, monkeypatch):
    """Kendall over too many rows: no tests, and no interval."""
    for module in ("estimates", "comparisons"):
        monkeypatch.setattr(f"pipelines.correlation.{module}.MOST_CELLS_IN_PAIRS", 10)
    _, out, _ = bench.correlate("--levels", "global", "--coefficients", "kendall_b")
    assert "Cannot be told apart from it at 0.05: overall: not tested" in out
    assert "It is not known whether the best metric beats length and density: length could" in out
    assert "No interval: good and overall, global level; poor and overall, global level;" in out
    assert "overall, global level: more than 10 cells" in out
    assert bench.table(is_tied=True, coefficient="kendall_b")["metric"].to_list() == ["good"]


def test_few_systems_have_no_interval(bench):
    """Two systems correlate at 1 or -1: their interval was [1, 1], or none, as the seed had it."""
    rows = bench.rows.filter(pl.col("system_id") < "s3")
    options = ("--levels", "system,summary", "--coefficients", "spearman")
    _, out, _ = bench.correlate(*options, ratings=bench.ratings(rows.select(*KEYS, "overall")))
    good = bench.table(metric="good", coefficient="spearman").sort("level", descending=True)
    assert good["low"].is_not_null().to_list() == [False, True]
    assert "overall, system level: needs at least 4 systems, got 3" in out
    differences = bench.table("differences", level="system")
    assert differences["low"].null_count() == len(differences)


def test_few_resamples_can_still_tell_metrics_apart(bench):
    """Ten swaps have no p-value below 1/11: every metric came out as tied."""
    rows = bench.rows.with_columns(good=pl.col("overall"), poor=-pl.col("overall"))
    bench.correlate(scores=[bench.scores(rows)], n_resamples=10)
    found = bench.table(metric="poor", level="global", coefficient="pearson")
    assert found["is_tied"].to_list() == [False]


@pytest.mark.slow
def test_verdict_of_several_aspects_is_a_list_in_markdown(plain_bench):
    ratings = plain_bench.rows.select(*KEYS, "overall", focus=pl.col("overall") ** 3)
    plain_bench.correlate(ratings=plain_bench.ratings(ratings))
    lines = (plain_bench.out / "report.md").read_text(encoding="utf-8").splitlines()
    place = lines.index("- Cannot be told apart from the best at 0.05:")
    assert [line[:11] for line in lines[place + 1 : place + 3]] == ["  - overall", "  - focus: "]


def test_pools_are_mixed_only_if_asked_for_and_said(bench, refused):
    ratings = bench.ratings(rated_by(bench.rows, ["expert-1", "expert-2", "turker-1"]))
    line = refused(ratings=ratings)
    assert "show 2 pools (expert: expert-1, expert-2; turker: turker-1), which are not" in line
    assert "choose with `--raters 'expert*'`, or with `raters` in a `--config` file" in line
    _, out, _ = bench.correlate("--raters", "expert-*", ratings=ratings)
    assert "raters: expert-*" in out
    assert "Raters kept: 2 of 3 (expert-1, expert-2)" in out
    assert bench.table()["raters"].unique().to_list() == ["expert-*"]
    _, out, _ = bench.correlate("--raters", "*", "--fresh", ratings=ratings)
    assert "Raters of 2 pools are mixed, as chosen: expert, turker" in out


def test_baselines_that_could_not_be_tested_are_not_called_unbeaten(bench):
    rows = bench.rows.with_columns(length=pl.lit(50))
    _, out, _ = bench.correlate(scores=[bench.scores(rows)])
    assert "beats length and density: length could not be tested" in out
    assert "No metric agrees better" not in out
    _, out, _ = bench.correlate(
        "--fresh", scores=[bench.scores(name="a.csv"), bench.scores(name="b.csv")]
    )
    assert "score these, too" not in out
    assert "a/length and b/length" in out
