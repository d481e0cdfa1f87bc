"""From sentences to word pieces, and which pieces belong to which word.

WordPiece cuts words one by one: a table by word gives its pieces, and each word is cut once. Other
tokenisers look at a word's neighbours, and some languages' words lie across WordPiece's own:
there, the whole sentence is cut and pieces belong to the words whose characters they share.

Not here: the model.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from tokenizers import Encoding, Regex, Tokenizer, normalizers, pre_tokenizers

from sms.encoders import CannotSplit
from sms.ragged import Ragged, offsets_of
from sms.text import SegmentedTexts, word_spans
from sms.text.words import attempt

R = TypeVar("R")

_IN_BRACKETS = re.compile(r"<.+>|\[.+\]")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACES = ("▁", "Ġ")
"""Pieces that stand for the space before a word, in SentencePiece and in models of bytes."""
_FAILED = -1  # in place of the pieces of a word that the tokeniser fails on


@dataclass(frozen=True, slots=True)
class SentencePieces:
    """Word pieces of some sentences, special tokens left out."""

    ids: Ragged
    """Pieces of every sentence."""
    first: np.ndarray
    """First piece of every word, sentence after sentence, as a place in `ids.values`; int64."""
    count: np.ndarray
    """Number of pieces of every word; int64."""

    def windows(self, max_pieces: int) -> Windows:
        """Cut sentences of more than `max_pieces` pieces into windows, between words.

        Where one word fills a window, the window ends inside of it and only the pieces in its
        first window count for the word.
        """
        offsets, lengths = self.ids.offsets, self.ids.lengths
        if not (lengths > max_pieces).any():
            return Windows(offsets[:-1], lengths, np.arange(lengths.size))
        change = np.zeros(self.ids.values.size + 2, dtype=np.int64)
        longer = self.count > 1
        np.add.at(change, self.first[longer] + 1, 1)
        np.add.at(change, self.first[longer] + self.count[longer], -1)
        is_inside_word = np.cumsum(change) > 0
        windows: list[tuple[int, int]] = []
        for sentence, (at, end) in enumerate(itertools.pairwise(offsets.tolist())):
            windows.append((at, sentence))
            while end - at > max_pieces:
                between = np.flatnonzero(~is_inside_word[at + 1 : at + max_pieces + 1])
                at += int(between[-1]) + 1 if between.size else max_pieces
                windows.append((at, sentence))
        first, owners = np.array(windows, dtype=np.int64).T
        return Windows(first, np.diff(first, append=offsets[-1]), owners)


@dataclass(frozen=True, slots=True)
class Windows:
    """Stretches of pieces that a model reads at once."""

    first: np.ndarray
    """First piece of each, a place among all pieces; int64, (n_windows,), ascending."""
    lengths: np.ndarray
    """Pieces of each; int64, (n_windows,)."""
    sentence: np.ndarray
    """Sentence of each; int64, (n_windows,)."""


class PieceCutter:
    """Cuts sentences as a model's tokeniser does.

    What the tokeniser does not know is shown to it once more in Unicode's compatibility form
    (NFKC), in which full-width letters, ligatures or circled digits are plain ones. The padding and
    truncation of the tokeniser given are switched off. Raises `ValueError` if it adds special
    tokens that do not stand at the ends.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        read_marks_as_letters(tokenizer)
        self.prefix, self.suffix = _special_tokens(tokenizer)
        self.n_special = self.prefix.size + self.suffix.size
        settings = json.loads(tokenizer.to_str())
        self._is_word_local = _is_word_local(settings)
        self._unknown = _unknown_piece(settings["model"], tokenizer)
        self.has_unknown = self._unknown is not None
        """Whether there is a piece for what the tokeniser does not know; not where bytes serve."""
        self._filler = [self._unknown or 0]
        spaces = map(tokenizer.token_to_id, SPACES)
        self._spaces = [piece for piece in spaces if piece is not None]
        self._seen: tuple[list[str], Ragged] = [], Ragged.from_rows([])
        """A vocabulary's own list, and the pieces of each of its words so far."""

    def cut(self, texts: SegmentedTexts, wanted: np.ndarray, max_pieces: int) -> SentencePieces:
        """Cut the sentences of these numbers, or raise `CannotSplit`.

        Where words are cut one by one, a word of more than `max_pieces` pieces is an unknown one,
        as the tokeniser itself makes it of runs of over 100 characters.
        """
        if self._is_word_local and texts.has_piece_words:
            return self._by_word(texts, wanted, max_pieces)
        return self._by_sentence(texts, wanted)

    def known_words(self, texts: SegmentedTexts, max_pieces: int) -> np.ndarray:
        """Tell which words of the vocabulary have no unknown piece, each alone; bool."""
        if not self.has_unknown:
            return np.ones(len(texts.vocabulary.words), dtype=bool)
        pieces = self._pieces_of_words(texts, max_pieces)
        return pieces.sums(pieces.values == self._unknown) == 0

    def pieces_of_words(self, texts: SegmentedTexts, max_pieces: int) -> np.ndarray:
        """Return how many pieces each word of the vocabulary is cut into, each alone; int64.

        A piece that stands for a space alone is not counted.
        """
        pieces = self._pieces_of_words(texts, max_pieces)
        return pieces.lengths - pieces.sums(np.isin(pieces.values, self._spaces))

    def _by_word(
        self, texts: SegmentedTexts, wanted: np.ndarray, max_pieces: int
    ) -> SentencePieces:
        words = texts.sentence_words.take(wanted)
        pieces = self._pieces_of_words(texts, max_pieces).take(words.values)
        if (failed := words.sums(pieces.sums(pieces.values == _FAILED)) > 0).any():
            raise CannotSplit(wanted[failed])
        ids = Ragged(pieces.values, pieces.offsets[words.offsets])
        return SentencePieces(ids, pieces.offsets[:-1], pieces.lengths)

    def _pieces_of_words(self, texts: SegmentedTexts, max_pieces: int) -> Ragged:
        """Cut every word of the vocabulary that was not seen before; return the pieces of all."""
        words = texts.vocabulary.words
        known, pieces = self._seen
        if known is not words:  # the vocabulary was emptied, or is another one
            pieces = Ragged.from_rows([])
        n_seen = len(pieces)
        if n_seen < len(words):
            # the tokenizer deletes some words (lone combining marks); those that count get a filler
            are_kept = texts.vocabulary.is_kept[n_seen:]
            fresh = [
                [_FAILED] if encoding is None else encoding.ids or self._filler * int(is_kept)
                for encoding, is_kept in zip(self._encoded(words[n_seen:]), are_kept, strict=True)
            ]
            if self._is_word_local and texts.has_piece_words:
                fresh = [row if len(row) <= max_pieces else self._filler for row in fresh]
            pieces = pieces.and_rows(Ragged.from_rows([np.array(row) for row in fresh]))
            self._seen = words, pieces
        return pieces

    def _encoded(self, texts: Sequence[str]) -> list[Encoding | None]:
        """Cut texts, those with an unknown piece in compatibility form where that is better."""
        encoded = encodings(self._tokenizer, texts)
        again = [k for k, encoding in enumerate(encoded) if self._n_unknown(encoding)]
        if again:
            plain = encodings(self._normalising, [texts[k] for k in again])
            for k, nfkc in zip(again, plain, strict=True):
                if nfkc is not None and self._n_unknown(nfkc) < self._n_unknown(encoded[k]):
                    encoded[k] = nfkc
        return encoded

    def _n_unknown(self, encoding: Encoding | None) -> int:
        if encoding is None or self._unknown is None:
            return 0
        return encoding.ids.count(self._unknown)

    @functools.cached_property
    def _normalising(self) -> Tokenizer:
        """The tokeniser, with NFKC before what it does itself; places stay those of the text."""
        tokenizer = Tokenizer.from_str(self._tokenizer.to_str())
        existing = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), *existing])
        return tokenizer

    def _by_sentence(self, texts: SegmentedTexts, wanted: np.ndarray) -> SentencePieces:
        sentences = [texts.sentences[k] for k in wanted.tolist()]
        tried = self._encoded(sentences)
        if failed := [k for k, encoding in zip(wanted, tried, strict=True) if encoding is None]:
            raise CannotSplit(np.array(failed))
        encoded = [encoding for encoding in tried if encoding is not None]
        # a sentence without pieces, such as a lone combining mark, is one unknown piece
        rows = [encoding.ids or self._filler for encoding in encoded]
        spans = [encoding.offsets or [(0, 0)] for encoding in encoded]
        ids = Ragged.from_rows([np.array(row, dtype=np.int64) for row in rows])
        pieces = np.array([span for row in spans for span in row], dtype=np.int64).reshape(-1, 2)
        words = Ragged(
            np.concatenate([np.empty((0, 2), np.int64), *(word_spans(texts, k) for k in wanted)]),
            offsets_of(texts.sentence_words.lengths[wanted]),
        )
        first, count = _overlaps(words, Ragged(pieces, ids.offsets))
        return SentencePieces(ids, first, count)


