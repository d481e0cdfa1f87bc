"""`correlate` as a whole: tables that agree with each other, the folder, the seed, the report."""

import re

import numpy as np
import polars as pl
import pytest

from agreement import holm
from assay import correlate
from pipelines.cli.app import run
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.records import TABLES

KEYS = ["document_id", "system_id"]


@pytest.fixture
def result(bench):
    return correlate(bench.scores(), ratings=bench.ratings(), resamples=50)


def test_command_writes_what_the_function_returns_with_its_seed(bench, result):
    bench.correlate(n_resamples=50)
    for name, schema in TABLES.items():
        found = getattr(result, name)
        assert found.schema == schema
        assert bench.table(name).equals(found), name
        (path,) = bench.out.rglob(f"{name}.csv")
        assert pl.read_csv(path).height == found.height
    floats = result.correlations.select(pl.selectors.float())
    assert not any(column.is_nan().any() for column in floats)
    other = correlate(bench.scores(), ratings=bench.ratings(), resamples=50, seed=1)
    assert not other.correlations.equals(result.correlations)


def test_corrections_are_over_the_pairs_of_a_family(bench):
    """Of three metrics with a baseline: two pairs with the best, two with it, three in all."""
    result = correlate(bench.scores(), ratings=bench.ratings(), resamples=50, pairs="all")
    keys = ["aspect", "level", "coefficient", "test", "against"]
    families = result.differences.partition_by(keys, as_dict=True)
    assert {(key[-1], family.height) for key, family in families.items()} == {
        ("best", 2), ("length", 2), ("all", 3),
    }  # fmt: skip
    for family in families.values():
        p_values = family["p_value"].to_numpy()
        np.testing.assert_allclose(family["p_holm"].to_numpy(), holm(p_values))


def test_differences_are_differences_of_the_correlations(result):
    key = ["level", "coefficient", "metric"]
    values = {tuple(place): x for *place, x in result.correlations.select(*key, "value").rows()}
    rows = result.differences
    for row in rows.iter_rows(named=True):
        a, b = (values[row["level"], row["coefficient"], row[f"metric_{x}"]] for x in "ab")
        assert row["difference"] == pytest.approx(a - b, abs=1e-12)
    assert (rows["low"] <= rows["high"]).all()
    williams = rows.filter(test="williams")
    assert (williams["statistic"].sign() == williams["difference"].sign()).all()
    assert williams["p_value"].is_between(0, 1).all()
    assert williams.height == 4  # two with the best, two with the baseline


def test_interval_over_a_single_document_says_that_it_is_over_systems(plain_bench):
    one = plain_bench.rows.filter(document_id="d3")
    inputs = {"scores": [plain_bench.scores(one)], "ratings": plain_bench.ratings(one)}
    _, out, _ = plain_bench.correlate("--levels", "system", "--coefficients", "pearson", **inputs)
    assert set(plain_bench.table()["interval"].drop_nulls()) == {"bootstrap-systems"}
    for text in (out, (plain_bench.out / "report.html").read_text()):
        assert re.search(r"intervals over systems[;.]|intervals over systems \(", text)
        assert "systems and documents (" not in text
        assert "over systems and documents." not in text


def test_best_is_the_highest_that_is_no_baseline_and_tied_are_those_not_told_apart(result):
    for family in result.correlations.partition_by(["aspect", "level", "coefficient"]):
        judged = family.filter(~pl.col("is_baseline")).sort("value", descending=True)
        assert family.filter("is_best")["metric"].to_list() == [judged["metric"][0]]
        tied = family["is_best"] | (family["p_best"] > 0.05).fill_null(value=False)
        assert family["is_tied"].equals(tied)
    tests = result.differences.filter(against="best", test="perm-both")
    found = result.correlations.drop_nulls("p_best")
    assert sorted(found["p_best"]) == sorted(tests["p_holm"])


def test_worst_disagreement_by_hand(bench):
    worst = bench.rows.filter(document_id="d3").sort("overall")["system_id"][0]
    is_it = (pl.col("document_id") == "d3") & (pl.col("system_id") == worst)
    rows = bench.rows.with_columns(good=pl.when(is_it).then(99.0).otherwise("overall"))
    found = correlate(bench.scores(rows), ratings=bench.ratings(), resamples=5)
    row = found.disagreements.filter(metric="good").row(0, named=True)
    assert (row["document_id"], row["system_id"]) == ("d3", worst)
    assert (row["score_rank"], row["rating_rank"], row["gap"]) == (1.0, 0.0, 1.0)


