"""Edits of a summary by word and by sentence; each says what is left of the text it was given.

A text is sentences of tokens that remember the white space before them; words and sentences are
those of `sms.text`, punctuation included. An edit takes such a text and random numbers. It never
returns the text unchanged on purpose nor an empty one; where that cannot be, it raises
`CannotEdit`. Edits that look at the source are in `hard_edits`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from sms.text import split_sentences
from sms.text.languages import language_of
from sms.text.words import Splitter

PHRASE_WORDS = (2, 8)  # words of a phrase that is repeated, fewest and most
FEWEST_BROKEN = 4  # words that a sentence must have to be broken

_CHUNK = re.compile(r"\S+")
_MAX_CHUNKS = 1 << 16


class Token(NamedTuple):
    """A word of a text."""

    gap: str  # white space before it; empty between the words of a chunk
    word: str
    is_kept: bool = True  # whether it was in the text before, and still stands where it stood


Sentence: TypeAlias = tuple[Token, ...]
T = TypeVar("T")


def cut_text(text: str, language: str = "en") -> tuple[Sentence, ...]:
    """Cut a text; `join` gives it back, but for white space at its ends and invisible marks."""
    starts, end = [], 0  # where sentences begin, the first at 0
    for piece in split_sentences(text, language):
        if sentence := piece.strip():
            start = text.index(sentence, end)
            end = start + len(sentence)
            starts.append(start)
    starts = [0, *starts][::-1]
    sentences: list[list[Token]] = []
    end = 0
    for chunk in _CHUNK.finditer(text):
        start, gap = chunk.start(), text[end : chunk.start()]
        for word in words_of(chunk[0], language):
            while starts and start >= starts[-1]:
                starts.pop()
                sentences.append([])
            sentences[-1].append(Token(gap, word))
            start, gap = start + len(word), ""
        end = chunk.end()
    return tuple(tuple(sentence) for sentence in sentences if sentence)


def join(sentences: Iterable[Sequence[Token]]) -> str:
    """Write sentences as a text."""
    pieces = [piece for sentence in sentences for token in sentence for piece in token[:2]]
    return "".join(pieces[1:])  # without the white space before the first word


@functools.lru_cache(_MAX_CHUNKS)
def words_of(chunk: str, language: str = "en") -> tuple[str, ...]:
    """Return the words of a piece of text without white space."""
    return tuple(_splitter_of(language)(chunk))


@functools.cache
def _splitter_of(language: str) -> Splitter:
    return language_of(language).words()


def count_words(sentences: Iterable[Sequence[Token]]) -> int:
    """Count the words, punctuation included."""
    return sum(map(len, sentences))


def foreign(sentence: Sequence[Token]) -> Sentence:
    """Mark the words of a sentence as coming from elsewhere."""
    return tuple(token._replace(is_kept=False) for token in sentence)


def arranged(sentences: Sequence[Sequence[Token]], gap: str) -> tuple[Sentence, ...]:
    """Put sentences in a new order; one that stood first gets the white space that it had not."""
    return tuple(
        (sentence[0]._replace(gap=sentence[0].gap or gap), *sentence[1:])
        for sentence in sentences
        if sentence
    )


def sentence_gap(sentences: Sequence[Sequence[Token]]) -> str:
    """Return the white space between a text's sentences: a line break in some corpora."""
    return (sentences[1][0].gap if len(sentences) > 1 else "") or " "


class CannotEdit(Exception):
    """Why a text cannot be edited in some way; counted by the caller."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An edited text."""

    sentences: tuple[Sentence, ...]
    n_edits: int  # words, sentences, phrases or names that were edited
    n_before: int  # words of the text before, punctuation included

    @property
    def text(self) -> str:
        """The edited text."""
        return join(self.sentences)

    @property
    def label(self) -> float:
        """What is left when the edited share is taken off, by words, in [0, 1].

        Edited are the words of the text before that are gone, or those that are new, whichever
        are more: deleting 30 of 100 words gives 0.7, and so does replacing or adding 30 (Bao et al.
        2020, section 2.2: the complement of the percentage of mutation).
        """
        n_kept = sum(token.is_kept for sentence in self.sentences for token in sentence)
        n_edited = max(self.n_before, count_words(self.sentences)) - n_kept
        return max(0, self.n_before - n_edited) / self.n_before


def draw_count(n: int, rng: np.random.Generator, *, most: int) -> int:
    """Draw how many of `n` things are edited, any share: at least 1, at most `most`."""
    return int(np.clip(round(rng.uniform(0.0, 1.0) * n), 1, most))


