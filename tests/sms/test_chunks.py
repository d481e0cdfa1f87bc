"""Chunks: what stands between white space, by Arrow's idea of it, and its numbers."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sms.text.chunks import Chunks

CHARACTERS = pa.array([chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000])
SPACES = {*CHARACTERS.filter(pc.utf8_is_space(CHARACTERS)).to_pylist()}
# Arrow's `utf8_split_whitespace` now and then reads one character too many.
BLANKS = dict.fromkeys(map(ord, SPACES), " ")


def split(texts):
    return [list(filter(None, text.translate(BLANKS).split(" "))) for text in texts.to_pylist()]


def chunks_of(table, texts):
    numbered = table.number(texts)
    known = table.texts(0)
    return [[known[k] for k in numbered[row].tolist()] for row in range(len(numbered))]


def test_white_space_is_that_of_arrow_for_every_character():
    texts = pa.array([f"a{character}b{character}" for character in CHARACTERS.to_pylist()])
    n_found = Chunks().number(texts).lengths.tolist()
    assert {c for c, n in zip(CHARACTERS.to_pylist(), n_found, strict=True) if n > 1} == SPACES
    assert len(SPACES) > 20


@given(
    st.lists(st.lists(st.text("aé語 \t\u00a0\u3000\u2028", max_size=12), max_size=8), max_size=4)
)
def test_numbers_are_kept_from_batch_to_batch(batches):
    table = Chunks()
    seen = {}
    for batch in batches:
        texts = pa.array(batch, pa.string())
        rows = split(texts)
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
        assert chunks_of(table, texts) == split(texts)
        assert len(table) == 20_002


@pytest.mark.parametrize("texts", [[], [""], ["", " \n"], ["a"]])
def test_few_texts(texts):
    given_texts = pa.array(texts, pa.string())
    assert chunks_of(Chunks(), given_texts) == split(given_texts)


def test_a_slice_is_read_from_its_start():
    texts = pa.array(["one two", "three", "four five", "six"])[1:3]
    assert chunks_of(Chunks(), texts) == [["three"], ["four", "five"]]