def encodings(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding | None]:
    """Cut texts into pieces, without special ones; None for a text that the tokeniser fails on."""
    tokenizer.encode_special_tokens = True  # a copy from another process loses this setting
    return attempt_each(functools.partial(tokenizer.encode_batch, add_special_tokens=False), texts)


def attempt_each(split: Callable[[list[str]], Sequence[R]], texts: Sequence[str]) -> list[R | None]:
    """Call what splits many texts at once; None for each that it fails on."""
    together = attempt(split, [*texts])
    if together is not None:
        return [*together]
    alone = [attempt(split, [text]) for text in texts]
    return [None if results is None else results[0] for results in alone]


def read_marks_as_letters(tokenizer: Tokenizer) -> None:
    """Make a tokeniser read a mark that stands in a text, such as `</s>`, as the letters it has.

    Marks are its special pieces, other added ones in brackets, and bytes such as `<0x0A>`. Where
    the model itself has them among its pieces, as SentencePiece's have, they are parted after the
    first letter. Pieces of other texts stay the same.
    """
    marks = _marks(tokenizer)
    tokenizer.add_special_tokens(sorted(marks))
    rests: dict[str, list[str]] = {}  # by first letter, which makes the fastest pattern
    for mark in sorted(marks.union(_BYTES)):
        if _is_taken(tokenizer, mark):
            rests.setdefault(re.escape(mark[0]), []).append(re.escape(mark[1:]))
    if rests:
        pattern = "|".join(f"{first}(?={'|'.join(endings)})" for first, endings in rests.items())
        parting = pre_tokenizers.Split(Regex(pattern), "merged_with_previous")
        existing = [] if tokenizer.pre_tokenizer is None else [tokenizer.pre_tokenizer]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*existing, parting])


