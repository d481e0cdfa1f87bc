"""Languages: real sentences cut by hand, stop lists, missing libraries."""
# ruff: noqa: RUF001 (their letters are meant)

from __future__ import annotations

import unicodedata
from importlib import metadata, util

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from sms.scoring import ScoringConfig, score_texts
from sms.text import SegmentedTexts, Segmenter, TextRules, sentences, split_sentences, word_spans
from sms.text.languages import LANGUAGES, language_of
from tests.sms.cases import WAYS_TO_CUT, cases

TEXTS = cases("languages")


def segment(language: str, *texts: str, words: str = "default") -> SegmentedTexts:
    rules = TextRules(language=language, words=words)
    return Segmenter(rules).segment(pa.array(texts, pa.string()))


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_by_hand(language):
    expected = [sentence for sentence, _ in TEXTS[language]]
    text = ("" if language in ("zh", "ja") else " ").join(expected)
    assert [piece.strip() for piece in split_sentences(text, language)] == expected
    assert "".join(split_sentences(text, language)) == text


@pytest.mark.parametrize("language", TEXTS)
def test_words_and_which_count_by_hand(language):
    for sentence, marked in TEXTS[language]:
        segmented = segment(language, sentence)
        numbers = segmented.text_words[0].tolist()
        found = [
            ("" if segmented.is_kept[n] else "*") + segmented.vocabulary.words[n] for n in numbers
        ]
        assert found == marked.split()


@pytest.mark.parametrize("language", WAYS_TO_CUT)
@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u00a0\u2009", "\n\u2028"])
def test_wide_space_before_a_full_stop_is_cut_as_a_space_is(language, space):
    # `sentencex` 1.0.32 panics here, which ended whole runs
    text = f"É. Vitamin A{space}. Plan B{space}. Then go\u00a0."
    sentences = split_sentences(text, language)
    assert "".join(sentences) == text
    plain = split_sentences(text.replace(space, " " * len(space)), language)
    assert [len(each) for each in sentences] == [len(each) for each in plain]


def test_long_run_of_japanese_is_cut_whole():
    text = "東京大学" * 20_000  # over the library's limit of 49,149 bytes
    words = segment("ja", text).vocabulary.words
    assert set(words) == {"東京", "大学"}
    assert segment("ja", text).text_words.lengths.tolist() == [40_000]


# Codes


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("deu", "de"), ("iw", "he"), ("pt-BR", "pt"), ("zh_Hant", "zh"), ("sr-Latn", "sr"),
        ("cmn", "zh"), ("EN", "en"), ("tl", "fil"), ("ab", "ab"), ("abq", "abq"), ("und", "und"),
    ],
)  # fmt: skip
def test_every_way_to_write_a_language_has_one_signature(written, code):
    assert ScoringConfig(language=written).language == code
    assert TextRules(language=written) == TextRules(language=code)
    assert TextRules(language=written).signature.startswith(f"lang:{code}|")


def test_language_without_a_row_is_complete():
    assert "abq" not in LANGUAGES
    assert TextRules(language="abq").signature.endswith("|tok:unicode1|stop:none")
    text = "Абаза бызшва. Абаза рыбызшва."
    table = score_texts([text], [text], metrics=("rougeL_f", "bleu", "chrf", "length"),
                        language="abq")  # fmt: skip
    assert table.to_pylist() == [
        {"rougeL_f": 1.0, "bleu": 100.0, "chrf": 100.0, "length": 4.0, "status": None}
    ]


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("de", "Latn"), ("ru", "Cyrl"), ("sr", "Cyrl Latn"), ("ja", "Hani Hira Kana"),
        ("zh", "Hani"), ("ko", "Hang Hani"), ("hi", "Deva"), ("am", "Ethi"), ("wuu", "Hani"),
        ("abq", "Cyrl"), ("und", ""),
    ],
)  # fmt: skip
def test_scripts_of_a_language(code, scripts):
    assert language_of(code).scripts == frozenset(scripts.split())


def test_scripts_are_ones_that_unicode_has():
    for row in LANGUAGES.values():
        assert row.scripts or row.code == "und"
        for script in row.scripts:
            regex.compile(rf"\p{{Script={script}}}")


# Stop lists


