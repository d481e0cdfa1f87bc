"""From texts to sentences and words, by the batch and without repeating work.

A batch of distinct texts becomes distinct sentences, sentences become
whitespace-separated chunks (`chunks`), and only chunks never seen before are looked at by Python:
their words are kept in a table. Everything else is index arithmetic on packed arrays.

Not here: what a sentence and a word is (`languages`, `words`), embeddings, and n-grams
(`overlap`). ROUGE in English reads texts as they are written (`rouge`).
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import regex

from sms.naming import check_choice
from sms.ragged import Ragged, offsets_of
from sms.text.chunks import Chunks
from sms.text.languages import language_of
from sms.text.sentences import SENTENCE_END, SENTENCES, Sentences, without_marks
from sms.text.words import INVISIBLE, Splitter, attempt, clark2019_words

MAX_CHUNKS = 200_000
"""A table of chunks is replaced by an empty one once it holds more, so that memory is bounded."""

_BRACKET = regex.compile(r"-[lr][rcs]b-", regex.IGNORECASE)
_QUOTE = regex.compile("``|''|\"")  # Treebank tokens write the last as one of the others
HAS_CONTENT = regex.compile(r"[\p{L}\p{N}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """How text is cut up and which words count."""

    language: str = "en"
    """Chooses the sentence rules and the stop list; any code that `language_of` knows."""
    words: str = "default"
    """`default`, or `clark2019`: lower-cased, alphabetic Treebank tokens only."""
    sentences: str = "split"
    """`split`, or `given`: `SENTENCE_END` stands between the sentences of a text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_of(self.language).code)
        check_choice("words", self.words, ("default", "clark2019"))
        check_choice("sentences", self.sentences, SENTENCES)
        if self.words == "clark2019" and self.language != "en":
            raise ValueError(
                f"`words` clark2019 is for English, got language {self.language!r}; use default"
            )
        language_of(self.language).check_installed()

    @property
    def has_piece_words(self) -> bool:
        """Whether each word is a union of the pieces that BERT's basic tokeniser makes."""
        return self.words == "default" and language_of(self.language).has_piece_words

    @property
    def signature(self) -> str:
        """The part of a metric's signature that names these rules."""
        language = language_of(self.language)
        is_published = self.words == "clark2019"
        tokens = "treebank+alpha" if is_published else language.tokens
        stop = language.stop_list if is_published else language.stop_signature
        return f"{language.cut_signature(tokens, is_split=self.is_split)}|stop:{stop}"

    @property
    def is_split(self) -> bool:
        """Whether sentences are looked for; otherwise they are given."""
        return self.sentences == "split"

    def splitter(self) -> Splitter:
        """Return what cuts a chunk into words."""
        if self.words == "clark2019":
            return clark2019_words
        return language_of(self.language).words()

    def counts(self, word: str) -> bool:
        """Tell whether a word counts: it has a letter or digit and is no stop word."""
        if not word.isalpha() and (
            self.words == "clark2019" or not HAS_CONTENT.search(word) or _BRACKET.fullmatch(word)
        ):
            return False
        return language_of(self.language).lower(word) not in stop_words(self)


@dataclass(frozen=True, slots=True)
class SegmentedTexts:
    """Distinct texts of a batch as sentences and words."""

    sentences: list[str]
    """Distinct sentences, trimmed and sorted."""
    text_sentences: Ragged
    """Sentences of every text, in order."""
    sentence_words: Ragged
    """Words of every sentence, numbers in `vocabulary`."""
    vocabulary: Vocabulary
    """The words behind the numbers; the next batch may add words to it."""
    is_kept: np.ndarray
    """Whether each word counts: neither punctuation nor a stop word; bool, (n_words,)."""
    lower: np.ndarray
    """Number of each word's lower-cased form, -1 for punctuation."""
    cannot_be_split: np.ndarray
    """Texts that a splitter failed on, here without any sentence; bool, (n_texts,)."""

    @property
    def text_words(self) -> Ragged:
        """Words of every text, in order."""
        return self.text_sentences.expand(self.sentence_words)

    @property
    def lower_words(self) -> Ragged:
        """Lower-cased forms of every sentence's words, punctuation left out, as in `lower`."""
        forms = self.lower[self.sentence_words.values]
        return Ragged.from_lengths(forms[forms >= 0], self.sentence_words.sums(forms >= 0))

    @property
    def has_piece_words(self) -> bool:
        """Whether each word is a union of pieces; if not, a BERT encoder cuts whole sentences."""
        return self.vocabulary.rules.has_piece_words

    def restrict(self, needed: np.ndarray) -> SegmentedTexts:
        """Keep the sentences of the texts that are needed; the other texts become empty."""
        if needed.all():
            return self
        lengths = np.where(needed, self.text_sentences.lengths, 0)
        owner = np.repeat(needed, self.text_sentences.lengths)
        sentences, numbers = np.unique(self.text_sentences.values[owner], return_inverse=True)
        return replace(
            self,
            sentences=[self.sentences[k] for k in sentences.tolist()],
            text_sentences=Ragged.from_lengths(numbers, lengths),
            sentence_words=self.sentence_words.take(sentences),
        )

    def whole(self) -> SegmentedTexts:
        """Make one sentence of every text that has any, its sentences joined by spaces."""
        filled = np.flatnonzero(self.text_sentences.lengths)
        numbers: dict[str, int] = {}  # texts may differ in the space between sentences alone
        joined = np.empty(filled.size, dtype=np.int64)
        for place, text in enumerate(filled.tolist()):
            whole = " ".join(self.sentences[k] for k in self.text_sentences[text].tolist())
            joined[place] = numbers.setdefault(whole, len(numbers))
        _, first = np.unique(joined, return_index=True)
        return replace(
            self,
            sentences=list(numbers),
            text_sentences=Ragged.from_lengths(joined, np.minimum(self.text_sentences.lengths, 1)),
            sentence_words=self.text_words.take(filled[first]),
        )

    def texts_with(self, sentences: np.ndarray) -> np.ndarray:
        """Tell which texts have one of some sentences, given by number; bool, (n_texts,)."""
        return self.text_sentences.sums(np.isin(self.text_sentences.values, sentences)) > 0


