"""Cutting texts: words and sentences by hand, word boundaries against BERT's own tokenizer."""

from __future__ import annotations

import functools
import sys
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sms.encoders.bert import minilm_folder
from sms.text import SegmentedTexts, Segmenter, TextRules, Vocabulary, stop_words
from sms.text.languages import language_of
from sms.text.words import attempt, clark2019_words, split_words
from tests.sms.cases import WAYS_TO_CUT, cases

CASES = cases("texts")
NOTHING = [None, "", " ", "\n\t ", "\u3000\u2028", "\xa0"]

TEXTS = [
    "The cat sat. The cat sat. A dog barked.",
    "A dog barked. Nobody didn't hear it.",
    None,
    "",
    "...",
    "Nobody didn't hear it. The cat sat.",
]


def as_words(segmented: SegmentedTexts) -> list[list[list[str]]]:
    """The words of every sentence of every text."""
    words = segmented.vocabulary.words
    return [
        [[words[word] for word in segmented.sentence_words[sentence]] for sentence in sentences]
        for sentences in (segmented.text_sentences[k] for k in range(len(segmented.text_sentences)))
    ]


def as_sentences(segmented: SegmentedTexts) -> list[list[str]]:
    return [
        [segmented.sentences[sentence] for sentence in segmented.text_sentences[k]]
        for k in range(len(segmented.text_sentences))
    ]


def segment(*texts: str | None) -> SegmentedTexts:
    return Segmenter().segment(pa.array(texts, pa.string()))


# Words


@pytest.mark.parametrize("name", CASES["words"])
def test_words_by_hand(name):
    chunk, *expected = CASES["words"][name]
    assert split_words(chunk) == expected


def test_content_words_count():
    for counts in ("yes", "no"):
        for word in CASES["counting"][counts]:
            assert TextRules().counts(word) is (counts == "yes"), word


@pytest.mark.parametrize("chunk", CASES["clark2019"])
def test_clark2019_words_that_count_by_hand(chunk):
    rules = TextRules(words="clark2019")
    counted = [word for word in clark2019_words(chunk) if rules.counts(word)]
    assert counted == CASES["clark2019"][chunk]


def test_clark2019_texts():
    rules = TextRules(words="clark2019")
    segmented = Segmenter(rules).segment(pa.array(["The 2 well-known cats won't sit. Ok!"]))
    words = ["the", "2", "well-known", "cats", "wo", "n't", "sit", ".", "ok", "!"]
    assert as_words(segmented) == [[words[:8], words[8:]]]
    kept = segmented.is_kept[segmented.text_words[0]]
    counted = [word for word, keep in zip(words, kept, strict=True) if keep]
    assert counted == ["cats", "wo", "sit", "ok"]
    assert len(stop_words(rules)) == 179
    clitics = {"'s", "'t", "'re", "'ve", "'ll", "'d", "'m", "n't"}
    assert stop_words(TextRules()) - stop_words(rules) == clitics


@pytest.mark.parametrize(
    "chunk", ["1" * 50_000, "a1" * 25_000, "1,1" * 25_000, "a'" * 25_000, "🎉" * 50_000]
)
def test_huge_chunk_is_cut_in_linear_time(chunk):
    assert "".join(split_words(chunk)) == chunk  # a run of digits was quadratic, about 48 s


# Every word boundary is one of BERT's


@functools.cache
def bert_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def piece_ids(sentence: str) -> list[int]:
    return bert_tokenizer().encode(sentence, add_special_tokens=False).ids


def characters_younger_than_bert() -> str:
    """Punctuation and joiners that the tokenizer's older Unicode tables take for letters.

    Also the ideographs from U+2B820 to U+2B91F, which it leaves out by mistake.
    """
    tokenizer = bert_tokenizer()
    found = [chr(code) for code in range(0x2B820, 0x2B920)]
    for character in map(chr, range(sys.maxunicode + 1)):
        category = unicodedata.category(character)
        if category[0] == "P":
            pieces = tokenizer.pre_tokenizer.pre_tokenize_str(f"a{character}b")
            if len(pieces) == 1:
                found.append(character)
        elif category == "Cf" and tokenizer.normalizer.normalize_str(f"a{character}b") != "ab":
            found.append(character)
    return "".join(found)


