"""BERTScore against its equations, done with transformers itself, and what sacreBLEU scores."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import sacrebleu
import torch

from sms.encoders.bert import minilm_folder
from sms.scoring import ScoringConfig, SummaryScorer, score_texts, to_rows

TEXTS = [
    "The bridge is closed; cars must use the ring road.",
    "A cat sat on the mat.",
    "Nobody came.",
]
REFERENCES = ["The bridge closes for eleven weeks.", "The cat sat on a mat.", "Many people came."]
ATOL = 1e-5


@cache
def library():
    from transformers import AutoModel, AutoTokenizer

    folder = minilm_folder()
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


def vectors_of(text, layer):
    """Unit vectors of the tokens of one text by the library's own model."""
    tokenizer, model = library()
    encoded = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        states = model(**encoded, output_hidden_states=True).hidden_states[layer][0]
    return torch.nn.functional.normalize(states, dim=1)


def plainly(candidate, reference, layer):
    x, y = vectors_of(candidate, layer), vectors_of(reference, layer)
    nearest = (x @ y.T).max(dim=1).values, (x @ y.T).max(dim=0).values
    p, r = (
        np.mean([float(s) for s in best[1:-1]])  # without [CLS] and [SEP]
        for best in nearest
    )
    return p, r, 2 * p * r / (p + r)


def scored(**table):
    models = {"m": {"path": str(minilm_folder()), **table}}
    found = score_texts(TEXTS, REFERENCES, metrics=("bertscore@m",), models=models)
    return np.stack([found[f"bertscore_{part}@m"].to_numpy() for part in "prf"], axis=1)


@pytest.mark.parametrize("layer", [2, 6])
def test_scores_are_equations_1_to_3(layer):
    pairs = zip(TEXTS, REFERENCES, strict=True)
    expected = [plainly(*pair, layer) for pair in pairs]
    np.testing.assert_allclose(scored(layer=layer), expected, rtol=0, atol=ATOL)


def test_names_sides_and_the_best_of_several_references():
    several = [[REFERENCES[0], TEXTS[0]], REFERENCES[1], [None, "..."]]
    table = score_texts(
        TEXTS, several, sources=REFERENCES, metrics=("bertscore", "bertscore_f:source")
    )
    assert table["bertscore_f"].to_pylist()[0] == pytest.approx(1, abs=1e-6)
    assert table["bertscore_f"].to_pylist()[2] is None
    assert table["status"].to_pylist() == [None, None, "reference:null"]
    np.testing.assert_allclose(table["bertscore_f:source"], scored()[:, 2], rtol=0, atol=ATOL)
    assert table["cut@bertscore"].to_pylist() == [0, 0, None]
    # of several, the largest of each
    candidate = "ten people died in the big crash on the road"
    long = "On Friday ten people died in a crash on the road near the town of Bath in the west."
    listed = ["People died.", long, ["People died.", long]]
    rows = score_texts([candidate] * 3, listed, metrics=("bertscore",)).to_pylist()
    parts = np.array([[row[f"bertscore_{part}"] for part in "prf"] for row in rows])
    assert set(np.argmax(parts[:2], axis=0)) == {0, 1}
    np.testing.assert_allclose(parts[2], np.max(parts[:2], axis=0), atol=1e-6)


def test_text_beyond_the_model_is_marked_and_counted():
    long = " ".join(f"Sentence number {k} is here." for k in range(200))
    scorer = SummaryScorer(ScoringConfig(metrics=("bertscore_r", "bertscore_f:source")))
    rows = to_rows([long, TEXTS[1]], [TEXTS[1]] * 2, [TEXTS[1]] * 2)
    table = scorer.score(rows)
    assert table["cut@bertscore"].to_pylist() == [1, 0]
    assert table["bertscore_r"].null_count == 0
    assert scorer.counters() == {"bertscore_r.cut": 2}  # one model for both


