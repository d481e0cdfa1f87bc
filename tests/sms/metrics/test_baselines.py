"""Trivial baselines by hand, against the published fragment algorithm in plain Python, and laws."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from reffree.features import FeatureConfig, PairFeatures
from sms.metrics.baselines import (
    BASELINES,
    compression,
    coverage,
    density,
    lead3,
    length,
    novelty,
    repetition,
)
from sms.ragged import Ragged
from sms.scoring import score_texts
from sms.text.detokenize import detokenized

OF_PAIRS = [compression, coverage, density, novelty]

rows_of_words = st.lists(st.lists(st.integers(0, 4), max_size=14), min_size=1, max_size=4)


def pack(*texts: str) -> Ragged:
    ids: dict[str, int] = {}
    return Ragged.from_rows([[ids.setdefault(w, len(ids)) for w in text.split()] for text in texts])


SOURCE = "a cat sat on the mat and the dog sat by the door"

# candidate, source; compression, coverage, density, novelty worked out by hand
BY_HAND = [
    pytest.param("the dog sat", SOURCE, [13 / 3, 1, 3, 0], id="copied"),
    pytest.param("a bird flew", SOURCE, [13 / 3, 1 / 3, 1 / 3, 1], id="one-word-copied"),
    pytest.param("cows graze", SOURCE, [13 / 2, 0, 0, 1], id="nothing-copied"),
    pytest.param(
        "the dog sat on the mat quietly", SOURCE, [13 / 7, 6 / 7, 18 / 7, 1 / 6], id="two-fragments"
    ),
    pytest.param("the the", SOURCE, [13 / 2, 1, 1, 1], id="repeated-word"),
    pytest.param("door the", SOURCE, [13 / 2, 1, 1, 1], id="fragments-may-change-order"),
    # The search goes on behind `a b a` and never tries the second `a`, where all four match.
    pytest.param("a b a c", "a b a b a c", [6 / 4, 1, 10 / 4, 0], id="match-hidden-in-a-match"),
    pytest.param("b b a b b", "b b a", [3 / 5, 1, 13 / 5, 1 / 4], id="longer-than-source"),
    pytest.param("a", "a b a", [3, 1, 1, np.nan], id="candidate-without-a-bigram"),
    pytest.param("a b a", "a", [1 / 3, 2 / 3, 2 / 3, 1], id="source-without-a-bigram"),
    pytest.param("", "a b", [np.nan] * 4, id="candidate-without-words"),
    pytest.param("a b", "", [np.nan] * 4, id="source-without-words"),
]


@pytest.mark.parametrize(("candidate", "source", "expected"), BY_HAND)
def test_pairs_by_hand(candidate, source, expected):
    words, pair = pack(candidate, source), (np.array([0]), np.array([1]))
    got = [baseline(words, *pair)[0] for baseline in OF_PAIRS]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def plain_fragments(summary: list[int], article: list[int]) -> list[list[int]]:
    """F(A, S) as Grusky, Naaman and Artzi (2018) print it."""
    fragments, i = [], 0
    while i < len(summary):
        longest: list[int] = []
        j = 0
        while j < len(article):
            if summary[i] != article[j]:
                j += 1
                continue
            k = i
            while k < len(summary) and j < len(article) and summary[k] == article[j]:
                k, j = k + 1, j + 1
            if len(longest) < k - i:
                longest = summary[i:k]
        i += max(len(longest), 1)
        fragments.append(longest)
    return fragments


@settings(deadline=None, max_examples=100)
@given(rows=rows_of_words)
def test_fragments_match_plain_algorithm(rows):
    words, pairs = Ragged.from_rows(rows), np.divmod(np.arange(len(rows) ** 2), len(rows))
    covered, dense = coverage(words, *pairs), density(words, *pairs)
    for pair, (summary, article) in enumerate(product(rows, repeat=2)):
        lengths = [len(fragment) for fragment in plain_fragments(summary, article)]
        is_defined = bool(summary) and bool(article)
        n_words = len(summary) if is_defined else np.nan
        np.testing.assert_allclose(covered[pair], sum(lengths) / n_words)
        np.testing.assert_allclose(dense[pair], sum(n**2 for n in lengths) / n_words)


def test_candidates_alone_by_hand():
    words, every = pack("a b a", "", "c", "a b c d a b c"), np.array([2, 0, 1, 0, 3])
    np.testing.assert_array_equal(length(words, every), [1, 3, np.nan, 3, 7])
    np.testing.assert_allclose(repetition(words, every), [0, 0, np.nan, 0, 1 / 5], atol=1e-15)


# Sentences 0 to 5; sentence 4 has no word.
SENTENCES = pack("a b c", "d e", "f g h i", "j k", "", "b x")


# sentences of the candidate, of the source; ROUGE-L F worked out by hand
LEAD_BY_HAND = [
    pytest.param([0, 1, 2], [0, 1, 2, 3, 5], 1.0, id="the-lead"),
    pytest.param([0, 1, 2], [4, 0, 4, 1, 2, 3], 1.0, id="sentences-without-words-passed-over"),
    pytest.param([3], [0, 1, 2, 3], 0.0, id="not-in-the-lead"),
    pytest.param([3], [0, 3], 4 / 7, id="short-source"),
    pytest.param([5], [0], 2 / 5, id="one-word-shared"),
    pytest.param([4], [0, 1], np.nan, id="candidate-without-words"),
    pytest.param([0], [4, 4], np.nan, id="source-without-words"),
    pytest.param([0], [], np.nan, id="source-without-sentences"),
]


@pytest.mark.parametrize(("candidate", "source", "expected"), LEAD_BY_HAND)
def test_lead3_by_hand(candidate, source, expected):
    texts = Ragged.from_rows([candidate, source])
    found = lead3(SENTENCES, texts, np.array([0]), np.array([1]))
    np.testing.assert_allclose(found, [expected], rtol=0, atol=1e-12)


# The same text, tokenised or not, counts the same


WRITTEN = (
    "The U.S. judge (aged 61) hasn't said why they're cutting £2,500 from the team's pay. "
    "“It won't help,” said Ann O'Brien at 7.30 p.m., “and we cannot pay 4.5% more.” "
    "Well-known players, who'd waited since 2019, weren't there!"
)
LONG_SOURCE = (
    f"{WRITTEN} Nobody's sure that it'll work; the club doesn't have $1,200,000. It's over."
)
TREEBANK_BRACKETS = {"(": "-LRB-", ")": "-RRB-"}


def by_treebank(text):
    straight = text.replace("“", '"').replace("”", '"')
    tokens = []
    for sentence in regex.split(r"(?<=[!”]|pay\.) ", straight):  # only a final stop stands alone
        tokens += NLTKWordTokenizer().tokenize(sentence)
    return " ".join(TREEBANK_BRACKETS.get(token, token) for token in tokens)


def by_bert(text):
    return " ".join(regex.findall(r"[\p{L}\p{N}£]+|[^\s\p{L}\p{N}]", text))


@pytest.mark.parametrize("tokenized", [by_treebank, by_bert])
@pytest.mark.parametrize("sides", ["candidate", "source", "both"])
def test_tokenised_text_has_the_features_of_the_text_as_written(tokenized, sides):
    features = PairFeatures(FeatureConfig())
    source = tokenized(LONG_SOURCE) if sides != "candidate" else LONG_SOURCE
    candidate = tokenized(WRITTEN) if sides != "source" else WRITTEN
    assert (source, candidate) != (LONG_SOURCE, WRITTEN)
    np.testing.assert_array_equal(
        features.read([source], [candidate]).values,
        features.read([LONG_SOURCE], [WRITTEN]).values,
    )


@pytest.mark.parametrize(
    "text",
    [
        "In 2016, 300 people came. He's 5, she's 12; they'd had 1,200 - or 7.5 - each (or so).",
        "Rock 'n' roll in the '90s: the Joneses' house, d'Artagnan's... and 'so on'.\nA new line",
        "",
        " ",
    ],
)
def test_text_as_written_is_left_alone(text):
    assert detokenized(text) == text


@pytest.mark.parametrize("tokenized", [by_treebank, by_bert])
def test_baselines_count_the_words_of_the_text_as_written(tokenized):
    names = [baseline.name for baseline in BASELINES]
    other = "It's over, they said; it didn’t matter."
    candidates = [WRITTEN, tokenized(WRITTEN), other, other.replace("’", "'"), WRITTEN]
    sources = [LONG_SOURCE, LONG_SOURCE, LONG_SOURCE, LONG_SOURCE, tokenized(LONG_SOURCE)]
    scores = score_texts(candidates, sources=sources, metrics=names).to_pandas()[names]
    for same in (scores.iloc[[0, 1, 4]], scores.iloc[[2, 3]]):
        np.testing.assert_array_equal(same, same.iloc[[0] * len(same)])
    assert scores["coverage"][0] == 1.0
