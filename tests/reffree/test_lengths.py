"""Negatives brought to the length of their positive."""

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from reffree.cut_text import cut_text
from reffree.edits import CannotEdit, Draft, Rate
from reffree.lengths import match_length
from reffree.negatives import KINDS, Material, make_negative

REFERENCE = "Anna Bell won the race in Paris. She ran for 40 minutes. Rain fell on the road."
SOURCE = " ".join(f"On day {i} Carl{i} saw {i + 3} {'very ' * (i % 5)}old cats." for i in range(15))
OTHERS = [
    " ".join(f"Strange{i} things{k} do happen here." for k in range(1 + i % 5)) for i in range(9)
]


def draft_of(text, n_before):
    return Draft(cut_text(text), 1, n_before)


def test_too_long_is_cut_at_a_sentence():
    matched = match_length(draft_of("One two three. Four five six. Seven.", 8), 8, 0.1, [])
    assert matched.text == "One two three. Four five six."
    assert matched.label == 8 / 8


def test_too_short_is_filled_with_the_first_sentence_that_reaches():
    filler = [*cut_text("Too short."), *cut_text("This one fits."), *cut_text("So does that.")]
    matched = match_length(draft_of("One two three.", 8), 8, 0.0, filler)
    assert matched.text == "One two three. This one fits."
    assert matched.label == 4 / 8


def test_two_sentences_fill_what_none_does_alone():
    filler = [*cut_text("Cats sleep."), *cut_text("Dogs bark and run.")]
    matched = match_length(draft_of("One.", 10), 10, 0.0, filler)
    assert matched.text == "One. Dogs bark and run. Cats sleep."


def test_length_that_no_sentences_have_is_refused():
    with pytest.raises(CannotEdit, match="length not matched"):
        match_length(draft_of("One two three four five six.", 3), 3, 0.1, [])


@given(st.sampled_from(sorted(KINDS)), st.floats(0, 0.5), st.integers(0, 2**32))
def test_negative_is_as_long_as_its_positive(kind, tolerance, seed):
    reference = cut_text(REFERENCE)
    n_words = sum(map(len, reference))

    def other(rng):
        return OTHERS[int(rng.integers(len(OTHERS)))]

    material = Material(
        reference=reference,
        read_source=lambda: cut_text(SOURCE),
        vocabulary=("xylem", "xenon"),
        draw_other=other,
        draw_near=other,
    )
    rng = np.random.default_rng(seed)
    try:
        draft = make_negative(kind, material, Rate(), rng, length_tolerance=tolerance)
    except CannotEdit:
        reject()
    assert abs(draft.n_words - n_words) <= tolerance * n_words + 1e-9
    assert 0 <= draft.label <= 1
    assert (draft.label == 0) or not kind.startswith("cross")