@pytest.mark.parametrize("language", LANGUAGES)
def test_signature_names_the_stop_list(language):
    row = LANGUAGES[language]
    words = row.published_stop_words()
    signature = TextRules(language=language).signature
    assert signature.startswith(f"lang:{language}|split:")
    assert signature.endswith(f"|stop:{row.stop_signature}")
    if row.stop_list == "none":
        assert not words
    elif row.stop_list.startswith("stopwords-iso"):
        assert f"-{metadata.version('stopwordsiso')}" in row.stop_signature
        assert len(words) > 20
    else:
        assert row.stop_list.partition("/")[0].endswith(str(len(words)))


def test_stop_words_of_other_cases_and_apostrophes_do_not_count():
    turkish, english = segment("tr", "İÇİN için"), segment("en", "THE the")
    assert not turkish.is_kept.any()
    assert not english.is_kept.any()
    assert LANGUAGES["tr"].lower("IŞIK’ta İĞNE") == "ışık'ta iğne"
    assert LANGUAGES["de"].lower("INDIEN") == "indien"


# Where the words are


SCRIPTS = st.characters(exclude_categories=("Cs", "Cn")) | st.sampled_from(
    [
        *"aA.,'’-«»،؟ \u00ad\u200d\u0301\ufeff東京のカー々İſ\n\u3000",
        *("l'", "won't", "2,000.5", '"', "``", "''"),
    ]
)


@pytest.mark.parametrize("language", WAYS_TO_CUT)
@given(st.lists(SCRIPTS, max_size=25).map("".join))
@example("co\u00adoperate \ufeffThe \u200b end")
@example("l'«\u00ad»l’été 東\u200d京のカメラ")
def test_spans_hold_the_words_but_for_invisible_characters(language, text):
    segmented = segment(language, text)
    for k, sentence in enumerate(segmented.sentences):
        words = [segmented.vocabulary.words[n] for n in segmented.sentence_words[k]]
        spans = word_spans(segmented, k)
        assert spans.shape == (len(words), 2)
        found = [sentence[start:end] for start, end in spans]
        assert ["".join(c for c in piece if is_visible(c)) for piece in found] == words
        assert (np.diff(spans.ravel()) >= 0).all()
        between = np.append(spans.ravel(), len(sentence))
        between = np.concatenate([[0], between]).reshape(-1, 2)
        left_out = "".join(sentence[start:end] for start, end in between)
        assert not any(is_visible(c) and not c.isspace() for c in left_out)


def is_visible(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Co")


@given(st.lists(SCRIPTS, max_size=25).map("".join))
@example("He said \"no\" and cannot, won't İstanbul's")
@example("He said \"no\" and ran ''home'', ``(''quick''``")
def test_spans_of_clark2019_words(text):
    segmented = segment("en", text, words="clark2019")
    for k, sentence in enumerate(segmented.sentences):
        words = [segmented.vocabulary.words[n] for n in segmented.sentence_words[k]]
        spans = word_spans(segmented, k)
        assert (np.diff(spans.ravel()) >= 0).all()
        for word, (start, end) in zip(words, spans.tolist(), strict=True):
            piece = sentence[start:end].lower().replace("ς", "σ")
            assert piece == word.replace("ς", "σ") or (start == end and word in ("``", "''"))


# Scores


@pytest.mark.parametrize("language", TEXTS)
def test_rouge_counts_words_of_every_script(language):
    """`rouge-score` itself keeps a to z only, so that nothing of Arabic would be left."""
    (one, marked), (other, _) = TEXTS[language][:2]
    table = score_texts([one, one], [one, other], metrics=("rouge1_f", "rouge1_r", "length"),
                        language=language)  # fmt: skip
    assert table["rouge1_f"][0].as_py() == 1.0
    assert table["rouge1_r"][1].as_py() < 1.0
    assert table["status"].to_pylist() == [None, None]
    n_words = sum(any(c.isalnum() for c in word) for word in marked.split())
    assert table["length"][0].as_py() == n_words


# What is refused


@pytest.mark.parametrize(("language", "packages"), [("zh", "rjieba"), ("ja", "SudachiPy")])
def test_missing_library_names_the_extra(monkeypatch, language, packages):
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=rf"{packages}.*pip install 'assay\[{language}\]'"):
        ScoringConfig(language=language)


def test_panic_of_the_library_is_an_error_of_the_text(monkeypatch):
    """Rust's panics are no `Exception`, so that whatever guards a shard would let them pass."""
    panic = type("PanicException", (BaseException,), {})("byte index 3 is not a char boundary")

    def segment(code, text):
        raise panic

    monkeypatch.setattr(sentences.sentencex, "segment", segment)
    with pytest.raises(RuntimeError, match=r"'Vitamin A\.' \(byte index 3 is not a"):
        split_sentences("Vitamin A.", "de")
