"""What holds for every metric: bounds, and one form of text, composed and without marks."""

from __future__ import annotations

import re
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reffree.neural.building import build
from reffree.scorers.scorer import LearnedScorer, NeuralPairs, load_scorer
from sms.explaining import explain
from sms.scoring import ScoringConfig, SummaryScorer, score_texts, to_rows
from sms.text import composed
from sms.text.sentences import whole, without_marks
from sms.text.words import split_words
from tests.reffree.conftest import model_config
from tests.reffree.judges.tiny_judges import write_classifier
from tests.reffree.tiny_bert import write_tiny_bert
from tests.reinforce.tiny_models import write_tiny_model
from tests.sms.scoring_cases import glove_file

SENTENCES = ["Zoé’s café was closed in May.", "The mayor re-opened it.", "José met Zoé there."]
REFERENCE = ["Zoé’s café is open again.", "José was there."]
SOURCE = [*SENTENCES, "Nobody else came to the café.", "It rained all day in São Paulo."]
METRICS = (
    "sms", "wms", "s+wms", "cosine", "sms@glove", "bleu", "chrf", "bertscore", "bertscore@m",
    "rouge1", "rouge2", "rouge4", "rougeL", "rougeLsum", "rougeW", "length", "repetition",
    "compression", "coverage", "density", "novelty", "lead3", "reffree@news",
    "likelihood@lm", "likelihood@lm:reference", "likelihood@lm:recall", "likelihood@worst",
    "pair@nli", "pair@sentences",
)  # fmt: skip


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    """Every metric, with tiny models that know accents."""
    folder = tmp_path_factory.mktemp("models")
    nli = write_classifier(folder / "nli")
    lm = write_tiny_model(folder / "lm", "llama", [*SENTENCES, *SOURCE])
    bart = write_tiny_model(folder / "bart", "bart", [*SENTENCES, *SOURCE])
    words = {"café": [1.0, 2.0], "closed": [2.0, 1.0], "mayor": [0.5, 0.1], "josé": [0.3, 0.7]}
    models = {
        "m": {"path": str(bart), "layer": 1},
        "lm": {"path": str(lm), "lead": 2},
        "worst": {"path": str(lm), "value": "worst"},
        "nli": str(nli),
        "sentences": {"path": str(nli), "document": "sentences", "summary": "sentences"},
    }
    encoders = {"minilm": "minilm", "glove": glove_file(folder / "v.txt", words)}
    return SummaryScorer(ScoringConfig(metrics=METRICS, encoders=encoders, models=models))


def scored(scorer, candidate, reference, source):
    (row,) = scorer.score(to_rows([candidate], [reference], [source])).to_pylist()
    return row


@pytest.fixture(scope="module")
def plain(scorer):
    return scored(scorer, *(" ".join(text) for text in (SENTENCES, REFERENCE, SOURCE)))


# Bounds


WORDS = ["café", "closed", "May", "the", "mayor", "12", "re-opened", "in", "no", "São"]
ENDS = [" ", " ", ". ", "! ", ", "]


def random_text(rng):
    words = rng.choice(WORDS, size=rng.integers(1, 9))
    return "".join(
        word + end for word, end in zip(words, rng.choice(ENDS, words.size), strict=True)
    )


def test_no_score_leaves_its_bounds(scorer):
    rng = np.random.default_rng(3)
    texts = [random_text(rng) for _ in range(40)]
    # equal texts, the same words in other texts, and any two
    others = [texts[k] if k < 15 else texts[k] * 2 if k < 25 else texts[-k] for k in range(40)]
    table = scorer.score(to_rows(texts, [[other, texts[0]] for other in others], others))
    for metric in scorer.config.asked:
        lowest, highest = metric.find_bounds() or (-np.inf, np.inf)
        for column in metric.columns:
            scores = table[column].drop_null().to_numpy()
            assert scores.size > 20, column
            assert lowest <= scores.min(), column
            assert scores.max() <= highest, column


# Composed and decomposed letters


