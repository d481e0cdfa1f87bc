"""What `assay correlate` reads: kinds of files, runs of `assay score`, names, keys."""

import gzip
from pathlib import Path

import polars as pl
import pytest

from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.tables.keyed import files_of, number_columns
from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import ScoreInput, find_scores, read_scores

KEYS = ["document_id", "system_id"]
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


def test_numbers_in_text_and_gaps():
    columns = {"x": [" 1.5", "", "nan"], "y": [True, False, None], "z": ["p", "q", None]}
    frame = pl.DataFrame({"document_id": ["a", "b", "c"], "system_id": "s", **columns})
    found, kept, _ = number_columns(frame, ["x", "y", "z"], "here")
    assert found["x"].to_list() == [1.5, None, None]
    assert found["y"].to_list() == [1.0, 0.0, None]
    assert kept == ["x", "y"] == found.columns[2:]


@pytest.mark.parametrize("cells", [["12.3%", "45 %"], ["0,12", "3,4"], ["1,234", "2,345"]])
def test_column_of_numbers_written_in_another_way_is_left_out_aloud(tmp_path, cells):
    path = tmp_path / "table.csv"
    columns = {"x": cells, "y": [1, 2], "z": ["p", "q"]}
    frame = pl.DataFrame({"document_id": ["a", "b"], "system_id": "s", **columns})
    frame.write_csv(path)
    scores = read_scores([find_scores(path)], frame.select(KEYS), columns={})
    ratings = read_ratings(path, columns={})
    for found in (scores, ratings):
        (note,) = [note for note in found.notes if "is left out" in note]
        said = f"Column `x` of {path} is left out because its cells are not numbers: {cells[0]!r}"
        assert note.startswith(said)
    assert scores.metrics == ratings.aspects == ["y"]
    frame.drop("y").write_csv(path)
    with pytest.raises(ValueError, match=r"the keys, got x .*\. Column `x` of .* write them as 12"):
        read_ratings(path, columns={})


@pytest.mark.parametrize(
    ("name", "separator"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("a.csv.gz", ";")]
)
def test_ratings_separated_otherwise_are_the_same(tmp_path, name, separator):
    frame = pl.DataFrame({"document_id": ["a", "b; c"], "system_id": ["s", "t"], "x": [1.5, 2]})
    text = frame.write_csv(separator=separator).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    found = read_ratings(str(path), columns={})
    assert found.aspects == ["x"]
    assert found.frame.select(frame.columns).sort("document_id").rows() == frame.rows()


def test_files_of_one_input_may_be_of_any_kinds(tmp_path):
    frame = pl.DataFrame({"document_id": ["a"], "system_id": ["s"], "x": [1.5]})
    frame.write_csv(tmp_path / "a.csv")
    frame.with_columns(document_id=pl.lit("b")).write_csv(tmp_path / "b.csv", separator=";")
    frame.with_columns(document_id=pl.lit("c")).write_parquet(tmp_path / "c.parquet")
    frame.with_columns(document_id=pl.lit("d")).write_ndjson(tmp_path / "d.jsonl")
    ratings = read_ratings(str(tmp_path), columns={})
    assert ratings.frame.rows() == [(document, "s", 1.5) for document in "abcd"]


def test_column_that_is_there_twice_is_refused_if_it_is_read(tmp_path):
    """Which of the two would count?"""
    path = tmp_path / "a.csv"
    path.write_text("document_id,system_id,note,x,note\na,s,,1.5,\n")
    assert read_ratings(path, aspects=["x"], columns={}).frame.rows() == [("a", "s", 1.5)]
    path.write_text("document_id,system_id,x,x\na,s,1.5,2.5\n")
    with pytest.raises(ValueError, match=r"column `x` must be in .*a\.csv once, got it 2 times"):
        read_ratings(path, aspects=["x"], columns={})


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_numbers_of_every_kind_are_ratings(tmp_path, suffix):
    """Worked out by Python's `float`."""
    rows = [
        {"document_id": "a", "system_id": "s", "x": 2**60, "y": True, "z": 0.1, "note": "1 of 2"},
        {"document_id": "b", "system_id": "s", "x": None, "y": False, "z": 1e-7, "note": "x"},
        {"document_id": "c", "system_id": "s", "x": -3, "y": None, "z": 12, "note": None},
    ]
    path = tmp_path / f"a.{suffix}"
    frame = pl.DataFrame(rows, strict=False)
    write = {"jsonl": frame.write_ndjson, "csv": frame.write_csv}
    write.get(suffix, frame.write_parquet)(path)
    ratings = read_ratings(path, columns={})
    assert ratings.aspects == ["x", "y", "z"]
    expected = [[None if row[name] is None else float(row[name]) for name in "xyz"] for row in rows]
    assert [list(row[2:]) for row in ratings.frame.rows()] == expected


def test_rows_that_cannot_be_read_are_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('document_id,system_id,x\na,s,1\nb,s,1,5\nc,s,"2"3\nd,S,true\n')
    ratings = read_ratings(path, columns={})
    assert ratings.frame.rows() == [("a", "s", 1.0), ("d", "S", 1.0)]
    (note,) = (note for note in ratings.notes if "cannot" in note)
    assert note == (
        f"2 rows cannot be read and are left out: line 3 of {path} (malformed CSV: 3 columns "
        f"expected, got 4), line 4 of {path} (malformed CSV: a quotation mark in line 4 is stray)"
    )


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