def draw_places(n: int, rng: np.random.Generator, *, most: int | None = None) -> list[int]:
    """Draw which of `n` things are edited, by number."""
    count = draw_count(n, rng, most=n if most is None else most)
    return rng.choice(n, size=count, replace=False).tolist()


def draw_some(fitting: Sequence[T], rng: np.random.Generator, *, else_why: str) -> list[T]:
    """Draw which of the things that fit are edited; where there are none, that is why."""
    if not fitting:
        raise CannotEdit(else_why)
    return [fitting[place] for place in draw_places(len(fitting), rng)]


def delete_words(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Delete words at random places; one stays."""
    n = _at_least_two(count_words(text), "word")
    gone: dict[int, tuple[Token, ...]] = dict.fromkeys(draw_places(n, rng, most=n - 1), ())
    return Draft(substituted(text, gone), len(gone), n)


def replace_words(
    text: Sequence[Sentence], vocabulary: Sequence[str], rng: np.random.Generator
) -> Draft:
    """Replace words by other words of the vocabulary."""
    n = count_words(text)
    tokens = list(chain.from_iterable(text))
    new = {
        place: (Token(tokens[place].gap, _other_word(tokens[place].word, vocabulary, rng), False),)
        for place in draw_places(n, rng)
    }
    return Draft(substituted(text, new), len(new), n)


def add_words(
    text: Sequence[Sentence], vocabulary: Sequence[str], rng: np.random.Generator
) -> Draft:
    """Add words of the vocabulary at random places, at most as many as there are."""
    n = count_words(text)
    count = draw_count(n, rng, most=n)
    tokens = list(chain.from_iterable(text))
    new: dict[int, tuple[Token, ...]] = {}
    places, times = np.unique(rng.integers(0, n + 1, count), return_counts=True)
    for place, n_times in zip(places.tolist(), times.tolist(), strict=True):
        words = [vocabulary[int(rng.integers(len(vocabulary)))] for _ in range(n_times)]
        added = [Token(" ", word, False) for word in words]
        if place == n:  # behind the last word
            new[n - 1] = (*new.get(n - 1, (tokens[n - 1],)), *added)
        else:
            first = added[0]._replace(gap=tokens[place].gap or " ")
            new[place] = (first, *added[1:], tokens[place]._replace(gap=" "))
    return Draft(substituted(text, new), count, n)


def delete_sentences(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Delete sentences; one stays."""
    n = _at_least_two(len(text), "sentence")
    gone = set(draw_places(n, rng, most=n - 1))
    left = tuple(sentence for k, sentence in enumerate(text) if k not in gone)
    return Draft(left, len(gone), count_words(text))


def replace_sentences(
    text: Sequence[Sentence], others: Sequence[Sentence], rng: np.random.Generator
) -> Draft:
    """Replace sentences by other ones, as far as there are any."""
    if not others:
        raise CannotEdit("no other sentences")
    count = draw_count(len(text), rng, most=min(len(text), len(others)))
    new = rng.permutation(len(others))[:count].tolist()
    places = rng.choice(len(text), size=count, replace=False).tolist()
    edited = list(text)
    for place, other in zip(places, new, strict=True):
        first = others[other][0]._replace(gap=text[place][0].gap)
        edited[place] = foreign((first, *others[other][1:]))
    return Draft(arranged(edited, sentence_gap(text)), count, count_words(text))


def shuffle_sentences(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Put the sentences in another order.

    Of those that still follow each other as before, the ones with the most words count as kept.
    """
    n = _at_least_two(len(text), "sentence")
    order = rng.permutation(n)
    while (order == np.arange(n)).all():
        order = rng.permutation(n)
    stays = _heaviest_increasing(order.tolist(), [len(text[k]) for k in order])
    moved = [text[k] if k in stays else foreign(text[k]) for k in order.tolist()]
    return Draft(arranged(moved, sentence_gap(text)), n - len(stays), count_words(text))


def swap_words(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Swap words with the next word of their sentence."""
    n = count_words(text)
    ends = np.cumsum([len(sentence) for sentence in text])
    tokens = list(chain.from_iterable(text))
    fitting = [
        place
        for place in range(n - 1)
        if place + 1 not in ends and all(t.word.isalnum() for t in tokens[place : place + 2])
    ]
    new: dict[int, Sequence[Token]] = {}
    for place in draw_some(fitting, rng, else_why="no two words in a row"):
        if place in new or place + 1 in new:
            continue
        first, second = tokens[place], tokens[place + 1]
        new[place] = (Token(first.gap, second.word, False),)
        new[place + 1] = (Token(second.gap, first.word, False),)
    return Draft(substituted(text, new), len(new) // 2, n)


def repeat(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Say whole sentences, or (as often) one phrase, a second time right after the first."""
    n = count_words(text)
    fewest, most = PHRASE_WORDS
    if n < fewest or rng.random() < 0.5:
        again = set(draw_places(len(text), rng))
        said = [
            sentence
            for k, once in enumerate(text)
            for sentence in ((once, foreign(once)) if k in again else (once,))
        ]
        return Draft(arranged(said, sentence_gap(text)), len(again), n)
    tokens = list(chain.from_iterable(text))
    length = int(rng.integers(fewest, min(most, n) + 1))
    end = int(rng.integers(length, n + 1))
    phrase = foreign(tokens[end - length : end])
    phrase = (phrase[0]._replace(gap=phrase[0].gap or " "), *phrase[1:])
    return Draft(substituted(text, {end - 1: (tokens[end - 1], *phrase)}), 1, n)


def break_sentences(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Let sentences begin or end in the middle, as systems do that cut what they copy.

    The last mark stays; a beginning gets a capital as often as not.
    """
    n = count_words(text)
    fitting = [k for k, sentence in enumerate(text) if _n_body(sentence) >= FEWEST_BROKEN]
    edited = list(text)
    broken = draw_some(fitting, rng, else_why="no sentence to break")
    for k in broken:
        sentence = text[k]
        body, mark = sentence[: _n_body(sentence)], sentence[_n_body(sentence) :]
        gone = int(rng.integers(1, len(body) // 2 + 1))
        if rng.random() < 0.5:
            left = body[:-gone]
        else:
            word = body[gone].word
            shown = word[:1].upper() + word[1:] if rng.random() < 0.5 else word
            first = Token(sentence[0].gap, shown, body[gone].is_kept and shown == word)
            left = (first, *body[gone + 1 :])
        edited[k] = (*left, *mark)
    return Draft(tuple(edited), len(broken), n)


def _n_body(sentence: Sentence) -> int:  # tokens before the marks at its end
    n = len(sentence)
    while n and not sentence[n - 1].word[:1].isalnum():
        n -= 1
    return n


def truncate(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Drop the end, at a sentence or (as often, where there are several) anywhere."""
    n = _at_least_two(count_words(text), "word")
    if len(text) > 1 and rng.random() < 0.5:
        count = draw_count(len(text), rng, most=len(text) - 1)
        return Draft(tuple(text[:-count]), count, n)
    count = draw_count(n, rng, most=n - 1)
    return Draft(substituted(text, dict.fromkeys(range(n - count, n), ())), count, n)


def substituted(
    text: Sequence[Sentence], new: Mapping[int, Sequence[Token]]
) -> tuple[Sentence, ...]:
    """Replace tokens by others, by place; what was two words does not become one."""
    edited: list[Sentence] = []
    gap, last, place = "", Token("", ""), 0
    for sentence in text:
        tokens: list[Token] = []
        for token in sentence:
            instead = new.get(place, (token,))
            for added in instead:
                is_new = not (last.is_kept and added.is_kept)
                sticks = last.word[-1:].isalnum() and added.word[:1].isalnum()
                needed = " " if is_new and sticks else ""
                last = added._replace(gap=added.gap or gap or needed)
                tokens.append(last)
                gap = ""
            if not instead:
                gap = token.gap or gap or " "
            place += 1
        if tokens:
            edited.append(tuple(tokens))
    return tuple(edited)


def _at_least_two(n: int, thing: str) -> int:
    if n < 2:
        raise CannotEdit(f"one {thing} only")
    return n


def _other_word(word: str, vocabulary: Sequence[str], rng: np.random.Generator) -> str:
    """Draw a word that differs in more than case."""
    place = int(rng.integers(len(vocabulary)))
    for step in range(len(vocabulary)):
        other = vocabulary[(place + step) % len(vocabulary)]
        if other.casefold() != word.casefold():
            return other
    raise CannotEdit("no other word in the vocabulary")


def _heaviest_increasing(values: Sequence[int], weights: Sequence[int]) -> set[int]:
    """Return the increasing subsequence of distinct values that has the largest total weight."""
    best: list[tuple[int, set[int]]] = []
    for i, value in enumerate(values):
        before = [best[j] for j in range(i) if values[j] < value]
        total, chosen = max(before, key=lambda entry: entry[0], default=(0, set()))
        best.append((total + weights[i], chosen | {value}))
    return max(best, key=lambda entry: entry[0])[1]
