"""From a table under the file's names to the canonical table."""

import pyarrow as pa
import pytest

from cluster.schema import Wanted, resolve_columns
from cluster.schema import canonical_table as canonical


def canonical_table(raw, needed, columns=None, *, reasons=None, sentence_end=None):
    wanted = Wanted(needed=needed, columns=columns or {}, sentence_end=sentence_end)
    return canonical(raw, wanted, reasons=reasons)


def raw_table(**columns):
    n = len(next(iter(columns.values())))
    return pa.table({"document_id": ["d"] * n, "system_id": ["s"] * n, **columns})


def broken_string(cells, kind=None):
    """Build an array that calls itself a string but holds any bytes, as some writers produce."""
    binary = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(kind or pa.string(), len(cells), binary.buffers())


def test_ids_become_text():
    raw = pa.table({"document_id": [1, 2], "system_id": [True, None], "candidate": ["a", "b"]})
    table = canonical_table(raw, ("candidate",))
    assert table["document_id"].to_pylist() == ["1", "2"]
    assert table["system_id"].to_pylist() == ["true", None]
    assert table["unreadable"].null_count == 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.binary(),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
    ids=str,
)
def test_every_kind_of_text_is_read(kind):
    texts = ["é", None, "", "é"]
    raw = raw_table(candidate=pa.array(texts).cast(kind))
    table = canonical_table(raw, ("candidate",))
    assert table.schema.field("candidate").type == pa.string()
    assert table["candidate"].to_pylist() == texts


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
        pa.list_view(pa.string()),
    ],
    ids=str,
)
def test_every_kind_of_list_is_read(kind):
    cells = [["a", "b"], None, [], ["c", None]]
    table = canonical_table(raw_table(references=pa.array(cells, kind)), ("references",))
    assert table.schema.field("references").type == pa.list_(pa.string())
    assert table["references"].to_pylist() == [["a", "b"], None, [], ["c"]]


@pytest.mark.parametrize("name", ["reference", "references"])
def test_text_is_a_list_of_one(name):
    table = canonical_table(raw_table(**{name: ["a", None, ""]}), ("references",))
    assert table["references"].to_pylist() == [["a"], None, [""]]


@pytest.mark.parametrize("name", ["source", "sources"])
def test_source_may_be_several(name):
    table = canonical_table(raw_table(**{name: [["a", "b"], ["c"]]}), ("sources",))
    assert table["sources"].to_pylist() == [["a", "b"], ["c"]]


def test_columns_are_renamed():
    raw = pa.table({"id": ["d"], "model": ["s"], "summary": ["c"], "highlights": ["r"]})
    columns = {
        "document_id": "id",
        "system_id": "model",
        "candidate": "summary",
        "reference": "highlights",
    }
    table = canonical_table(raw, ("candidate", "references"), columns)
    assert table.drop_columns("unreadable").to_pylist() == [
        {"document_id": "d", "system_id": "s", "candidate": "c", "references": ["r"]}
    ]


def test_missing_column_named_with_those_there_are():
    with pytest.raises(
        ValueError,
        match=r"column `candidate` is missing in a\.csv, which has document_id, system_id, text; "
        r"name it with `--columns candidate=NAME`",
    ):
        resolve_columns(["document_id", "system_id", "text"], ("candidate",), where="a.csv")


def test_column_that_is_there_twice_rejected():
    names = ["document_id", "system_id", "candidate", "candidate"]
    with pytest.raises(ValueError, match=r"must be in a\.csv once, got it 2 times"):
        resolve_columns(names, ("candidate",), where="a.csv")
    assert resolve_columns(names, ())


def test_unknown_name_in_mapping_rejected():
    with pytest.raises(ValueError, match=r"OURS in `--columns` must be one of .* got `summary`"):
        resolve_columns(["a"], (), {"summary": "candidate"})


def test_invalid_utf8_is_null_with_a_reason():
    raw = raw_table(candidate=broken_string([b"ok", b"\xff\xfe", None, b"fine"]))
    table = canonical_table(raw, ("candidate",))
    assert table["candidate"].to_pylist() == ["ok", None, None, "fine"]
    assert table["unreadable"].to_pylist() == [
        None,
        "`candidate` is not valid UTF-8",
        None,
        None,
    ]


def test_invalid_utf8_in_a_list_spoils_its_row_only():
    values = broken_string([b"a", b"b", b"\xff", b"c"])
    raw = raw_table(references=pa.ListArray.from_arrays([0, 1, 3, 4], values))
    table = canonical_table(raw, ("references",))
    assert table["references"].to_pylist() == [["a"], None, ["c"]]
    assert [why is None for why in table["unreadable"].to_pylist()] == [True, False, True]


@pytest.mark.parametrize(
    ("name", "cells"), [("candidate", [1, 2]), ("references", [[1], [2]]), ("references", [1, 2])]
)
def test_column_that_is_no_text_rejected(name, cells):
    with pytest.raises(ValueError, match=f"`{name}` in the corpus must be text"):
        canonical_table(raw_table(**{name: cells}), (name,))


def test_column_of_nulls_is_text_that_is_missing():
    raw = raw_table(candidate=pa.nulls(2), references=pa.nulls(2))
    table = canonical_table(raw, ("candidate", "references"))
    assert table["candidate"].null_count == table["references"].null_count == 2


# Texts given as lists of sentences

JOIN = "|"


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()], ids=str)
def test_sentences_of_a_candidate_are_joined(kind):
    cells = [["a", None, "b"], [], None, ["c|d"]]
    raw = raw_table(candidate=pa.array(cells).cast(pa.list_(kind)))
    table = canonical_table(raw, ("candidate",), sentence_end=JOIN)
    assert table["candidate"].to_pylist() == ["a|b", "", None, "c d"]
    assert table["unreadable"].null_count == 4


@pytest.mark.parametrize("name", ["reference", "source"])
def test_list_of_sentences_is_one_text_and_a_list_of_lists_several(name):
    plural = f"{name}s"
    one = raw_table(**{name: pa.array([["a", "b"], None, []], pa.list_(pa.string()))})
    assert canonical_table(one, (plural,), sentence_end=JOIN)[plural].to_pylist() == [
        ["a|b"],
        None,
        [""],
    ]
    several = pa.array([[["a", "b"], ["c"], None], [], None], pa.list_(pa.list_(pa.string())))
    table = canonical_table(raw_table(**{name: several}), (plural,), sentence_end=JOIN)
    assert table[plural].to_pylist() == [["a|b", "c"], [], None]


def test_invalid_utf8_in_a_sentence_spoils_its_row_only():
    cells = pa.array([[b"a", b"\xff"], [b"b"]], pa.list_(pa.binary()))
    nested = pa.array([[[b"a"]], [[b"a"], [b"\xff"]]], pa.list_(pa.list_(pa.binary())))
    raw = raw_table(candidate=cells, references=nested)
    table = canonical_table(raw, ("candidate", "references"), sentence_end=JOIN)
    assert table["candidate"].to_pylist() == [None, "b"]
    assert table["references"].to_pylist() == [["a"], None]
    assert table["unreadable"].to_pylist() == [
        "`candidate` is not valid UTF-8",
        "`references` is not valid UTF-8",
    ]
