"""Metrics that are added to a finished run; ids that may be absent, columns that are kept."""

import datetime
import json
import os
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipelines.score as MODULE
from cluster.corpus import with_copies
from cluster.manifest import read_manifest
from pipelines.cli.app import run as run_command
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.tables.scores import find_scores
from sms.scoring import SummaryScorer
from tests.pipelines.test_score_corpus import files_of, table_of, write_rows

ALL = ["rougeL", "wms@tiny", "length", "novelty", "cosine@tiny:source"]
"""Asked for at once; some of them are there before."""
ROWS = [
    {"candidate": "cats sat on mats", "reference": "cats sat", "source": "cats ran"},
    {"candidate": None, "reference": "cats sat", "source": "cats ran"},
    {"candidate": "cats sat", "reference": None, "source": "..."},
    {"candidate": "", "reference": "...", "source": None},
    {"candidate": "unheard of", "reference": "cats", "source": "cats"},
]


@pytest.fixture
def corpus(tmp_path):
    """Ten rows, of which one cannot be read."""
    rows = [{"document_id": f"d{i}", "system_id": "s", **ROWS[i % 5]} for i in range(10)]
    lines = [json.dumps(row) for row in rows]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join([*lines[:7], "{broken", *lines[7:]]), encoding="utf-8")
    return path


@pytest.fixture
def encoders(tmp_path):
    path = tmp_path / "tiny.txt"
    path.write_text("cats 1.0 2.0\nmats 2.0 1.0\nsat 0.5 3.0\nran 1.5 0.5\n")
    return {"tiny": f"glove:{path}"}


@pytest.fixture
def score(corpus, encoders):
    def score(out, metrics, **more):
        more = {"encoders": encoders, "local": True, "workers": 1, "rows_per_shard": 3, **more}
        return score_corpus(corpus, ScoreSettings(out=out, metrics=metrics, **more))

    return score


@pytest.fixture
def at_once(score, tmp_path):
    return score(tmp_path / "whole", ALL)


@pytest.mark.parametrize("first", [["length"], ["rougeL", "novelty"]])
def test_added_metrics_equal_those_of_one_run(score, tmp_path, at_once, first, monkeypatch):
    """And nothing that is there is computed again."""
    out, computed = tmp_path / "out", set()

    class Watched(SummaryScorer):
        def compare(self, batch):
            computed.update(self.score_fields)
            return super().compare(batch)

    score(out, first, rows_per_shard=4)
    monkeypatch.setattr("pipelines.fetched.SummaryScorer", Watched)
    done = score(out, ALL, rows_per_shard=None)  # goes on with shards of the same size
    assert not computed & {*first}
    assert done.to_arrow().equals(at_once.to_arrow())
    for what in ("means", "statuses", "signatures"):
        assert getattr(done, what) == getattr(at_once, what)
    mark = read_manifest(str(out)).fingerprint[:12]
    assert files_of(out) == {"run.json", "_SUCCESS", *(n for n in files_of(out) if mark in n)}
    assert score(out, ALL, rows_per_shard=None).n_new_shards == 0
    assert find_scores(out).signatures == done.signatures


def test_coverage_is_that_of_all_metrics_of_an_encoder(score, tmp_path):
    metrics = ["wms@tiny", "cosine@tiny:source", "sms@tiny"]
    score(tmp_path / "out", metrics[:1])
    with pytest.raises(ValueError, match="`known_words@tiny` would now be computed in another"):
        score(tmp_path / "out", metrics[:2])  # of sources, too
    at_once = score(tmp_path / "whole", metrics)
    score(tmp_path / "out", metrics[:2], fresh=True)
    done = score(tmp_path / "out", metrics)
    assert (done.signatures, done.to_arrow()) == (at_once.signatures, at_once.to_arrow())


def test_adding_that_was_interrupted_goes_on(score, tmp_path, at_once, monkeypatch):
    out = tmp_path / "out"
    score(out, ["length", "novelty"])
    before = files_of(out)
    batches = iter((False, False, True))

    class Stops(SummaryScorer):
        def prepare(self, rows):
            if next(batches):
                raise KeyboardInterrupt
            return super().prepare(rows)

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.fetched.SummaryScorer", Stops)
        with pytest.raises(MODULE.RunInterrupted):
            score(out, ALL)
    parts = {name for name in before if name.startswith("scores/")}
    assert parts < files_of(out)
    assert not (out / "_SUCCESS").exists()
    assert read_manifest(str(out)).base["metrics"] == ["length", "novelty"]
    last = max(out.glob("scores/part-*"))  # of a shard that is still to do
    lost = last.rename(tmp_path / last.name)
    with pytest.raises(ValueError, match=r"has lost scores .* rows 8 to 10 .*; put"):
        score(out, ALL)
    lost.rename(last)
    done = score(out, ALL)
    assert 0 < done.n_earlier_rows < done.n_rows
    assert done.to_arrow().equals(at_once.to_arrow())
    assert not parts & files_of(out)
    assert read_manifest(str(out)).base == {}


