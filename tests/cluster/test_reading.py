"""Reading rows of every format: broken lines, mixed types, even batches, the canonical table."""

import csv
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import column_names, list_inputs, text_blocks
from cluster.inputs import format_of
from cluster.reading import read_files
from cluster.schema import Wanted
from tests.cluster.conftest import FORMATS, read_rows, rows_of


def jsonl(tmp_path, *lines):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


GOOD = b'{"document_id": "d", "system_id": "s", "candidate": "c", "extra": {"a": [1]}}'
NO_UTF8, MALFORMED = "`candidate` is not valid UTF-8", "malformed JSON"
STRAY = "malformed CSV: a quotation mark in line {} is stray"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"document_id": "d", "cand', MALFORMED),
        (b"{", MALFORMED),
        (b'{"document_id": "d"}{}', MALFORMED),
        (b"nullx", MALFORMED),
        (b"null", "not a JSON object"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"candidate": 5}', "`candidate` must be text, got int"),
        (b'{"candidate": "\xff"}', NO_UTF8),
        (b'{"candidate": "\\ud800"}', NO_UTF8),
    ],
)
def test_broken_line_spoils_no_other_and_blank_ones_are_no_rows(tmp_path, line, reason):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([b"\xef\xbb\xbf" + line, GOOD, b"", b"   \r", line, GOOD + b"\r"]))
    rows = read_rows(path, ("candidate",))
    assert [row["candidate"] for row in rows] == [None, "c", None, "c"]
    assert [row["unreadable"] for row in rows] == [reason, None, reason, None]


# rows of a CSV file, its candidates, and why there are none
ODD_ROWS = [
    (
        b"1,s,a\n2,s,b,b\n3\n4,s,\xff\n5,s,007\n",
        ["a", None, None, None, "007"],
        {
            1: "malformed CSV: 3 columns expected, got 4",
            2: "malformed CSV: 3 columns expected, got 1",
            3: NO_UTF8,
        },
    ),
    (b'1,s,a 5" screen\n2,s,"b ""\n"" c"\n3,s,""\n', ['a 5" screen', 'b "\n" c', ""], {}),
    (
        b"d,s,\"['a', 'b']\"\n" + b'd,s,"[""Hi,"" he said]"\n',
        [None, '["Hi," he said]'],
        {0: "`candidate` must be text, got a list"},
    ),
    (b'1,s,"never closed\n2,s,c\n', [None, "c"], {0: STRAY.format(2)}),
    (b'1,s,"said "no" to it\n2,s,c\n', [None, "c"], {0: STRAY.format(2)}),
    (b'1,s,c\n"\n2,s,c\n', ["c", None, "c"], {1: STRAY.format(3)}),
    (
        b'1,s,"said "no,\nand went"\n2,s,c\n',
        [None, None, "c"],
        {0: STRAY.format(2), 1: "malformed CSV: 3 columns expected, got 1"},
    ),
]


@pytest.mark.parametrize(("written", "candidates", "reasons"), ODD_ROWS)
def test_csv_by_hand(tmp_path, written, candidates, reasons):
    path = tmp_path / "corpus.csv"
    path.write_bytes(b"document_id,system_id,candidate\n" + written)
    rows = read_rows(path, ("candidate",))
    assert [row["candidate"] for row in rows] == candidates
    assert {i: row["unreadable"] for i, row in enumerate(rows) if row["unreadable"]} == reasons


def test_jsonl_types_may_change_from_line_to_line(tmp_path):
    path = jsonl(
        tmp_path,
        b'{"document_id": 1, "system_id": "s", "reference": "a"}',
        b'{"document_id": "2", "system_id": null, "reference": ["b", "c", null]}',
        b'{"document_id": 3.5, "system_id": "s", "reference": null}',
        b'{"document_id": true, "system_id": "s"}',
    )
    rows = read_rows(path, ("references",))
    assert [row["document_id"] for row in rows] == ["1", "2", "3.5", "true"]
    assert [row["references"] for row in rows] == [["a"], ["b", "c"], None, None]
    assert all(row["unreadable"] is None for row in rows)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("limit", [None, 11, 1_000])
