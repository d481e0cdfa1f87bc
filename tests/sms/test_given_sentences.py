"""Texts given as lists of sentences are not cut again."""

from __future__ import annotations

import pytest

from sms.scorers import SentenceMover
from sms.scoring import score_texts
from sms.text import split_sentences
from tests.sms.scoring_cases import (
    random_rows,
)

GIVEN_METRICS = ("sms", "s+wms", "cosine", "rougeLsum", "lead3", "sms:source", "length", "novelty")


def test_given_sentences_score_as_those_that_are_found(glove):
    texts = random_rows(20, seed=21).select(["candidate", "references", "sources"]).to_pylist()
    lists = [
        {
            side: [list(map(str.strip, split_sentences(text or ""))) for text in given or []]
            for side, given in {**row, "candidate": [row["candidate"]]}.items()
        }
        for row in texts
    ]
    options = {"metrics": GIVEN_METRICS, "encoders": glove}
    expected = score_texts(*zip(*map(dict.values, texts), strict=True), **options)
    found = score_texts(
        [row["candidate"][0] for row in lists],
        [row["references"] for row in lists],
        [row["sources"] for row in lists],
        sentences="given",
        **options,
    )
    for name in expected.column_names:
        if name != "status":
            assert found[name].to_pylist() == expected[name].to_pylist()


def test_given_sentences_are_not_cut(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    reference = ["A cat bit a dog.", "The owl fed a hen."]
    scores = score_texts([reference, [" ".join(reference)]], [reference] * 2, **options)["sms"]
    assert scores[0].as_py() == 1.0
    assert scores[1].as_py() < 0.99


def test_depth_tells_sentences_from_references(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    one, other = "A cat bit a dog.", "The owl fed a hen."
    references = [[one, other], [[one], [other]], [[one, other]], one]
    scores = score_texts([[one]] * 4, references, **options)["sms"].to_pylist()
    assert scores[0] == scores[2] < 0.99  # one reference of two sentences
    assert scores[1] == scores[3] == 1.0  # the better one of two references, and a single one


def test_given_text_without_a_sentence_has_a_status(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    candidates = [[], None, ["", " "], [None, "..."], [None, "A cat."]]
    found = score_texts(candidates, [["A cat."]] * 4 + [[]], **options)
    expected = ["empty", "null", "empty", "no_words"]
    assert found["status"].to_pylist()[:4] == [f"candidate:{why}" for why in expected]
    assert found["status"][4].as_py() == "reference:empty"


@pytest.mark.parametrize("side", ["candidates", "references"])
def test_lists_of_other_things_rejected(side):
    texts = {"candidates": [["a"]], "references": [["a"]]} | {side: [[["a"], [["b"]]]]}
    with pytest.raises(TypeError, match=f"`{side}` in row 0 must be a text or a list of sentences"):
        score_texts(**texts, metrics=("rougeL",), sentences="given")


def test_list_as_a_candidate_rejected_where_sentences_are_looked_for():
    with pytest.raises(
        TypeError, match=r"`candidates` in row 1 must be a text, got a list; .*given"
    ):
        score_texts(["a", ["a"]], ["a", "b"], metrics=("rougeL",))


def test_one_metric_takes_given_sentences(glove):
    (encoder,) = glove.values()
    mover = SentenceMover("sms", encoder=encoder, sentences="given")
    text = ["A cat bit a dog.", "The owl fed a hen."]
    assert mover.score([text], [text[::-1]]).tolist() == [1.0]
    assert "|split:given|" in mover.signature
