"""Reading the rows of a shard: broken lines, mixed types, even batches."""

import csv
import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import column_names, lines, list_inputs
from cluster.inputs import format_of
from cluster.reading import read_files
from cluster.schema import Wanted
from tests.cluster.conftest import rows_of


def read(path, needed, batch_rows=1_000, columns=None, **more):
    """Read all of a file as rows of the canonical table."""
    wanted = Wanted(needed=needed, columns=columns or {}, **more)
    tables = read_files(list_inputs([str(path)]), wanted, batch_rows=batch_rows)
    return [row for table in tables for row in table.to_pylist()]


def jsonl(tmp_path, *lines):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


GOOD = b'{"document_id": "d", "system_id": "s", "candidate": "c", "extra": {"a": [1]}}'


NO_UTF8 = "`candidate` is not valid UTF-8"
MALFORMED = "malformed JSON"
CSV_HEADER = b"document_id,system_id,candidate\n"


def row_with(candidate):
    return b'{"document_id": "d", "system_id": "s", "candidate": ' + candidate + b"}"


def between_good_lines(line, reason, name):
    content = b"\n".join([GOOD, line, GOOD])
    return pytest.param("a.jsonl", content, ["c", None, "c"], [None, reason, None], id=name)


# name and content of a file, its candidates, and why there are none
ODD_FILES = [
    between_good_lines(b'{"document_id": "d", "cand', MALFORMED, "cut"),
    between_good_lines(b"[1, 2]", "not a JSON object", "list"),
    between_good_lines(b'{"document_id": "d"}{}', MALFORMED, "two-objects"),
    between_good_lines(row_with(b"5"), "`candidate` must be text, got int", "number"),
    between_good_lines(row_with(b'"\xff"'), NO_UTF8, "no-utf8"),
    between_good_lines(row_with(b'"\\ud800"'), NO_UTF8, "half-a-surrogate"),
    pytest.param("a.jsonl", b"{\n" + GOOD, [None, "c"], [MALFORMED, None], id="first-line"),
    pytest.param(
        "a.jsonl",
        b"null\n" + GOOD + b"\nnullx\n" + GOOD,
        [None, "c", None, "c"],
        ["not a JSON object", None, MALFORMED, None],
        id="null",
    ),
    pytest.param(
        "a.jsonl",
        b"\xef\xbb\xbf" + GOOD + b"\n\n   \r\n" + GOOD + b"\r\n" + GOOD,
        ["c"] * 3,
        [None] * 3,
        id="blank-lines-are-no-rows",
    ),
    pytest.param(
        "a.csv",
        CSV_HEADER + b"1,s,a\n2,s,b,b\n3\n4,s,\xff\n5,s,007\n",
        ["a", None, None, None, "007"],
        [
            None,
            "malformed CSV: 3 columns expected, got 4",
            "malformed CSV: 3 columns expected, got 1",
            NO_UTF8,
            None,
        ],
        id="cells-too-many-or-few",
    ),
    pytest.param(
        "a.csv",
        CSV_HEADER + b'1,s,a 5" screen\n2,s,"b ""\n"" c"\n3,s,""\n',
        ['a 5" screen', 'b "\n" c', ""],
        [None] * 3,
        id="quote-inside-a-bare-field",
    ),
    pytest.param(
        "a.csv",
        CSV_HEADER + b"d,s,\"['a', 'b']\"\n" + b'd,s,"[""Hi,"" he said]"\n',
        [None, '["Hi," he said]'],
        ["`candidate` must be text, got a list", None],
        id="lists-are-no-text",
    ),
]


@pytest.mark.parametrize(("name", "content", "candidates", "reasons"), ODD_FILES)
def test_odd_file_has_a_row_for_every_row(tmp_path, name, content, candidates, reasons):
    (tmp_path / name).write_bytes(content)
    rows = read(tmp_path / name, ("candidate",))
    assert [row["candidate"] for row in rows] == candidates
    assert [row["unreadable"] for row in rows] == reasons


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


def test_csv_cell_with_a_list_is_read_as_one_or_refused(tmp_path):
    path = tmp_path / "corpus.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["document_id", "system_id", "candidate", "references"])
        table.writerows(["d", "s", "c", cell] for cell, _ in LISTS)
    rows = read(path, ("candidate", "references"))
    assert [row["references"] for row in rows] == [texts for _, texts in LISTS]
    said = "`references` begins like a list of texts but is not one; write it as JSON"
    assert [row["unreadable"] for row in rows] == [
        said if texts is None else None for _, texts in LISTS
    ]


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
@pytest.mark.parametrize("limit", [None, 1, 11, 1_000])
def test_batches_are_even_and_in_order(write_corpus, format, limit):
    rows = rows_of(25)
    paths = [
        write_corpus(rows[:14], format, "a", row_group_size=4),
        write_corpus(rows[14:], format, "b"),
    ]
    wanted = Wanted(needed=("candidate",))
    batches = list(read_files(list_inputs(paths), wanted, limit=limit, batch_rows=7))
    n_rows = min(25, limit or 25)
    assert [batch.num_rows for batch in batches] == [
        min(7, n_rows - i) for i in range(0, n_rows, 7)
    ]
    texts = [text for batch in batches for text in batch["candidate"].to_pylist()]
    assert texts == [row["candidate"] for row in rows[:limit]]


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_column_names(write_corpus, format):
    path = write_corpus(rows_of(3), format)
    assert column_names(path, format) == ["document_id", "system_id", "candidate"]


