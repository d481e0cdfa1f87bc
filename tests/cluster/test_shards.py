"""Cutting input files into shards."""

import json
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import Piece, Shard, list_inputs, longest_first, plan_shards, with_content
from cluster.reading import parquet_copy, read_batches
from cluster.schema import Wanted
from tests.cluster.conftest import FORMATS, planned, rows_of
from tests.object_stores import bucket_of

WANTED = Wanted(needed=("candidate",))


def candidates_of(*shards):
    batches = [batch for shard in shards for batch in read_batches(shard, WANTED, 5)]
    return [text for batch in batches for text in batch["candidate"].to_pylist()]


def texts_of(rows):
    return [row["candidate"] for row in rows]


@pytest.mark.parametrize(
    ("group_rows", "rows_per_shard", "pieces"),
    [
        (3, 7, [(0, 6, (0, 2)), (6, 6, (2, 4)), (12, 6, (4, 6)), (18, 2, (6, 7))]),
        (20, 8, [(0, 6, (0, 1)), (6, 7, (0, 1)), (13, 7, (0, 1))]),
    ],
    ids=["small-ones-joined", "huge-one-split-evenly"],
)
def test_row_groups_by_hand(write_corpus, group_rows, rows_per_shard, pieces):
    path = write_corpus(rows_of(20), row_group_size=group_rows)
    found = [shard.pieces[0] for shard in plan_shards(list_inputs([path]), rows_per_shard)]
    assert [(piece.first_row, piece.n_rows, piece.row_groups) for piece in found] == pieces


def test_small_files_share_a_shard(write_corpus, tmp_path):
    """Files of 3 rows; shards of 7 hold two of them, and the last what is left."""
    rows = rows_of(15)
    formats = ["parquet", "csv", "jsonl", "parquet", "csv"]
    paths = [
        write_corpus(rows[3 * i : 3 * i + 3], format, f"small{i}")
        for i, format in enumerate(formats)
    ]
    plan = planned(paths, tmp_path / "out", rows_per_shard=7)
    assert [[piece.path for piece in shard.pieces] for shard in plan] == [
        paths[0:2],
        paths[2:4],
        paths[4:],
    ]
    assert candidates_of(*plan) == texts_of(rows)
    assert plan[0].places() == (paths[:2], [0, 0], [3, 3])
    assert [piece.number for shard in plan for piece in shard.pieces] == [0, 3, 6, 9, 12]
    assert str(plan[1]) == f"rows 0 to 2 of {paths[2]} and 1 more"


def test_small_files_of_a_store_are_read_ahead_and_in_order(write_corpus, proxy, server):
    rows = rows_of(120)
    for i in range(40):
        write_corpus(rows[3 * i : 3 * i + 3], name=f"f{i:02}")
    folder = Path(write_corpus(rows[:1], name="z")).parent
    (shard,) = plan_shards(list_inputs([f"s3://{bucket_of(server, folder)}"]))
    assert len(shard.pieces) == 41
    expected = texts_of([*rows, rows[0]])
    assert candidates_of(shard) == expected
    first = next(iter(read_batches(shard, WANTED, 5)))  # and then not read on
    assert first["candidate"].to_pylist() == expected[:5]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_long_texts_make_shards_of_fewer_rows(write_corpus, format, monkeypatch, tmp_path):
    """Every tenth text of the first half is as long as a thousand rows may be."""
    monkeypatch.setattr("cluster.shards.TEXT_BYTES_PER_ROW", 100)
    rows = rows_of(200)
    for i in range(0, 100, 10):
        rows[i]["candidate"] = f"{i} " + "".join(chr(97 + (i + j * j) % 26) for j in range(1_000))
    monkeypatch.setattr("cluster.reading.BATCH_ROWS", 10)
    path = write_corpus(rows, format, row_group_size=10)
    plan = planned([path], tmp_path / "out", rows_per_shard=40)
    n_rows = [shard.n_rows for shard in plan]
    assert max(n_rows[:-3]) < 40 == max(n_rows)
    assert max(shard.text_bytes for shard in plan) <= 40 * 100
    assert candidates_of(*plan) == texts_of(rows)


def test_one_row_may_be_more_than_a_shard_should_have(write_corpus, monkeypatch):
    monkeypatch.setattr("cluster.shards.TEXT_BYTES_PER_ROW", 1)
    files = list_inputs([write_corpus(rows_of(5))])
    assert [shard.n_rows for shard in plan_shards(files, rows_per_shard=3)] == [1] * 5


def test_rows_alone_count_beside_other_large_values(tmp_path):
    values = pa.array([{"list": [0.5] * 5_000, "bytes": b"n" * 50_000}] * 6)
    table = pa.Table.from_pylist(rows_of(6)).append_column("vector", values)
    pq.write_table(table, tmp_path / "corpus.parquet")
    assert len(plan_shards(list_inputs([str(tmp_path)]), 6)) == 1


