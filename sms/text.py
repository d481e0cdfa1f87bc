"""From texts to sentences and words, by the batch and without repeating work.

A batch of distinct texts becomes distinct sentences (by `sentencex`), sentences become
whitespace-separated chunks, and only chunks never seen before are looked at by Python: their
words are kept in a table. Everything else is index arithmetic on packed arrays.

Not here: embeddings, and n-grams (`overlap` has its own tokens, by the same tables).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata, resources

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex
import sentencex

from sms.ragged import Ragged, offsets_of

LANGUAGES = ("en",)
"""Languages with a stop list."""
MAX_CHUNKS = 200_000
"""A table of chunks is emptied between batches once it holds more, so that memory is bounded."""

# Words are unions of the pieces that BERT's basic tokeniser makes: a boundary falls on
# whitespace, ASCII and Unicode punctuation and around ideographs only. An encoder may therefore
# cut a sentence into word pieces word by word.
_INSIDE = (
    r"[[^\s\p{P}!-/:-@\[-`{-~]--[\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF"
    r"\U00020000-\U0002CEAF\U0002F800-\U0002FA1F]]"
)
_WORD = regex.compile(
    rf"""
      -[lr][rcs]b-                       # a bracket of tokenised corpora
    | (?:\p{{L}}\.){{2,}}                # U.S., p.m.
    | {_INSIDE}*?(?<!\d)\d++(?:[.,]\d+)+{_INSIDE}*  # 2,000.5 and £2,000.5, and 253.5km whole
    | {_INSIDE}+(?:['’](?!s(?!{_INSIDE})){_INSIDE}+)*  # don't; but the 's of "team's" is a word
    | ['’](?:s|t|re|ve|ll|d|m)(?!{_INSIDE})
    | [^\s]
    """,
    regex.VERBOSE | regex.VERSION1 | regex.IGNORECASE,
)
# Soft hyphens, joiners, byte order marks and the like, which BERT's tokeniser deletes as well.
_INVISIBLE = regex.compile(r"[\p{Cc}\p{Cf}\p{Co}]+")
_BRACKET = regex.compile(r"-[lr][rcs]b-", regex.IGNORECASE)
_HAS_CONTENT = regex.compile(r"[\p{L}\p{N}]")
_CLITICS = frozenset(["'s", "'t", "'re", "'ve", "'ll", "'d", "'m", "n't"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """How text is cut up and which words count."""

    language: str = "en"
    """Chooses the sentence rules and the stop list."""
    words: str = "default"
    """`default`, or `clark2019`: lower-cased, alphabetic Treebank tokens only."""

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(
                f"`language` must be one of {', '.join(LANGUAGES)}, got {self.language!r}"
            )
        if self.words not in ("default", "clark2019"):
            raise ValueError(f"`words` must be default or clark2019, got {self.words!r}")

    @property
    def signature(self) -> str:
        """The part of a metric's signature that names these rules."""
        stop = "nltk179" if self.words == "clark2019" else "nltk179+clitics"
        tokens = "treebank-alpha" if self.words == "clark2019" else "v1"
        return (
            f"lang:{self.language}|split:sentencex-{metadata.version('sentencex')}"
            f"|tok:{tokens}|stop:{stop}"
        )


@dataclass(frozen=True, slots=True)
class SegmentedTexts:
    """Distinct texts of a batch as sentences and words."""

    sentences: list[str]
    """Distinct sentences, trimmed and sorted."""
    text_sentences: Ragged
    """Sentences of every text, in order."""
    chunks: list[str]
    """Distinct whitespace-separated chunks."""
    sentence_chunks: Ragged
    """Chunks of every sentence, in order."""
    sentence_words: Ragged
    """Words of every sentence, numbers in `vocabulary`."""
    vocabulary: Vocabulary
    """The words behind the numbers; the next batch may add words to it or empty it."""
    is_kept: np.ndarray
    """Whether each word counts: neither punctuation nor a stop word; bool, (n_words,)."""
    lower: np.ndarray
    """Number of each word's lower-cased form, -1 for punctuation; int64, (n_words,)."""

    @property
    def text_words(self) -> Ragged:
        """Words of every text, in order."""
        return self.text_sentences.expand(self.sentence_words)

    def restrict(self, needed: np.ndarray) -> SegmentedTexts:
        """Keep the sentences of the texts that are needed; the other texts become empty."""
        if needed.all():
            return self
        lengths = np.where(needed, self.text_sentences.lengths, 0)
        owner = np.repeat(needed, self.text_sentences.lengths)
        sentences, numbers = np.unique(self.text_sentences.values[owner], return_inverse=True)
        return SegmentedTexts(
            [self.sentences[k] for k in sentences.tolist()],
            Ragged.from_lengths(numbers, lengths),
            self.chunks,
            self.sentence_chunks.take(sentences),
            self.sentence_words.take(sentences),
            self.vocabulary,
            self.is_kept,
            self.lower,
        )

    def tokens(self, table: ChunkTable) -> Ragged:
        """Tokens of every sentence by another tokeniser."""
        return self.sentence_chunks.expand(table.tokens_of(self.chunks))


class ChunkTable:
    """Tokens of whitespace-separated chunks, each chunk tokenised once."""

    def __init__(self, tokenise: Callable[[str], Sequence[str]]) -> None:
        self._tokenise = tokenise
        self.clear()

    def clear(self) -> None:
        """Forget everything; token numbers start again."""
        self.tokens: list[str] = []
        self._token_numbers: dict[str, int] = {}
        self._chunk_numbers: dict[str, int] = {}
        self._rows = Ragged(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self._chunk_numbers)

    def tokens_of(self, chunks: Sequence[str]) -> Ragged:
        """Return the token numbers of every chunk."""
        numbers = self._chunk_numbers
        values: list[int] = []
        lengths: list[int] = []
        wanted = []
        for chunk in chunks:
            number = numbers.get(chunk)
            if number is None:
                tokens = self._tokenise(chunk)
                values.extend(map(self._number_of, tokens))
                lengths.append(len(tokens))
                number = numbers[chunk] = len(numbers)
            wanted.append(number)
        if lengths:
            old = self._rows
            self._rows = Ragged.from_lengths(
                np.concatenate([old.values, np.array(values, dtype=np.int64)]),
                np.concatenate([old.lengths, np.array(lengths, dtype=np.int64)]),
            )
        return self._rows.take(np.array(wanted, dtype=np.int64))

    def _number_of(self, token: str) -> int:
        number = self._token_numbers.get(token)
        if number is None:
            number = self._token_numbers[token] = len(self.tokens)
            self.tokens.append(token)
        return number


@dataclass(slots=True)
class Vocabulary:
    """Words seen so far and what is known of each, computed once per word."""

    table: ChunkTable
    stop_words: frozenset[str]
    columns: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The words, by number."""
        return self.table.tokens

    @property
    def is_kept(self) -> np.ndarray:
        """Whether each word counts: neither punctuation nor a stop word; bool, (n_words,)."""
        return self.column("kept", self._kept)

    @property
    def lower(self) -> np.ndarray:
        """Number of each word's lower-cased form, -1 for punctuation; int64, (n_words,)."""
        return self.column("lower", self._lowered)

    def column(self, name: str, compute: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        """Return a property of every word, calling `compute` for new words only."""
        known = self.columns.get(name)
        n_known = 0 if known is None else len(known)
        if known is None or n_known < len(self.words):
            fresh = compute(self.words[n_known:])
            known = fresh if known is None else np.concatenate([known, fresh])
            self.columns[name] = known
        return known

    def clear(self) -> None:
        """Forget all words and what was known of them."""
        self.table.clear()
        self.columns.clear()
        self._forms = {}

    _forms: dict[str, int] = field(default_factory=dict)

    def _kept(self, words: list[str]) -> np.ndarray:
        return np.array([is_content_word(word, self.stop_words) for word in words], dtype=bool)

    def _lowered(self, words: list[str]) -> np.ndarray:
        forms = self._forms
        return np.array(
            [
                forms.setdefault(word.lower(), len(forms)) if _HAS_CONTENT.search(word) else -1
                for word in words
            ],
            dtype=np.int64,
        )


class Segmenter:
    """Cuts batches of texts into sentences and words, remembering words across batches."""

    def __init__(self, rules: TextRules | None = None) -> None:
        self.rules = rules or TextRules()
        tokenise = clark2019_words if self.rules.words == "clark2019" else split_words
        self.vocabulary = Vocabulary(ChunkTable(tokenise), stop_words(self.rules))

    def segment(self, texts: pa.StringArray) -> SegmentedTexts:
        """Cut distinct texts; a null text has no sentences."""
        if len(self.vocabulary.table) > MAX_CHUNKS:
            self.vocabulary.clear()
        split = functools.partial(sentencex.segment, self.rules.language)
        pieces = [split(text) if text else [] for text in texts.to_pylist()]
        lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
        flat = pa.array([sentence for piece in pieces for sentence in piece], pa.string())
        trimmed = pc.utf8_trim_whitespace(flat)
        filled = pc.greater(pc.utf8_length(trimmed), 0).to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(lengths.size), lengths)[filled]
        encoded = trimmed.filter(pa.array(filled)).dictionary_encode()
        # numbered in their own order, so that no sum follows the other texts of the batch
        order = pc.array_sort_indices(encoded.dictionary)
        distinct_sentences = encoded.dictionary.take(order)
        text_sentences = Ragged(
            np.argsort(order.to_numpy())[encoded.indices.to_numpy()],
            offsets_of(np.bincount(owner, minlength=lengths.size)),
        )
        words = pc.utf8_split_whitespace(distinct_sentences)
        distinct = words.flatten().dictionary_encode()
        chunks = distinct.dictionary.to_pylist()
        sentence_chunks = Ragged(
            distinct.indices.to_numpy().astype(np.int64), words.offsets.to_numpy().astype(np.int64)
        )
        return SegmentedTexts(
            distinct_sentences.to_pylist(),
            text_sentences,
            chunks,
            sentence_chunks,
            sentence_chunks.expand(self.vocabulary.table.tokens_of(chunks)),
            self.vocabulary,
            self.vocabulary.is_kept,
            self.vocabulary.lower,
        )


def split_words(chunk: str) -> list[str]:
    """Split a whitespace-free chunk into words and punctuation.

    Examples
    --------
    >>> split_words("team's"), split_words("$2,000-a-year"), split_words("don't.")
    (['team', "'s"], ['$', '2,000', '-', 'a', '-', 'year'], ["don't", '.'])
    """
    return _WORD.findall(chunk if chunk.isprintable() else _INVISIBLE.sub("", chunk))


def clark2019_words(chunk: str) -> list[str]:
    """Split as the released sentence mover code does: Treebank tokens, lower-cased, alphabetic.

    Examples
    --------
    >>> clark2019_words("won't"), clark2019_words("well-known"), clark2019_words("Online.")
    (['wo'], [], ['online'])
    """
    return [token for token in _treebank()(chunk.lower()) if token.isalpha()]


def is_content_word(word: str, stop: frozenset[str]) -> bool:
    """Tell whether a word counts in a score: it has a letter or digit and is no stop word."""
    if not _HAS_CONTENT.search(word) or _BRACKET.fullmatch(word):
        return False
    return word.lower().replace("’", "'") not in stop


@functools.cache
def stop_words(rules: TextRules) -> frozenset[str]:
    """Return the stop list of a language."""
    listed = (resources.files("sms") / "data" / f"stop_words_{rules.language}.txt").read_text(
        encoding="utf-8"
    )
    words = frozenset(listed.split())
    return words if rules.words == "clark2019" else words | _CLITICS


@functools.cache
def _treebank() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer().tokenize