def test_other_settings_are_refused_with_more_metrics_too(score, tmp_path):
    out = tmp_path / "out"
    score(out, ["rougeL"])
    before = files_of(out)
    for metrics, keep, name in ((["rougeL", "length"], ["source"], "keep"),
                                (["length", "novelty"], [], "metrics")):  # fmt: skip
        with pytest.raises(ValueError, match=f"holds another run: .*`{name}` was"):
            score(out, metrics, keep=keep)
    assert files_of(out) == before
    next((out / "scores").iterdir()).unlink()
    with pytest.raises(ValueError, match="has not finished, and metrics can only be added"):
        score(out, ["rougeL", "novelty"])


def test_what_has_changed_is_refused_with_more_metrics_too(score, tmp_path, corpus):
    out = tmp_path / "out"
    score(out, ["wms@tiny"])
    with (tmp_path / "tiny.txt").open("a") as file:
        file.write("heard 1.0 1.0\n")
    with pytest.raises(ValueError, match="the vectors of encoder `tiny` have changed"):
        score(out, ["wms@tiny", "length"])
    score(out, ["length"], fresh=True)
    corpus.write_text(corpus.read_text() + '\n{"candidate": "more"}')
    with pytest.raises(ValueError, match="input file changed"):
        score(out, ["length", "novelty"])


# Ids, system, kept columns


def test_ids_are_optional(tmp_path):
    """By the command, over two files: the number of the row in both, and one system."""
    paths = [write_rows(tmp_path / f"{name}.jsonl", ROWS[:2]) for name in "ab"]
    out = tmp_path / "out"
    command = ["score", *paths, "--out", out, "--metrics", "length", "--system", "mine", "--local"]
    assert run_command([*map(str, command)]) == 0
    table = table_of(out)
    assert table["document_id"].to_pylist() == ["0", "1", "2", "3"]
    assert table["system_id"].unique().to_pylist() == ["mine"]
    assert table["input_file"].to_pylist() == [str(path) for path in paths for _ in range(2)]
    assert table["input_row"].to_pylist() == [0, 1, 0, 1]


def test_folder_of_the_copies_is_there_before_they_are_made(tmp_path, monkeypatch):
    there = []
    convert = lambda file, folder, **_: there.append(os.listdir(folder))  # noqa: E731
    monkeypatch.setattr("cluster.corpus.parquet_copy", convert)
    with_copies(["a.jsonl", "b.jsonl"], str(tmp_path), None, None)
    assert there == [["inputs"]] * 2


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize("keep", [["year", "keep:x"], ["all"]])
def test_kept_columns_are_in_the_scores_and_are_no_metrics(tmp_path, format, keep):
    """A column that is called like our copy of another one is not taken for it."""
    rows = [{"candidate": "text", "year": 2000 + i, "x": "a", "keep:x": "é" * i} for i in range(3)]
    out = tmp_path / "out"
    settings = {"metrics": ["length"], "local": True, "rows_per_shard": 2, "keep": keep}
    run = score_corpus(
        write_rows(tmp_path / f"corpus.{format}", rows), ScoreSettings(out=out, **settings)
    )
    names = [*rows[0]] if keep == ["all"] else keep
    kept = table_of(out).select(names)
    assert table_of(out).column_names[-len(names) :] == names
    kind = int if format == "parquet" else str
    assert kept["year"].to_pylist() == [kind(row["year"]) for row in rows]
    assert kept["keep:x"].to_pylist() == [row["keep:x"] for row in rows]
    assert {*run.means["system"]} == {"length"}


@pytest.mark.parametrize(
    ("rows", "keep", "message"),
    [
        (ROWS, ["year"], "column `year` of `--keep` is missing"),
        (
            [{"candidate": "a", "status": 3, "corpus.status": 4}],
            ["all"],
            "got two that `corpus.status` would stand for in the scores",
        ),
    ],
)
def test_column_that_cannot_be_kept_rejected(tmp_path, rows, keep, message):
    path, out = write_rows(tmp_path / "corpus.jsonl", rows), tmp_path / "out"
    with pytest.raises(ValueError, match=message):
        score_corpus(path, ScoreSettings(out=out, metrics=["length"], keep=keep))
    assert not out.exists()


