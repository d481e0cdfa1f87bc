"""Twenty-five languages in ten scripts: pairs cut by hand, and what is made of their words."""
# ruff: noqa: RUF001 (their letters are meant)

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import regex
import sacrebleu
import snowballstemmer
from rouge_score.rouge_scorer import RougeScorer

from sms.definition import sms
from sms.scoring import score_texts
from sms.text import Segmenter, TextRules, split_sentences, stop_words
from sms.text.languages import LANGUAGES, language_of
from sms.text.words import characters
from tests.sms.cases import cases
from tests.sms.scoring_cases import glove_file

MARKED = cases("any_language")
ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
NOT_LATIN = ["ru", "uk", "bg", "el", "hi", "bn", "ta", "ko", "he", "fa", "ur", "th", "am"]
_NEED = {"th": "icu4py"}


@pytest.fixture(params=MARKED)
def language(request) -> str:
    if request.param in _NEED:
        pytest.importorskip(_NEED[request.param])
    return request.param


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    """One vector for every word of every language."""
    rng = np.random.default_rng(47)
    found = {}
    for language, pairs in MARKED.items():
        for marked in (text for pair in pairs for text in pair):
            for word in (word for sentence in words_of(marked) for word in sentence):
                found.setdefault((language, folded(word, language)), rng.normal(size=6) / 3)
                found[word] = found[language, folded(word, language)]
    return {word: vector for word, vector in found.items() if isinstance(word, str)}


def written(marked: str) -> str:
    return marked.replace("|", "").replace("¦", "")


def words_of(marked: str) -> list[list[str]]:
    """The words of each sentence, without what no word is made of and invisible characters."""
    sentences = marked.replace("|", " ").split("¦")
    visible = [regex.sub(r"\p{Cf}", "", sentence).split() for sentence in sentences]
    return [[word for word in words if regex.search(r"[\p{L}\p{N}]", word)] for words in visible]


def folded(word: str, language: str) -> str:
    if language == "tr":
        word = word.replace("İ", "i").replace("I", "ı")
    return word.lower().translate(str.maketrans("’ʼ״׳", "''\"'"))


# Sentences and words


def test_sentences_and_words_by_hand(language):
    for marked in (text for pair in MARKED[language] for text in pair):
        text = written(marked)
        sentences = split_sentences(text, language)
        assert "".join(sentences) == text
        assert [one.strip() for one in sentences] == [
            written(one).strip() for one in marked.split("¦")
        ]
        segmented = Segmenter(TextRules(language=language)).segment(pa.array([text]))
        found = [segmented.vocabulary.words[n] for n in segmented.text_words[0].tolist()]
        visible = regex.sub(r"\p{Cf}", "", marked)
        assert found == visible.replace("|", " ").replace("¦", " ").split()


WORDS_OF_UNICODE = {
    "fi": "EU:n a:n",
    "ca": "col·legi",
    "hy": "Ինչո՞ւ",
    "he": "צה״ל צה\"ל ג׳ורג׳ ג'ורג'",
    "sw": "ng'ombe ng’ombe",
    "uz": "o‘zbek oʻzbek",
    "uk": "п’ять пʼять",
    "hi": "क्‍या हिन्दी",
    "nl": "foto's",
}


@pytest.mark.parametrize("language", WORDS_OF_UNICODE)
def test_what_unicode_keeps_in_a_word_stays_in_it(language):
    split = language_of(language).words()
    for word in WORDS_OF_UNICODE[language].split():
        assert split(word) == [regex.sub(r"\p{Cf}", "", word)]


def test_words_are_those_of_icu_but_for_what_is_documented():
    breakers = pytest.importorskip("icu4py.breakers")
    others = ("th", "ko", "it")  # a dictionary's words, digits before Hangul, elisions
    texts = [
        written(text)
        for code in MARKED
        if code not in others
        for pair in MARKED[code]
        for text in pair
    ]
    texts += [word for words in WORDS_OF_UNICODE.values() for word in words.split()]
    split, has_content = language_of("und").words(), regex.compile(r"[\p{L}\p{N}]").search
    for text in texts:
        ours = [word for chunk in text.split() for word in split(chunk) if has_content(word)]
        icu = [
            regex.sub(r"\p{Cf}", "", word)
            for word in breakers.WordBreaker(text, "root")
            if has_content(word)
        ]
        # an acronym keeps its last full stop
        assert [word.rstrip(".") for word in ours] == icu
    differ = "example.com a_b т.е. ₹500 3'üncü 3일"
    ours = [word for chunk in differ.split() for word in split(chunk) if has_content(word)]
    icu = [word for word in breakers.WordBreaker(differ, "root") if has_content(word)]
    assert ours == ["example", "com", "a", "b", "т.е.", "₹500", "3'üncü", "3일"]
    assert icu == ["example.com", "a_b", "т.е", "500", "3", "üncü", "3", "일"]


