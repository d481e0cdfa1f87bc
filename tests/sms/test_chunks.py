"""Chunks: found and numbered as Arrow does it."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sms.text.chunks import Chunks


def chunks_of_arrow(texts):
    """Split at white space, without the empty chunks that Arrow has at the ends of a text."""
    return [list(filter(None, row)) for row in pc.utf8_split_whitespace(texts).to_pylist()]


def chunks_of(table, texts):
    numbered = table.number(texts)
    known = table.texts(0)
    return [[known[k] for k in numbered[row].tolist()] for row in range(len(numbered))]


def test_white_space_is_that_of_arrow_for_every_character():
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = pa.array([f"a{character}b{character}" for character in characters])
    n_found = Chunks().number(texts).lengths.tolist()
    n_wanted = [len(row) for row in chunks_of_arrow(texts)]
    pairs = zip(characters, n_found, n_wanted, strict=True)
    assert [hex(ord(character)) for character, n, wanted in pairs if n != wanted] == []
    assert n_wanted.count(2) > 20


@given(
    st.lists(st.lists(st.text("aé語 \t\u00a0\u3000\u2028", max_size=12), max_size=8), max_size=4)
)
def test_numbers_are_kept_from_batch_to_batch(batches):
    table = Chunks()
    seen = {}
    for batch in batches:
        texts = pa.array(batch, pa.string())
        rows = chunks_of_arrow(texts)
        numbered = table.number(texts)
        wanted = [[seen.setdefault(chunk, len(seen)) for chunk in row] for row in rows]
        assert [numbered[k].tolist() for k in range(len(numbered))] == wanted
    assert table.texts(0) == list(seen)
    assert len(table) == len(seen)


def test_a_table_grows_with_many_chunks_and_long_ones():
    long = "x" * 100_000
    texts = pa.array([long, " ".join(map(str, range(20_000))), f"{long} {long}y 7"])
    table = Chunks()
    for _ in range(2):
        assert chunks_of(table, texts) == chunks_of_arrow(texts)
        assert len(table) == 20_002


@pytest.mark.parametrize("texts", [[], [""], ["", " \n"], ["a"]])
def test_few_texts(texts):
    given_texts = pa.array(texts, pa.string())
    assert chunks_of(Chunks(), given_texts) == chunks_of_arrow(given_texts)


def test_a_slice_is_read_from_its_start():
    texts = pa.array(["one two", "three", "four five", "six"])[1:3]
    assert chunks_of(Chunks(), texts) == [["three"], ["four", "five"]]
