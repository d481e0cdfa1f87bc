"""The order of a line, held against another implementation of the bidirectional algorithm."""

import unicodedata

import bidi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sms.bidi import base_level, bidi_levels, visual_order
from tests.sms.test_writing import texts


def _seen(text):
    return [character for character in text if unicodedata.bidirectional(character) != "BN"]


@given(texts, st.integers(0, 1))
def test_order_is_that_of_another_implementation(text, base):
    text = text.rstrip()
    order = visual_order(bidi_levels(text, base))
    # where what nobody sees stands, such as a joiner at an end, is left open (UAX 9, X9)
    ours, theirs = "".join(text[k] for k in order), bidi.get_display(text, base_dir="LR"[base])
    assert _seen(ours) == _seen(theirs)
    assert sorted(order) == [*range(len(text))]


@given(texts.filter(bool))
def test_base_is_that_of_another_implementation(text):
    assert base_level(text) == bidi.get_base_level(text)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("car אב 2", [0, 0, 0, 0, 1, 1, 1, 2]),
        ("אב Solar One", [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("נ (5%).", [1, 1, 1, 2, 2, 1, 1]),
    ],
)
def test_levels_by_hand(text, levels):
    assert bidi_levels(text, base_level(text)) == levels
