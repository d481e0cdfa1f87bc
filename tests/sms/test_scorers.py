"""Movers as objects: they score as `score_texts` does, and raise where it has a status."""

from __future__ import annotations

import numpy as np
import pytest

from sms import SentenceMover, score_texts

CANDIDATES = ["The cat met a dog.", "A hen saw the cat. A dog!"]
OTHERS = [["A dog bit the cat.", "Hen."], "The hen met a cat."]


@pytest.fixture
def encoder(glove):
    return glove["glove"]


@pytest.mark.parametrize("against", ["reference", "source"])
@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_movers_score_as_a_batch_does(encoder, against, how):
    side = "references" if against == "reference" else "sources"
    names = ("sms", "wms", "s+wms")
    table = score_texts(
        CANDIDATES,
        **{side: OTHERS},
        metrics=tuple(f"{name}:{against}" for name in names),
        encoders={"x": encoder},
        multi_reference=how,
    )
    for name in names:
        scorer = SentenceMover(name, encoder=encoder, against=against, multi_reference=how)
        expected = table[f"{name}:{against}"].to_numpy()
        np.testing.assert_array_equal(scorer.score(CANDIDATES, OTHERS), expected)


def test_language_reaches_the_signature(encoder):
    assert "|lang:de|" in SentenceMover("wms", encoder=encoder, language="de").signature


def test_text_without_words_raises(encoder):
    scorer = SentenceMover("wms", encoder=encoder)
    with pytest.raises(ValueError, match=r"got candidate:no_words in row 1; leave the row out"):
        scorer.score(["A cat.", "..."], ["A dog.", "A dog."])


def test_wrong_kind_rejected():
    with pytest.raises(ValueError, match=r"`kind` must be sms, wms or s\+wms, got 'wsm'"):
        SentenceMover("wsm")
