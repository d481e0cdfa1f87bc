"""Sentences: cases cut by hand, laws on damaged texts, and time that grows with the text alone."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from sms.ragged import offsets_of
from sms.text import Segmenter, TextRules, batches, english, sentences, split_sentences
from sms.text.languages import LANGUAGES
from sms.text.sentences import SENTENCE_END, blocks, joined, library_ends
from tests.sms.cases import cases

BY_LANGUAGE = cases("sentences")["by_hand"]
HARD = cases("sentences")["hard"]
ENGLISH_RULES = [*dict.fromkeys(rule for rows in english.RULES.values() for rule in rows)]
CASES = [(language, name) for language, texts in BY_LANGUAGE.items() for name in texts]
# ruff: noqa: RUF001 (their letters are meant)
# what a text may be made of, damaged or not
PIECES = [
    *(" ", " ", " ", "\n", "\r\n", "\u00a0", "\u2028", "\t", "\x1e", "\x00", "\ud7ff", "\u200d"),
    *(".", ".", "...", "…", "!", "?", "?!", "。", "！", "؟", ",", ";", ":", "-", "--", "—", "_"),
    *('"', "'", "''", "`", "``", "“", "”", "‘", "’", "«", "»", "„", "「", "」", "*", "#", "|"),
    *("(", ")", "[", "]", "-lrb-", "-RRB-", "[3]", "<t>", "</t>", "<q>", "<", "<n>", ":(", "🎉"),
    *("the", "He", "i", "I", "u.s", "U.S.", "a.m", "Mr", "dr.", "no", "No.", "St.", "Z.", "e.g."),
    *("1", "2.5", "1.", "$", "2012", "million", "said", "asked", "word", "Word", "WORD", "'s"),
    *("Müller", "ß", "M.", "É", "د.", "هل", "他", "说", "昨日", "と", "\U0001f469\u200d\U0001f680"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "name"), CASES)
def test_sentences_by_hand(language, name):
    text = BY_LANGUAGE[language][name]
    assert split_sentences(text.replace("¦", ""), language) == text.split("¦")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_of_every_type_of_arrow_are_cut_alike(kind):
    texts = pa.array(["One. Two.", None, "Three."], kind)
    cut = Segmenter().segment(texts)
    assert (cut.sentences, cut.text_sentences.lengths.tolist()) == (
        ["One.", "Three.", "Two."],
        [2, 0, 1],
    )


# Laws


def random_text(rng: random.Random, cases: list[str]) -> str:
    """Pieces one after the other, or a case with characters lost, doubled, moved and put in."""
    if rng.random() < 0.5:
        return "".join(rng.choices(PIECES, k=rng.randrange(1, 25)))
    text = list(rng.choice(cases))
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                del text[at : at + 1]
            case 1:
                text.insert(at, rng.choice(PIECES))
            case 2:
                text[at:at] = text[at : at + rng.randrange(1, 9)]
            case _:
                text = text[at:] + text[:at]
    changed = "".join(text)
    return rng.choice([changed, changed.lower(), changed.upper()])


def test_pieces_are_the_text_on_damaged_texts():
    rng = random.Random(1)
    cases = [text.replace("¦", "") for texts in BY_LANGUAGE.values() for text in texts.values()]
    languages = list(LANGUAGES)
    for k in range(3_000):
        text = random_text(rng, cases)
        pieces = split_sentences(text, languages[k % len(languages)])
        assert "".join(pieces) == text, repr(text)
        assert all(pieces), repr(text)


@pytest.mark.parametrize("unit", HARD.values(), ids=HARD)
@pytest.mark.parametrize("language", ["en", "de"])
def test_hard_texts_are_cut(language, unit):
    text = unit * (12_000 // len(unit))  # longer than what the library is shown at once
    assert "".join(split_sentences(text, language)) == text
    assert "".join(LANGUAGES[language].cutter()(pa.array([text])).pieces) == text


def test_library_is_shown_a_long_text_in_parts(monkeypatch):
    shown = []

    def segment(code, text):
        shown.append(len(text))
        return [piece + "." for piece in text.split(".")[:-1]] + [text.rpartition(".")[2]]

    monkeypatch.setattr(sentences.sentencex, "segment", segment)
    text = 30 * (999 * "a" + ".")
    assert sorted({*library_ends("de", text)}) == [*range(1_000, 30_001, 1_000)]
    assert max(shown) == sentences._MOST_SHOWN
    assert library_ends("de", 25_000 * "a") == [25_000]


# The rules for English


@pytest.mark.parametrize("rule", ENGLISH_RULES, ids=[rule.example for rule in ENGLISH_RULES])
def test_rule_decides_its_example(rule, monkeypatch):
    text = BY_LANGUAGE["en"][rule.example]
    assert split_sentences(text.replace("¦", "")) == text.split("¦")
    turned = rule._replace(is_end=not rule.is_end)
    rules = {
        kind: tuple(turned if row is rule else row for row in rows)
        for kind, rows in english.RULES.items()
    }
    monkeypatch.setattr(english, "RULES", rules)
    assert split_sentences(text.replace("¦", "")) != text.split("¦")


def test_a_batch_is_cut_as_each_text_is():
    rng = random.Random(2)
    cases = [text.replace("¦", "") for text in BY_LANGUAGE["en"].values()]
    texts = ["", ".", " ", "a", *cases, *(random_text(rng, cases) for _ in range(20_000))]
    cut_batch = LANGUAGES["en"].cutter()
    for batch in (texts[:5_000], texts[5_000:]):  # the second one knows the words of the first
        cut = cut_batch(pa.array(["", *batch])[1:])
        assert not cut.cannot_be_split.any()
        pieces, starts = cut.pieces, offsets_of(cut.lengths).tolist()
        for text, start, stop in zip(batch, starts[:-1], starts[1:], strict=True):
            assert pieces[start:stop] == (split_sentences(text) or [""]), repr(text)


def test_a_paragraph_is_cut_without_regard_to_the_text_before_it():
    texts = ["`He left", ". ' Nobody saw `it' ."]
    cut = LANGUAGES["en"].cutter()(pa.array(texts))
    assert cut.lengths.tolist() == [len(split_sentences(text)) for text in texts]


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029", "<ſ>", "<t>"])
def test_lines_and_tags_of_several_bytes_leave_all_else_in_its_place(mark):
    text = f"É fell. “Oh,” he said.{mark}É rose.{mark} He ran. É sat."
    cut = LANGUAGES["en"].cutter()(pa.array(["It rained. É left.", text, "We left. É came."]))
    expected = [
        split_sentences("It rained. É left."),
        split_sentences(text),
        ["We left. ", "É came."],
    ]
    assert cut.pieces == [piece for pieces in expected for piece in pieces]


def test_words_before_marks_are_forgotten_when_they_are_too_many(monkeypatch):
    monkeypatch.setattr(batches, "MAX_WORDS", 3)
    cut_batch = LANGUAGES["en"].cutter()
    for k in range(4):
        texts = [f"He saw Mr. A{k}. Smith{k} and w{k}. He left b{k}. It rained."]
        assert cut_batch(pa.array(texts)).pieces == split_sentences(texts[0])


def test_an_ordinary_word_ends_a_sentence_by_the_rules_too(monkeypatch):
    rng = random.Random(3)
    cases = [text.replace("¦", "") for text in BY_LANGUAGE["en"].values()]
    texts = [*cases, *(random_text(rng, cases) for _ in range(20_000))]
    quick = [split_sentences(text) for text in texts]
    monkeypatch.setattr(english, "always_ends", lambda word: False)
    for text, pieces in zip(texts, quick, strict=True):
        assert split_sentences(text) == pieces, repr(text)


def test_only_the_text_that_the_library_fails_on_is_lost(monkeypatch):
    def segment(code, text):
        if "Zork" in text:
            raise RuntimeError("no")
        return [text]

    monkeypatch.setattr(sentences.sentencex, "segment", segment)
    cut = Segmenter().segment(pa.array(["It rained. We left.", "The Zork had 22. Pensacola left."]))
    assert cut.cannot_be_split.tolist() == [False, True]
    assert cut.text_sentences.lengths.tolist() == [2, 0]


# Lines and marks


def test_wrapped_lines_go_on_and_others_end():
    prose = "He went home and was glad to be there after so long a time.\n"
    assert len(blocks(prose * 3)) == 3
    wrapped = (
        "he went home and was glad to be there after\n"
        "so long a time. she was not glad at all that\n"
        "he had come back."
    )
    assert blocks(wrapped) == [wrapped]


def test_marks_are_no_words():
    cut = Segmenter().segment(pa.array(["<t> It rained . </t> <t> We left . </t>", "It.<q>We"]))
    assert cut.sentences == ["It rained .", "It.", "We", "We left ."]
    assert not {"t", "q", "<"} & set(cut.vocabulary.words)


# Given sentences


def test_given_sentences_are_taken_as_they_are_without_marks():
    text = ["It rained. We left.", "<t> no", "a\nb", " ", "", f"u.s{SENTENCE_END}. x"]
    given = pa.array([joined(text), joined([])], pa.string())
    cut = Segmenter(TextRules(sentences="given")).segment(given)
    assert cut.text_sentences.lengths.tolist() == [4, 0]
    found = [cut.sentences[n] for n in cut.text_sentences[0]]
    assert found == ["It rained. We left.", "no", "a\nb", "u.s . x"]
