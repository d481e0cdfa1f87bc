"""BLEU and chrF: sacreBLEU's own numbers for every row."""

import numpy as np
import pytest
import sacrebleu

from sms.scoring import score_texts

CANDIDATES = [
    "The bridge is closed; cars use the ring road.",
    "A cat sat on the mat.",
    "A cat sat on the mat.",
    "Two words",
]
REFERENCES = [
    ["The bridge closes for eleven weeks.", "Cars must use the ring road: the bridge is closed."],
    ["The cat sat on a mat."],
    ["A cat sat on the mat."],
    ["Two other words.", "", None],
]
LIBRARY = {"bleu": sacrebleu.sentence_bleu, "chrf": sacrebleu.sentence_chrf}


@pytest.mark.parametrize("metric", LIBRARY)
def test_scores_are_those_of_the_library(metric):
    one = LIBRARY[metric]
    kept = [[text for text in texts if text] for texts in REFERENCES]
    best, mean, first = (
        score_texts(CANDIDATES, REFERENCES, metrics=(metric,), multi_reference=how)[
            metric
        ].to_pylist()
        for how in ("best", "mean", "first")
    )
    pairs = list(zip(CANDIDATES, kept, strict=True))
    assert best == pytest.approx([one(text, texts).score for text, texts in pairs], abs=1e-12)
    means = [np.mean([one(text, [each]).score for each in texts]) for text, texts in pairs]
    assert mean == pytest.approx(means, abs=1e-12)
    assert first == pytest.approx([one(text, texts[:1]).score for text, texts in pairs], abs=1e-12)
    assert best[2] == pytest.approx(100)


@pytest.mark.parametrize("text", ["Two words", "One", "The bridge is closed; cars wait.", "a " * 9])
@pytest.mark.parametrize("metric", LIBRARY)
def test_equal_texts_have_the_highest_score(text, metric):
    assert score_texts([text], [text], metrics=(metric,))[metric].to_pylist() == [100.0]


@pytest.mark.parametrize("metric", LIBRARY)
def test_text_without_a_word_has_no_score(metric):
    table = score_texts(["", "A cat.", "..."], ["A cat.", None, "A cat."], metrics=(metric,))
    assert table[metric].to_pylist() == [None] * 3
    assert table["status"].to_pylist() == [
        "candidate:empty", "reference:missing", "candidate:no_words",
    ]  # fmt: skip


def test_chinese_is_cut_into_characters():
    candidate, reference = "今天天气很好。", "今天的天气很好。"
    found = score_texts([candidate], [reference], metrics=("bleu",), language="zh")["bleu"]
    expected = sacrebleu.sentence_bleu(candidate, [reference], tokenize="zh").score
    assert found.to_pylist() == pytest.approx([expected], abs=1e-12)
    assert expected > 20
