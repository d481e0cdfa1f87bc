"""Edits by word and sentence: labels by hand, against an alignment, and what always holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reffree import edits
from reffree.cut_text import cut_text, join
from reffree.edits import FEWEST_BROKEN, CannotEdit, Rate
from sms.words import split_words

# No word of it occurs in the texts below, so an alignment cannot match a new word by chance.
VOCABULARY = ("Xavier", "xylem", "xenon", "xyz", "xerox")
HALF, ALL = Rate(0.5, 0.5), Rate(1.0, 1.0)

EDITS = {
    "delete": edits.delete_words,
    "add": lambda text, rate, rng: edits.add_words(text, rate, VOCABULARY, rng),
    "replace": lambda text, rate, rng: edits.replace_words(text, rate, VOCABULARY, rng),
    "delete sentences": edits.delete_sentences,
    "replace sentences": lambda text, rate, rng: edits.replace_sentences(
        text, rate, cut_text("Xenon xerox. Xyz xylem!"), rng
    ),
    "shuffle": lambda text, _rate, rng: edits.shuffle_sentences(text, rng),
    "repeat": edits.repeat,
    "truncate": edits.truncate,
    "break": edits.break_sentences,
}

# edit, rate, text, words that stay, words after
BY_HAND = [
    pytest.param("delete", HALF, "one two three four", 2, 2, id="delete half"),
    pytest.param("delete", ALL, "one two three four", 1, 1, id="delete all but one"),
    pytest.param("add", HALF, "one two three four", 4, 6, id="add half"),
    pytest.param("replace", HALF, "one two three four", 2, 4, id="replace half"),
    pytest.param("replace", ALL, "one two three four", 0, 4, id="replace all"),
    pytest.param("delete", Rate(0, 0), "a b c d e", 4, 4, id="at least one edit"),
    pytest.param(
        "shuffle", ALL, "Cats sleep. Dogs run all day.", 5, 8, id="the longer of two stays"
    ),
    pytest.param("delete sentences", ALL, "Cats sleep. Dogs run.", 3, 3, id="one sentence stays"),
    pytest.param(
        "replace sentences", ALL, "Cats sleep. Dogs run.", 0, 6, id="all sentences replaced"
    ),
]


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


def test_adding_thirty_of_a_hundred_words_is_labelled_as_deleting_them_is():
    text = cut_text(" ".join(f"w{i}" for i in range(100)))
    rate, words = Rate(0.3, 0.3), [f"x{i}" for i in range(9)]
    rng = np.random.default_rng(0)
    assert edits.add_words(text, rate, words, rng).label == 0.7
    assert edits.delete_words(text, rate, rng).label == 0.7
    assert edits.replace_words(text, rate, words, rng).label == 0.7


@pytest.mark.parametrize(("edit", "rate", "text", "n_kept", "n_after"), BY_HAND)
def test_label_by_hand(edit, rate, text, n_kept, n_after, rng):
    draft = EDITS[edit](cut_text(text), rate, rng)
    assert len(words_of(draft.text)) == n_after
    assert draft.label == label_of(len(words_of(text)), n_after, n_kept)


def test_repeated_sentence_by_hand(rng):
    text = cut_text("One two.\nThree four five.")
    drafts = [edits.repeat(text, ALL, rng) for _ in range(20)]
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


@given(TEXTS, st.sampled_from(sorted(EDITS)), st.floats(0, 1), st.integers(0, 2**32))
def test_label_is_what_an_alignment_of_words_says(text, edit, rate, seed):
    try:
        draft = EDITS[edit](cut_text(text), Rate(rate, rate), np.random.default_rng(seed))
    except CannotEdit:
        return
    before, after = words_of(text), words_of(draft.text)
    common = longest_common(before, after)
    if edit in ("shuffle", "replace sentences"):  # full stops may match those of other sentences
        assert draft.label <= label_of(len(before), len(after), common)
    else:
        assert draft.label == label_of(len(before), len(after), common)


@given(TEXTS, st.sampled_from(sorted(EDITS)), st.floats(0, 1), st.integers(0, 2**32))
def test_edit_is_never_empty_or_unchanged(text, edit, rate, seed):
    try:
        draft = EDITS[edit](cut_text(text), Rate(rate, rate), np.random.default_rng(seed))
    except CannotEdit:
        if edit == "break":
            assert all(len(sentence) <= FEWEST_BROKEN for sentence in cut_text(text))
        else:
            assert edit in ("shuffle", "delete sentences")
            assert text.count(".") == 1
        return
    assert draft.text.strip()
    assert draft.text == draft.text.strip()
    assert words_of(draft.text) != words_of(text)
    assert 0 <= draft.label <= 1
    assert draft.n_edits >= 1


def test_cut_text_joined_is_the_text():
    text = "The U.S. team's  win,\nat $2,000.5 (or “more”).\n\n'Yes' he said - twice."
    assert join(cut_text(f"  {text} ")) == text
    assert [token.word for sentence in cut_text(text) for token in sentence] == words_of(text)


def test_removed_and_new_words_do_not_stick_together(rng):
    text = cut_text('well-known "act" of 2,000.5')
    for _ in range(50):
        for name in ("delete", "replace", "add"):
            draft = EDITS[name](text, Rate(), rng)
            assert words_of(draft.text) == [t.word for s in draft.sentences for t in s]


def test_replacement_differs_in_more_than_case(rng):
    draft = edits.replace_words(cut_text("Xenon xyz"), ALL, ("xenon", "Xyz"), rng)
    assert draft.text == "Xyz xenon"
    with pytest.raises(CannotEdit, match="no other word"):
        edits.replace_words(cut_text("Xenon"), ALL, ("xenon",), rng)


@pytest.mark.parametrize(
    ("edit", "text", "why"),
    [
        ("delete", "Alone", "one word only"),
        ("truncate", "Alone", "one word only"),
        ("break", "It was closed. Why?", "no sentence to break"),
    ],
)
def test_what_is_too_short_cannot_be_edited(edit, text, why, rng):
    with pytest.raises(CannotEdit, match=why):
        EDITS[edit](cut_text(text), Rate(), rng)


def test_broken_sentences_begin_or_end_in_the_middle(rng):
    first, second = "The old bridge was opened on Monday", "Anna Bell sang three long songs"
    beginnings = endings = 0
    for _ in range(40):
        draft = edits.break_sentences(cut_text(f"{first}. {second}!"), HALF, rng)
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