@pytest.mark.parametrize("side", [0, 1, 2])
def test_decomposed_letters_change_no_score(side, scorer, plain):
    texts = [" ".join(text) for text in (SENTENCES, REFERENCE, SOURCE)]
    texts[side] = unicodedata.normalize("NFD", texts[side])
    assert not unicodedata.is_normalized("NFC", texts[side])
    assert scored(scorer, *texts) == plain
    assert plain["status"] is None


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("fr", "L’élève a été reçu à l’école à Nîmes."),
        ("de", "Die Bürgermeisterin öffnet die Brücke."),
        ("es", "El niño comió piña en la montaña."),
        ("ar", "إِنَّ المدرسة مفتوحة وأُعيد افتتاحها."),
    ],
)
def test_a_text_is_the_same_in_both_forms_in_every_language(language, text, tmp_path):
    words = {*split_words(text.lower()), *split_words(text)}
    table = {word: [float(k), 1.0] for k, word in enumerate(sorted(words))}
    vectors = {"v": glove_file(tmp_path / "v.txt", table)}
    other = unicodedata.normalize("NFD", text)
    names = ("rougeL_f", "rouge2_f", "chrf", "bleu", "coverage", "sms", "cosine")
    (row,) = score_texts(
        [other], [text], [text], metrics=names, language=language, encoders=vectors
    ).to_pylist()
    hundred = {"chrf", "bleu"}
    assert {n: row[n] for n in names} == {n: 100.0 if n in hundred else 1.0 for n in names}
    assert row["status"] is None


def test_stop_words_are_known_in_the_form_that_is_read(tmp_path):
    vectors = {"v": glove_file(tmp_path / "v.txt", {"إِنَّ": [1.0, 1.0]})}
    # in the published list vowel and doubling stand in the other order
    (row,) = score_texts(
        ["إِنَّ"], ["إِنَّ"], metrics=("sms",), language="ar", encoders=vectors
    ).to_pylist()
    assert row["status"] == "candidate:no_words; reference:no_words"


def test_sources_are_cut_after_as_many_words_in_both_forms():
    source = "José’s café café café was closed."
    both = [source, unicodedata.normalize("NFD", source)]
    options = {"metrics": ("coverage", "reffree@news"), "source_tokens": 3}
    one, other = score_texts(["The café was closed."] * 2, sources=both, **options).to_pylist()
    assert one == other


def test_missing_texts_stay_missing_beside_decomposed_ones():
    decomposed = unicodedata.normalize("NFD", "Zoë")
    references = [[None, decomposed], None, []]
    table = score_texts(
        [decomposed, None, "a cat"], references, metrics=("rouge1_f", "chrf"), language="de"
    )
    assert table["rouge1_f"].to_pylist() == [1.0, None, None]
    assert table["status"].to_pylist() == [
        None, "candidate:null; reference:missing", "reference:missing",
    ]  # fmt: skip


def test_a_disk_cache_knows_a_sentence_in_both_forms(tmp_path):
    config = ScoringConfig(metrics=("cosine",))
    for form, n_from_disk in (("NFC", 0), ("NFD", 2)):
        scorer = SummaryScorer(config, cache_folder=str(tmp_path))
        texts = (unicodedata.normalize(form, sentences[0]) for sentences in (SENTENCES, REFERENCE))
        scorer.score(to_rows(*([text] for text in texts)))
        assert scorer.counters()["minilm.from_disk"] == n_from_disk


@pytest.mark.parametrize("metric", ["wms", "rougeL", "reffree@news"])
def test_explanations_show_the_text_that_was_read(metric):
    texts = [unicodedata.normalize("NFD", " ".join(sentences)) for sentences in (SENTENCES, SOURCE)]
    explained = explain(*texts[:1], reference=texts[1], source=texts[1], metric=metric)
    assert explained.candidate.text == " ".join(SENTENCES)
    for unit in explained.candidate.units:
        assert explained.candidate.text[unit.start :].startswith(unit.text)
    assert [unit.text for unit, _ in explained.candidate.sentences()] == SENTENCES