def test_kept_column_called_like_one_of_ours_has_another_name_in_the_scores(tmp_path):
    rows = [{"candidate": "a b", "status": "done", "length": "long", "year": "2000"}]
    run = score_corpus(
        write_rows(tmp_path / "corpus.parquet", rows),
        ScoreSettings(out=tmp_path / "out", metrics=["length"], keep=["all"], local=True),
    )
    (row,) = run.to_arrow().to_pylist()
    assert (row["status"], row["length"]) == (None, 2.0)
    kept = {name: row[name] for name in ("corpus.status", "corpus.length", "candidate", "year")}
    assert [*kept.values()] == ["done", "long", "a b", "2000"]


LISTED = pa.array([[1], [2, 3], None], pa.list_view(pa.int64()))
ODD_TYPES = {
    "list_view": LISTED,
    "large_list_view": pa.array([[1], [2, 3], None], pa.large_list_view(pa.int64())),
    "struct": pa.array([{"a": [1]}, {"a": None}, None], pa.struct([("a", LISTED.type)])),
    "map": pa.array([[("a", [1])], None, []], pa.map_(pa.string(), LISTED.type)),
    "fixed": pa.array([[[1], [2]], None, [[], [3]]], pa.list_(LISTED.type, 2)),
    "string_view": pa.array(["a", "b", None], pa.string_view()),
    "binary_view": pa.array([b"a", b"b", None], pa.binary_view()),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "lists_of_dictionaries": pa.array(
        [["a"], ["b"], None], pa.list_(pa.dictionary(pa.int32(), pa.string()))
    ),
    "uuid": pa.array([bytes(16), None, bytes(range(16))], pa.uuid()),
    "json": pa.array(["{}", "[1]", None], pa.json_()),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("2.00")]),
    "many_digits": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal256(50, 2)),
    "duration": pa.array([datetime.timedelta(1), None, datetime.timedelta(2)]),
    "time": pa.array([datetime.time(1), None, datetime.time(2)]),
    "no_zone": pa.array([datetime.datetime(2026, 1, 1)] * 3, pa.timestamp("us", "Mars/X")),
    "half": pa.array([1.0, None, 2.0], pa.float16()),
    "null": pa.nulls(3),
}


def test_kept_column_of_any_type_can_be_read_from_the_scores(tmp_path):
    """By Arrow, and by polars, which refuses a whole file for a column of some types."""
    texts = {"candidate": ["a", "b c", "d"], "document_id": ["1", "2", "3"]}
    pq.write_table(pa.table(texts | ODD_TYPES), tmp_path / "corpus.parquet")
    out, keep = tmp_path / "out", [*ODD_TYPES]
    run = score_corpus(
        tmp_path / "corpus.parquet",
        ScoreSettings(out=out, metrics=["length"], keep=keep, local=True),
    )
    given = pq.read_table(tmp_path / "corpus.parquet")
    found = run.to_arrow()
    for name in {*ODD_TYPES} - {"many_digits", "no_zone"}:
        assert found[name].to_pylist() == given[name].to_pylist(), name
    assert found["many_digits"].to_pylist() == ["1.50", None, "2.00"]
    assert found["no_zone"].to_pylist() == [datetime.datetime(2026, 1, 1)] * 3
    parts = [str(part) for part in out.glob("scores/*.parquet")]
    assert pl.read_parquet(parts)["length"].to_list() == [1.0, 2.0, 1.0]
    assert run.to_polars().height == 3


@pytest.mark.parametrize(("other", "year"), [("parquet", "2000"), ("jsonl", 2000)])
def test_kept_column_of_two_types_rejected(tmp_path, other, year):
    """In JSONL, values are kept as text; categories are texts."""
    topics = pa.array(["north"]).dictionary_encode()
    table = pa.table({"candidate": ["a"], "year": [2000], "topic": topics})
    pq.write_table(table, tmp_path / "a.parquet")
    write_rows(tmp_path / f"b.{other}", [{"candidate": "a", "year": year, "topic": "south"}])
    out, options = tmp_path.with_suffix(".out"), {"metrics": ["length"], "local": True}
    with pytest.raises(ValueError, match="`year` of `--keep` must be of one type in all files"):
        score_corpus(tmp_path, ScoreSettings(out=out, keep=["year"], **options))
    score_corpus(tmp_path, ScoreSettings(out=out, keep=["topic"], **options))
    assert table_of(out)["topic"].to_pylist() == ["north", "south"]
