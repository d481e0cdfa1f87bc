"""Finds the sentences and words of a segmented text at their places, and why some do not count.

The segmenter keeps no places in a text, since scoring has no use for them. Here its sentences are
found again, in order, in the text they came from.
"""

from __future__ import annotations

from collections.abc import Iterator

from sms.explaining.records import NOT_ALPHABETIC, PUNCTUATION, SENTENCE, STOP_WORD, WORD, Unit
from sms.text import SegmentedTexts, TextRules, stop_words, word_spans


def units_of(text: str, texts: SegmentedTexts, number: int, rules: TextRules) -> Iterator[Unit]:
    """Yield each sentence and then its words, of text number `number` of a batch made by `rules`.

    Words say why they do not count, whatever the encoder. Raises `RuntimeError` if a sentence is
    not in the text; the segmenter then changes what it cuts.
    """
    stop = 0
    for k, sentence in enumerate(texts.text_sentences[number].tolist()):
        own = texts.sentences[sentence]
        start = text.find(own, stop)
        if start < 0:
            raise RuntimeError(f"sentence {k} of a text is not in it as it was cut out")
        stop = start + len(own)
        yield Unit(text=own, kind=SENTENCE, sentence=k, start=start, stop=stop)
        for first, end, dropped in _places(texts, sentence, rules):
            yield Unit(
                text=own[first:end], kind=WORD, sentence=k, start=start + first, stop=start + end,
                dropped=dropped,
            )  # fmt: skip


def _places(
    texts: SegmentedTexts, sentence: int, rules: TextRules
) -> Iterator[tuple[int, int, str | None]]:
    """Yield every word, and what the tokeniser writes in another way than the text."""
    own = texts.sentences[sentence]
    words = texts.sentence_words[sentence].tolist()
    done = 0
    for number, (start, stop) in zip(words, word_spans(texts, sentence).tolist(), strict=True):
        is_kept = texts.is_kept[number]
        if start == stop and not is_kept:
            continue  # `_between` has what stands there
        yield from _between(own, done, start)
        yield start, stop, None if is_kept else _why_dropped(texts.vocabulary.words[number], rules)
        done = stop
    yield from _between(own, done, len(own))


def _between(sentence: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Yield what is seen between two words: quotation marks that became other tokens."""
    at = start
    for piece in sentence[start:stop].split():
        at = sentence.index(piece, at)
        if any(character.isprintable() for character in piece):
            yield at, at + len(piece), PUNCTUATION
        at += len(piece)


def _why_dropped(word: str, rules: TextRules) -> str:
    """Say which rule leaves a word out; brackets as in `-lrb-` are punctuation."""
    if word.lower().replace("’", "'") in stop_words(rules):
        return STOP_WORD
    is_word = any(character.isalnum() for character in word)
    return NOT_ALPHABETIC if is_word and rules.words == "clark2019" else PUNCTUATION