def word_spans(texts: SegmentedTexts, sentence: int) -> np.ndarray:
    """Find where the words of a sentence stand in its text: first character, one past the last.

    For encoders that cut the sentence in their own way. int64, shape (n_words, 2); spans do not
    overlap, may have invisible characters inside, and one is empty only if its word does not stand
    in the text as it is, as the quotation marks of `clark2019`.
    """
    rules = texts.vocabulary.rules
    visible, places = _visible(texts.sentences[sentence], rules)
    spans = []
    at = 0
    for number in texts.sentence_words[sentence].tolist():
        word = mark = texts.vocabulary.words[number]
        if rules.words == "clark2019" and _QUOTE.fullmatch(word):
            # the quotation mark as the text has it; a search for the token might find a later one
            quote = _QUOTE.search(visible, at)
            mark = quote[0] if quote else word
        start = visible.find(mark, at)
        if start < 0:
            spans.append((places[at], places[at]))
            continue
        at = start + len(mark)
        end = places[at - 1] + 1 if mark == word else places[start]
        spans.append((places[start], end))
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def _visible(sentence: str, rules: TextRules) -> tuple[str, Sequence[int]]:
    """Return a sentence as its words are written, and each character's place in the sentence."""
    if rules.words == "clark2019":
        lower = sentence.lower()
        if len(lower) == len(sentence):
            return lower, range(len(sentence) + 1)
        places = [k for k, character in enumerate(sentence) for _ in character.lower()]
        return lower, [*places, len(sentence)]
    if sentence.isprintable():
        return sentence, range(len(sentence) + 1)
    places = [k for k, character in enumerate(sentence) if not INVISIBLE.match(character)]
    return "".join(sentence[k] for k in places), [*places, len(sentence)]


class _CutChunks(NamedTuple):
    """What is known of chunks, by number."""

    words: Ragged
    """Numbers of their words."""
    is_uncut: np.ndarray
    """Whether a chunk cannot be cut, and has no words; bool, (n_chunks,)."""


