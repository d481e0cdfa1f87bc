"""A bounded sample of words that does not depend on the order of the texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reffree.vocabulary import WordSample

TEXTS = st.lists(st.text(alphabet="abcd ,.", max_size=30), max_size=20)


def sample(batches, max_words=1000):
    words = WordSample(max_words)
    for batch in batches:
        words.add(batch)
    return words.words()


def test_words_by_hand():
    assert sample([["The team's win, 2,000.5!", "- the win"]]) == (
        "'s",
        "2,000.5",
        "The",
        "team",
        "the",
        "win",
    )


@given(TEXTS, st.randoms(), st.integers(1, 10))
def test_sample_is_the_same_in_any_order_and_batches(texts, random, max_words):
    shuffled = random.sample(texts, len(texts))
    middle = len(texts) // 2
    whole = sample([texts], max_words)
    assert whole == sample([shuffled[:middle], shuffled[middle:]], max_words)
    assert whole == sample([[text] for text in shuffled], max_words)
    assert len(whole) == min(max_words, len(sample([texts])))
    assert set(whole) <= set(sample([texts]))


def test_no_room_rejected():
    with pytest.raises(ValueError, match="`max_words` must be at least 1, got 0"):
        WordSample(0)
