"""Pairs and their sides: what is taken from a row, what is left out, no text on two sides."""

import tracemalloc
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reffree.hashing import hash64
from reffree.training_pairs.rows import (
    NEAR_BANDS,
    NO_SPLIT,
    SIDES,
    SourceSample,
    WordSample,
    near_keys,
    pairs_of_row,
    side_named,
    text_key,
)
from reffree.training_pairs.splits import Groups, TextRegister, hashed_sides
from tests.reffree.conftest import make_pairs

# document_id, sources, references, split, and why they give no pair
NO_PAIR = [
    pytest.param("d", ["s"], None, "train", "no reference", id="null reference"),
    pytest.param("d", [], ["r"], "train", "no source", id="no source in the list"),
    pytest.param(None, ["s"], ["r"], "train", "no document_id", id="null id"),
    pytest.param("d", ["s"], ["r"], "holdout", "no known split", id="unknown split"),
    pytest.param("d", ["s"], ["r"], None, "no known split", id="null split"),
    pytest.param("d", ["s"], [" ."], "train", "empty reference", id="no word"),
]


@pytest.mark.parametrize(("name", "sources", "references", "split", "reason"), NO_PAIR)
def test_row_without_a_pair_is_counted(name, sources, references, split, reason):
    left_out = Counter()
    assert pairs_of_row(name, sources, references, side_named(split), left_out) == []
    assert left_out == {reason: 1}


def test_every_source_is_paired_with_every_reference():
    left_out = Counter()
    pairs = pairs_of_row("d", ["s", "t"], ["q", "", "r"], NO_SPLIT, left_out)
    assert [(pair.number, pair.source, pair.reference) for pair in pairs] == [
        (0, "s", "q"),
        (1, "s", "r"),
        (2, "t", "q"),
        (3, "t", "r"),
    ]
    assert {pair.side for pair in pairs} == {NO_SPLIT}
    assert left_out == {"empty reference": 1}


def test_names_of_sides():
    assert [side_named(name) for name in ("Train", "dev", " valid ", "test")] == [0, 1, 1, 2]


def test_key_ignores_case_space_and_punctuation():
    wide = "\N{FULLWIDTH LATIN CAPITAL LETTER T}he team's win"
    others = ["the team 's WIN", "The team’s win.", "\tThe teams\nwin!", wide]
    assert {text_key(other) for other in others} == {text_key("The team's win")}


def test_sample_of_sources_depends_on_the_pairs_alone():
    pairs = make_pairs(40)
    samples = []
    for order in (pairs, pairs[::-1]):
        sample = SourceSample()
        sample.most = 10
        for pair in [*order, *order]:
            sample.add([(pair.document_id, pair.source)])
        samples.append(sample.kept())
    assert samples[0] == samples[1]
    assert len(samples[0]) == 10
    assert set(samples[0]) < {text_key(pair.source) for pair in pairs}
    odd = SourceSample()
    odd.add([("a", "\ufe70"), ("b", "One source.")])  # a space and a mark: no letter
    assert odd.kept() == (text_key("One source."),)


TEXTS = st.lists(st.text(alphabet="abcd ,.", max_size=30), max_size=20)


def sample(batches, max_words=1000):
    words = WordSample()
    words.most = max_words
    for batch in batches:
        words.add(batch)
    return words.kept()


def test_words_by_hand():
    words = ("'s", "2,000.5", "The", "team", "the", "win")
    assert sample([["The team's win, 2,000.5!", "- the win"]]) == words


@given(TEXTS, st.randoms(), st.integers(1, 10))
def test_sample_is_the_same_in_any_order_and_batches(texts, random, max_words):
    shuffled = random.sample(texts, len(texts))
    middle = len(texts) // 2
    whole = sample([texts], max_words)
    assert whole == sample([shuffled[:middle], shuffled[middle:]], max_words)
    assert whole == sample([[text] for text in shuffled], max_words)
    assert len(whole) == min(max_words, len(sample([texts])))
    assert set(whole) <= set(sample([texts]))


