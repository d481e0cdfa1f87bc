"""Exchanged names and numbers, and the sentences a summary would not choose."""

import numpy as np
import pytest

from reffree.cut_text import cut_text, join
from reffree.edits import CannotEdit, Rate
from reffree.hard_edits import exchange, fuse, negate, unimportant_sentences

SOURCE = cut_text(
    "On Monday, Anna Bell met Carl Dunn in Paris. She paid 40 euros in 1999. "
    "He paid 75 euros in 2004. The weather was fine that whole day."
)


def texts_of(reference, source):
    text = cut_text(reference)
    return {exchange(text, source, Rate(0, 0), np.random.default_rng(i)).text for i in range(60)}


def test_label_counts_the_words_of_both_names():
    draft = exchange(cut_text("we saw Paris"), cut_text("Paris . Anna Bell ."), Rate(0, 0), _rng())
    assert draft.text == "we saw Anna Bell"
    assert draft.label == pytest.approx(1 / 3)  # two new words in the place of one of three


def test_capital_at_the_start_of_a_sentence_is_no_name():
    with pytest.raises(CannotEdit, match="nothing to exchange"):
        exchange(cut_text("Weather was fine."), SOURCE, Rate(), _rng())


def test_unimportant_sentences_share_least_with_the_reference():
    source = cut_text(
        "Anna Bell won the big race. The rain fell on all roads. Bell had won a race before. "
        "People drank tea and then left. Short one. She won a big prize again."
    )
    chosen = unimportant_sentences(cut_text("Anna Bell won a big race."), source)
    # 5 sentences are long enough; of two that share nothing the later, one in three
    assert [join([sentence]) for sentence in chosen] == ["People drank tea and then left."]


def test_source_of_one_sentence_has_no_unimportant_ones():
    with pytest.raises(CannotEdit, match="too few sentences"):
        unimportant_sentences(cut_text("Cats sleep."), cut_text("One sentence of many words here."))


def _rng():
    return np.random.default_rng(0)


TYPED = cut_text(
    "Mr Bell met Dunn in Paris on Monday. Dunn said he lived in London in March. Bell said two of "
    "the ten came on Friday in June. He is not old."
)


LOWER = cut_text("the kinase binds protein . protein and kinase , protein , once lonely .")


@pytest.mark.parametrize(
    ("source", "reference", "expected"),
    [
        (SOURCE, "Anna Bell paid 40 .", {"Carl Dunn paid 40 .", "Anna Bell paid 75 ."}),
        (SOURCE, "It was in 1999.", {"It was in 2004."}),
        (TYPED, "Dunn sang.", {"Bell sang."}),  # a person for a person
        (TYPED, "We saw Paris.", {"We saw London."}),
        (TYPED, "It was Monday.", {"It was Friday."}),
        (TYPED, "In June we left.", {"In March we left."}),
        (TYPED, "All two of us.", {"All ten of us."}),
        (LOWER, "a kinase is found", {"a protein is found"}),  # terms that repeat
    ],
)
def test_exchanges_are_typed(source, reference, expected):
    assert texts_of(reference, source) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He is old.", {"He is not old.", "She is old.", "He is new."}),
        ("They did not win.", {"They did win.", "They did not lose."}),
        ("More came.", {"Less came."}),
    ],
)
def test_statement_is_turned_round(text, expected):
    drafts = [negate(cut_text(text), Rate(0, 0), np.random.default_rng(i)) for i in range(30)]
    assert {draft.text for draft in drafts} == expected
    assert all(draft.label < 1 for draft in drafts)


def test_nothing_to_turn_round():
    with pytest.raises(CannotEdit, match="nothing to turn round"):
        negate(cut_text("Cats sleep."), Rate(), _rng())


def test_fused_sentence_begins_as_one_and_ends_as_another():
    text = cut_text("Anna Bell met Carl Dunn there.")
    for i in range(20):
        draft = fuse(text, SOURCE, Rate(0, 0), np.random.default_rng(i))
        words = draft.text.split()
        assert words[:2] == ["Anna", "Bell"]
        assert draft.text.endswith(("Paris.", "1999.", "2004.", "day."))
        assert 0 <= draft.label < 1
