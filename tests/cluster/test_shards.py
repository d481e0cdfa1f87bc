"""Listing input files and cutting them into shards."""

import json
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import (
    Piece,
    Shard,
    is_unchanged,
    list_inputs,
    longest_first,
    plan_shards,
    with_content,
)
from cluster.reading import parquet_copy, read_batches
from cluster.schema import Wanted
from tests.cluster.conftest import FORMATS, planned

WANTED = Wanted(needed=("candidate",))


def candidates_of(shard, batch_rows=5):
    batches = read_batches(shard, WANTED, batch_rows)
    return [text for batch in batches for text in batch["candidate"].to_pylist()]


def sizes(plan):
    return [
        (piece.first_row, piece.n_rows, piece.row_groups)
        for shard in plan
        for piece in shard.pieces
    ]


def test_small_row_groups_joined(write_corpus, make_rows):
    path = write_corpus(make_rows(20), row_group_size=3)
    plan = plan_shards(list_inputs([path]), rows_per_shard=7)
    assert sizes(plan) == [
        (0, 6, (0, 2)),
        (6, 6, (2, 4)),
        (12, 6, (4, 6)),
        (18, 2, (6, 7)),
    ]


def test_huge_row_group_split_evenly(write_corpus, make_rows):
    path = write_corpus(make_rows(20), row_group_size=20)
    plan = plan_shards(list_inputs([path]), rows_per_shard=8)
    assert sizes(plan) == [(0, 6, (0, 1)), (6, 7, (0, 1)), (13, 7, (0, 1))]
    assert [shard.pieces[0].skip_rows for shard in plan] == [0, 6, 13]


def test_small_files_share_a_shard(write_corpus, make_rows, tmp_path):
    """Files of 3 rows; shards of 7 hold two of them, and the last what is left."""
    rows = make_rows(15)
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
    read = [text for shard in plan for text in candidates_of(shard)]
    assert read == [row["candidate"] for row in rows]
    assert plan[0].places() == (paths[:2], [0, 0], [3, 3])
    assert [piece.number for shard in plan for piece in shard.pieces] == [0, 3, 6, 9, 12]
    assert str(plan[1]) == f"rows 0 to 2 of {paths[2]} and 1 more"


def test_small_files_of_a_store_are_read_ahead_and_in_order(write_corpus, make_rows, monkeypatch):
    monkeypatch.setattr("cluster.reading.is_url", lambda _: True)
    rows = make_rows(120)
    for i in range(40):
        write_corpus(rows[3 * i : 3 * i + 3], name=f"f{i:02}")
    folder = Path(write_corpus(rows[:1], name="z")).parent
    (shard,) = plan_shards(list_inputs([str(folder)]))
    assert len(shard.pieces) == 41
    expected = [row["candidate"] for row in [*rows, rows[0]]]
    assert candidates_of(shard) == expected
    first = next(iter(read_batches(shard, WANTED, 5)))  # and then not read on
    assert first["candidate"].to_pylist() == expected[:5]


@pytest.mark.parametrize("format", FORMATS)
def test_long_texts_make_shards_of_fewer_rows(
    write_corpus, make_rows, format, monkeypatch, tmp_path
):
    """Every tenth text of the first half is as long as a thousand rows may be."""
    monkeypatch.setattr("cluster.shards.TEXT_BYTES_PER_ROW", 100)
    rows = make_rows(200)
    for i in range(0, 100, 10):
        rows[i]["candidate"] = f"{i} " + "".join(chr(97 + (i + j * j) % 26) for j in range(1_000))
    monkeypatch.setattr("cluster.lines.GROUP_ROWS", 10)
    path = write_corpus(rows, format, row_group_size=10)
    plan = planned([path], tmp_path / "out", rows_per_shard=40)
    n_rows = [shard.n_rows for shard in plan]
    assert max(n_rows[:-3]) < 40 == max(n_rows)
    assert max(shard.text_bytes for shard in plan) <= 40 * 100
    read = [text for shard in plan for text in candidates_of(shard)]
    assert read == [row["candidate"] for row in rows]


def test_one_row_may_be_more_than_a_shard_should_have(write_corpus, make_rows, monkeypatch):
    monkeypatch.setattr("cluster.shards.TEXT_BYTES_PER_ROW", 1)
    files = list_inputs([write_corpus(make_rows(5))])
    assert [shard.n_rows for shard in plan_shards(files, rows_per_shard=3)] == [1] * 5


