"""Edits that make a summary wrong in the way real ones are: fluent, on the topic, and untrue.

Names, numbers and terms are exchanged for others of the same source, a place for a place and a
weekday for a weekday; statements are turned into their opposite; sentences make way for sentences
of the source that a summary would not choose, or are joined to halves of such. What is a name is
told by capital letters and, in English, by the words around it, so these edits are coarse: a word
that is always capitalised without being a name counts as one, and titles and long names may be cut
in half. Where the source has no capital letters, or the summary neither name nor number, content
words that the source repeats stand in for them. Kinds of names, days and months, and endings are
told apart in English only.
"""

from __future__ import annotations

import functools
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reffree.negatives.edits import (
    CannotEdit,
    Draft,
    Sentence,
    Token,
    count_words,
    draw_some,
    foreign,
    substituted,
)
from sms.text import TextRules

UNIMPORTANT_SHARE = 1 / 3
"""Part of the source's sentences, those that share least with the reference, that is used."""
FEWEST_WORDS = 5  # a shorter sentence of the source (a by-line, a headline) is not used
CASED_SHARE = 0.01
"""Share of a source's words that must be names; with fewer it counts as lower-cased."""

_DATA = Path(__file__).parents[1] / "data"
_LISTS = tomllib.loads((_DATA / "english.toml").read_text("utf-8"))


def _both_ways(pairs: str) -> dict[str, str]:
    by_word = [pair.split() for pair in pairs.split(",")]
    return {word: other for a, b in by_word for word, other in ((a, b), (b, a))}


OPPOSITES = _both_ways(_LISTS.pop("opposites"))
OPPOSITE_OPINIONS = _both_ways(_LISTS.pop("opinions"))
ENGLISH = {name: frozenset(words.split()) for name, words in _LISTS.items()}

_MAX_REMEMBERED = 1 << 16
_TERM_LETTERS = 5
_TERM_REPEATS = 2
_ENDINGS = ("ing", "ed", "ly", "s")


class Span(NamedTuple):
    """Words that can be exchanged for others of the same kind."""

    start: int
    tokens: tuple[Token, ...]
    kind: str

    @property
    def form(self) -> str:
        """How it reads, without case."""
        return " ".join(token.word.casefold() for token in self.tokens)


def exchange(
    reference: Sequence[Sentence],
    source: Sequence[Sentence],
    rng: np.random.Generator,
    language: str = "en",
) -> Draft:
    """Exchange names and numbers (or terms) of a summary for others of the same kind."""
    lower = {t.word for text in (source, reference) for s in text for t in s if t.word.islower()}
    in_source, spans = (_names_and_numbers(text, lower, language) for text in (source, reference))
    is_cased = sum(span.kind == "name" for span in in_source) >= CASED_SHARE * count_words(source)
    types = _types_of_names(source, in_source) if language == "en" else {}
    in_source, spans = (
        [s._replace(kind=types.get(s.form, "name")) if s.kind == "name" else s for s in text_spans]
        for text_spans in (in_source, spans)
    )
    choices = _choices(spans, in_source)
    if not (is_cased and choices):
        choices += _choices_of_terms(reference, source, language)
    return _exchanged(reference, choices, rng)


def exchange_terms(
    reference: Sequence[Sentence],
    source: Sequence[Sentence],
    rng: np.random.Generator,
    language: str = "en",
) -> Draft:
    """Exchange words that the source repeats for others that it repeats: its aspects or subjects.

    Of reviews, the food for the service; of papers, one thing that they are about for another.
    """
    return _exchanged(reference, _choices_of_terms(reference, source, language), rng)


def _choices_of_terms(
    reference: Sequence[Sentence], source: Sequence[Sentence], language: str
) -> list[tuple[Span, list[Span]]]:
    counts = Counter(token.word.casefold() for sentence in source for token in sentence)
    repeated = {word for word, count in counts.items() if count >= _TERM_REPEATS}
    return _choices(_terms(reference, repeated, language), _terms(source, repeated, language))


def _exchanged(
    text: Sequence[Sentence],
    choices: Sequence[tuple[Span, list[Span]]],
    rng: np.random.Generator,
) -> Draft:
    chosen = draw_some(choices, rng, else_why="nothing to exchange")
    new: dict[int, Sequence[Token]] = {}
    for span, others in chosen:
        new |= _instead_of(span, others[int(rng.integers(len(others)))])
    return Draft(substituted(text, new), len(chosen), count_words(text))


