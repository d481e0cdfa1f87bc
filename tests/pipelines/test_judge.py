"""`assay judge`: the numbers are those of scoring and correlating, the words say what they say."""

import json
import shlex
from pathlib import Path

import polars as pl
import pytest

import assay
from pipelines.cli.app import run
from pipelines.reports.verdict import verdict_of

ROOT = Path(__file__).parents[2]
LADDER = ROOT / "pipelines/examples/quality_ladder.jsonl"
RATED = ROOT / "pipelines/examples/written_quality.csv"
KEYS = ["document_id", "system_id"]


@pytest.fixture
def quick(monkeypatch):
    """Judge metrics that need no model."""
    usual = ("length", "density", "rouge1", "rougeL", "rouge2_p:source")
    monkeypatch.setattr("pipelines.judge.USUAL", usual)


@pytest.fixture
def ratings(tmp_path):
    """Ratings of half of the documents."""
    rated = pl.read_csv(RATED)
    some = rated["document_id"].unique().sort()[::2].to_list()
    rated.filter(pl.col("document_id").is_in(some)).write_csv(tmp_path / "ratings.csv")
    return tmp_path / "ratings.csv"


def test_what_is_left_out_of_ratings_is_said(quick, ratings, capsys):
    rated = pl.read_csv(ratings).with_columns(fluency=pl.lit("4,5"))
    rated = pl.concat([rated, rated.head(1).with_columns(document_id=pl.lit("elsewhere"))])
    rated.write_csv(ratings)
    words = ["judge", str(LADDER), "--ratings", str(ratings), "--quiet", "--resamples", "50"]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    said = f"Column `fluency` of {ratings} is left out because its cells are not numbers"
    assert lines[5].startswith(said)
    assert lines[6:8] == [f"1 rated row is not in {LADDER}", ""]


def test_verdict_is_that_of_scoring_and_correlating_the_rated_rows(
    quick, ratings, tmp_path, capsys
):
    out = tmp_path / "judged"
    words = ["judge", str(LADDER), "--ratings", str(ratings), "--out", str(out), "--quiet"]
    words += ["--resamples", "200", "--metrics", "compression"]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [json.loads(line) for line in LADDER.read_text().splitlines()]
    metrics = ["length", "density", "rouge1_f", "rougeL_f", "rouge2_p:source", "compression"]
    scores = tmp_path / "scores.parquet"
    table = pl.DataFrame(assay.score(rows, metrics=metrics))
    table.drop("source", "candidate", "references", "status").write_parquet(scores)
    how = {"levels": ["summary", "system", "global"], "resamples": 200}
    coefficients = ["spearman", "pearson", "kendall_b"]
    expected = assay.correlate(scores, ratings=ratings, coefficients=coefficients, **how)
    found = pl.read_parquet(out / "report" / "correlations.parquet")
    assert found.equals(expected.correlations)
    verdict = verdict_of(expected, "summary", "spearman")
    assert [line.partition(" (cheapest")[0] for line in lines[:3]] == verdict.lines()
    assert lines[3] == (
        "(Summary level, Spearman \N{GREEK SMALL LETTER RHO}; "
        "35 rows of 5 systems and 7 documents, raters: not named)"
    )
    assert lines[4].startswith("Summary level asks: does a metric order the summaries of one")
    (best,) = [each.metric.removesuffix("_f") for each in verdict.aspects]
    assert lines[6].startswith("Whole corpus: 70 rows at ")
    assert f"({best}, measured just now)" in lines[6]
    command = ["assay", "score", str(LADDER), "--out", "scores", "--metrics", best]
    assert shlex.split(lines[-1]) == command
    assert run(words) == 0  # goes on