# candidate, references, whether there is a score
CANNOT_TELL_APART = [
    pytest.param("El ano nuevo.", ["El año nuevo."], False, id="accent"),
    pytest.param("The ፖሊስ sat.", ["The ድመት sat."], False, id="unknown-word"),
    pytest.param("ፖሊስ ሌባ ያዘ", ["ድመት ቤት ውስጥ ነው"], False, id="unknown-words-only"),
    pytest.param("ፖሊስ ሌባ ያዘ", ["ድመት ቤት", "ፖሊስ ሌባ ያዘ"], True, id="copy-among-them"),
    pytest.param("US firms closed.", ["us  firms closed."], True, id="case-and-space"),
    pytest.param("ፖሊስ ሌባ", ["A cat sat."], True, id="unknown-and-known"),
]


@pytest.mark.parametrize(("candidate", "references", "is_scored"), CANNOT_TELL_APART)
def test_texts_that_the_model_cannot_tell_apart_have_a_status(candidate, references, is_scored):
    (row,) = score_texts([candidate], [references], metrics=("bertscore",)).to_pylist()
    names = ("bertscore_p", "bertscore_r", "bertscore_f", "cut@bertscore")
    assert [row[name] is not None for name in names] == [is_scored] * 4
    assert row["status"] == (None if is_scored else "reference:same_to@minilm")


def test_neighbours_change_nothing(monkeypatch):
    together = scored()
    monkeypatch.setattr("sms.bertscore.KEPT_TOKENS", 1)
    np.testing.assert_allclose(scored(), together, rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"layers": 3}, "has no setting `layers`; there is layer"),
        ({"layer": "3"}, "`layer` must be of kind int, got '3'"),
        ({"layer": 7}, "must name layers from 0"),
        ({"path": "nowhere/at/all"}, "no model folder at `nowhere/at/all`"),
    ],
)
def test_wrong_table_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        scored(**table)


def test_byte_level_pieces_have_a_space_before_the_first_word(tmp_path):
    """RoBERTa's tokeniser cuts a word differently at the very start of a text."""
    from tests.reinforce.tiny_models import write_tiny_model

    folder = write_tiny_model(tmp_path / "bart", "bart", [*TEXTS, *REFERENCES])
    models = {"m": {"path": str(folder), "layer": 1}}
    texts = (["came", " came"], ["Nobody came"] * 2)
    plain, spaced = score_texts(*texts, metrics=("bertscore_p@m",), models=models)["bertscore_p@m"]
    assert plain == spaced


# BLEU and chrF: sacreBLEU's own numbers for every row


FOUR = [
    "The bridge is closed; cars use the ring road.",
    "A cat sat on the mat.",
    "A cat sat on the mat.",
    "Two words",
]
SEVERAL = [
    ["The bridge closes for eleven weeks.", "Cars must use the ring road: the bridge is closed."],
    ["The cat sat on a mat."],
    ["A cat sat on the mat."],
    ["Two other words.", "", None],
]
LIBRARY = {"bleu": sacrebleu.sentence_bleu, "chrf": sacrebleu.sentence_chrf}


@pytest.mark.parametrize("metric", LIBRARY)
def test_scores_are_those_of_the_library(metric):
    one = LIBRARY[metric]
    kept = [[text for text in texts if text] for texts in SEVERAL]
    best, mean, first = (
        score_texts(FOUR, SEVERAL, metrics=(metric,), multi_reference=how)[metric].to_pylist()
        for how in ("best", "mean", "first")
    )
    pairs = list(zip(FOUR, kept, strict=True))
    assert best == pytest.approx([one(text, texts).score for text, texts in pairs], abs=1e-12)
    means = [np.mean([one(text, [each]).score for each in texts]) for text, texts in pairs]
    assert mean == pytest.approx(means, abs=1e-12)
    assert first == pytest.approx([one(text, texts[:1]).score for text, texts in pairs], abs=1e-12)
    assert best[2] == pytest.approx(100)


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
