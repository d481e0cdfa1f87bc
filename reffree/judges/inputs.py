"""What a model reads: pieces of documents and summaries, then the tokens of each pair of pieces.

Tokens are left out where there are too many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tokenizers import Encoding

from reffree.judges.settings import DOCUMENT, END_OF_TEXT, SUMMARY, WHOLE, JudgeOptions
from sms.encoders import pieces as tokenised
from sms.text import TextRules, split_sentences
from sms.text.sentences import SENTENCE_END, whole, without_marks

Pair = tuple[str, str]  # A piece of a document, empty where there is none, and one of a summary

_PLACES = re.compile(f"({re.escape(DOCUMENT)}|{re.escape(SUMMARY)})")
_AT_ONCE = 4_096  # pairs; what a tokeniser says of one takes 100 bytes a token
_LINE = "\n"


def summary_pieces(text: str, settings: JudgeOptions, rules: TextRules) -> list[str]:
    """Cut a summary."""
    if settings.summary == WHOLE:
        return [whole(text)]
    return _long_enough(sentences_of(text, rules), text, settings)


def document_pieces(
    text: str, settings: JudgeOptions, rules: TextRules, count_tokens: Callable[[str], int]
) -> list[str]:
    """Cut a document; `count_tokens` gives the tokens of a text, special ones left out."""
    if settings.document == WHOLE:
        return [whole(text)]
    if settings.chunk is None:
        pieces = _long_enough(sentences_of(text, rules), text, settings)
    else:
        unit, most = settings.chunk
        if unit == "even-words":  # chunks of as many sentences, by the words of the whole text
            sentences = sentences_of(text, rules)
            size = max(len(sentences) // (len(whole(text).split()) // most + 1), 1)
            starts = range(0, len(sentences), size)
            pieces = [" ".join(sentences[k : k + size]) for k in starts]
        else:
            count = count_tokens if unit == "tokens" else lambda text: len(text.split())
            lines = text.split(_LINE) if rules.is_split else [text]
            parts = [part for line in lines for part in (_LINE, *sentences_of(line, rules))]
            pieces = _full_chunks(parts[1:], most, count)
    return pieces or [whole(text)]


def sentences_of(text: str, rules: TextRules) -> list[str]:
    """Return the sentences of a text, without white space around them.

    Examples
    --------
    >>> sentences_of("It rained. It snowed.", TextRules())
    ['It rained.', 'It snowed.']
    """
    is_split = rules.is_split
    pieces = split_sentences(text, rules.language) if is_split else text.split(SENTENCE_END)
    return [sentence for piece in pieces if (sentence := without_marks(piece).strip())]


def _long_enough(sentences: Sequence[str], text: str, settings: JudgeOptions) -> list[str]:
    kept = [sentence for sentence in sentences if len(sentence) >= settings.shortest]
    return kept or [whole(text)]


def _full_chunks(parts: Sequence[str], most: int, count: Callable[[str], int]) -> list[str]:
    """Put sentences together as long as they have at most so many words or tokens."""
    chunks: list[list[str]] = [[]]
    size = 0
    for part in parts:
        part_size = count(part)
        if size + part_size > most:
            chunks.append([])
            size = 0
        chunks[-1].append(part)
        size += part_size
    joined = (" ".join(chunk).replace(f" {_LINE} ", _LINE).strip() for chunk in chunks)
    return [chunk for chunk in joined if chunk]


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """One pair as a model reads it."""

    ids: np.ndarray  # tokens, special ones included; int64
    types: np.ndarray  # to which of two texts a token belongs, for models that ask; int64
    cut: tuple[bool, bool]  # whether tokens of the summary, and of the document, were left out


class InputMaker:
    """Makes inputs with a model's tokeniser."""

    def __init__(self, tokenizer: Any, settings: JudgeOptions, most: int) -> None:  # noqa: ANN401
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_padding()
        self._backend.no_truncation()
        self._settings, self._most = settings, most
        end = tokenizer.eos_token or tokenizer.sep_token or ""
        template = settings.template
        self._template = None if template is None else template.replace(END_OF_TEXT, end)
        self._marks = tokenised.marks_for(self._backend, self._template or "")
        (empty,) = self._encoded([("", "")])
        if empty is None or len(empty.ids) + 2 > most:
            raise ValueError(
                f"the template of a pair must leave room for texts in the {most} tokens that the "
                f"model reads, got {settings.template!r}"
            )

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, special ones left out."""
        self._backend.encode_special_tokens = True
        return len(self._backend.encode(text, add_special_tokens=False).ids)

    def make(self, pairs: Sequence[Pair]) -> list[Input | None]:
        """Return the input of every pair, None where the tokeniser fails on it."""
        inputs: list[Input | None] = []
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            inputs += [
                None if encoding is None else self._input(pair, encoding)
                for pair, encoding in zip(some, self._encoded(some), strict=True)
            ]
        return inputs

    def _encoded(self, pairs: Sequence[Pair]) -> list[Encoding | None]:
        texts = [self._filled(pair)[0] for pair in pairs]
        self._backend.encode_special_tokens = not self._marks
        # the tokeniser takes two texts as a tuple, one as a string
        encoded = tokenised.attempt_each(self._backend.encode_batch, cast("list[str]", texts))
        return tokenised.without_marks(encoded, ["\n".join(pair) for pair in pairs], self._marks)

    def _filled(self, pair: Pair) -> tuple[str | Pair, dict[str, tuple[int, int]]]:
        """Return what is given to the tokeniser, and where in a template the texts stand."""
        if self._template is None:
            return pair, {}
        text, places = "", {}
        texts = {DOCUMENT: pair[0], SUMMARY: pair[1]}
        for part in _PLACES.split(self._template):
            filled = texts.get(part, part)
            if part in texts:
                places[part] = (len(text), len(text) + len(filled))
            text += filled
        return text, places

    def _input(self, pair: Pair, encoding: Encoding) -> Input:
        ids = np.array(encoding.ids, dtype=np.int64)
        types = np.array(encoding.type_ids, dtype=np.int64)
        if ids.size <= self._most:
            return Input(ids, types, (False, False))
        document, summary = self._tokens(pair, encoding)
        room = self._most - (ids.size - document.size - summary.size)
        n_document, n_summary = self._shares(document.size, summary.size, room)
        left_out = np.concatenate([document[n_document:], summary[n_summary:]])
        cut = n_summary < summary.size, n_document < document.size
        return Input(np.delete(ids, left_out), np.delete(types, left_out), cut)

    def _tokens(self, pair: Pair, encoding: Encoding) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the tokens of the two texts."""
        if self._template is None:
            owner = np.array(
                [-1 if sequence is None else sequence for sequence in encoding.sequence_ids]
            )
            return np.flatnonzero(owner == 0), np.flatnonzero(owner == 1)
        starts = np.array([start for start, _ in encoding.offsets])
        starts[np.array(encoding.special_tokens_mask, dtype=bool)] = -1
        _, places = self._filled(pair)
        first, second = (
            np.flatnonzero((starts >= start) & (starts < end))
            for start, end in (places.get(place, (0, 0)) for place in (DOCUMENT, SUMMARY))
        )
        return first, second

    def _shares(self, n_document: int, n_summary: int, room: int) -> tuple[int, int]:
        """Say how many tokens of each text are read."""
        if self._settings.cut == "document" and n_summary < room and n_document:
            return room - n_summary, n_summary
        return longest_first(n_document, n_summary, room)


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Shorten the longer of two texts until both have room, as tokenisers do.

    Examples
    --------
    >>> longest_first(9, 2, 7), longest_first(9, 8, 7), longest_first(2, 9, 7)
    ((5, 2), (4, 3), (2, 5))
    """
    shorter = min(first, second, room // 2)
    return (room - shorter, shorter) if first > second else (shorter, room - shorter)