def _instead_of(span: Span, other: Span) -> dict[int, Sequence[Token]]:
    """Say what stands in whose place if one span is replaced by another, as `substituted` asks."""
    words = foreign(other.tokens)
    rest = range(span.start + 1, span.start + len(span.tokens))
    first = words[0]._replace(gap=span.tokens[0].gap)
    return {span.start: [first, *words[1:]], **dict.fromkeys(rest, ())}


def trade(
    text: Sequence[Sentence],
    source: Sequence[Sentence],
    rng: np.random.Generator,
    language: str = "en",
) -> Draft:
    """Let two names of a summary change places, wherever they stand: who did it, and to whom.

    Two numbers, days or months of one kind may trade places as well.
    """
    lower = {t.word for one in (source, text) for s in one for t in s if t.word.islower()}
    by_kind: dict[str, dict[str, Span]] = {}
    spans = _names_and_numbers(text, lower, language)
    for span in spans:
        by_kind.setdefault(span.kind, {}).setdefault(span.form, span)
    several = [list(of_kind.values()) for of_kind in by_kind.values() if len(of_kind) > 1]
    if not several:
        raise CannotEdit("no two names or numbers")
    of_kind = several[int(rng.integers(len(several)))]
    a, b = (of_kind[k] for k in rng.choice(len(of_kind), size=2, replace=False).tolist())
    other_of = {(a.kind, a.form): b, (b.kind, b.form): a}
    traded = [span for span in spans if (span.kind, span.form) in other_of]
    new: dict[int, Sequence[Token]] = {}
    for span in traded:
        new |= _instead_of(span, other_of[span.kind, span.form])
    return Draft(substituted(text, new), len(traded), count_words(text))


