"""Objects of JSON files: a line each, in a list, one after the other."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import text_blocks
from cluster.json_records import json_records

ROWS = [{"a": 1, "b": "x [ ] { } , é"}, {"a": None}, {"a": [1, {"c": "\n"}]}, {}]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)

WRITTEN = {
    "a line each": LINES,
    "a list": json.dumps(ROWS),
    "an indented list": json.dumps(ROWS, indent=2),
    "a list of lines": "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
    "lines with commas": LINES.replace("\n", ",\n"),
    "indented objects": "\n".join(json.dumps(row, indent=2) for row in ROWS),
    "a list with a comma at its end": f"{json.dumps(ROWS)[:-1]},]",
}


def read(text, n_bytes=1 << 20):
    data = text.encode()
    blocks = (data[i : i + n_bytes] for i in range(0, len(data), n_bytes))
    return [record for *_, record in json_records(blocks, "x.json")]


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_objects_are_read_however_they_are_written(text):
    assert read(text) == ROWS


@pytest.mark.parametrize("n_bytes", [1, 1 << 20])
def test_every_object_comes_with_its_line(n_bytes):
    written = {"[\n{},\n\n{\n},{}\n]": [2, 4, 5], "\n{}\n\n{}\n": [2, 4], "{\n}\n{\n}": [1, 3]}
    for text, lines in written.items():
        data = text.encode()
        blocks = (data[i : i + n_bytes] for i in range(0, len(data), n_bytes))
        if n_bytes > 1 or text[0] != "{":  # one byte is too few to see where the first one ends
            assert [line for line, *_ in json_records(blocks, "x.json")] == lines


def json_values():
    plain = st.none() | st.booleans() | st.integers() | st.text(max_size=9)
    return st.dictionaries(st.text(max_size=3), plain | st.lists(plain, max_size=2), max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(json_values(), max_size=6),
    indent=st.sampled_from([None, 1]),
    n_bytes=st.integers(1, 30),
)
def test_list_is_what_python_reads_however_much_is_looked_at_together(rows, indent, n_bytes):
    text = json.dumps(rows, indent=indent, ensure_ascii=False)
    assert read(text, n_bytes) == json.loads(text)


def test_what_is_no_object_stays_a_record():
    assert read('[{"a": 1}, 12, "x", null, [1]]') == [{"a": 1}, *["not a JSON object"] * 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}, {"a": ', "x.json is damaged after object 1; write it again"),
        ('[{"a": 1}, {"a" 2}]', "x.json is damaged after object 1"),
        ('[{"a": 1}', "x.json breaks off after object 1"),
        ('[{"a": 1}] [{"a": 2}]', "x.json must end where its list of objects ends"),
        ('{\n"a": 1}\n{\n"a": ', "x.json is damaged after object 1"),
    ],
)
def test_damaged_list_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        read(text)


def test_no_more_than_a_record_may_have_is_held(monkeypatch):
    monkeypatch.setattr(text_blocks, "MAX_RECORD_BYTES", 100)
    with pytest.raises(ValueError, match=r"a record of x\.json is longer than"):
        read('[{"a": "' + "x" * 1_000 + '"}]', 10)
    assert len(read(json.dumps([{"a": "x" * 50}] * 50), 10)) == 50
