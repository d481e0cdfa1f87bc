"""Reading the rows of a shard: broken lines, mixed types, even batches."""

import pytest

from cluster import column_names, list_inputs, plan_shards
from cluster.reading import read_batches


def read(path, needed, batch_rows=1_000, columns=None):
    """Read all of a file as rows of the canonical table."""
    rows = []
    for shard in plan_shards(list_inputs([str(path)])):
        for table in read_batches(shard, needed, columns or {}, batch_rows):
            rows += table.to_pylist()
    return rows


def jsonl(tmp_path, *lines):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


GOOD = b'{"document_id": "d", "system_id": "s", "candidate": "c", "extra": {"a": [1]}}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"document_id": "d", "cand', "malformed JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"document_id": "d"}{}', "malformed JSON"),
        (
            b'{"document_id": "d", "system_id": "s", "candidate": 5}',
            "`candidate` must be text, got int",
        ),
        (
            b'{"document_id": "d", "system_id": "s", "candidate": "\xff"}',
            "`candidate` is not valid UTF-8",
        ),
        (
            b'{"document_id": "d", "system_id": "s", "candidate": "\\ud800"}',
            "`candidate` is not valid UTF-8",
        ),
    ],
)
def test_malformed_jsonl_line_is_a_row_with_a_reason(tmp_path, line, reason):
    rows = read(jsonl(tmp_path, GOOD, line, GOOD), ("candidate",))
    assert [row["candidate"] for row in rows] == ["c", None, "c"]
    assert [row["unreadable"] for row in rows] == [None, reason, None]


def test_malformed_first_jsonl_line(tmp_path):
    rows = read(jsonl(tmp_path, b"{", GOOD), ("candidate",))
    assert [row["candidate"] for row in rows] == [None, "c"]


def test_jsonl_text_that_looks_like_a_date_stays_text(tmp_path):
    line = b'{"document_id": "2020-01-01", "system_id": 7, "candidate": "2020-01-01T00:00:00"}'
    (row,) = read(jsonl(tmp_path, line), ("candidate",))
    assert (row["document_id"], row["system_id"]) == ("2020-01-01", "7")
    assert row["candidate"] == "2020-01-01T00:00:00"


def test_jsonl_types_may_change_from_line_to_line(tmp_path):
    path = jsonl(
        tmp_path,
        b'{"document_id": 1, "system_id": "s", "reference": "a"}',
        b'{"document_id": "2", "system_id": null, "reference": ["b", "c", null]}',
        b'{"document_id": 3.5, "system_id": "s", "reference": null}',
        b'{"document_id": true, "system_id": "s"}',
    )
    rows = read(path, ("references",))
    assert [row["document_id"] for row in rows] == ["1", "2", "3.5", "true"]
    assert [row["references"] for row in rows] == [["a"], ["b", "c"], None, None]
    assert all(row["unreadable"] is None for row in rows)


def test_jsonl_key_missing_everywhere_rejected(tmp_path):
    with pytest.raises(ValueError, match="column `candidate` is missing"):
        read(jsonl(tmp_path, b'{"document_id": 1, "system_id": 2}'), ("candidate",))


def test_csv_row_with_too_many_cells_is_a_row_with_a_reason(tmp_path):
    path = tmp_path / "corpus.csv"
    path.write_bytes(b"document_id,system_id,candidate\n1,s,a\n2,s,b,b\n3\n4,s,\xff\n5,s,007\n")
    rows = read(path, ("candidate",))
    assert [row["candidate"] for row in rows] == ["a", None, None, None, "007"]
    assert [row["unreadable"] for row in rows] == [
        None,
        "malformed CSV: 3 columns expected, got 4",
        "malformed CSV: 3 columns expected, got 1",
        "`candidate` is not valid UTF-8",
        None,
    ]


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_batches_are_even_and_in_order(write_corpus, make_rows, format):
    rows = make_rows(25)
    path = write_corpus(rows, format, row_group_size=4)
    (shard,) = plan_shards(list_inputs([path]))
    batches = list(read_batches(shard, ("candidate",), {}, 7))
    assert [batch.num_rows for batch in batches] == [7, 7, 7, 4]
    texts = [text for batch in batches for text in batch["candidate"].to_pylist()]
    assert texts == [row["candidate"] for row in rows]


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_column_names(write_corpus, make_rows, format):
    path = write_corpus(make_rows(3), format)
    assert column_names(path, format) == ["document_id", "system_id", "candidate"]


def test_null_in_place_of_a_row_does_not_end_the_process(tmp_path):
    """Arrow 26 crashes on a block that begins with `null`."""
    path = tmp_path / "corpus.jsonl"
    row = b'{"document_id": "d", "system_id": "s", "candidate": "a"}\n'
    path.write_bytes(b"null\n" + row + b"nullx\n" + row)
    rows = read(path, ("candidate",))
    assert [row["candidate"] for row in rows] == [None, "a", None, "a"]
    assert [row["unreadable"] for row in rows] == [
        "not a JSON object",
        None,
        "malformed JSON",
        None,
    ]