def test_long_shards_come_first_and_the_others_keep_their_order():
    def shard(index, text_bytes):
        piece = Piece(path="a", first_row=0, n_rows=1, text_bytes=text_bytes, row_groups=(0, 1))
        return Shard(index=index, pieces=(piece,))

    plan = [shard(i, n) for i, n in enumerate([100, 90, 110, 1_000, 120, 500])]
    assert [shard.index for shard in longest_first(plan)] == [3, 5, 0, 1, 2, 4]
    assert longest_first([]) == []


def test_files_share_one_schema_and_others_have_their_own(write_corpus):
    paths = [write_corpus(rows_of(2), name=name) for name in "ab"]
    more = write_corpus([{**row, "extra": 1} for row in rows_of(2)], name="c")
    first, second, third = list_inputs([*paths, more])
    assert first.outline.schema is second.outline.schema
    assert third.outline.schema.names == [*first.outline.schema.names, "extra"]
    assert first.without_outline() == first


def test_file_is_turned_into_parquet_once(write_corpus, tmp_path):
    (file,) = with_content(list_inputs([write_corpus(rows_of(20), "csv")]))
    first = parquet_copy(file, str(tmp_path / "out"), WANTED)
    os.utime(first.copy, (1, 1))
    again = parquet_copy(file, str(tmp_path / "out"), WANTED)
    assert again.copy == first.copy
    assert os.stat(again.copy).st_mtime == 1
    other = Wanted(needed=("candidate",), keep=("system_id",))
    assert parquet_copy(file, str(tmp_path / "out"), other).copy != first.copy
    assert parquet_copy(file, str(tmp_path / "out"), WANTED, 5).copy != first.copy


def test_file_that_changes_before_it_is_turned_leaves_no_copy(write_corpus, tmp_path):
    path = write_corpus(rows_of(20), "csv")
    (file,) = with_content(list_inputs([path]))
    text = Path(path).read_text("utf-8")
    Path(path).write_text(text.replace("0", "1"), "utf-8")
    with pytest.raises(ValueError, match="changed while it was read; run the same command again"):
        parquet_copy(file, str(tmp_path / "out"), WANTED)
    assert list((tmp_path / "out").rglob("*.parquet*")) == []


def test_shard_survives_json(write_corpus):
    files = list_inputs([write_corpus(rows_of(5))])
    for shard in plan_shards(files, rows_per_shard=2):
        written = json.loads(json.dumps(shard.to_json({files[0].path: 0})))
        assert Shard.from_json(written, [files[0].path]) == shard


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("limit", [None, 14, 1_000])
def test_shards_of_every_format_hold_the_rows_up_to_the_limit(
    write_corpus, format, limit, tmp_path
):
    rows = rows_of(30)
    paths = [
        write_corpus(rows[:16], format, "a", row_group_size=8),
        write_corpus(rows[16:], format, "b", row_group_size=20),
    ]
    plan = planned(paths, tmp_path / "out", 7, limit)
    assert candidates_of(*plan) == texts_of(rows[:limit])
    assert [shard.index for shard in plan] == list(range(len(plan)))
    assert all(len(candidates_of(shard)) == shard.n_rows <= 7 for shard in plan)


def test_what_cannot_be_planned_rejected(tmp_path):
    (tmp_path / "header.csv").write_text("document_id,candidate\n")
    (tmp_path / "blank.jsonl").write_text("\n\n")
    for name in ("header.csv", "blank.jsonl"):
        with pytest.raises(ValueError, match=f"the corpus has no rows in .*{name}"):
            planned([str(tmp_path / name)], tmp_path / "out")
    for rows_per_shard, limit in ((0, None), (10, 0)):
        with pytest.raises(ValueError, match="must be at least 1, got 0"):
            plan_shards([], rows_per_shard, limit)


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any),
    rows_per_shard=st.integers(1, 15),
    limit=st.none() | st.integers(1, 80),
)
def test_every_row_is_in_one_shard_whatever_the_row_groups(groups, rows_per_shard, limit):
    schema = pa.schema(dict.fromkeys(("document_id", "system_id", "candidate"), pa.string()))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/corpus.parquet"
        texts = iter(range(sum(groups)))
        with pq.ParquetWriter(path, schema) as writer:
            for n in groups:
                column = [str(next(texts)) for _ in range(n)]
                writer.write_table(pa.table([column] * 3, schema=schema))
        plan = plan_shards(list_inputs([path]), rows_per_shard, limit)
        read = [int(text) for text in candidates_of(*plan)]
    assert read == list(range(min(sum(groups), limit or 80)))
    assert all(shard.n_rows <= rows_per_shard for shard in plan)
