"""Edits: labels by hand and against an alignment, what always holds, and exchanges by kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reffree.negatives import edits
from reffree.negatives.edits import FEWEST_BROKEN, CannotEdit, cut_text, join
from reffree.negatives.hard_edits import (
    exchange,
    exchange_terms,
    fuse,
    negate,
    trade,
    turn_opinions,
    unimportant_sentences,
)
from sms.text.words import split_words

# No word of it occurs in the texts below, so an alignment cannot match a new word by chance.
VOCABULARY = ("Xavier", "xylem", "xenon", "xyz", "xerox")

EDITS = {
    "delete": edits.delete_words,
    "add": lambda text, rng: edits.add_words(text, VOCABULARY, rng),
    "replace": lambda text, rng: edits.replace_words(text, VOCABULARY, rng),
    "delete sentences": edits.delete_sentences,
    "replace sentences": lambda text, rng: edits.replace_sentences(
        text, cut_text("Xenon xerox. Xyz xylem!"), rng
    ),
    "shuffle": edits.shuffle_sentences,
    "repeat": edits.repeat,
    "truncate": edits.truncate,
    "break": edits.break_sentences,
}

# edit, share that is edited, text, words that stay, words after
BY_HAND = [
    pytest.param("delete", 0.5, "one two three four", 2, 2, id="delete half"),
    pytest.param("delete", 1, "one two three four", 1, 1, id="delete all but one"),
    pytest.param("add", 0.5, "one two three four", 4, 6, id="add half"),
    pytest.param("replace", 1, "one two three four", 0, 4, id="replace all"),
    pytest.param("delete", 0, "a b c d e", 4, 4, id="at least one edit"),
    pytest.param("shuffle", 1, "Cats sleep. Dogs run all day.", 5, 8, id="the longer of two stays"),
    pytest.param("delete sentences", 1, "Cats sleep. Dogs run.", 3, 3, id="one sentence stays"),
    pytest.param("replace sentences", 1, "Cats sleep. Dogs run.", 0, 6, id="all replaced"),
]


class Rated:
    """Random numbers, but for the share of a text that is edited."""

    def __init__(self, share, seed=0):
        self._share, self._rng = share, np.random.default_rng(seed)

    def uniform(self, low, high):
        return self._share

    def __getattr__(self, name):
        return getattr(self._rng, name)


def words_of(text):
    return [word for chunk in text.split() for word in split_words(chunk)]


def longest_common(before, after):
    """Length of the longest common subsequence, by the textbook recurrence."""
    row = [0] * (len(after) + 1)
    for word in before:
        previous = row
        row = [0]
        for j, other in enumerate(after):
            best = previous[j] + 1 if word == other else max(previous[j + 1], row[j])
            row.append(best)
    return row[-1]


# Distinct words, so that an alignment has one answer; punctuation and line breaks between.
TEXTS = st.lists(
    st.lists(st.sampled_from("abcdefghijklmnopqrstuv"), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
).map(
    lambda sentences: "\n".join(
        " ".join(f"{word.capitalize() if k == 0 else word}{s}q{k}" for k, word in enumerate(words))
        + "."
        for s, words in enumerate(sentences)
    )
)


def label_of(n_before, n_after, n_kept):
    """The complement of the percentage of mutation (Bao et al. 2020, section 2.2)."""
    n_gone, n_new = n_before - n_kept, n_after - n_kept
    return max(0, n_before - max(n_gone, n_new)) / n_before


@pytest.mark.parametrize(("edit", "share", "text", "n_kept", "n_after"), BY_HAND)
def test_label_by_hand(edit, share, text, n_kept, n_after):
    draft = EDITS[edit](cut_text(text), Rated(share))
    assert len(words_of(draft.text)) == n_after
    assert draft.label == label_of(len(words_of(text)), n_after, n_kept)


def test_repeated_sentence_by_hand():
    text = cut_text("One two.\nThree four five.")
    drafts = [edits.repeat(text, Rated(1, seed)) for seed in range(20)]
    twice = "One two.\nOne two.\nThree four five.\nThree four five."
    assert any(draft.text == twice and draft.label == 0 for draft in drafts)


def test_three_sentences_shuffled_keep_the_heaviest_order():
    text = cut_text("Cats sleep in the sun. Rain. Dogs run.")  # 6, 2 and 3 words
    kept = {}
    for seed in range(50):
        draft = edits.shuffle_sentences(text, np.random.default_rng(seed))
        kept[draft.text] = draft.label
    assert kept == {
        "Cats sleep in the sun. Dogs run. Rain.": 9 / 11,
        "Rain. Cats sleep in the sun. Dogs run.": 9 / 11,
        "Rain. Dogs run. Cats sleep in the sun.": 6 / 11,
        "Dogs run. Cats sleep in the sun. Rain.": 8 / 11,
        "Dogs run. Rain. Cats sleep in the sun.": 6 / 11,
    }


@given(TEXTS, st.sampled_from(sorted(EDITS)), st.integers(0, 2**32))
def test_edit_changes_the_text_and_its_label_is_what_an_alignment_says(text, edit, seed):
    try:
        draft = EDITS[edit](cut_text(text), np.random.default_rng(seed))
    except CannotEdit:
        if edit == "break":
            assert all(len(sentence) <= FEWEST_BROKEN for sentence in cut_text(text))
        else:
            assert edit in ("shuffle", "delete sentences")
            assert text.count(".") == 1
        return
    assert draft.text.strip()
    assert draft.text == draft.text.strip()
    assert draft.n_edits >= 1
    before, after = words_of(text), words_of(draft.text)
    assert after != before
    expected = label_of(len(before), len(after), longest_common(before, after))
    if edit in ("shuffle", "replace sentences"):  # full stops may match those of other sentences
        assert 0 <= draft.label <= expected
    else:
        assert draft.label == expected


def test_cut_text_joined_is_the_text():
    text = "The U.S. team's  win,\nat $2,000.5 (or “more”).\n\n'Yes' he said - twice."
    assert join(cut_text(f"  {text} ")) == text
    assert [token.word for sentence in cut_text(text) for token in sentence] == words_of(text)


def test_removed_and_new_words_do_not_stick_together(rng):
    text = cut_text('well-known "act" of 2,000.5')
    for _ in range(50):
        for name in ("delete", "replace", "add"):
            draft = EDITS[name](text, rng)
            assert words_of(draft.text) == [t.word for s in draft.sentences for t in s]


def test_replacement_differs_in_more_than_case(rng):
    draft = edits.replace_words(cut_text("Xenon xyz"), ("xenon", "Xyz"), Rated(1))
    assert draft.text == "Xyz xenon"
    with pytest.raises(CannotEdit, match="no other word"):
        edits.replace_words(cut_text("Xenon"), ("xenon",), rng)


@pytest.mark.parametrize(
    ("edit", "text", "why"),
    [
        (edits.delete_words, "Alone", "one word only"),
        (edits.truncate, "Alone", "one word only"),
        (edits.break_sentences, "It was closed. Why?", "no sentence to break"),
        (negate, "Cats sleep.", "nothing to turn round"),
        (turn_opinions, "They met at noon.", "no opinion to turn round"),
        (lambda text, rng: trade(text, MEETING, rng), "Bell slept.", "no two names or numbers"),
        (lambda text, rng: exchange_terms(text, LOWER, rng), "It slept.", "nothing to exchange"),
        # a capital at the start of a sentence makes no name
        (lambda text, rng: exchange(text, MEETING, rng), "Weather was fine.", "nothing to exch"),
    ],
)
def test_what_has_nothing_to_edit_is_refused(edit, text, why, rng):
    with pytest.raises(CannotEdit, match=why):
        edit(cut_text(text), rng)


def test_broken_sentences_begin_or_end_in_the_middle():
    first, second = "The old bridge was opened on Monday", "Anna Bell sang three long songs"
    beginnings = endings = 0
    for seed in range(40):
        draft = edits.break_sentences(cut_text(f"{first}. {second}!"), Rated(0.5, seed))
        made = draft.text
        whole = first if first in made else second
        left = made.replace(whole, "").strip(" .!")
        other = second if whole == first else first
        assert made.count(".") == made.count("!") == draft.n_edits == 1
        assert 3 <= len(left.split()) < len(other.split())
        endings += other.startswith(left)
        beginnings += other.lower().endswith(left.lower())
    assert beginnings + endings == 40
    assert min(beginnings, endings) > 5


MEETING = cut_text(
    "On Monday, Anna Bell met Carl Dunn in Paris. She paid 40 euros in 1999. "
    "He paid 75 euros in 2004. The weather was fine that whole day."
)
TYPED = cut_text(
    "Mr Bell met Dunn in Paris on Monday. Dunn said he lived in London in March. Bell said two of "
    "the ten came on Friday in June. He is not old."
)
LOWER = cut_text("the kinase binds protein . protein and kinase , protein , once lonely .")


def test_label_counts_the_words_of_both_names():
    draft = exchange(cut_text("we saw Paris"), cut_text("Paris . Anna Bell ."), Rated(0))
    assert draft.text == "we saw Anna Bell"
    assert draft.label == pytest.approx(1 / 3)  # two new words in the place of one of three


@pytest.mark.parametrize(
    ("source", "reference", "expected"),
    [
        (MEETING, "Anna Bell paid 40 .", {"Carl Dunn paid 40 .", "Anna Bell paid 75 ."}),
        (MEETING, "It was in 1999.", {"It was in 2004."}),
        (TYPED, "Dunn sang.", {"Bell sang."}),  # a person for a person
        (TYPED, "We saw Paris.", {"We saw London."}),
        (TYPED, "It was Monday.", {"It was Friday."}),
        (TYPED, "In June we left.", {"In March we left."}),
        (TYPED, "All two of us.", {"All ten of us."}),
        (LOWER, "a kinase is found", {"a protein is found"}),  # terms that repeat
    ],
)
def test_exchanges_are_typed(source, reference, expected):
    drafts = [exchange(cut_text(reference), source, Rated(0, seed)) for seed in range(60)]
    assert {draft.text for draft in drafts} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He is old.", {"He is not old.", "She is old.", "He is new."}),
        ("They did not win.", {"They did win.", "They did not lose."}),
        ("More came.", {"Less came."}),
    ],
)
def test_statement_is_turned_round(text, expected):
    drafts = [negate(cut_text(text), Rated(0, seed)) for seed in range(30)]
    assert {draft.text for draft in drafts} == expected
    assert all(draft.label < 1 for draft in drafts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # all places of two names, as speakers that are taken for each other
        ("Bell asks Dunn. Then Dunn sings.", {"Dunn asks Bell. Then Bell sings."}),
        ("Anna Bell saw Rome.", {"Rome saw Anna Bell."}),
        # a number for a number, a day for a day
        ("We paid 40 on Monday, 75 on Friday.",
         {"We paid 75 on Monday, 40 on Friday.", "We paid 40 on Friday, 75 on Monday."}),
    ],
)  # fmt: skip
def test_names_change_places(text, expected):
    drafts = [trade(cut_text(text), MEETING, np.random.default_rng(k)) for k in range(30)]
    assert {draft.text for draft in drafts} == expected
    assert all(draft.label < 1 for draft in drafts)


def test_terms_are_exchanged_though_there_are_names():
    source = cut_text("Anna liked the service . Bell had breakfast . service , breakfast .")
    text = cut_text("Anna praised the service.")
    drafts = [exchange_terms(text, source, Rated(0, seed)) for seed in range(20)]
    assert {draft.text for draft in drafts} == {"Anna praised the breakfast."}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Friendly staff.", {"Rude staff."}),
        ("I love it.", {"I hate it."}),
        ("I hate the clean room.", {"I love the clean room.", "I hate the dirty room."}),
    ],
)
def test_opinions_are_turned_round(text, expected):
    drafts = [turn_opinions(cut_text(text), Rated(0, seed)) for seed in range(30)]
    assert {draft.text for draft in drafts} == expected


def test_fused_sentence_begins_as_one_and_ends_as_another():
    text = cut_text("Anna Bell met Carl Dunn there.")
    for seed in range(20):
        draft = fuse(text, MEETING, Rated(0, seed))
        assert draft.text.startswith("Anna Bell ")
        assert draft.text.endswith(("Paris.", "1999.", "2004.", "day."))
        assert 0 <= draft.label < 1


def test_unimportant_sentences_share_least_with_the_reference():
    source = cut_text(
        "Anna Bell won the big race. The rain fell on all roads. Bell had won a race before. "
        "People drank tea and then left. Short one. She won a big prize again."
    )
    chosen = unimportant_sentences(cut_text("Anna Bell won a big race."), source)
    # 5 sentences are long enough; of two that share nothing the later, one in three
    assert [join([sentence]) for sentence in chosen] == ["People drank tea and then left."]
