"""Learned and pretrained scorers, and the negatives that they learn from, outside English."""

# ruff: noqa: RUF001  (letters of other scripts)

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from pipelines.cli.app import run
from reffree.judges.inputs import sentences_of
from reffree.likelihood.metric import sentence_of_tokens
from reffree.negatives import KINDS, NegativesConfig, kinds_for
from reffree.negatives.edits import cut_text, join
from reffree.negatives.hard_edits import content_words, exchange, unimportant_sentences
from sms.data_files import data_text
from sms.scoring import score_texts
from sms.text import TextRules
from tests.commands import wrong
from tests.reffree.judges.tiny_judges import write_classifier
from tests.reffree.tiny_bert import write_tiny_bert
from tests.reinforce.tiny_models import write_tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

BY_CODE = dict(line.split("\t") for line in data_text("samples.tsv").splitlines())
# source and summary
TEXTS = {
    "ru": (
        "Мост закрыли в среду. Мэр Иванов обещал новый мост к маю. Рыбаки на реке не возражали.",
        "Мэр обещал новый мост. Старый закрыли.",
    ),
    "hi": (
        "पुल बुधवार को बंद हुआ। महापौर ने नया पुल देने का वादा किया। मछुआरे चुप रहे।",
        "महापौर ने नया पुल देने का वादा किया। पुराना बंद है।",
    ),
    "tr": (
        "Köprü çarşamba günü kapandı. Başkan mayısta yenisini söz verdi. Balıkçılar sustu.",
        "Başkan yeni bir köprü sözü verdi. Eskisi kapandı.",
    ),
    "th": (
        "สะพานปิดเมื่อวันพุธ นายกเทศมนตรีสัญญาว่าจะสร้างใหม่ ชาวประมงไม่ว่าอะไร",
        "นายกเทศมนตรีสัญญาว่าจะสร้างสะพานใหม่",
    ),
}


def installed(language):
    if language == "th":
        pytest.importorskip("icu4py", reason="needs pip install 'assay[th]'")
    return language


# Likelihoods and pair models


@pytest.mark.parametrize("language", TEXTS)
def test_likelihood_reads_any_language(language, tmp_path):
    source, summary = TEXTS[installed(language)]
    folder = write_tiny_model(tmp_path / "lm", "llama", [source, summary])
    how = {"models": {"lm": {"path": str(folder)}}, "language": language}
    table = score_texts([summary, source], None, [source] * 2, metrics=("likelihood@lm",), **how)
    assert {*table["status"].to_pylist()} <= {None, "source:cut@lm"}  # the tiny one is short
    values = table["likelihood@lm"].to_numpy()
    assert np.isfinite(values).all()
    english = score_texts(
        [summary], None, [source], metrics=("likelihood@lm",), **how | {"language": "en"}
    )
    assert english["likelihood@lm"].to_pylist() == [pytest.approx(values[0], abs=1e-6)]


def test_sentences_of_tokens_are_those_of_the_language():
    text = TEXTS["hi"][1]
    end = text.index("।") + 1
    spans = np.array([[0, 3], [end - 2, end], [end + 1, end + 4]])
    assert sentence_of_tokens(text, spans, TextRules(language="hi")).tolist() == [0, 0, 1]


@pytest.mark.parametrize("language", TEXTS)
def test_pair_model_reads_any_language(language, tmp_path):
    source, summary = TEXTS[installed(language)]
    folder = write_classifier(tmp_path / "nli", "roberta")
    models = {"nli": {"path": str(folder), "preset": "summac-zs"}}
    table = score_texts(
        [summary], None, [source], metrics=("pair@nli",), models=models, language=language
    )
    assert table["pair@nli"].null_count == 0
    assert table["status"].to_pylist()[0] in (None, "source:cut@nli", "candidate:cut@nli")


def test_pairs_are_made_of_the_sentences_of_the_language():
    source, summary = TEXTS["hi"]
    assert len(sentences_of(source, TextRules(language="hi"))) == 3
    assert len(sentences_of(summary, TextRules(language="hi"))) == 2


# Negatives


@pytest.mark.parametrize("language", ["ru", "hi", "tr"])
def test_texts_are_cut_by_the_rules_of_their_language(language):
    source, summary = TEXTS[language]
    cut = cut_text(source, language)
    assert len(cut) == 3
    assert join(cut) == source
    stop_words = {"ru": "не", "hi": "ने", "tr": "bir"}[language]
    words = content_words([token for sentence in cut_text(summary, language) for token in sentence])
    own = content_words(
        [token for sentence in cut_text(summary, language) for token in sentence], language
    )
    assert stop_words not in own
    assert {*own} <= {*words}


