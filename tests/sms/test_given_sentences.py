"""Texts given as lists of sentences are not cut again."""

from __future__ import annotations

import pytest

from sms.scorers import SentenceMover
from sms.scoring import score_texts
from sms.text import split_sentences
from tests.sms.scoring_cases import random_rows

GIVEN_METRICS = ("sms", "s+wms", "cosine", "rougeLsum", "lead3", "sms:source", "length", "novelty")


def test_given_sentences_score_as_those_that_are_found(glove):
    def cut(texts):
        return [list(map(str.strip, split_sentences(text or ""))) for text in texts or []]

    rows = random_rows(20, seed=21)
    texts = [rows[side].to_pylist() for side in ("candidate", "references", "sources")]
    lists = [cut(texts[0]), *([cut(several) for several in side] for side in texts[1:])]
    options = {"metrics": GIVEN_METRICS, "encoders": glove}
    expected = score_texts(*texts, **options)
    found = score_texts(*lists, sentences="given", **options)
    assert found.drop_columns("status").equals(expected.drop_columns("status"))


def test_depth_tells_sentences_from_references(glove):
    (encoder,) = glove.values()
    mover = SentenceMover("sms", encoder=encoder, sentences="given")
    assert "|split:given|" in mover.signature
    one, other = "A cat bit a dog.", "The owl fed a hen."
    references = [[one, other], [[one], [other]], [[one, other]], one]
    scores = mover.score([[one]] * 4, references)
    assert scores[0] == scores[2] < 0.99  # one reference of two sentences
    assert scores[1] == scores[3] == 1.0  # the better one of two references, and a single one
    assert mover.score([[other, one], [f"{one} {other}"]], [[one, other]] * 2)[0] == 1.0
    assert mover.score([[f"{one} {other}"]], [[one, other]])[0] < 0.99  # not cut again


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
