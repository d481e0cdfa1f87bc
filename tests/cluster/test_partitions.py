"""Columns in the names of folders, as Spark, polars, DuckDB and pandas write them."""

import json

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from cluster import column_names, list_inputs
from cluster.corpus import find_inputs
from cluster.reading import Wanted, read_files

TEXTS = ["a", "b", "c", "d", "e", "f"]
SYSTEMS = ["a/b", "é ü", None, "x=y", "100%", "007"]
WANTED = Wanted(needed=("candidate",))


def rows_in(folder, wanted=WANTED):
    tables = read_files(list_inputs([str(folder)]), wanted)
    return [row for table in tables for row in table.to_pylist()]


def by_arrow(folder, table):
    pq.write_to_dataset(table, folder, partition_cols=["system_id"])


def by_arrow_as_csv(folder, table):
    hive = ds.partitioning(pa.schema([("system_id", pa.string())]), flavor="hive")
    ds.write_dataset(table, folder, format="csv", partitioning=hive)


def by_polars(folder, table):
    """Keeps the column in the files, too."""
    pl.DataFrame(table).write_parquet(folder, partition_by="system_id")


@pytest.mark.parametrize("write", [by_arrow, by_arrow_as_csv, by_polars])
def test_system_of_a_folder_is_what_was_written(tmp_path, write):
    """The value is that of the table, before any program made a folder's name of it."""
    table = pa.table({"system_id": SYSTEMS, "candidate": TEXTS})
    folder = tmp_path / "corpus"
    write(folder, table)
    found = {row["candidate"]: row["system_id"] for row in rows_in(folder)}
    assert found == dict(zip(TEXTS, SYSTEMS, strict=True))


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_nested_folders(tmp_path, suffix):
    for system in "ab":
        for document in "12":
            folder = tmp_path / f"system_id={system}" / f"document_id={document}"
            folder.mkdir(parents=True)
            frame = pl.DataFrame({"candidate": [f"{system}{document}"]})
            path = folder / f"part.{suffix}"
            write = {"jsonl": frame.write_ndjson, "csv": frame.write_csv}
            write.get(suffix, frame.write_parquet)(path)
            assert column_names(str(path), suffix) == ["candidate", "system_id", "document_id"]
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "system_id=a" / ".part.crc").touch()
    rows = rows_in(tmp_path)
    assert len(rows) == 4
    assert all(row["candidate"] == f"{row['system_id']}{row['document_id']}" for row in rows)
    (one,) = rows_in(tmp_path / "system_id=b" / "document_id=2")
    assert (one["system_id"], one["document_id"]) == ("b", "2")


def test_same_rows_in_two_folders_have_two_copies(tmp_path):
    """A run's copy of a file is named by its content, and that is the same."""
    from cluster.reading import parquet_copy

    for system in "ab":
        (tmp_path / f"system_id={system}").mkdir()
        (tmp_path / f"system_id={system}" / "part.csv").write_text("candidate\nx\n")
    files = find_inputs([str(tmp_path)], str(tmp_path.with_suffix(".out")), WANTED, None).files
    copies = {parquet_copy(file, str(tmp_path.with_suffix(".out")), WANTED).copy for file in files}
    systems = [pq.read_table(copy)["system_id"].to_pylist() for copy in copies]
    assert sorted(systems) == [["a"], ["b"]]


def test_other_name_of_a_column_and_columns_that_are_kept(tmp_path):
    (tmp_path / "model=m" / "year=2026").mkdir(parents=True)
    (tmp_path / "model=m" / "year=2026" / "0.jsonl").write_text('{"candidate": "x"}\n')
    wanted = Wanted(needed=("candidate",), columns={"system_id": "model"}, keep=("year",))
    (row,) = rows_in(tmp_path, wanted)
    assert (row["system_id"], row["keep:year"]) == ("m", "2026")


def test_folders_above_the_data_say_nothing(tmp_path):
    (tmp_path / "system_id=a" / "data").mkdir(parents=True)
    path = tmp_path / "system_id=a" / "data" / "0.jsonl"
    path.write_text('{"candidate": "x", "system_id": "b"}\n')
    assert [row["system_id"] for row in rows_in(path)] == ["b"]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_contradiction_is_one_line_before_anything_is_scored(tmp_path, suffix):
    folder = tmp_path / "corpus" / "system_id=a"
    folder.mkdir(parents=True)
    frame = pl.DataFrame({"candidate": ["x", "y"], "system_id": ["a", "b"]})
    write = {"jsonl": frame.write_ndjson, "csv": frame.write_csv}
    write.get(suffix, frame.write_parquet)(folder / f"0.{suffix}")
    said = (
        r"`system_id` must be the same in .*0\.\w+ as in its folder's name, `system_id=a`, got 'b'"
    )
    with pytest.raises(ValueError, match=said):
        rows_in(folder)
    if suffix == "parquet":
        with pytest.raises(ValueError, match=said):
            find_inputs([str(folder)], str(tmp_path / "out"), WANTED, None)


def test_number_of_a_folder_may_be_written_otherwise_in_the_file(tmp_path):
    folder = tmp_path / "document_id=1"
    folder.mkdir()
    pl.DataFrame({"candidate": ["x"], "document_id": [1.0]}).write_parquet(folder / "0.parquet")
    (folder / "1.jsonl").write_text(json.dumps({"candidate": "y", "document_id": 1}))
    assert [row["document_id"] for row in rows_in(folder)] == ["1", "1"]