def test_batches_are_even_and_in_order(write_corpus, format, limit):
    rows = rows_of(25)
    paths = [
        write_corpus(rows[:14], format, "a", row_group_size=4),
        write_corpus(rows[14:], format, "b"),
    ]
    assert column_names(paths[0], format) == ["document_id", "system_id", "candidate"]
    wanted = Wanted(needed=("candidate",))
    batches = list(read_files(list_inputs(paths), wanted, limit=limit, batch_rows=7))
    n_rows = min(25, limit or 25)
    assert [batch.num_rows for batch in batches] == [
        min(7, n_rows - i) for i in range(0, n_rows, 7)
    ]
    texts = [text for batch in batches for text in batch["candidate"].to_pylist()]
    assert texts == [row["candidate"] for row in rows[:limit]]


def test_jsonl_of_sentences(tmp_path):
    lines = [
        b'{"document_id": 1, "system_id": 1, "candidate": ["a.", "b"], "reference": ["c", "d"]}',
        b'{"document_id": 2, "system_id": 1, "candidate": "a. b", "reference": [["c"], ["d","e"]]}',
        b'{"document_id": 3, "system_id": 1, "candidate": [], "reference": null}',
        b'{"document_id": 4, "system_id": 1, "candidate": [["a"]], "reference": "c"}',
    ]
    path = jsonl(tmp_path, *lines)
    rows = read_rows(path, ("candidate", "references"), sentence_end="|")
    assert [row["candidate"] for row in rows[:4]] == ["a.|b", "a. b", "", None]
    assert [row["references"] for row in rows[:3]] == [["c|d"], ["c", "d|e"], None]
    assert [row["unreadable"] for row in rows[:3]] == [None] * 3
    assert "must be text or a list of text" in rows[3]["unreadable"]


def test_ids_that_a_file_lacks_are_its_rows_and_one_system(tmp_path):
    """Counted over all files; an id that is there stays."""
    (tmp_path / "a.jsonl").write_text('{"candidate": "x"}\n{"candidate": "y"}\n')
    (tmp_path / "b.csv").write_text("candidate,system_id\nz,s\n")
    rows = read_rows(tmp_path, ("candidate",), system="mine")
    ids = [(row["document_id"], row["system_id"]) for row in rows]
    assert ids == [("0", "mine"), ("1", "mine"), ("2", "s")]
    with pytest.raises(ValueError, match="column `document_id` is missing"):
        read_rows(tmp_path, ("document_id", "candidate"))
    with pytest.raises(ValueError, match="column `number` is missing"):
        read_rows(tmp_path, ("candidate",), columns={"document_id": "number"})


def test_kept_columns_come_along(tmp_path):
    """Of JSONL, what is no text is JSON."""
    (tmp_path / "a.jsonl").write_text(
        '{"candidate": "x", "year": 2001, "tags": ["é"]}\n{"candidate": "y", "tags": "t"}\n'
    )
    rows = read_rows(tmp_path / "a.jsonl", ("candidate",), keep=("year", "tags", "candidate"))
    assert [row["keep:year"] for row in rows] == ["2001", None]
    assert [row["keep:tags"] for row in rows] == ['["é"]', "t"]
    assert [row["keep:candidate"] for row in rows] == ["x", "y"]
    with pytest.raises(ValueError, match=r"column `week` of `--keep` is missing in .*a\.jsonl"):
        read_rows(tmp_path / "a.jsonl", ("candidate",), keep=("week",))


def test_stray_quote_loses_its_own_line_only(tmp_path, monkeypatch):
    """However far a quoted text seems to go on."""
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 7)
    monkeypatch.setattr(text_blocks, "MAX_RECORD_BYTES", 200)
    path = tmp_path / "corpus.csv"
    written = [f"{i},s,c{i}\n" for i in range(100)]
    written[3], written[50] = '3,s,"open\n', '50,s,"an ""end"" \nof, two, lines"\n'
    written[70] = '"70,s,c70\n'
    path.write_text("document_id,system_id,candidate\n" + "".join(written))
    found = [row["candidate"] for row in read_rows(path, ("candidate",))]
    expected = [f"c{i}" for i in range(100)]
    expected[3], expected[50], expected[70] = None, 'an "end" \nof, two, lines', None
    assert found == expected