@pytest.mark.parametrize(
    "values",
    [[[0.5] * 5_000], [b"n" * 50_000], [{"n": b"n" * 50_000}]],
    ids=["list", "bytes", "in"],
)
def test_rows_alone_count_beside_other_large_values(write_corpus, make_rows, values, tmp_path):
    rows = make_rows(6)
    table = pa.Table.from_pylist(rows).append_column("vector", pa.array(values * 6))
    path = str(tmp_path / "corpus.parquet")
    pq.write_table(table, path)
    assert len(plan_shards(list_inputs([path]), 6)) == 1


def test_long_shards_come_first_and_the_others_keep_their_order():
    def shard(index, text_bytes):
        return Shard(
            index=index,
            pieces=(
                Piece(path="a", first_row=0, n_rows=1, text_bytes=text_bytes, row_groups=(0, 1)),
            ),
        )

    plan = [shard(i, n) for i, n in enumerate([100, 90, 110, 1_000, 120, 500])]
    assert [shard.index for shard in longest_first(plan)] == [3, 5, 0, 1, 2, 4]
    assert longest_first([]) == []


def test_files_share_one_schema_and_others_have_their_own(write_corpus, make_rows):
    paths = [write_corpus(make_rows(2), name=name) for name in "ab"]
    more = write_corpus([{**row, "extra": 1} for row in make_rows(2)], name="c")
    first, second, third = list_inputs([*paths, more])
    assert first.outline.schema is second.outline.schema
    assert third.outline.schema.names == [*first.outline.schema.names, "extra"]
    assert first.without_outline() == first


def test_footer_that_is_larger_than_what_is_read_of_it_first(tmp_path, make_rows):
    table = pa.Table.from_pylist(make_rows(3)).replace_schema_metadata({"about": "x" * 200_000})
    pq.write_table(table, tmp_path / "a.parquet")
    (file,) = list_inputs([str(tmp_path)])
    assert file.outline.n_rows == 3


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("limit", [None, 1, 14, 23, 1_000])
def test_shards_read_every_row_up_to_the_limit_in_order(
    write_corpus, make_rows, format, limit, tmp_path
):
    rows = make_rows(30)
    paths = [
        write_corpus(rows[:16], format, "a", row_group_size=8),
        write_corpus(rows[16:], format, "b", row_group_size=20),
    ]
    plan = planned(paths, tmp_path / "out", 7, limit)
    read = [text for shard in plan for text in candidates_of(shard)]
    assert read == [row["candidate"] for row in rows[:limit]]
    assert [shard.index for shard in plan] == list(range(len(plan)))
    assert all(len(candidates_of(shard)) == shard.n_rows <= 7 for shard in plan)


def test_file_is_turned_into_parquet_once(write_corpus, make_rows, tmp_path):
    (file,) = with_content(list_inputs([write_corpus(make_rows(20), "csv")]))
    first = parquet_copy(file, str(tmp_path / "out"), WANTED)
    os.utime(first.copy, (1, 1))
    again = parquet_copy(file, str(tmp_path / "out"), WANTED)
    assert again.copy == first.copy
    assert os.stat(again.copy).st_mtime == 1
    other = Wanted(needed=("candidate",), keep=("system_id",))
    assert parquet_copy(file, str(tmp_path / "out"), other).copy != first.copy
    assert parquet_copy(file, str(tmp_path / "out"), WANTED, 5).copy != first.copy


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_file_that_changes_before_it_is_turned_leaves_no_copy(
    write_corpus, make_rows, tmp_path, format
):
    path = write_corpus(make_rows(20), format)
    (file,) = with_content(list_inputs([path]))
    text = Path(path).read_text("utf-8")
    Path(path).write_text(text.replace("0", "1"), "utf-8")
    with pytest.raises(ValueError, match="changed while it was read; run the same command again"):
        parquet_copy(file, str(tmp_path / "out"), WANTED)
    assert list((tmp_path / "out").rglob("*.parquet*")) == []


def test_shard_survives_json(write_corpus, make_rows):
    files = list_inputs([write_corpus(make_rows(5))])
    for shard in plan_shards(files, rows_per_shard=2):
        written = json.loads(json.dumps(shard.to_json({files[0].path: 0})))
        assert Shard.from_json(written, [files[0].path]) == shard