def test_jsonl_of_sentences(tmp_path):
    lines = [
        b'{"document_id": 1, "system_id": 1, "candidate": ["a.", "b"], "reference": ["c", "d"]}',
        b'{"document_id": 2, "system_id": 1, "candidate": "a. b", "reference": [["c"], ["d","e"]]}',
        b'{"document_id": 3, "system_id": 1, "candidate": [], "reference": null}',
        b'{"document_id": 4, "system_id": 1, "candidate": [["a"]], "reference": "c"}',
    ]
    path = jsonl(tmp_path, *lines)
    rows = read(path, ("candidate", "references"), sentence_end="|")
    assert [row["candidate"] for row in rows[:4]] == ["a.|b", "a. b", "", None]
    assert [row["references"] for row in rows[:3]] == [["c|d"], ["c", "d|e"], None]
    assert [row["unreadable"] for row in rows[:3]] == [None] * 3
    assert "must be text or a list of text" in rows[3]["unreadable"]


def test_ids_that_a_file_lacks_are_its_rows_and_one_system(tmp_path):
    """Counted over all files; an id that is there stays."""
    (tmp_path / "a.jsonl").write_text('{"candidate": "x"}\n{"candidate": "y"}\n')
    (tmp_path / "b.csv").write_text("candidate,system_id\nz,s\n")
    rows = read(tmp_path, ("candidate",), system="mine")
    assert [(row["document_id"], row["system_id"]) for row in rows] == [
        ("0", "mine"),
        ("1", "mine"),
        ("2", "s"),
    ]
    with pytest.raises(ValueError, match="column `document_id` is missing"):
        read(tmp_path, ("document_id", "candidate"))
    with pytest.raises(ValueError, match="column `number` is missing"):
        read(tmp_path, ("candidate",), columns={"document_id": "number"})


def test_kept_columns_come_along(tmp_path):
    """Of JSONL, what is no text is JSON."""
    (tmp_path / "a.jsonl").write_text(
        '{"candidate": "x", "year": 2001, "tags": ["é"]}\n{"candidate": "y", "tags": "t"}\n'
    )
    rows = read(tmp_path / "a.jsonl", ("candidate",), keep=("year", "tags", "candidate"))
    assert [row["keep:year"] for row in rows] == ["2001", None]
    assert [row["keep:tags"] for row in rows] == ['["é"]', "t"]
    assert [row["keep:candidate"] for row in rows] == ["x", "y"]
    with pytest.raises(ValueError, match=r"column `week` of `--keep` is missing in .*a\.jsonl"):
        read(tmp_path / "a.jsonl", ("candidate",), keep=("week",))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_compressed_text_reads_like_the_text(write_corpus, suffix, format):
    path = Path(write_corpus(rows_of(50), format))
    packed = Path(f"{path}{suffix}")
    codec = pa.Codec({".gz": "gzip", ".zst": "zstd"}[suffix])
    packed.write_bytes(codec.compress(path.read_bytes(), asbytes=True))
    assert read(packed, ("candidate",)) == read(path, ("candidate",))
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ValueError, match=f"cannot read .*{format}{suffix}"):
        read(packed, ("candidate",))


def test_stray_quote_loses_its_own_line_only(tmp_path, monkeypatch):
    """However far a quoted text seems to go on."""
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 7)
    monkeypatch.setattr(lines, "MAX_RECORD_BYTES", 200)
    path = tmp_path / "corpus.csv"
    written = [f"{i},s,c{i}\n" for i in range(100)]
    written[3], written[50] = '3,s,"open\n', '50,s,"an ""end"" \nof, two, lines"\n'
    written[70] = '"70,s,c70\n'
    path.write_text("document_id,system_id,candidate\n" + "".join(written))
    found = [row["candidate"] for row in read(path, ("candidate",))]
    expected = [f"c{i}" for i in range(100)]
    expected[3], expected[50], expected[70] = None, 'an "end" \nof, two, lines', None
    assert found == expected


def test_line_that_never_ends_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_RECORD_BYTES", 100)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 10)
    with pytest.raises(ValueError, match=r"a record of .*corpus\.jsonl is longer than"):
        read(jsonl(tmp_path, b'{"candidate": "' + b"x" * 200), ("candidate",))


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
    writer.writerow(["document_id", "system_id", "candidate"])
    writer.writerows(["d", "s", text] for text in texts)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "corpus.csv")
        path.write_bytes(buffer.getvalue().encode())
        patch.setattr(lines, "_BLOCK_BYTES", block_bytes)
        assert [row["candidate"] for row in read(path, ("candidate",))] == texts


@settings(max_examples=100, deadline=None)
@given(text=st.text('a,,"""\n\n\r', max_size=60), block_bytes=st.integers(1, 40))
def test_any_csv_is_cut_alike_however_much_is_looked_at_together(text, block_bytes):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "corpus.csv")
        path.write_bytes(f"document_id,system_id,candidate\na,b,c\n{text}".encode())
        expected = read(path, ("candidate",))
        patch.setattr(lines, "_BLOCK_BYTES", block_bytes)
        assert read(path, ("candidate",)) == expected


@pytest.mark.parametrize("name", ["corpus.csv", "corpus.jsonl"])
def test_utf_16_is_refused_with_what_to_do(tmp_path, name):
    path = tmp_path / name
    path.write_text("candidate,reference\nA cat.,A dog.\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"must be UTF-8, got UTF-16; save it again as UTF-8"):
        column_names(path)


def test_json_list_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"got `\.json`; write a line for each object, as \.jsonl"):
        format_of("rows.json")