@pytest.mark.parametrize("kind", ["bert", "word", "features"])
def test_trained_scorers_read_both_forms_as_one(kind, tmp_path):
    """Without a metric around them."""
    scorer = load_scorer("news")
    if kind == "bert":
        encoder = f"hf:{write_tiny_bert(tmp_path / 'bert')}"
        scorer = LearnedScorer(
            NeuralPairs(build(model_config(encoder=encoder, max_pieces=64))), "", {}
        )
    if kind == "word":
        lengths = {"document_length": 5, "summary_length": 2}
        vectors = glove_file(tmp_path / "v.txt", {"café": [1.0, 2.0], "closed": [2.0, 1.0]})
        config = model_config(scorer="word", encoder=vectors, head="cnn", **lengths)
        scorer = LearnedScorer(NeuralPairs(build(config)), "", {})
    source, candidate = " ".join(SOURCE), " ".join(SENTENCES)
    marked = "".join(f"<t> {sentence} </t>\n" for sentence in SENTENCES)
    others = [unicodedata.normalize("NFD", candidate), marked]
    scores = scorer.score([source] * 3, [candidate, *others]).scores
    assert not np.isnan(scores).any()
    np.testing.assert_allclose(scores, scores[0], rtol=0, atol=1e-6)


# Marks


def t_marks(sentences):
    return " ".join(f"<t> {sentence} </t>" for sentence in sentences)


def q_marks(sentences):
    return "<q>".join(sentences)


def n_marks(sentences):
    return f"<s> {' <n> '.join(sentences)}</s>"


@pytest.mark.parametrize("marked", [t_marks, q_marks, n_marks])
def test_marks_are_words_for_no_metric(marked, scorer, plain):
    texts = [SENTENCES, REFERENCE, SOURCE]
    for side in range(3):
        given = [
            marked(sentences) if k == side else " ".join(sentences)
            for k, sentences in enumerate(texts)
        ]
        row = scored(scorer, *given)
        assert row.keys() == plain.keys()
        assert row["status"] is None
        for name in row.keys() - {"status"}:
            assert row[name] == pytest.approx(plain[name], rel=1e-6, abs=1e-6), (name, side)


def test_marks_of_equal_texts_by_hand():
    text = "The bridge is closed. Cars must use the ring road."
    marked = "<t> The bridge is closed. </t> <t> Cars must use the ring road. </t>"
    metrics = ("bleu", "chrf", "bertscore_f", "rougeL_f", "sms", "length")
    (row,) = score_texts([marked], [text], metrics=metrics).to_pylist()
    assert (row["bleu"], row["chrf"]) == (100.0, 100.0)
    assert [row[name] for name in metrics[2:]] == pytest.approx([1, 1, 1, 10], abs=1e-6)


def test_given_sentences_have_no_marks_either():
    metrics = ("sms", "length", "chrf", "rouge1_f", "bertscore_f")
    both = [["<t> It rained. </t>", "We left."]], [["It rained.", "We left."]]
    rows = [
        score_texts(given, [REFERENCE], metrics=metrics, sentences="given").to_pylist()
        for given in both
    ]
    assert rows[0] == rows[1]
    assert rows[0][0]["length"] == 4


@pytest.mark.parametrize("metric", ["sms", "bleu", "reffree@news", "bertscore_f"])
def test_text_of_marks_alone_is_empty(metric):
    given = {"references": ["A cat."], "sources": ["A cat."]}
    (row,) = score_texts(["<t> </t><q>"], **given, metrics=(metric,)).to_pylist()
    assert (row[metric], row["status"]) == (None, "candidate:empty")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<t> A cat . </t> <t> It sat . </t>", "A cat . It sat ."),
        ("<t>A cat.</t>\n<t>It sat.</t>\n", "A cat. It sat."),
        ("a cat .<q>it sat .", "a cat . it sat ."),
        ("A cat.<n><N>It <br/> sat", "A cat. It sat"),
        ("  A  cat < t > 3 ", "  A  cat < t > 3 "),
        ("x<y and <b>bold</b>", "x<y and <b>bold</b>"),
        (" <s> </s> ", ""),
        ("", ""),
    ],
)
def test_text_without_marks_by_hand(text, left):
    assert without_marks(text) == left


@given(st.text(alphabet="a.<>/tqn \n\u0301é"))
def test_text_that_has_no_mark_stays_as_it_is(text):
    if not re.search(r"</?[tqn]\s*/?>", text):
        assert whole(text) == text
    assert not re.search(r"</?[tqn]\s*/?>", composed(whole(text)).replace(" ", "_"))


@pytest.mark.parametrize("hostile", ["<t> " * 60_000, " " * 200_000 + "<t", "<t" + " " * 200_000])
def test_marks_are_found_in_time_that_grows_with_the_text(hostile):
    started = time.perf_counter()
    without_marks(hostile + "x<")
    assert time.perf_counter() - started < 2