def test_report_is_not_replaced_unasked_nor_are_other_files(bench):
    mine, stale = bench.out / "thesis.tex", bench.out / "plots" / "old.svg"
    stale.parent.mkdir(parents=True)
    mine.write_text("mine")
    for arguments in ([], ["--fresh"]):
        status, _, err = bench.correlate(*arguments)
        assert status == 2
        assert "holds files that are not part of an assay report (thesis.tex)" in err
    mine.unlink()
    stale.parent.rmdir()
    bench.correlate()
    status, _, err = bench.correlate()
    assert status == 2
    assert "holds a report already; use `--fresh` to replace it" in err
    stale.parent.mkdir()
    for path in (mine, stale):
        path.write_text("mine")
    assert bench.correlate("--fresh")[0] == 0
    assert (mine.read_text(), stale.exists()) == ("mine", False)


def test_about_says_how_to_make_it_again(bench):
    bench.correlate("--levels", "system", "--seed", "3", "--aspects", "overall")
    about = bench.about()
    assert re.match("assay correlate .* --levels system ", about["command"])
    assert [each["level"] for each in about["verdicts"]] == ["system"] * 3
    assert (about["seed"], about["n_resamples"], about["n_documents"]) == (3, 20, 8)
    assert [each["role"] for each in about["inputs"]] == ["scores", "ratings"]
    assert all(len(each["sha256"]) == 64 for each in about["inputs"])


def test_levels_and_coefficients_are_kept_to(bench):
    bench.correlate("--levels", "summary,global", "--coefficients", "kendall_b,spearman")
    plain = {"kendall_b", "spearman"}
    kinds = {"correlations": plain | {f"partial_{name}" for name in plain}, "differences": plain}
    for name, coefficients in kinds.items():
        assert set(bench.table(name)["level"]) == {"summary", "global"}
        assert set(bench.table(name)["coefficient"]) == coefficients


@pytest.mark.parametrize(
    ("levels", "coefficients", "shown", "header"),
    [
        ("system,global", "spearman,pearson", "spearman with", "system level global level"),
        ("system", "soft_pairwise_accuracy,pearson", "soft_pairwise_accuracy w", "system level"),
        ("global", "pairwise_accuracy,pearson", "pearson with", "global level"),
    ],
)
def test_first_coefficient_that_the_first_level_has_is_shown(
    bench, levels, coefficients, shown, header
):
    _, out, _ = bench.correlate("--levels", levels, "--coefficients", coefficients)
    lines = out.splitlines()
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith(shown)) :]
    assert lines[3].split() == ["overall", *header.split()]
    first = levels.partition(",")[0]
    (value,) = bench.table(metric="good", coefficient=shown.split()[0], level=first)["value"]
    assert lines[4].split()[:2] == ["good", f"{value:.3f}"]


@pytest.mark.parametrize(
    ("asked", "n_rows", "expected"),
    [
        ({}, 30, ("summary", "spearman")),
        ({}, 29, ("global", "spearman")),
        ({"levels": ["system", "summary"]}, 30, ("system", "pearson")),
        ({"coefficients": ["kendall_b", "pearson"]}, 30, ("summary", "kendall_b")),
    ],
)
def test_verdict_is_about_what_was_asked_for_else_as_of_judge(asked, n_rows, expected):
    settings = CorrelateSettings(ratings="r.csv", **asked)
    assert settings.lead(n_rows, n_documents=10) == expected


def test_no_level_rejected():
    said = "`--levels` and .* must name at least one of system, summary"
    with pytest.raises(ValueError, match=said):
        CorrelateSettings(ratings="r.csv", levels=())


def test_command_without_a_folder_rejected(capsys):
    assert run(["correlate", "scores.csv", "--ratings", "r.csv"]) == 2
    assert "`--out DIR` is missing" in capsys.readouterr().err


def test_progress_goes_to_standard_error(bench, capsys):
    arguments = ["--ratings", bench.ratings(), "--out", str(bench.out), "--resamples", "5"]
    assert run(["correlate", bench.scores(), *arguments]) == 0
    captured = capsys.readouterr()
    assert re.fullmatch(r"27 of 27 tests \(100%\).*\n", captured.err)
    assert captured.out.startswith("Use good for overall (")


def test_a_report_is_four_files_unless_all_are_asked_for(bench):
    """The page and the Markdown, which this command leaves out, and these two."""
    correlate(bench.scores(), ratings=bench.ratings(), out=bench.out, levels="system", resamples=5)
    names = sorted(path.name for path in bench.out.iterdir())
    assert names == ["correlations.parquet", "report.json"]
