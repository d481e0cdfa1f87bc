"""Ratings: separators, kinds of files and numbers, rows and columns that cannot be read."""

import gzip

import polars as pl
import pytest

from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import find_scores, read_scores
from tests.pipelines.correlation.conftest import KEYS


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
    with pytest.raises(ValueError, match=r"the ids, got x .*\. Column `x` of .* write them as 12"):
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