# ROUGE


def overlap(candidate, reference, n):
    """ROUGE-N of two lists of tokens: precision, recall, F."""
    one, other = (
        Counter(tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1))
        for tokens in (candidate, reference)
    )
    common = (one & other).total()
    return shares(common, one.total(), other.total())


def shares(common, n_candidate, n_reference):
    precision, recall = common / max(n_candidate, 1), common / max(n_reference, 1)
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


def longest_common(candidate, reference):
    """ROUGE-L of two lists of tokens."""
    row = [0] * (len(reference) + 1)
    for token in candidate:
        before = row
        row = [0]
        for k, other in enumerate(reference):
            row.append(before[k] + 1 if token == other else max(before[k + 1], row[k]))
    return shares(row[-1], len(candidate), len(reference))


def rouge_by_hand(candidate, reference):
    one, other = (
        [token for sentence in text for token in sentence] for text in (candidate, reference)
    )
    return {
        "rouge1": overlap(one, other, 1),
        "rouge2": overlap(one, other, 2),
        "rougeL": longest_common(one, other),
    }


class Given:
    """Gives rouge-score the tokens of a line."""

    def __init__(self, texts):
        self._tokens = {" ".join(sentence): sentence for text in texts for sentence in text}

    def tokenize(self, text):
        return [token for line in text.split("\n") for token in self._tokens[line]]


def rouge_by_package(candidate, reference):
    scorer = RougeScorer(ROUGE, tokenizer=Given([candidate, reference]))
    lines = ["\n".join(map(" ".join, text)) for text in (candidate, reference)]
    return scorer.score(lines[1], lines[0])


def assert_rouge(language, tokens_of, pairs=None, **options):
    """Hold ROUGE of pairs against what other code makes of tokens of words cut by hand."""
    pairs = pairs or MARKED[language]
    columns = zip(*[[written(text) for text in pair] for pair in pairs], strict=True)
    table = score_texts(*map(list, columns), metrics=ROUGE, language=language, **options)
    for row, pair in zip(table.to_pylist(), pairs, strict=True):
        texts = [
            [
                [t for word in sentence for t in tokens_of(folded(word, language))]
                for sentence in words_of(one)
            ]
            for one in pair
        ]
        for expected in (rouge_by_hand(*texts), rouge_by_package(*texts)):
            for name, values in expected.items():
                assert [row[f"{name}_{part}"] for part in "prf"] == pytest.approx(values, abs=1e-15)
        assert row["status"] is None


def test_rouge_is_that_of_the_words(language):
    assert_rouge(language, lambda word: [word])


STEMMED = [code for code in MARKED if LANGUAGES[code].stemmer]


@pytest.mark.parametrize("language", STEMMED)
def test_rouge_with_a_stemmer_is_that_of_the_stems(language):
    stem = snowballstemmer.stemmer(LANGUAGES[language].stemmer).stemWord
    assert_rouge(language, lambda word: [stem(word)], stemmer=True)


CHARACTERS = {
    "zh": [
        ["政府|提高|汽油|税|。¦iPhone 价格|上涨|3.5|%|。", "政府|上调|汽油|税|，|iPhone 涨价|。"],
        ["今天|下雨|。", "国足|获胜|！"],
    ],
    "ja": [["政府|は|ガソリン|税|を|上げ|た|。", "ガソリン|税|が|上がる|。"]],
    "th": [["รัฐบาล|ขึ้น|ภาษี|น้ำมัน", "รัฐบาล|ขึ้น|ราคา|น้ำมัน"]],
}


@pytest.mark.parametrize("language", CHARACTERS)
def test_rouge_by_characters(language):
    pytest.importorskip({"zh": "rjieba", "ja": "sudachipy", "th": "icu4py"}[language])
    pairs = CHARACTERS[language]
    assert_rouge(language, characters, pairs, rouge_tokens="characters")
    if language != "zh":
        assert_rouge(language, lambda word: [word], pairs)  # words are the default
    else:
        assert_rouge(language, characters, pairs)


