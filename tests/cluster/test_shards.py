"""Listing input files and cutting them into shards."""

import csv
import io
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import Shard, list_inputs, plan_shards, records
from cluster.reading import read_batches

FORMATS = ["parquet", "jsonl", "csv"]


def candidates_of(shard, batch_rows=5):
    batches = read_batches(shard, ("candidate",), {}, batch_rows)
    return [text for batch in batches for text in batch.table["candidate"].to_pylist()]


def sizes(plan):
    return [(shard.first_row, shard.n_rows, shard.row_groups) for shard in plan]


def test_small_row_groups_joined(write_corpus, make_rows):
    path = write_corpus(make_rows(20), row_group_size=3)
    plan = plan_shards(list_inputs([path]), rows_per_shard=7)
    assert sizes(plan) == [
        (0, 6, (0, 1)),
        (6, 6, (2, 3)),
        (12, 6, (4, 5)),
        (18, 2, (6,)),
    ]


def test_huge_row_group_split_evenly(write_corpus, make_rows):
    path = write_corpus(make_rows(20), row_group_size=20)
    plan = plan_shards(list_inputs([path]), rows_per_shard=8)
    assert sizes(plan) == [(0, 6, (0,)), (6, 7, (0,)), (13, 7, (0,))]
    assert [shard.skip_rows for shard in plan] == [0, 6, 13]


@pytest.mark.parametrize("format", FORMATS)
def test_shards_read_every_row_in_order(write_corpus, make_rows, format):
    rows = make_rows(50)
    path = write_corpus(rows, format, row_group_size=9)
    plan = plan_shards(list_inputs([path]), rows_per_shard=7)
    read = [text for shard in plan for text in candidates_of(shard)]
    assert read == [row["candidate"] for row in rows]
    assert [shard.index for shard in plan] == list(range(len(plan)))
    assert all(len(candidates_of(shard)) == shard.n_rows <= 7 for shard in plan)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("limit", [1, 7, 14, 23, 30, 31, 1_000])
def test_limit_keeps_the_first_rows(write_corpus, make_rows, format, limit):
    rows = make_rows(30)
    files = list_inputs(
        [
            write_corpus(rows[:16], format, "a", row_group_size=8),
            write_corpus(rows[16:], format, "b", row_group_size=20),
        ]
    )
    plan = plan_shards(files, rows_per_shard=7, limit=limit)
    read = [text for shard in plan for text in candidates_of(shard)]
    assert read == [row["candidate"] for row in rows[:limit]]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_blocks_of_a_few_bytes_cut_the_same(write_corpus, make_rows, format, monkeypatch):
    files = list_inputs([write_corpus(make_rows(20), format)])
    expected = plan_shards(files, rows_per_shard=3)
    monkeypatch.setattr(records, "BLOCK_BYTES", 7)
    assert plan_shards(files, rows_per_shard=3) == expected
    assert len(candidates_of(expected[1])) == 3


def test_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "corpus.jsonl"
    row = '{"document_id": "d", "system_id": "s", "candidate": "c"}'
    path.write_bytes(f"\ufeff{row}\n\n   \r\n{row}\r\n{row}".encode())
    plan = plan_shards(list_inputs([str(path)]), rows_per_shard=2)
    assert [shard.n_rows for shard in plan] == [2, 1]
    assert [candidates_of(shard) for shard in plan] == [["c", "c"], ["c"]]


def test_quote_inside_a_bare_csv_field(tmp_path):
    path = tmp_path / "corpus.csv"
    path.write_text(
        'document_id,system_id,candidate\n1,s,a 5" screen\n2,s,"b ""\n"" c"\n3,s,""\n',
        encoding="utf-8",
    )
    plan = plan_shards(list_inputs([str(path)]), rows_per_shard=1)
    assert [candidates_of(shard) for shard in plan] == [['a 5" screen'], ['b "\n" c'], [""]]


def test_unclosed_quote_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BLOCK_BYTES", 64)
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 128)
    path = tmp_path / "corpus.csv"
    path.write_text('document_id,system_id,candidate\n1,s,"open\n' + "2,s,c\n" * 100)
    with pytest.raises(ValueError, match="look for a quote that is never closed"):
        plan_shards(list_inputs([str(path)]))


def test_shard_survives_json(write_corpus, make_rows):
    for format in FORMATS:
        files = list_inputs([write_corpus(make_rows(5), format)])
        for shard in plan_shards(files, rows_per_shard=2):
            assert Shard.from_json(json.loads(json.dumps(shard.to_json()))) == shard


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


def test_url_reads_like_a_path(write_corpus, make_rows):
    path = write_corpus(make_rows(9))
    files = list_inputs([f"file://{path}"])
    assert files[0].footer_hash == list_inputs([path])[0].footer_hash
    assert len(candidates_of(plan_shards(files)[0])) == 9


@pytest.mark.parametrize("format", FORMATS)
def test_changed_file_has_another_hash(write_corpus, make_rows, format):
    before = list_inputs([write_corpus(make_rows(5), format)])
    same = list_inputs([write_corpus(make_rows(5), format)])
    after = list_inputs([write_corpus(make_rows(6), format)])
    assert before == same
    assert before[0].footer_hash != after[0].footer_hash


def test_missing_file_rejected():
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: nowhere\.parquet"):
        list_inputs(["nowhere.parquet"])


def test_glob_without_a_match_rejected(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file matches"):
        list_inputs([str(tmp_path / "*.parquet")])


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"this is no Parquet file", b"\xff" * 4 + b"PAR1"]
)
def test_file_that_is_no_parquet_rejected(tmp_path, content):
    path = tmp_path / "corpus.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not a Parquet file.*corpus\.parquet"):
        list_inputs([str(path)])


def test_broken_parquet_footer_rejected(tmp_path):
    path = tmp_path / "corpus.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match=r"not a readable Parquet file: .*corpus\.parquet"):
        plan_shards(list_inputs([str(path)]))


def test_unknown_suffix_rejected(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"corpus\.txt must end in \.parquet, .* got `\.txt`"):
        list_inputs([str(path)])


def test_folder_with_nothing_to_read_rejected(tmp_path):
    with pytest.raises(ValueError, match="nothing to read in"):
        list_inputs([str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.jsonl", ""), ("blank.jsonl", "\n\n"), ("header.csv", "document_id,system_id\n")],
)
def test_corpus_without_rows_rejected(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=f"the corpus has no rows in .*{name}"):
        plan_shards(list_inputs([str(path)]))


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


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(st.text('a,"\n é', max_size=8), min_size=1, max_size=15),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    line_break=st.sampled_from(["\n", "\r\n"]),
    rows_per_shard=st.integers(1, 6),
    block_bytes=st.integers(1, 40),
)
def test_every_csv_row_is_in_one_shard_whatever_its_text(
    texts, quoting, line_break, rows_per_shard, block_bytes
):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=quoting, lineterminator=line_break)
    writer.writerow(["document_id", "system_id", "candidate"])
    writer.writerows(["d", "s", text] for text in texts)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "corpus.csv")
        path.write_bytes(buffer.getvalue().encode())
        patch.setattr(records, "BLOCK_BYTES", block_bytes)
        plan = plan_shards(list_inputs([str(path)]), rows_per_shard)
        read = [text for shard in plan for text in candidates_of(shard, batch_rows=2)]
    assert read == texts