class Vocabulary:
    """Words of whitespace-separated chunks, and what is known of each: found out once.

    It outlives a batch, so a batch that breaks off anywhere (a tokeniser that raises,
    Ctrl-C) must not leave half a change: words keep their numbers, and chunks are cut again.
    `tokenise` returns the words of a chunk, or None if it cannot.
    """

    def __init__(self, tokenise: Callable[[str], Sequence[str] | None], rules: TextRules) -> None:
        self._tokenise = tokenise
        self.rules = rules
        self.words: list[str] = []
        """By number."""
        self.columns: dict[str, np.ndarray] = {}
        self._forms: dict[str, int] = {}
        self._word_numbers: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Know no chunk."""
        self._chunks = Chunks()
        self._cut = _CutChunks(Ragged.from_rows([]), np.empty(0, dtype=bool))

    @property
    def is_full(self) -> bool:
        """Whether the next batch should begin with another vocabulary."""
        return len(self._chunks) > MAX_CHUNKS

    def words_of(self, texts: pa.StringArray) -> tuple[Ragged, np.ndarray]:
        """Return the numbers of every text's words, and which texts cannot be cut."""
        chunks = self._chunks.number(texts)
        if len(self._chunks) > len(self._cut.words):
            try:
                self._cut = self._with_new()
            except BaseException:
                self._begin()  # the next batch may not have the chunk that this happened at
                raise
        words, is_uncut = self._cut
        if not is_uncut.any():
            return chunks.expand(words), np.zeros(len(chunks), dtype=bool)
        self._begin()  # what a splitter failed on once it is asked again
        return chunks.expand(words), chunks.sums(is_uncut[chunks.values]) > 0

    def _with_new(self) -> _CutChunks:
        """Cut the new chunks, and add words; every line leaves what is known as it was."""
        found = [*map(self._tokenise, self._chunks.texts(len(self._cut.words)))]
        words = [word for of_chunk in found for word in of_chunk or ()]
        lengths = np.array([len(of_chunk or ()) for of_chunk in found], np.int64)
        known = self._word_numbers
        new = [word for word in dict.fromkeys(words) if word not in known]
        numbers = range(len(self.words), len(self.words) + len(new))
        self.words.extend(new)
        known.update(zip(new, numbers, strict=True))
        added = np.array([*map(known.__getitem__, words)], dtype=np.int64)
        is_uncut = np.array([of_chunk is None for of_chunk in found], dtype=bool)
        return _CutChunks(
            self._cut.words.and_rows(Ragged.from_lengths(added, lengths)),
            np.concatenate([self._cut.is_uncut, is_uncut]),
        )

    @property
    def is_kept(self) -> np.ndarray:
        """Whether each word counts: neither punctuation nor a stop word; bool, (n_words,)."""
        return self.column(
            "kept", lambda words: np.array([self.rules.counts(word) for word in words], dtype=bool)
        )

    @property
    def lower(self) -> np.ndarray:
        """Number of each word's lower-cased form (apostrophes straight), -1 for punctuation."""
        forms, lower = self._forms, language_of(self.rules.language).lower

        def number_of(word: str) -> int:
            form = lower(word)
            has_content = form.isalpha() or HAS_CONTENT.search(form)
            return forms.setdefault(form, len(forms)) if has_content else -1

        return self.column("lower", lambda words: np.array([*map(number_of, words)], np.int64))

    def column(self, name: str, compute: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        """Return a property of every word, calling `compute` for new words only."""
        known = self.columns.get(name)
        n_known = 0 if known is None else len(known)
        if known is None or n_known < len(self.words):
            fresh = compute(self.words[n_known:])
            known = fresh if known is None else np.concatenate([known, fresh])
            self.columns[name] = known
        return known


class Segmenter:
    """Cuts batches of texts into sentences and words, remembering words across batches."""

    def __init__(self, rules: TextRules | None = None) -> None:
        self.rules = rules or TextRules()
        language = language_of(self.rules.language)
        self._cut = language.cutter() if self.rules.is_split else _given_sentences
        self._split = functools.partial(attempt, self.rules.splitter())
        self.vocabulary = Vocabulary(self._split, self.rules)

    def segment(self, texts: pa.StringArray) -> SegmentedTexts:
        """Cut distinct texts; one that is null or cannot be split has no sentences."""
        if self.vocabulary.is_full:  # start anew, with words and what is known of them
            self.vocabulary = Vocabulary(self._split, self.rules)
        return self.segment_more(texts)

    def segment_more(self, texts: pa.StringArray) -> SegmentedTexts:
        """Cut further texts; words have the numbers that they had in those before."""
        is_text = texts.is_valid().to_numpy(zero_copy_only=False)
        shown = texts.drop_null().cast(pa.string())  # bytes are read as this type has them
        found = self._cut(shown) if len(shown) else Sentences.of([])
        cannot_be_split = np.zeros(is_text.size, dtype=bool)
        cannot_be_split[is_text] = found.cannot_be_split
        lengths = np.zeros(is_text.size, np.int64)
        lengths[is_text] = found.lengths
        trimmed = [without_marks(piece).strip() for piece in found.pieces]
        is_filled = np.array([piece != "" for piece in trimmed], dtype=bool)
        # sorted, so that sums over sentences do not depend on the other texts of the batch
        sentences = sorted({*trimmed} - {""})
        numbers = {sentence: number for number, sentence in enumerate(sentences)}
        text_sentences = Ragged(
            np.array([numbers[piece] for piece in trimmed if piece], np.int64),
            offsets_of(is_filled)[offsets_of(lengths)],
        )
        sentence_words, is_uncut = self.vocabulary.words_of(pa.array(sentences, pa.string()))
        cannot_be_split |= text_sentences.sums(is_uncut[text_sentences.values]) > 0
        segmented = SegmentedTexts(
            sentences,
            text_sentences,
            sentence_words,
            self.vocabulary,
            self.vocabulary.is_kept,
            self.vocabulary.lower,
            cannot_be_split,
        )
        return segmented.restrict(~cannot_be_split)


def _given_sentences(texts: pa.StringArray) -> Sentences:
    return Sentences.of([text.split(SENTENCE_END) for text in texts.to_pylist()])


def composed(text: str) -> str:
    """Write a text in Unicode's composed form, NFC, so that é is one letter however it was written.

    Every metric reads texts in this form; most come in it.
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_composed(text: str) -> bool:
    """Tell whether a text is in the form of `composed`."""
    return text.isascii() or unicodedata.is_normalized("NFC", text)


def folded(word: str) -> str:
    """Return a word without differences of case and of width, as in full-width letters."""
    return unicodedata.normalize("NFKC", word).casefold()


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Split a text into sentences with the white space around each; together they are the text."""
    return language_of(language).sentences(text) if text else []


@functools.cache
def stop_words(rules: TextRules) -> frozenset[str]:
    """Return the stop words of a language; `clark2019` has them as they were published."""
    language = language_of(rules.language)
    return language.published_stop_words() if rules.words == "clark2019" else language.stop_words()