def _is_taken(tokenizer: Tokenizer, mark: str) -> bool:
    """Tell whether a mark is one piece; what stands for an unknown letter of it is shorter."""
    number = tokenizer.token_to_id(mark)
    return number is not None and any(
        piece == number and end - start >= len(mark)
        for encoding in encodings(tokenizer, [mark, f"a {mark} a{mark}"])
        if encoding is not None
        for piece, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
    )


def _marks(tokenizer: Tokenizer) -> set[str]:
    added = tokenizer.get_added_tokens_decoder().values()
    return {
        token.content for token in added if token.special or _IN_BRACKETS.fullmatch(token.content)
    }


def marks_for(tokenizer: Tokenizer, prompt: str) -> set[str]:
    """Return the marks if a prompt has some on purpose: a text could not be told from it."""
    marks = _marks(tokenizer)
    return marks if any(mark in prompt for mark in marks) else set()


def without_marks(
    encoded: Sequence[R | None], texts: Sequence[str], marks: AbstractSet[str]
) -> list[R | None]:
    """Put None in the place of a text that has one of the marks."""
    pairs = zip(encoded, texts, strict=True)
    return [None if any(mark in text for mark in marks) else encoding for encoding, text in pairs]


def _unknown_piece(model: dict[str, object], tokenizer: Tokenizer) -> int | None:
    """Return the piece that stands for what a tokeniser does not know, if there is one."""
    if isinstance(number := model.get("unk_id"), int):  # of SentencePiece's unigram models
        return number
    token = model.get("unk_token")
    return tokenizer.token_to_id(token) if isinstance(token, str) else None


def _overlaps(words: Ragged, pieces: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Find the first and the number of the pieces that share characters with each word.

    Words and pieces are given by their first character and the one past the last, shape (n, 2), by
    sentence. Where no piece shares a character it is the nearest one, so the count is at least 1.
    """
    longest = max((int(side.values[:, 1].max(initial=0)) for side in (words, pieces)), default=0)
    word_shift, piece_shift = (
        np.repeat(np.arange(len(side)) * (longest + 1), side.lengths) for side in (words, pieces)
    )
    # one line of characters for all sentences, so that one search serves them all
    starts = np.maximum.accumulate(pieces.values[:, 0] + piece_shift)
    ends = np.maximum.accumulate(pieces.values[:, 1] + piece_shift)
    first = np.searchsorted(ends, words.values[:, 0] + word_shift, side="right")
    last = np.searchsorted(starts, words.values[:, 1] + word_shift, side="left") - 1
    owner = words.owners
    first = np.clip(first, pieces.offsets[owner], pieces.offsets[owner + 1] - 1)
    return first, np.maximum(last - first + 1, 1)


def _special_tokens(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Return what a tokeniser puts before and after a sentence."""
    with_them = tokenizer.encode("a")
    is_special = np.array(with_them.special_tokens_mask, dtype=bool)
    ids = np.array(with_them.ids, dtype=np.int64)
    inner = np.flatnonzero(~is_special)
    if inner.size == 0 or is_special[inner[0] : inner[-1] + 1].any():
        raise ValueError(f"tokenizer must put special tokens at the ends only, got {ids.tolist()}")
    return ids[: inner[0]], ids[inner[-1] + 1 :]


def _is_word_local(settings: dict[str, dict[str, object] | None]) -> bool:
    """Tell whether BERT's tokeniser is at work, which cuts every word alone."""
    normalizer, cutter, model = (
        settings.get(part) or {} for part in ("normalizer", "pre_tokenizer", "model")
    )
    return (
        model.get("type") == "WordPiece"
        and cutter.get("type") == "BertPreTokenizer"
        and normalizer.get("type") == "BertNormalizer"
        and bool(normalizer.get("clean_text"))
        and bool(normalizer.get("handle_chinese_chars"))
    )
