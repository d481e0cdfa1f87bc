"""Exchanged names and numbers, and the sentences a summary would not choose."""

import numpy as np
import pytest

from reffree.cut_text import cut_text, join
from reffree.edits import CannotEdit, Rate
from reffree.hard_edits import exchange, unimportant_sentences

SOURCE = cut_text(
    "On Monday, Anna Bell met Carl Dunn in Paris. She paid 40 euros in 1999. "
    "He paid 75 euros in 2004. The weather was fine that whole day."
)


def texts_of(reference, source=SOURCE, rate=Rate(0, 0), n=60):  # noqa: B008  (frozen)
    text = cut_text(reference)
    return {exchange(text, source, rate, np.random.default_rng(i)).text for i in range(n)}


def test_name_exchanged_for_a_name_and_number_for_a_number():
    assert texts_of("Anna Bell paid 40 .") == {
        "Monday paid 40 .",
        "Carl Dunn paid 40 .",
        "Paris paid 40 .",
        "Anna Bell paid 75 .",
    }


def test_year_exchanged_for_a_year():
    assert texts_of("It was in 1999.") == {"It was in 2004."}


def test_label_counts_the_words_of_both_names():
    draft = exchange(cut_text("we saw Paris"), cut_text("Paris . Anna Bell ."), Rate(0, 0), _rng())
    assert draft.text == "we saw Anna Bell"
    assert draft.label == 2 / 4


def test_capital_at_the_start_of_a_sentence_is_no_name():
    with pytest.raises(CannotEdit, match="nothing to exchange"):
        exchange(cut_text("Weather was fine."), SOURCE, Rate(), _rng())


def test_lower_cased_source_exchanges_repeated_terms():
    source = cut_text("the kinase binds protein . protein and kinase , protein , once lonely .")
    assert texts_of("a kinase is found", source) == {"a protein is found"}


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