def test_characters_of_the_scripts_without_spaces():
    assert characters("東京タワー333") == ["東", "京", "タ", "ワ", "ー", "333"]
    assert characters("iphone") == ["iphone"]
    assert characters("น้ำมัน") == ["น้ำ", "มั", "น"]


# The other metrics


def test_equal_texts_score_highest_and_those_without_a_common_word_lowest(language):
    pairs = MARKED[language][:2]
    candidates, others = ([written(pair[side]) for pair in pairs] for side in (0, 1))
    metrics = ("rouge1_f", "rougeLsum_f", "chrf", "coverage", "novelty", "lead3", "compression")
    same, apart = score_texts(
        candidates, others, others, metrics=(*metrics, "length", "repetition"), language=language
    ).to_pylist()
    n_words = [[sum(map(len, words_of(text))) for text in pair] for pair in pairs]
    assert apart.pop("chrf") < 30
    assert same == {
        "rouge1_f": 1.0,
        "rougeLsum_f": 1.0,
        "chrf": 100.0,
        "coverage": 1.0,
        "novelty": 0.0,
        "lead3": 1.0,
        "compression": 1.0,
        "length": n_words[0][0],
        "repetition": 0.0,
        "status": None,
    }
    assert apart == {
        "rouge1_f": 0.0,
        "rougeLsum_f": 0.0,
        "coverage": 0.0,
        "novelty": 1.0,
        "lead3": 0.0,
        "compression": n_words[1][1] / n_words[1][0],
        "length": n_words[1][0],
        "repetition": 0.0,
        "status": None,
    }


def test_chrf_and_bleu_are_those_of_the_library(language):
    pairs = [[written(text) for text in pair] for pair in MARKED[language]]
    metrics = ("chrf",) if language == "ko" else ("chrf", "bleu")
    table = score_texts(*map(list, zip(*pairs, strict=True)), metrics=metrics, language=language)
    bleu = partial(sacrebleu.sentence_bleu, tokenize="char" if language == "th" else "13a")
    for row, (candidate, reference) in zip(table.to_pylist(), pairs, strict=True):
        expected = sacrebleu.sentence_chrf(candidate, [reference]).score
        assert row["chrf"] == pytest.approx(min(expected, 100), abs=1e-12)
        if "bleu" in row:
            expected = bleu(candidate, [reference]).score
            assert row["bleu"] == pytest.approx(min(expected, 100), abs=1e-12)


def test_sms_under_a_table_of_all_languages(language, vectors, tmp_path):
    encoder = glove_file(tmp_path / "all.txt", {word: v.tolist() for word, v in vectors.items()})
    not_counted = stop_words(TextRules(language=language))
    pairs = MARKED[language]
    columns = zip(*[[written(text) for text in pair] for pair in pairs], strict=True)
    table = score_texts(*map(list, columns), metrics=("sms", "cosine"), language=language,
                        encoders={"words": encoder})  # fmt: skip
    for row, pair in zip(table.to_pylist(), pairs, strict=True):
        texts = [
            [
                [word for word in sentence if folded(word, language) not in not_counted]
                for sentence in words_of(one)
            ]
            for one in pair
        ]
        texts = [[sentence for sentence in text if sentence] for text in texts]
        if not all(texts):
            assert row["sms"] is None
            assert "no_words" in row["status"]
        else:
            assert row["sms"] == pytest.approx(sms(*texts, vectors), rel=1e-5)
    assert table["sms"][0].as_py() == pytest.approx(1)


# Statuses


@pytest.mark.parametrize("code", NOT_LATIN)
def test_english_rouge_has_no_tokens_of_other_scripts(code):
    text = written(MARKED[code][1][0])
    (row,) = score_texts([text], [text], metrics=("rouge1_f",)).to_pylist()
    assert row == {
        "rouge1_f": None,
        "status": "candidate:no_rouge_tokens; reference:no_rouge_tokens",
    }


@pytest.mark.parametrize("blank", ["…", "«» — ।", "。！", "۔ ؟", "。፡", "🎉 ՜"])
def test_punctuation_of_any_script_is_no_word(blank):
    text = "слово"
    table = score_texts([blank, text], [text, blank], metrics=("rouge1_f", "chrf"), language="und")
    assert table["status"].to_pylist() == ["candidate:no_words", "reference:no_words"]
    assert table["rouge1_f"].to_pylist() == table["chrf"].to_pylist() == [None, None]
