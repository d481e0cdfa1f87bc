"""Reading the rows of a shard: broken lines, mixed types, even batches."""

import csv

import numpy as np
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


STRAY = "malformed CSV: a quotation mark in line {} is stray"

# what line 3 of a file of five rows is, what is said of each row that cannot be read
STRAY_QUOTES = [
    pytest.param(b'1,s,"never closed,r\n', {1: STRAY.format(3)}, id="never-closed"),
    pytest.param(b'1,s,c,"never closed\n', {1: STRAY.format(3)}, id="in-the-last-column"),
    pytest.param(b'1,s,"said "no" to it,r\n', {1: STRAY.format(3)}, id="not-doubled"),
    pytest.param(b'"\n', {1: STRAY.format(3)}, id="alone"),
    pytest.param(
        b'1,s,"said "no,\nand went",r\n',
        {1: STRAY.format(3), 2: "malformed CSV: 4 columns expected, got 2"},
        id="in-a-text-of-two-lines",
    ),
    pytest.param(b'1,s,5" wide,r\n', {}, id="inside-a-bare-text"),
    pytest.param(b'1,s,"a ""b""\n,c\n",r\n', {}, id="well-formed"),
]


@pytest.mark.parametrize(("line", "reasons"), STRAY_QUOTES)
def test_stray_quotation_mark_loses_no_other_row(tmp_path, line, reasons):
    path = tmp_path / "corpus.csv"
    good = [b'%d,s,"c, %d",r\n' % (i, i) for i in range(5)]
    path.write_bytes(b"document_id,system_id,candidate,reference\n" + good[0] + line)
    with path.open("ab") as file:
        file.writelines(good[2:])
    rows = read(path, ("candidate", "references"))
    assert {i: row["unreadable"] for i, row in enumerate(rows) if row["unreadable"]} == reasons
    assert [row["candidate"] for row in rows][-3:] == ["c, 2", "c, 3", "c, 4"]
    assert len(rows) == 5 + ("and went" in str(line))


# a list as pandas, numpy or JSON write it into a cell, or a text that begins like one
LISTS = [
    ("""['a', 'b']""", ["a", "b"]),
    ("""["it's", 'say "x"']""", ["it's", 'say "x"']),
    ("""['a' 'b\\nc']""", ["a", "b\nc"]),
    ("""array(['a, b', None], dtype=object)""", ["a, b"]),
    ("""["\\u00e9", null]""", ["é"]),
    ("[]", []),
    ("[Music] plays", ["[Music] plays"]),
    ("[1] See [2]", ["[1] See [2]"]),
    ("plain", ["plain"]),
    ("['a', 'b'", None),
    ("['a', 1]", None),
    ("['a' 'b', 'c']", None),
]


@pytest.mark.parametrize("suffix", [b"", b"\xff"])
def test_csv_cell_with_a_list_is_read_as_one_or_refused(tmp_path, suffix):
    """By Arrow, and, for the sake of a last row that is no UTF-8, one by one."""
    path = tmp_path / "corpus.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["document_id", "system_id", "candidate", "references"])
        table.writerows(["d", "s", "c", cell] for cell, _ in LISTS)
    with path.open("ab") as file:
        file.write(b"d,s,c," + suffix + b"\n")
    rows = read(path, ("candidate", "references"))
    assert [row["references"] for row in rows[:-1]] == [texts for _, texts in LISTS]
    said = "`references` begins like a list of texts but is not one; write it as JSON"
    assert [row["unreadable"] for row in rows[:-1]] == [
        said if texts is None else None for _, texts in LISTS
    ]


def test_csv_written_by_pandas_is_read_as_it_was(tmp_path):
    """What it writes of a list or of an array is their `str`."""
    texts = [["a", "b, c"], ['it\'s "so"\nand so'], ["[x]", "", "é\\n"]]
    for written in (texts, [np.array(each, dtype=object) for each in texts]):
        with (tmp_path / "corpus.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["document_id", "system_id", "references"])
            table.writerows(["d", "s", str(each)] for each in written)
        rows = read(tmp_path / "corpus.csv", ("references",))
        assert [row["references"] for row in rows] == texts


def test_csv_candidate_that_is_a_list_is_no_text(tmp_path):
    path = tmp_path / "corpus.csv"
    path.write_text(
        'document_id,system_id,candidate\nd,s,"[\'a\', \'b\']"\nd,s,"[""Hi,"" he said]"\n'
    )
    rows = read(path, ("candidate",))
    assert rows[0]["unreadable"] == "`candidate` must be text, got a list"
    assert rows[1]["candidate"] == '["Hi," he said]'


def test_two_stray_quotation_marks_do_not_swallow_the_rows_between(tmp_path):
    path = tmp_path / "corpus.csv"
    lines = [f"{i},s,c{i},r\n" for i in range(1_000)]
    lines[100], lines[900] = '100,s,"c100,r\n', '900,s,c900",r\n'  # by themselves one cell
    path.write_text(f"document_id,system_id,candidate,reference\n{''.join(lines)}")
    rows = read(path, ("candidate",))
    assert len(rows) == 1_000
    assert [i for i, row in enumerate(rows) if row["candidate"] != f"c{i}"] == [100, 900]
    assert rows[100]["unreadable"] == STRAY.format(102)


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


@pytest.mark.parametrize("broken", [[], [b"{"], [b'{"document_id": 3, "candidate": ["x"]}']])
def test_jsonl_of_sentences(tmp_path, broken):
    """Whether Arrow reads the lines or, where they differ in kind, each is read by itself."""
    lines = [
        b'{"document_id": 1, "system_id": 1, "candidate": ["a.", "b"], "reference": ["c", "d"]}',
        b'{"document_id": 2, "system_id": 1, "candidate": "a. b", "reference": [["c"], ["d","e"]]}',
        b'{"document_id": 3, "system_id": 1, "candidate": [], "reference": null}',
        b'{"document_id": 4, "system_id": 1, "candidate": [["a"]], "reference": "c"}',
    ]
    path = jsonl(tmp_path, *lines, *broken)
    (shard,) = plan_shards(list_inputs([str(path)]))
    needed = ("candidate", "references")
    (table,) = read_batches(shard, needed, {}, 100, sentence_end="|")
    assert table["candidate"].to_pylist()[:4] == ["a.|b", "a. b", "", None]
    assert table["references"].to_pylist()[:3] == [["c|d"], ["c", "d|e"], None]
    assert table["unreadable"].to_pylist()[:3] == [None] * 3
    assert "must be text or a list of text" in table["unreadable"][3].as_py()


def test_jsonl_of_sentences_of_one_kind(tmp_path):
    line = (
        b'{"document_id": "1", "system_id": "s", "candidate": ["a."], "reference": [["c"], ["d"]]}'
    )
    (shard,) = plan_shards(list_inputs([str(jsonl(tmp_path, line, line))]))
    (table,) = read_batches(shard, ("candidate", "references"), {}, 100, sentence_end="|")
    assert table["candidate"].to_pylist() == ["a."] * 2
    assert table["references"].to_pylist() == [["c", "d"]] * 2