def turn_opinions(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Turn opinions into their opposite: friendly into rude, recommend into avoid."""
    tokens = [token for sentence in text for token in sentence]
    choices = [
        (place, (_in_place_of(token, OPPOSITE_OPINIONS[token.word.lower()]),))
        for place, token in enumerate(tokens)
        if token.word.lower() in OPPOSITE_OPINIONS
    ]
    new = dict(draw_some(choices, rng, else_why="no opinion to turn round"))
    return Draft(substituted(text, new), len(new), len(tokens))


def _in_place_of(token: Token, word: str) -> Token:
    shown = word.capitalize() if token.word[:1].isupper() else word
    return Token(token.gap, shown, is_kept=False)


def negate(text: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Turn English statements round: put in or take out a `not`, or put in a word's opposite."""
    tokens = [token for sentence in text for token in sentence]
    choices: list[tuple[int, tuple[Token, ...]]] = []
    for place, token in enumerate(tokens):
        word = token.word.lower()
        follows = tokens[place + 1].word.lower() if place + 1 < len(tokens) else ""
        if word == "not":
            choices.append((place, ()))
        elif word in OPPOSITES:
            choices.append((place, (_in_place_of(token, OPPOSITES[word]),)))
        elif word in ENGLISH["auxiliaries"] and follows.isalpha() and follows != "not":
            choices.append((place, (token, Token(" ", "not", False))))
    new = dict(draw_some(choices, rng, else_why="nothing to turn round"))
    return Draft(substituted(text, new), len(new), len(tokens))


def fuse(text: Sequence[Sentence], source: Sequence[Sentence], rng: np.random.Generator) -> Draft:
    """Let sentences end as another sentence of the source does, from the middle on."""
    long = [sentence for sentence in source if len(sentence) >= FEWEST_WORDS]
    fitting = [
        k for k, sentence in enumerate(text) if len(sentence) >= FEWEST_WORDS and len(long) > 1
    ]
    edited = list(text)
    fused = draw_some(fitting, rng, else_why="no sentences to fuse")
    for place in fused:
        sentence, other = text[place], long[int(rng.integers(len(long)))]
        kept = int(rng.integers(2, len(sentence) - 1))
        begin = int(rng.integers(1, len(other) - 1))
        tail = foreign(other[begin:])
        edited[place] = (*sentence[:kept], tail[0]._replace(gap=tail[0].gap or " "), *tail[1:])
    return Draft(tuple(edited), len(fused), count_words(text))


def unimportant_sentences(
    reference: Sequence[Sentence], source: Sequence[Sentence], language: str = "en"
) -> list[Sentence]:
    """Return the sentences of a source that a summary would not choose, least important first.

    They are the third with the lowest recall of the reference's content words; of equals, those
    that come last. Raises `CannotEdit` if the source is too short to have any.
    """
    wanted = set(content_words((word for sentence in reference for word in sentence), language))
    long = [sentence for sentence in source if len(sentence) >= FEWEST_WORDS]
    n_shared = [len(wanted.intersection(content_words(one, language))) for one in long]
    ranked = sorted(range(len(long)), key=lambda k: (n_shared[k], -k))
    chosen = ranked[: int(len(long) * UNIMPORTANT_SHARE)]
    if not chosen:
        raise CannotEdit("too few sentences in the source")
    return [long[k] for k in chosen]


@functools.lru_cache(_MAX_REMEMBERED)
def _counts(word: str, language: str) -> bool:
    return TextRules(language=language).counts(word)


def content_words(tokens: Iterable[Token], language: str = "en") -> list[str]:
    """Return the words that count, without case."""
    return [token.word.casefold() for token in tokens if _counts(token.word, language)]


def _choices(spans: Sequence[Span], found: Sequence[Span]) -> list[tuple[Span, list[Span]]]:
    """Pair each span of a summary with those of its source that can take its place, if any."""
    known = {span.form for span in spans}
    pools: dict[str, dict[str, Span]] = {}
    for span in found:
        if span.form not in known:
            pools.setdefault(span.kind, {}).setdefault(span.form, span)
    choices = []
    for span in spans:
        words = set(span.form.split())
        others = pools.get(span.kind, {}).values()
        fitting = [other for other in others if words.isdisjoint(other.form.split())]
        if fitting:
            choices.append((span, fitting))
    return choices


def _names_and_numbers(text: Sequence[Sentence], lower: set[str], language: str) -> list[Span]:
    """Find numbers, and runs of words that are capitalised wherever they stand."""

    def kind_of(placed: tuple[int, Token]) -> str | None:
        word = placed[1].word
        is_capitalised = word[:1].isupper() and any(map(str.isalpha, word))
        is_name = is_capitalised and word.lower() not in lower and _counts(word, language)
        return _kind_of_word(word, language) or ("name" if is_name else None)

    spans: list[Span] = []
    place = 0
    for sentence in text:
        for kind, run in groupby(enumerate(sentence, place), key=kind_of):
            first, *more = run
            if kind == "name":
                spans.append(Span(first[0], tuple(token for _, token in (first, *more)), kind))
            elif kind:
                spans += [Span(start, (token,), kind) for start, token in (first, *more)]
        place += len(sentence)
    return spans


def _types_of_names(text: Sequence[Sentence], names: Sequence[Span]) -> dict[str, str]:
    """Tell from the words around a name, wherever it stands, whether it is a person or a place."""
    tokens = [token.word.lower() for sentence in text for token in sentence]
    votes: dict[str, Counter[str]] = {}
    for span in names:
        before = tokens[span.start - 1] if span.start else ""
        behind = span.start + len(span.tokens)
        after = tokens[behind] if behind < len(tokens) else ""
        is_person = before.rstrip(".") in ENGLISH["titles"] or after in ENGLISH["speaking"]
        seen = {"person": is_person, "place": before in ENGLISH["before_places"]}
        votes.setdefault(span.form, Counter()).update(kind for kind in seen if seen[kind])
    return {form: tally.most_common(1)[0][0] for form, tally in votes.items() if tally}


def _kind_of_word(word: str, language: str) -> str | None:
    """Tell days, months and numbers apart, so that the result reads well; None for other words."""
    if word[:1].isdigit():
        if word.isdigit():
            return "year" if len(word) == 4 and word[:2] in ("18", "19", "20") else "number"
        return "figure" if all(c.isdigit() or c in ",." for c in word) else "mixed figure"
    if language != "en":
        return None
    for kind in ("weekday", "month"):
        if word[:1].isupper() and word.lower() in ENGLISH[f"{kind}s"]:
            return kind
    return "number word" if word.lower() in ENGLISH["number_words"] else None


def _terms(text: Sequence[Sentence], repeated: set[str], language: str) -> list[Span]:
    """Find content words that the source repeats; their ending stands for their part of speech."""
    endings = _ENDINGS if language == "en" else ()
    tokens = [token for sentence in text for token in sentence]
    return [
        Span(place, (token,), f"term-{next(filter(token.word.endswith, endings), '')}")
        for place, token in enumerate(tokens)
        if token.word.isalpha()
        and len(token.word) >= _TERM_LETTERS
        and not token.word[:1].isupper()
        and token.word.casefold() in repeated
        and _counts(token.word, language)
    ]
