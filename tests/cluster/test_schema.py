"""From a table under the names of a file to the canonical one."""

import pyarrow as pa
import pytest

from cluster.schema import Wanted, canonical_table, resolve_columns


def canonical(needed, columns=None, *, sentence_end=None, **cells):
    """Return the rows of a table that has these columns beside its ids."""
    n = len(next(iter(cells.values())))
    raw = pa.table({"document_id": ["d"] * n, "system_id": ["s"] * n} | cells)
    wanted = Wanted(needed=needed, columns=columns or {}, sentence_end=sentence_end)
    return canonical_table(raw, wanted)


def broken_string(cells):
    """Build an array that calls itself a string but holds any bytes, as some writers produce."""
    return pa.Array.from_buffers(pa.string(), len(cells), pa.array(cells, pa.binary()).buffers())


TEXTS, SEVERAL = ["é", None, "", "é"], [["a", "b"], None, [], ["c", None]]


READ = [["a", "b"], None, [], ["c"]]


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        *(
            pytest.param("candidate", pa.array(TEXTS).cast(kind), TEXTS, id=str(kind))
            for kind in (
                pa.large_string(),
                pa.string_view(),
                pa.binary(),
                pa.dictionary(pa.int8(), pa.large_string()),
            )
        ),
        *(
            pytest.param("references", pa.array(SEVERAL, kind), READ, id=str(kind))
            for kind in (
                pa.large_list(pa.large_string()),
                pa.list_(pa.dictionary(pa.int32(), pa.string())),
                pa.list_view(pa.string()),
            )
        ),
        pytest.param("reference", ["a", None, ""], [["a"], None, [""]], id="a list of one"),
        pytest.param("source", [["a", "b"], ["c"]], [["a", "b"], ["c"]], id="sources"),
        pytest.param("candidate", pa.nulls(2), [None, None], id="no text"),
        pytest.param("references", pa.nulls(2), [None, None], id="no list"),
    ],
)
def test_every_kind_of_text_and_list_is_read(name, cells, expected):
    ours = name if name == "candidate" else f"{name.removesuffix('s')}s"
    table = canonical((ours,), **{name: cells})
    kind = pa.string() if ours == "candidate" else pa.list_(pa.string())
    assert table.schema.field(ours).type == kind
    assert table[ours].to_pylist() == expected


def test_columns_are_renamed():
    raw = pa.table({"id": ["d"], "model": ["s"], "summary": ["c"], "highlights": ["r"]})
    columns = dict(document_id="id", system_id="model", candidate="summary", reference="highlights")
    table = canonical_table(raw, Wanted(needed=("candidate", "references"), columns=columns))
    assert table.drop_columns("unreadable").to_pylist() == [
        {"document_id": "d", "system_id": "s", "candidate": "c", "references": ["r"]}
    ]


def test_names_in_capitals_are_understood_where_there_is_no_other():
    names = ["Document_ID", "SYSTEM_ID", "Candidate", "candidate", "Reference", "REFERENCE"]
    found = resolve_columns(names, ("candidate",))
    assert [*found.values()] == ["Document_ID", "SYSTEM_ID", "candidate"]
    with pytest.raises(ValueError, match="`references` or `reference` is missing"):
        resolve_columns(names, ("references",))  # which of the two?


@pytest.mark.parametrize(
    ("names", "needed", "columns", "said"),
    [
        (
            ["document_id", "text"],
            ("candidate",),
            {},
            r"column `candidate` is missing in a\.csv, which has document_id, text; "
            r"name it with `--columns candidate=NAME`",
        ),
        ([], ("references",), {}, r"`references` or `reference` is missing.*reference=NAME"),
        (["candidate"] * 2, ("candidate",), {}, r"must be in a\.csv once, got it 2 times"),
        (["a"], (), {"summary": "a"}, r"OURS in `--columns` must be one of .* got `summary`"),
    ],
)
def test_columns_that_cannot_be_found_rejected(names, needed, columns, said):
    with pytest.raises(ValueError, match=said):
        resolve_columns(names, needed, columns, where="a.csv")


@pytest.mark.parametrize(
    ("name", "cells"), [("candidate", [1, 2]), ("candidate", [["a"]]), ("references", [[1], [2]])]
)
def test_column_that_is_no_text_rejected(name, cells):
    with pytest.raises(ValueError, match=f"`{name}` in the corpus must be text"):
        canonical((name,), **{name: cells})


SENTENCES = pa.list_(pa.string())
NESTED = pa.list_(pa.list_(pa.binary()))


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        pytest.param(
            "candidate",
            pa.array([["a", None, "b"], [], None, ["c|d"]]).cast(pa.list_(pa.binary())),
            ["a|b", "", None, "c d"],
            id="candidate",
        ),
        pytest.param(
            "sources",
            pa.array([["a", "b"], None, []], SENTENCES),
            [["a|b"], None, [""]],
            id="one source",
        ),
        pytest.param(
            "references",
            pa.array([[["a", "b"], ["c"], None], [], None], pa.list_(SENTENCES)),
            [["a|b", "c"], [], None],
            id="several references",
        ),
        pytest.param("references", ["c."], [["c."]], id="a text is one sentence"),
    ],
)
def test_sentences_are_joined(name, cells, expected):
    table = canonical((name,), sentence_end="|", **{name: cells})
    assert table[name].to_pylist() == expected
    assert table["unreadable"].null_count == len(expected)


@pytest.mark.parametrize(
    ("name", "cells", "expected", "sentence_end"),
    [
        ("candidate", broken_string([b"ok", b"\xff\xfe", None]), ["ok", None, None], None),
        (
            "references",
            pa.ListArray.from_arrays([0, 1, 3, 4], broken_string([b"a", b"b", b"\xff", b"c"])),
            [["a"], None, ["c"]],
            None,
        ),
        ("candidate", pa.array([[b"b"], [b"a", b"\xff"]]), ["b", None], "|"),
        (
            "references",
            pa.array([[[b"a"]], [[b"a"], [b"\xff"]]], NESTED),
            [["a"], None],
            "|",
        ),
    ],
)
def test_invalid_utf8_is_null_with_a_reason_and_spoils_its_row_only(
    name, cells, expected, sentence_end
):
    table = canonical((name,), sentence_end=sentence_end, **{name: cells})
    assert table[name].to_pylist() == expected
    told = {i: why for i, why in enumerate(table["unreadable"].to_pylist()) if why is not None}
    assert told == {1: f"`{name}` is not valid UTF-8"}