def test_folder_is_listed_sorted_without_hidden_files(tmp_path, write_corpus, make_rows):
    for name in ("b", "a", ".hidden", "_SUCCESS"):
        write_corpus(make_rows(2), "csv", name)
    (tmp_path / "README.md").write_text("not data")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "c.csv").write_text("x")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "d.jsonl").write_text("{}")
    files = list_inputs(
        [str(tmp_path), str(tmp_path / "a.csv"), str(tmp_path / "*.csv")[:-5] + "b*"]
    )
    assert [Path(file.path).name for file in files] == ["a.csv", "b.csv", "d.jsonl"]


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.csv"])
def test_edit_in_the_middle_has_another_hash(tmp_path, name):
    path = tmp_path / name
    content = bytearray(b"a line of text\n" * 200_000)
    path.write_bytes(content)
    (before,) = with_content(list_inputs([str(path)]))
    content[1_500_000] ^= 1
    path.write_bytes(content)
    (after,) = with_content(list_inputs([str(path)]))
    assert before.size == after.size
    assert before.content != after.content


def test_parquet_of_other_texts_with_an_equal_footer_has_another_hash(tmp_path):
    path = tmp_path / "corpus.parquet"
    found = []
    for texts in (["aaa", "bbb"], ["aab", "bbb"]):
        table = pa.table({"candidate": texts})
        pq.write_table(table, path, compression="none", write_statistics=False)
        footer = path.read_bytes()[-8 - int.from_bytes(path.read_bytes()[-8:-4], "little") :]
        found.append((footer, with_content(list_inputs([str(path)]))[0].content))
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


def test_file_that_is_only_linked_to_is_unchanged(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    (file,) = with_content(list_inputs([str(path)]))
    os.utime(path, ns=(1, 1))
    assert is_unchanged(file.path, file.version, file.content)
    path.write_text("[{}]\n", encoding="utf-8")
    assert not is_unchanged(file.path, file.version, file.content)


# name and content of a file, what is listed, and what is said
REFUSED = [
    pytest.param("", b"", "nowhere.parquet", r"no such file or folder: .*nowhere", id="none"),
    pytest.param("", b"", "*.parquet", "no file matches", id="no-match"),
    *(
        pytest.param(
            "a.parquet", content, "", r"not a .*Parquet file.*a\.parquet", id=f"no-parquet-{i}"
        )
        for i, content in enumerate((b"", b"PAR1", b"this is none", b"\xff" * 4 + b"PAR1"))
    ),
    pytest.param(
        "a.parquet",
        b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1",
        "",
        r"not a readable Parquet file.*a\.parquet",
        id="broken-footer",
    ),
    pytest.param("a.txt", b"", "a.txt", r"a.txt must end in .parquet, .* got `\.txt`", id="kind"),
    pytest.param("a.txt", b"", "", "nothing to read in", id="nothing-of-ours"),
]


@pytest.mark.parametrize(("name", "content", "asked", "message"), REFUSED)
def test_wrong_input_rejected(tmp_path, name, content, asked, message):
    if name:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        list_inputs([str(tmp_path / asked)])


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.jsonl", ""), ("blank.jsonl", "\n\n"), ("header.csv", "document_id,candidate\n")],
)
def test_corpus_without_rows_rejected(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=f"the corpus has no rows in .*{name}"):
        planned([str(path)], tmp_path / "out")


@pytest.mark.parametrize(("rows_per_shard", "limit"), [(0, None), (10, 0)])
def test_numbers_that_are_not_positive_rejected(rows_per_shard, limit):
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
        with pq.ParquetWriter(path, schema) as writer:
            for first, n in zip([sum(groups[:i]) for i in range(len(groups))], groups, strict=True):
                texts = [str(first + i) for i in range(n)]
                writer.write_table(pa.table([texts, texts, texts], schema=schema))
        plan = plan_shards(list_inputs([path]), rows_per_shard, limit)
        read = [int(text) for shard in plan for text in candidates_of(shard, batch_rows=4)]
    assert read == list(range(min(sum(groups), limit or 80)))
    assert all(shard.n_rows <= rows_per_shard for shard in plan)
