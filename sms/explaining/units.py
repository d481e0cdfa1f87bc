"""Finds the sentences and words of a segmented text at their places, and why some do not count.

The segmenter keeps no places in a text, since scoring has no use for them. Here its sentences are
found again, in order, in the text they came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sms.explaining.records import NOT_ALPHABETIC, PUNCTUATION, STOP_WORD
from sms.text import SegmentedTexts, TextRules, stop_words, word_spans


@dataclass(frozen=True, slots=True)
class PlacedWord:
    """A word at its place in the text."""

    start: int
    stop: int
    word: str | None
    """What the segmenter calls it; None for a quotation mark that it writes as another."""
    dropped: str | None
    """Why it does not count, whatever the encoder."""


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """A sentence at its place in the text, with its words."""

    start: int
    stop: int
    words: tuple[PlacedWord, ...]


def placed_sentences(
    text: str, texts: SegmentedTexts, number: int, rules: TextRules
) -> list[PlacedSentence]:
    """Find the sentences and words of a text, number `number` of a batch made with `rules`.

    Raises `RuntimeError` if a sentence is not in the text; the segmenter then changes what it cuts.
    """
    placed: list[PlacedSentence] = []
    stop = 0
    for sentence in texts.text_sentences[number].tolist():
        own = texts.sentences[sentence]
        start = text.find(own, stop)
        if start < 0:
            raise RuntimeError(f"sentence {len(placed)} of a text is not in it as it was cut out")
        stop = start + len(own)
        words = tuple(_placed_words(texts, sentence, start, rules))
        placed.append(PlacedSentence(start, stop, words))
    return placed


def _placed_words(
    texts: SegmentedTexts, sentence: int, offset: int, rules: TextRules
) -> Iterator[PlacedWord]:
    """Yield every word, and what the tokeniser writes in another way than the text."""
    own = texts.sentences[sentence]
    words = texts.sentence_words[sentence].tolist()
    done = 0
    for number, (start, stop) in zip(words, word_spans(texts, sentence).tolist(), strict=True):
        if start == stop and not texts.is_kept[number]:
            continue  # `_between` has what stands there
        yield from _between(own, done, start, offset)
        word = texts.vocabulary.words[number]
        dropped = None if texts.is_kept[number] else _why_dropped(word, rules)
        yield PlacedWord(offset + start, offset + stop, word, dropped)
        done = stop
    yield from _between(own, done, len(own), offset)


def _between(sentence: str, start: int, stop: int, offset: int) -> Iterator[PlacedWord]:
    """Yield what is seen between two words: quotation marks that became other tokens."""
    at = start
    for piece in sentence[start:stop].split():
        at = sentence.index(piece, at)
        if any(character.isprintable() for character in piece):
            yield PlacedWord(offset + at, offset + at + len(piece), None, PUNCTUATION)
        at += len(piece)


def _why_dropped(word: str, rules: TextRules) -> str:
    """Say which rule leaves a word out; brackets as in `-lrb-` are punctuation."""
    if word.lower().replace("’", "'") in stop_words(rules):
        return STOP_WORD
    is_word = any(character.isalnum() for character in word)
    return NOT_ALPHABETIC if is_word and rules.words == "clark2019" else PUNCTUATION
