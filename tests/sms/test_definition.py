"""The paper's equations: worked out by hand, and what the fast path computes of the same texts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from sms.definition import s_wms, sms, wms
from sms.same_texts import SAME_ATOL
from sms.text import TextRules, split_sentences
from tests.sms.mover_cases import PROFILE, loose_text, random_texts, score, scorer_of

PLAIN_RTOL = 1e-9
ON_AXES = {
    word: np.array(point, dtype=np.float64)
    for word, point in {"east": (3, 0), "north": (0, 4), "far": (6, 0), "home": (0, 0)}.items()
}

# sentences of two texts, distances by words, sentences and both
BY_HAND = [
    pytest.param(["east"], ["north"], [5, 5, 5], id="one-word"),
    pytest.param(["east far"], ["east home"], [3, 3, 3], id="half-moves-twice-as-far"),
    # words are the same bag; the sentences (3,0) (0,4) and their mean (1.5,2) are 2.5 apart
    pytest.param(["east", "north"], ["east north"], [0, 2.5, 1.25], id="same-bag-cut-otherwise"),
    # the joint problem moves words onto sentences: home-home 1/4, (3,0) to word far 1/4, and back
    pytest.param(["home far"], ["east"], [3, 0, 1.5], id="mean-equals-sentence"),
    pytest.param(["east east north"], ["east north north"], [5 / 3, 5 / 3, 5 / 3], id="counts"),
    # sentences weigh as many words as they keep: 2/3 and 1/3 against 1
    pytest.param(["east east", "home"], ["east"], [1, 1, 1], id="sentences-by-length"),
]


@pytest.mark.parametrize(("one", "other", "distances"), BY_HAND)
def test_distances_by_hand(one, other, distances):
    a, b = ([sentence.split() for sentence in text] for text in (one, other))
    found = [-math.log(similarity(a, b, ON_AXES)) for similarity in (wms, sms, s_wms)]
    np.testing.assert_allclose(found, distances, atol=1e-12)


def kept_sentences(text, vectors, preset):
    """The words that count and have a vector, as the vectors name them, by sentence."""
    rules = TextRules(words=preset)
    split = rules.splitter()

    def known(word):
        for form in (word, word.lower(), word.lower().strip("£€")):
            if form in vectors.by_word:
                return form
        return "" if preset == "clark2019" else None  # there all unknown words are one zero vector

    sentences = [
        [known(word) for chunk in sentence.split() for word in split(chunk) if rules.counts(word)]
        for sentence in split_sentences(text, "en")
    ]
    return [kept for s in sentences if (kept := [word for word in s if word is not None])]


def defined(candidate, reference, vectors, preset="default"):
    a, b = (kept_sentences(text, vectors, preset) for text in (candidate, reference))
    if not a or not b:
        return [np.nan] * 3
    by_word = {**vectors.by_word, "": np.zeros(12)}
    return [similarity(a, b, by_word) for similarity in (wms, sms, s_wms)]


def assert_as_defined(scorer, candidates, references, vectors, preset="default"):
    found = score(scorer, candidates, references)
    pairs = zip(candidates, references, strict=True)
    expected = np.array([defined(one, other, vectors, preset) for one, other in pairs])
    # texts that differ in unknown words only have no score in place of 1
    expected[np.isnan(found) & (expected > np.exp(-SAME_ATOL))] = np.nan
    np.testing.assert_allclose(found, expected, rtol=PLAIN_RTOL)


@pytest.mark.parametrize("preset", ["default", "clark2019"])
def test_fast_path_matches_the_definition(preset, vectors):
    rng = np.random.default_rng(1)
    texts = random_texts(rng, 100)
    candidates, references = ([texts[k] for k in rng.integers(0, 100, 300)] for _ in range(2))
    assert_as_defined(scorer_of(vectors.path, preset), candidates, references, vectors, preset)


@PROFILE
@given(candidate=loose_text, reference=loose_text)
def test_fast_path_matches_the_definition_of_any_text(candidate, reference, scorer, vectors):
    assert_as_defined(scorer, [candidate], [reference], vectors)
