"""Ids that may be absent, and columns of the corpus that are kept beside the scores."""

import datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.app import run as run_command
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from tests.pipelines.corpora import table_of
from tests.row_files import write_rows

ROWS = [
    {"candidate": "cats sat on mats", "reference": "cats sat"},
    {"candidate": None, "reference": "cats sat"},
]


def test_ids_are_optional(tmp_path):
    """By the command, over two files: the number of the row in both, and one system."""
    paths = [write_rows(tmp_path / f"{name}.jsonl", ROWS) for name in "ab"]
    out = tmp_path / "out"
    command = ["score", *paths, "--out", out, "--metrics", "length", "--system", "mine", "--local"]
    assert run_command([*map(str, command)]) == 0
    table = table_of(out)
    assert table["document_id"].to_pylist() == ["0", "1", "2", "3"]
    assert table["system_id"].unique().to_pylist() == ["mine"]
    assert table["input_file"].to_pylist() == [str(path) for path in paths for _ in range(2)]
    assert table["input_row"].to_pylist() == [0, 1, 0, 1]


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
            "two columns that would be called `corpus.status` in the scores",
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
    with pytest.raises(ValueError, match="`year` of `--keep` must have the same type in all files"):
        score_corpus(tmp_path, ScoreSettings(out=out, keep=["year"], **options))
    score_corpus(tmp_path, ScoreSettings(out=out, keep=["topic"], **options))
    assert table_of(out)["topic"].to_pylist() == ["north", "south"]
