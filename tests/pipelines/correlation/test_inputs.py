"""What `assay correlate` reads: kinds of files, runs of `assay score`, names, keys."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.tables.keyed import files_of
from pipelines.tables.scores import ScoreInput, read_scores
from tests.pipelines.correlation.conftest import KEYS

BY_PATH_OR_URL = pytest.mark.parametrize("named", [str, Path.as_uri], ids=["path", "url"])


@pytest.fixture
def run_folder(bench):
    """Score a corpus of the study's keys with two quick metrics; return the folder."""
    words = ["cats", "sat", "on", "mats", "today"]
    candidates = [" ".join(words[: 1 + 3 * k % 5]) for k in range(len(bench.rows))]
    rows = bench.rows.select(
        *KEYS,
        candidate=pl.Series(candidates),
        reference=pl.format("cats sat on {}", "document_id"),
    )
    corpus, folder = bench.write("corpus.parquet", rows), bench.folder / "run"
    score_corpus(
        corpus,
        ScoreSettings(out=folder, metrics=("rouge1_r", "length"), local=True, rows_per_shard=10),
    )
    return folder


@pytest.mark.parametrize(
    ("name", "named"),
    [("scores.csv", str), ("scores.jsonl", str), ("scores.csv", lambda path: Path(path).as_uri())],
)
def test_formats_and_urls_agree_with_parquet(bench, name, named):
    bench.correlate()
    expected = bench.table()
    bench.correlate("--fresh", scores=[named(bench.scores(name=name))])
    assert bench.table().equals(expected)


@pytest.mark.parametrize("zeros", ["", "00"])
def test_ids_are_compared_as_text(bench, zeros):
    number = pl.col("document_id").str.strip_prefix("d")
    text = bench.rows.with_columns(document_id=pl.format(f"{zeros}{{}}", number))
    scores = text if zeros else bench.rows.with_columns(document_id=number.cast(pl.Int32))
    name = "scores.csv" if zeros else "scores.parquet"
    ratings = bench.ratings(text.select(*KEYS, "overall"), "ratings.csv")
    status, _, _ = bench.correlate(scores=[bench.scores(scores, name)], ratings=ratings)
    assert status == 0
    assert bench.table()["n_missing"].unique().to_list() == [0]
    assert set(bench.table("disagreements")["document_id"]) <= {f"{zeros}{j}" for j in range(8)}


@BY_PATH_OR_URL
def test_run_folder_is_read_by_its_committed_parts(bench, run_folder, named):
    stray = bench.rows.select(*KEYS, rouge1_r=9.0, length=9.0)
    stray.write_parquet(run_folder / "scores" / "part-000000-ffffffffffff.parquet")
    assert bench.correlate(scores=[named(run_folder)])[0] == 0
    assert bench.table("systems", kind="metric")["mean"].max() < 9.0
    about = bench.about()
    assert set(about["signatures"]) == {"rouge1_r", "length"}
    assert "rouge1" in about["signatures"]["rouge1_r"]
    assert [each["role"] for each in about["inputs"]] == ["scores"] * 5 + ["ratings"]


@BY_PATH_OR_URL
def test_run_without_a_part_rejected_finished_or_not(refused, run_folder, named):
    next((run_folder / "scores").glob("part-000001-*")).unlink()
    assert "must hold 5 scores files of its run, got 4" in refused(scores=[named(run_folder)])
    (run_folder / "_SUCCESS").unlink()
    assert "has not finished" in refused(scores=[named(run_folder)])


def test_same_metric_of_two_inputs_is_named_by_input(bench):
    first = bench.rows.select(*KEYS, "good", "poor")
    second = bench.rows.select(*KEYS, good=-pl.col("good"), extra="poor")
    paths = [bench.scores(first, "a/run.parquet"), bench.scores(second, "b/run.parquet")]
    _, out, _ = bench.correlate(scores=paths)
    rows = bench.table(level="system", coefficient="pearson")
    values = dict(rows.select("metric", "value").iter_rows())
    assert list(values) == ["a/run/good", "poor", "b/run/good", "extra"]
    assert values["a/run/good"] == pytest.approx(-values["b/run/good"], abs=1e-12)
    assert "Columns that several inputs have are named by input: a/run/good, b/run/good" in out


def test_metric_of_other_files_is_refused_and_of_the_same_named_by_input(bench):
    keys = bench.rows.select(KEYS).sort(KEYS)

    def read(**signatures):
        frame = bench.rows.select(*KEYS, "good")
        inputs = [
            ScoreInput(path=path, files=files_of(path), signatures={"good": signature})
            for name, signature in signatures.items()
            for path in [bench.scores(frame, f"{name}.parquet")]
        ]
        return read_scores(inputs, keys, columns={})

    said = r"`good` must be computed with the same files .*/a\.parquet and .*/b\.par"
    with pytest.raises(ValueError, match=said):
        read(a="good|enc:v|hash:0a1b", b="good|enc:v|hash:2c3d")
    same = "good|enc:v|hash:0a1b"
    found = read(a=same, c=same, d="good|enc:v|hash:2c|ref:mean")
    assert found.metrics == ["a/good", "c/good", "d/good"]


@pytest.mark.parametrize(
    ("names", "options", "metrics"),
    [
        ({"good": "known_words@minilm", "poor": "cut@runs/news"}, [], {"length"}),
        ({"poor": "cut@runs/news"}, ["--metrics", "cut@runs/news"], {"cut@runs/news"}),
        (
            {"document_id": "doc", "system_id": "model", "good": "score"},
            ["--columns", "document_id=doc,system_id=model", "--columns", "mine=score"],
            {"mine", "poor", "length"},
        ),
    ],
    ids=["about the rows", "about the rows, named", "renamed"],
)
def test_columns_that_are_metrics(bench, names, options, metrics):
    status, _, _ = bench.correlate(*options, scores=[bench.scores(bench.rows.rename(names))])
    assert status == 0
    assert set(bench.table()["metric"]) == metrics


def test_name_with_signs_of_a_pattern_names_one_file(bench):
    bench.scores(name="a1.jsonl", frame=bench.rows.head(0))
    assert bench.correlate(scores=[bench.scores(name="a[1]*.jsonl")])[0] == 0


def test_metric_is_chosen_by_column_or_full_name(bench):
    paths = [bench.scores(name=f"{name}.parquet") for name in ("one", "two")]
    bench.correlate("--metrics", "good,two/poor", scores=paths)
    assert set(bench.table()["metric"]) == {"one/good", "two/good", "two/poor"}


def test_columns_called_like_patterns_are_columns(bench):
    """Polars takes `*` for all columns and `^o.*$` for those that match."""
    found = []
    for first, second in [("*", "^o.*$"), ("good", "poor")]:
        scores = bench.rows.select(*KEYS, pl.col("good").alias(first), pl.col("poor").alias(second))
        ratings = bench.rows.select(*KEYS, pl.col("overall").alias(first), overall="poor")
        paths = [bench.scores(scores)]
        assert bench.correlate("--fresh", scores=paths, ratings=bench.ratings(ratings))[0] == 0
        found.append(bench.table(aspect=first, metric=first)["value"])
    assert found[0].equals(found[1])