def test_unimportant_sentences_go_by_the_stop_words_of_the_language():
    source = (
        "Er ist der und die das nicht da. Der Hafen wird von der Stadt bezahlt. Das Wetter war gut."
    )
    reference = "Die Stadt bezahlt den Hafen und das ist nicht der da."
    (worst,) = unimportant_sentences(cut_text(reference, "de"), cut_text(source, "de"), "de")
    assert join([worst]).startswith(("Er ist", "Das Wetter"))
    assert worst != cut_text(source, "de")[1]


def test_exchange_of_names_knows_no_english_words_elsewhere():
    source = cut_text("May fuhr im April nach Bonn. Dort traf May die Gruppe.", "de")
    reference = cut_text("May kam im April.", "de")
    for seed in range(20):
        draft = exchange(reference, source, np.random.default_rng(seed), "de")
        assert "im" in draft.text


def test_kinds_are_those_that_can_be_made_in_the_language():
    assert kinds_for("en") == tuple(KINDS)
    assert {*KINDS} - {*kinds_for("ru")} == {"negate", "opinion"}
    assert kinds_for("zh") == (
        "cross-pair", "cross-pair-hard", "sentence-delete", "sentence-replace", "sentence-shuffle",
        "unimportant", "claim",
    )  # fmt: skip


# language, kinds, message
REFUSED = [
    ("ru", ("negate",), "`negate` turns English words round, and cannot be made in Russian"),
    ("ja", ("add",), "`add` puts words together with spaces, and cannot be made in Japanese"),
    ("th", ("cross-pair", "swap"), "`swap` puts words together with spaces, and cannot be made in"),
]


@pytest.mark.parametrize(("language", "kinds", "message"), REFUSED)
def test_kind_that_cannot_be_made_rejected(language, kinds, message):
    with pytest.raises(ValueError, match=f"{message}.*; choose among cross-pair, "):
        NegativesConfig(kinds=kinds, language=language)


def pairs_of(language, n=60):
    texts = BY_CODE[language]
    words = [word for word in texts.split() if word.isalpha()]
    rng = np.random.default_rng(0)
    rows = []
    for k in range(n):
        said = [" ".join(rng.permutation(words)[:8]) + f" {k}." for _ in range(4)]
        rows.append({"document_id": f"d{k}", "source": " ".join(said), "reference": said[0]})
    return rows


@pytest.fixture
def pairs(tmp_path):
    pl.DataFrame(pairs_of("ru")).write_parquet(tmp_path / "pairs.parquet")
    return tmp_path / "pairs.parquet"


def test_negatives_of_russian(pairs, tmp_path):
    out = tmp_path / "out.parquet"
    command = ["negatives", pairs, "--out", out, "--kinds", "all", "--language", "ru", "--quiet"]
    assert run([*map(str, command)]) == 0
    kinds = {*pl.read_parquet(out)["kind"]}
    assert "negate" not in kinds
    assert {"exchange", "unimportant", "swap", "repeat", "cross-pair"} <= kinds


# Trained scorers


def test_trained_scorer_is_for_the_language_of_its_record(pairs, tmp_path, capsys):
    folder, encoder = tmp_path / "scorer", f"hf:{write_tiny_bert(tmp_path / 'tiny')}"
    command = ["train", pairs, "--out", folder, "--scorer", "bert", "--encoder", encoder]
    command += ["--epochs", "1", "--max-pieces", "60", "--language", "rus", "--quiet"]
    assert run([*map(str, command)]) == 0
    record = json.loads((folder / "scorer.json").read_text())
    assert record["model"]["language"] == record["trained_on"]["negatives"]["language"] == "ru"
    source, summary = TEXTS["ru"]
    metric = f"reffree@{folder}"
    for language in ("ru", "und"):
        table = score_texts([summary], None, [source], metrics=(metric,), language=language)
        assert table[metric].null_count == 0
    message = "was trained on texts in Russian, got `language` en; train one on such texts"
    with pytest.raises(ValueError, match=message):
        score_texts([summary], None, [source], metrics=(metric,))


@pytest.mark.parametrize("language", ["de", "ru", "zh"])
def test_news_is_refused_outside_english(language):
    how = {"metrics": ("reffree@news",), "language": language}
    with pytest.raises(ValueError, match=r"was trained on texts in English, got `language`"):
        score_texts(["A text."], None, ["A text."], **how)


@pytest.mark.parametrize("language", ["en", "und"])
def test_news_is_accepted_in_english_and_where_nothing_is_said(language):
    texts = ["The bridge was closed on Monday. It opens again in May."]
    table = score_texts(texts, None, texts, metrics=("reffree@news",), language=language)
    assert table["reffree@news"].null_count == 0


def test_features_are_for_english(pairs, tmp_path, capsys):
    command = ["train", pairs, "--out", tmp_path / "scorer", "--language", "ru"]
    said = wrong(capsys, (run([*map(str, command)]), None))
    assert "the scorer features counts English words, got `language` ru; give another" in said
