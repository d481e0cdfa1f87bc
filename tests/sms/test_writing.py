"""Text of any script on a line: cut between graphemes, broken where a line may end, isolated."""

import bidi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sms.writing import beginning, ending, graphemes, isolated, unbroken

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
SCRIPTS = "aZ é7٣۴-,.:/%$()[]\"'!אבעםلكھ漢字かなカナ한글ไทยक्षि\u0301\u064b\u200c"
TURNING = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
texts = st.text(st.sampled_from(SCRIPTS), max_size=30)
hostile = st.text(st.sampled_from(SCRIPTS + TURNING), max_size=20)


@given(texts, st.integers(2, 20))
def test_short_forms_fit_and_cut_no_grapheme(text, n_cells):
    whole = graphemes(text)
    start, end = beginning(text, n_cells), ending(text, n_cells)
    assert cell_len(start) <= n_cells
    assert cell_len(end) <= n_cells
    if cell_len(text) <= n_cells:
        assert start == end == text
    else:
        n_start, n_end = len(graphemes(start)) - 1, len(graphemes(end)) - 1
        assert start == "".join(whole[:n_start]) + "…"
        assert end == "…" + "".join(whole[len(whole) - n_end :])


@pytest.mark.parametrize(
    ("text", "n_cells", "start", "end"),
    [
        (f"{FAMILY} 🇩🇪", 4, f"{FAMILY} …", "… 🇩🇪"),
        ("noe\u0308l", 3, "no…", "…e\u0308l"),
        ("क्षितिज", 3, "क्षि…", "…तिज"),
    ],
)
def test_short_forms_by_hand(text, n_cells, start, end):
    assert (beginning(text, n_cells), ending(text, n_cells)) == (start, end)


@pytest.mark.parametrize(
    "pieces",
    [
        ["กรุงเทพมหานคร", "เมื่อ", "วัน ", "14"],  # no spaces between words
        ["「日本」、"],  # no line begins with a closing bracket or a comma
        ["태양광 ", "발전소"],  # no line ends within a word
        [f"{FAMILY} ", "🇩🇪", "🇫🇷"],
        ["10\u00a0000 ", "km"],
        ["half\ud83d ", "half"],
    ],
)
def test_places_where_a_line_may_end(pieces):
    assert unbroken("".join(pieces)) == pieces


@given(st.text(max_size=40))
def test_pieces_of_a_line_are_the_line(text):
    assert "".join(unbroken(text)) == text


@given(hostile)
def test_isolated_text_turns_nothing_around_it(text):
    """Held against the bidirectional algorithm of another implementation."""
    shown = bidi.get_display(f"A {isolated(text)} 0.41 B 2", base_dir="L")
    assert shown.startswith("A ")
    assert shown.endswith(" 0.41 B 2")
    assert text in isolated(text)


def test_text_from_the_left_is_as_it_was():
    assert isolated("system-2 漢字 👩") == "system-2 漢字 👩"