def test_two_stray_quotation_marks_do_not_swallow_the_rows_between(tmp_path):
    path = tmp_path / "corpus.csv"
    lines = [f"{i},s,c{i},r\n" for i in range(1_000)]
    lines[100], lines[900] = '100,s,"c100,r\n', '900,s,c900",r\n'  # by themselves one cell
    path.write_text(f"document_id,system_id,candidate,reference\n{''.join(lines)}")
    rows = read_rows(path, ("candidate",))
    assert [i for i, row in enumerate(rows) if row["candidate"] != f"c{i}"] == [100, 900]
    assert rows[100]["unreadable"] == STRAY.format(102)


HEADER = ["document_id", "system_id", "candidate"]


def read_in_blocks(content, block_bytes):
    """Return the rows of a CSV file of which so much is looked at together."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "corpus.csv")
        path.write_bytes(content)
        patch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
        return read_rows(path, ("candidate",))


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(st.text('a,;\t"\n é', max_size=8), min_size=1, max_size=15),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    separator=st.sampled_from([",", ";", "\t"]),
    line_break=st.sampled_from(["\n", "\r\n"]),
    block_bytes=st.integers(1, 40),
)
def test_every_csv_row_is_read_whatever_its_text(
    texts, quoting, separator, line_break, block_bytes
):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=quoting, delimiter=separator, lineterminator=line_break)
    writer.writerows([HEADER, *(["d", "s", text] for text in texts)])
    rows = read_in_blocks(buffer.getvalue().encode(), block_bytes)
    assert [row["candidate"] for row in rows] == texts


@settings(max_examples=100, deadline=None)
@given(text=st.text('a,,"""\n\n\r', max_size=60), block_bytes=st.integers(1, 40))
def test_any_csv_is_cut_alike_however_much_is_looked_at_together(text, block_bytes):
    content = f"{','.join(HEADER)}\na,b,c\n{text}".encode()
    assert read_in_blocks(content, block_bytes) == read_in_blocks(content, 2**20)


def test_files_that_cannot_be_read_say_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"must end in \.parquet, .*\.bz2, got `\.xlsx`"):
        format_of("rows.xlsx")
    monkeypatch.setattr(text_blocks, "MAX_RECORD_BYTES", 100)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 10)
    with pytest.raises(ValueError, match=r"a record of .*corpus\.jsonl is longer than"):
        read_rows(jsonl(tmp_path, b'{"candidate": "' + b"x" * 200), ("candidate",))


def test_row_without_a_readable_id_is_read(tmp_path):
    """An id that is no text, or none at all, is no reason to leave texts aside."""
    path = jsonl(
        tmp_path,
        b'{"document_id": "M\xfcller", "system_id": null, "candidate": "a"}',
        b'{"document_id": {"$oid": "7"}, "system_id": "\\ud83d", "candidate": "b"}',
    )
    rows = read_rows(path, ("candidate",))
    assert [row["unreadable"] for row in rows] == [None, None]
    assert [row["candidate"] for row in rows] == ["a", "b"]
    assert [row["document_id"] for row in rows] == ["M\\xfcller", '{"$oid": "7"}']
    assert [row["system_id"] for row in rows] == [None, "\\ud83d"]


def test_ids_of_csv_have_no_spaces_around_and_a_blank_one_is_none(tmp_path):
    (tmp_path / "a.csv").write_text("document_id, system_id , candidate\n 1, a ,x\n , ,y\n")
    rows = read_rows(tmp_path / "a.csv", ("candidate",))
    assert [(row["document_id"], row["system_id"]) for row in rows] == [("1", "a"), (None, None)]


def test_json_files_are_read_and_passed_over_beside_tables(tmp_path):
    (tmp_path / "rows.json").write_text('[{"candidate": "a"}, {"candidate": "b"}]')
    assert [row["candidate"] for row in read_rows(tmp_path, ("candidate",))] == ["a", "b"]
    (tmp_path / "table.jsonl").write_text('{"candidate": "c"}\n')
    assert [row["candidate"] for row in read_rows(tmp_path, ("candidate",))] == ["c"]


def test_empty_files_among_others_have_no_rows(tmp_path):
    for name in ("a.csv", "b.jsonl", "c.json"):
        (tmp_path / name).touch()
    (tmp_path / "d.csv").write_text("candidate\n")
    (tmp_path / "e.csv").write_text("candidate\nx\n")
    assert [row["candidate"] for row in read_rows(tmp_path, ("candidate",))] == ["x"]
