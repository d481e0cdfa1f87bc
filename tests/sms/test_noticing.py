"""Texts in another language than the one that is said: what is noticed, and what is not."""

from __future__ import annotations

import logging

import pyarrow.parquet as pq
import pytest

from sms.data_files import data_text
from sms.noticing import TEXTS_LOOKED_AT, other_language, unknown_words
from sms.reward import Reward
from sms.text.languages import LANGUAGES

SAMPLES = [line.split("\t") for line in data_text("samples.tsv").splitlines()]
BY_CODE = dict(SAMPLES)

# what is said, what the texts are in, what is noticed
SCRIPTS = [
    ("en", "ru", "Cyrillic, which English is not written in; give the language", "ru"),
    ("en", "uk", "Cyrillic, ", "uk"),
    ("en", "fa", "Arabic, ", "such as fa"),
    ("en", "hi", "Devanagari, ", "such as hi"),
    ("en", "am", "Ethiopic, ", "such as am or ti"),
    ("en", "zh", "Chinese characters, ", "such as zh or ja"),
    ("en", "th", "Thai, ", "such as th"),
    ("ru", "en", "Latin, which Russian is not written in", "such as en"),
    ("ar", "he", "Hebrew, which Arabic is not written in", "such as he"),
]


@pytest.mark.parametrize(("said", "written", "script", "remedy"), SCRIPTS)
def test_other_script_is_named_with_the_option_to_give(said, written, script, remedy):
    remark = other_language([BY_CODE[written]] * 3, said)
    assert remark is not None
    assert remark.startswith(f"in 3 of 3 texts of a sample, most letters are {script}")
    assert "`--language`, such as " in remark
    assert remedy in remark
    assert "\n" not in remark


@pytest.mark.parametrize("written", ["de", "fr", "es", "it", "nl", "pt", "sv", "fi", "sw"])
def test_other_language_in_the_same_script_is_told_by_its_stop_words(written):
    remark = other_language([BY_CODE[written]] * 20, "en")
    assert remark == (
        f"20 of 20 texts of a sample have the stop words of {LANGUAGES[written].name}, not of "
        f"English; give the language of the texts with `--language`, such as {written}"
    )


@pytest.mark.parametrize(("code", "text"), SAMPLES)
def test_nothing_is_said_of_a_text_in_its_own_language(code, text):
    assert other_language([text] * 5, code) is None


@pytest.mark.parametrize(("code", "text"), SAMPLES[::10])
def test_nothing_is_said_where_the_language_is_undetermined(code, text):
    assert code != "und"
    assert other_language([text] * 5, "und") is None


def test_mixture_is_counted_by_rows():
    english, russian = BY_CODE["en"], BY_CODE["ru"]
    remark = other_language([*[english] * 7, *[russian] * 3, None, "", "1999, 2000"], "en")
    assert remark is not None
    assert remark.startswith("in 3 of 10 texts")
    german = other_language([*[english] * 7, *[BY_CODE["de"]] * 3], "en")
    assert german is not None
    assert german.startswith("3 of 10 texts")


def test_few_foreign_texts_and_few_foreign_words_are_nothing_to_tell():
    english, russian = BY_CODE["en"], BY_CODE["ru"]
    assert other_language([*[english] * 9, russian], "en") is None
    quoting = f"{english[:200]} «{russian[:60]}»"
    assert other_language([quoting] * 10, "en") is None
    names = "Maria Garcia, Jose de la Cruz, Juan Perez, Ana Lopez, Luis Diaz, Rosa Ruiz, Eva Gil"
    assert other_language([*[english] * 5, *[names] * 5], "en") is None
    assert other_language(["E = mc²", "β", "", None], "en") is None
    assert other_language([], "en") is None


def test_only_the_first_texts_are_looked_at():
    texts = [BY_CODE["en"]] * TEXTS_LOOKED_AT + [BY_CODE["ru"]] * TEXTS_LOOKED_AT
    assert other_language(texts, "en") is None


@pytest.mark.data
def test_no_false_alarm_on_english_data(data_dir):
    n_looked_at = 0
    for path in sorted(data_dir.glob("*.parquet")):
        table = pq.read_table(path)
        for name in {"candidate", "reference", "source"} & {*table.column_names}:
            texts = [cell for cell in table[name].to_pylist() if isinstance(cell, str)]
            for start in range(0, len(texts), TEXTS_LOOKED_AT):
                part = texts[start : start + TEXTS_LOOKED_AT]
                assert other_language(part, "en") is None, (path.name, name, start)
                n_looked_at += len(part)
    assert n_looked_at > 10_000


def test_encoder_that_knows_few_words_is_named():
    counters = {"minilm.tokens": 9, "minilm.words": 200, "minilm.unknown": 40}
    (remark,) = unknown_words(counters | {"minilm.fragments": 70, "glove.words": 99})
    assert remark.startswith(
        "encoder `minilm` does not know 55% of the first 200 words, or reads them in fragments; "
    )


@pytest.mark.parametrize(
    "counters",
    [
        {"minilm.words": 200, "minilm.unknown": 40, "minilm.fragments": 60},
        {"glove.words": 99, "glove.unknown": 99},  # too few to tell
        {"glove.words": 200, "glove.unknown": 100},
        {"lm.cut": 1000},
        {},
    ],
)
def test_encoder_that_knows_most_words_is_not(counters):
    assert not [*unknown_words(counters)]


def test_reward_says_it_once(caplog):
    german = [BY_CODE["de"]] * 2
    reward = Reward("rouge1_f")
    with caplog.at_level(logging.WARNING):
        assert reward(["", None], references=german) == [0.0, 0.0]
        first = reward(german, references=german)
        again = reward(german, references=german)
    assert first == again == [1.0, 1.0]  # no score depends on it
    assert [record.message[:12] for record in caplog.records] == ["2 of 2 texts"]


def test_reward_in_the_right_language_says_nothing(caplog):
    german = [BY_CODE["de"]] * 2
    Reward("rouge1_f", language="de")(german, references=german)
    assert not caplog.records


def test_scripts_of_a_mixture_are_counted_apart():
    texts = [BY_CODE["ru"]] * 3 + [BY_CODE["th"]] * 2 + [BY_CODE["en"]]
    remark = other_language(texts, "en")
    assert remark.startswith(
        "in 5 of 6 texts of a sample, most letters are of scripts that English"
    )
    assert "(Cyrillic in 3, Thai in 2)" in remark
    assert "`--language und`" in remark


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ru", "Цена нефти выросла на 5%. Эксперты, т.е. аналитики банка, ждут роста."),  # noqa: RUF001
        ("tr", "T.C. Merkez Bankası faizi %45'e yükseltti. Ekonomistler kararı olumlu buldu."),  # noqa: RUF001
    ],
)
def test_letters_of_abbreviations_are_no_stop_words(code, text):
    assert other_language([text] * 5, code) is None


def test_one_text_with_the_stop_words_of_another_language_proves_nothing():
    assert other_language([BY_CODE["de"]], "en") is None
    assert other_language([BY_CODE["de"]] * 2, "en") is not None
    assert other_language([BY_CODE["de"]] * 2 + [BY_CODE["en"]] * 4, "en") is None