@pytest.mark.slow
def test_rows_and_ratings_in_memory_are_judged_like_files_whatever_their_names(quick, ratings):
    of_files = assay.judge(LADDER, ratings=ratings, resamples=50)
    ours = {"document_id": "Artikel", "system_id": "Modell", "candidate": "Text"}
    rated = pl.read_csv(ratings).rename({name: ours[name] for name in KEYS})
    rated = rated.to_dict(as_series=False)
    frame = pl.read_ndjson(LADDER).rename(ours)
    of_rows = assay.judge(frame, ratings=rated, columns=ours, resamples=50)
    assert of_rows.verdict == of_files.verdict
    assert of_rows.result.correlations.equals(of_files.result.correlations)
    (best,) = of_files.chosen
    assert (
        of_rows.command == f"assay.score(rows, out='scores', metrics=({best!r},), columns={ours})"
    )


def test_ratings_may_have_other_names_than_the_texts(quick, ratings, tmp_path):
    texts, rated = tmp_path / "texts.csv", tmp_path / "people.csv"
    theirs = {"document_id": "Meeting ID", "system_id": "Model", "candidate": "Minutes"}
    frame = pl.read_ndjson(LADDER).drop("source")
    frame = frame.with_columns(reference=pl.col("references").list.first()).drop("references")
    frame.rename(theirs).write_csv(texts, separator=";")
    in_ratings = {"document_id": "meeting", "system_id": "model"}
    pl.read_csv(ratings).rename(in_ratings).write_csv(rated)
    columns = theirs | {f"ratings.{ours}": name for ours, name in in_ratings.items()}
    expected = assay.judge(frame, ratings=pl.read_csv(ratings), resamples=20)
    found = assay.judge(texts, ratings=rated, columns=columns, resamples=20)
    assert found.result.correlations.equals(expected.result.correlations)
    assert "ratings." not in found.command
    for wrong, message in (
        (theirs, r"which has meeting, model.*`--columns ratings\.document_id=NAME`"),
        (columns | {"ratings.candidate": "x"}, "got `ratings.candidate`; aspects keep their names"),
    ):
        with pytest.raises(ValueError, match=message):
            assay.judge(texts, ratings=rated, columns=wrong, resamples=20)


def test_metrics_are_those_whose_inputs_there_are_or_that_are_asked_for(quick, ratings):
    frame = pl.read_ndjson(LADDER).drop("references")
    found = assay.judge(frame, ratings=ratings, metrics=["length"], resamples=20)
    assert found.result.score_names == ["density", "rouge2_p:source", "length"]


def test_few_systems_on_a_document_are_judged_over_all_rows(quick, ratings):
    two = pl.read_csv(ratings).filter(pl.col("system_id").is_in(["good", "vague"]))
    assert assay.judge(LADDER, ratings=two, resamples=20).verdict.level == "global"


def test_no_rated_row_rejected(quick, tmp_path, capsys):
    other = pl.read_csv(RATED).with_columns(document_id=pl.lit("x") + pl.col("document_id"))
    other.write_csv(tmp_path / "ratings.csv")
    words = ["judge", str(LADDER), "--ratings", str(tmp_path / "ratings.csv"), "--quiet"]
    assert run(words) == 2
    assert "quality_ladder.jsonl is rated; ratings have (x" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["judge", "correlate", "compare"])
def test_columns_that_no_file_has_are_refused(verb, ratings):
    second = (ratings,) if verb == "compare" else ()
    others = {} if verb == "compare" else {"ratings": ratings}
    with pytest.raises(ValueError, match="`--columns` must name a column of the files, got `cand"):
        getattr(assay, verb)(ratings, *second, columns={"candidate": "nope"}, **others)


def test_metric_that_is_not_to_be_used_is_not_in_the_command(quick, ratings):
    """Both aspects have a best metric; that of the second falls as its ratings rise."""
    rated = pl.read_csv(ratings).with_columns(upside_down=-pl.col("written_quality"))
    found = assay.judge(LADDER, ratings=rated, resamples=20)
    usable, unusable = found.verdict.aspects
    assert (usable.is_usable, unusable.is_usable) == (True, False)
    assert usable.metric != unusable.metric
    assert "no metric for upside_down" in found.text()
    assert found.chosen == tuple(name.removesuffix("_f") for name in (usable.metric,))