fragments = st.sampled_from(
    ["'s", "’s", "n't", "1.5", "2,000", "km", "U.S.", "-lrb-", "$", "€", "-", " ", "东", "e\u0301",
     "\u0301", "\u00ad", "\u200d", "😀", "İ", "ﬁ", "ς", "\ufffd", "½", "한", "'", ".", "x" * 101]
)  # fmt: skip
sentences = st.deferred(
    lambda: st.lists(
        st.characters(
            exclude_categories=("Cc", "Cs", "Cn"), exclude_characters=characters_younger_than_bert()
        )
        | fragments,
        max_size=20,
    ).map("".join)
)


@pytest.mark.parametrize(
    "language", [code for code in WAYS_TO_CUT if language_of(code).has_piece_words]
)
@given(sentences)
@example("the paris-roubaix 253.5km one-day race, £1.8million and 3.6million")
@example("1,000ft long, 1,000 - 1,640ft wide at 6.15pm's end")
@example("'s€ team's€ U.S.A 'tis rock'n'roll")
@example("\u0301 a \u0301. co\u00adoperate \ufeffThe \ufffd")
@example("l'homme qu’il aujourd'hui, 北京是中国的首都。他2020年买了iPhone")
def test_words_cut_alone_give_the_pieces_of_the_sentence(language, sentence):
    segmented = Segmenter(TextRules(language=language)).segment(pa.array([sentence], pa.string()))
    assert segmented.has_piece_words
    for k, cut in enumerate(segmented.sentences):
        words = [segmented.vocabulary.words[word] for word in segmented.sentence_words[k]]
        assert [piece for word in words for piece in piece_ids(word)] == piece_ids(cut)


# Sentences


@pytest.mark.parametrize("name", CASES["sentences"])
def test_sentences_by_hand(name):
    given_text, *expected = CASES["sentences"][name]
    assert as_sentences(segment(given_text)) == [expected]


def test_text_without_anything_has_no_sentences():
    segmented = segment("Before.", *NOTHING, "After.")
    assert segmented.text_sentences.lengths.tolist() == [1, *[0] * len(NOTHING), 1]
    assert segmented.sentences == ["After.", "Before."]
    for texts in ([], [None]):
        assert segment(*texts).sentences == []
        assert len(segment(*texts).text_sentences) == len(texts)


@given(st.lists(st.none() | st.sampled_from(["A cat.", "A dog. ", "No!", ""]) | sentences))
def test_segmenting_loses_no_text(texts):
    segmented = segment(*texts)
    for given_text, cut in zip(texts, as_sentences(segmented), strict=True):
        assert "".join("".join(cut).split()) == "".join((given_text or "").split())


# Restricting, and the table of chunks


def test_restrict_keeps_the_needed_texts():
    segmented = segment(*TEXTS)
    needed = np.array([False, True, False, False, True, False])
    part = segmented.restrict(needed)
    assert part.sentences == ["...", "A dog barked.", "Nobody didn't hear it."]
    wanted = as_words(segmented)
    assert as_words(part) == [
        words if keep else [] for words, keep in zip(wanted, needed, strict=True)
    ]
    assert part.sentence_words.lengths.tolist() == [3, 4, 5]


def test_whole_texts_by_hand():
    # the last differs from the first in white space alone
    cut = segment("The cat sat. It slept.", None, "A dog.", "The cat sat.  It slept.").whole()
    assert cut.sentences == ["The cat sat. It slept.", "A dog."]
    assert as_sentences(cut) == [cut.sentences[:1], [], cut.sentences[1:], cut.sentences[:1]]
    assert as_words(cut)[0] == [["The", "cat", "sat", ".", "It", "slept", "."]]
    assert cut.sentence_words.lengths.tolist() == [7, 3]


def test_a_chunk_that_a_splitter_failed_on_is_asked_again():
    faults = iter([OSError("once")])

    def split(chunk):
        for fault in faults:
            raise fault
        return [chunk]

    vocabulary = Vocabulary(functools.partial(attempt, split), TextRules())
    texts = pa.array(["one", "two"])
    assert vocabulary.words_of(texts)[1].tolist() == [True, False]
    words, is_uncut = vocabulary.words_of(texts)
    assert [vocabulary.words[number] for number in words.values] == ["one", "two"]
    assert not is_uncut.any()