def test_near_copies_have_a_key_in_common_and_others_none():
    words = [f"w{i}" for i in range(300)]
    text = " ".join(words)
    keys = set(near_keys(text))
    assert len(keys) == NEAR_BANDS
    nearly = " ".join(["By Anna Bell .", *words[:290]])
    assert keys & set(near_keys(nearly.upper()))
    half = " ".join([*words[:150], *(f"x{i}" for i in range(150))])
    others = [" ".join(f"{k}w{i}" for i in range(300)) for k in range(20)]
    assert not any(keys & set(near_keys(other)) for other in others)
    assert not keys & set(near_keys(half))
    assert near_keys("Too short to say.") == []


def test_near_copies_are_found_in_languages_without_spaces(rng):
    characters = [chr(k) for k in range(0x4E00, 0x5200)]
    texts = ["".join(rng.choice(characters, 120)) for _ in range(40)]
    copies = [f"{text[:60]}们{text[61:]}" for text in texts]
    keys = [set(near_keys(text)) for text in texts]
    found = [[bool(text_keys & set(near_keys(copy))) for text_keys in keys] for copy in copies]
    assert np.mean(np.diag(found)) > 0.9
    assert not np.any(found & ~np.eye(40, dtype=bool))


# Sides

NO_SIDE = -1


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40), st.randoms())
def test_groups_match_a_search_of_the_graph(tmp_path_factory, edges, random):
    entries = [(f"{text}", document) for text, document in edges] or [("a", 0)]
    shuffled = random.sample(entries, len(entries))
    found = []
    for listed in (entries, shuffled):
        register = TextRegister(tmp_path_factory.mktemp("register") / "texts")
        register.note([(hash64(text), document, NO_SIDE) for text, document in listed])
        found.append(register.groups().group_of(np.arange(13, dtype=np.uint64)).tolist())
        register.close()
    reached = {document: {document} for document in range(13)}
    for _ in range(13):
        for text, document in entries:
            for other_text, other in entries:
                if text == other_text:
                    reached[document] |= reached[other]
    assert found[0] == found[1] == [min(reached[document]) for document in range(13)]


def test_leak_leaves_out_the_earlier_side(tmp_path):
    # documents 1 (train) and 2 (test) share a text; 3 is twice there, for training and validation
    entries = [("a", 1, 0), ("a", 2, 2), ("doc 3", 3, 0), ("doc 3", 3, 1), ("b", 4, 0)]
    with closing(TextRegister(tmp_path / "texts")) as noted:
        noted.note([(hash64(text), document, side) for text, document, side in entries])
        groups = noted.groups()
        keys = np.array([1, 2, 3, 3, 4], dtype=np.uint64)
        sides = np.array([0, 2, 0, 1, 0], dtype=np.int8)
        assert groups.is_leak(keys, sides).tolist() == [True, False, True, False, False]
        found = noted.n_leaks(lambda _keys, file_sides: file_sides)
        assert found == {("train", "test"): 1, ("train", "validation"): 1}
        kept = noted.n_leaks(
            lambda k, file_sides: np.where(groups.is_leak(k, file_sides), NO_SIDE, file_sides)
        )
        assert kept == {}


def test_shares_of_sides():
    keys = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64)
    shares = np.bincount(hashed_sides(keys, seed=3), minlength=len(SIDES)) / keys.size
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.005)  # five standard deviations


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(0, 1000))
def test_side_depends_on_document_and_seed_only(keys, seed):
    together = hashed_sides(np.array(keys, dtype=np.uint64), seed=seed)
    alone = [hashed_sides(np.array([key], dtype=np.uint64), seed=seed)[0] for key in keys]
    assert together.tolist() == alone
    assert set(alone) <= {0, 1, 2}


def test_side_of_a_few_documents_does_not_sort_all_that_share_a_text():
    documents = np.arange(0, 2_000_000, 2, dtype=np.uint64)
    no_side, leaks = np.zeros(documents.size, np.int8), np.zeros(documents.size, bool)
    groups = Groups(documents, documents // 4, no_side, leaks)
    keys = np.array([0, 3, 8, 1_999_998, 1_999_999, 2**63], dtype=np.uint64)
    tracemalloc.start()
    assert groups.group_of(keys).tolist() == [0, 3, 2, 499_999, 1_999_999, 2**63]
    assert not groups.is_leak(keys, np.zeros(keys.size, np.int8)).any()
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    empty = Groups(documents[:0], documents[:0], no_side[:0], leaks[:0])
    assert empty.group_of(keys).tolist() == keys.tolist()
