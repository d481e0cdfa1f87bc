"""Edits that make a summary wrong in the way real ones are: fluent, on the topic, and untrue.

Names, numbers and terms are exchanged for others of the same source; sentences for sentences of
the source that a summary would not choose. What is a name is told by capital letters, so these
edits are coarse: a word that is always capitalised without being a name counts as one, titles
and long names may be cut in half, and numbers written as words are missed. Where the source has
no capital letters, or the summary neither name nor number, content words that the source repeats
stand in for them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from reffree.cut_text import Sentence, Token, count_words
from reffree.edits import CannotEdit, Draft, Rate, substituted
from sms.text import TextRules

UNIMPORTANT_SHARE = 1 / 3
"""Part of the source's sentences, those that share least with the reference, that is used."""
FEWEST_WORDS = 5
"""A shorter sentence of the source (a by-line, a headline) is not used."""
CASED_SHARE = 0.01
"""Share of a source's words that must be names; with fewer it counts as lower-cased."""

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
    reference: Sequence[Sentence], source: Sequence[Sentence], rate: Rate, rng: np.random.Generator
) -> Draft:
    """Exchange names and numbers (or terms) of a summary for others of the same kind.

    Others are those of the source that the summary does not have, and that share no word with
    what they replace.
    """
    lower = {t.word for text in (source, reference) for s in text for t in s if t.word.islower()}
    found, spans = _names_and_numbers(source, lower), _names_and_numbers(reference, lower)
    is_cased = sum(span.kind == "name" for span in found) >= CASED_SHARE * count_words(source)
    choices = _choices(spans, found)
    if not (is_cased and choices):
        repeated = _repeated(source)
        choices += _choices(_terms(reference, repeated), _terms(source, repeated))
    if not choices:
        raise CannotEdit("nothing to exchange")
    count = rate.draw(len(choices), rng, most=len(choices))
    new: dict[int, Sequence[Token]] = {}
    for k in rng.choice(len(choices), size=count, replace=False).tolist():
        span, others = choices[k]
        other = others[int(rng.integers(len(others)))]
        words = [token._replace(is_kept=False) for token in other.tokens]
        new[span.start] = [words[0]._replace(gap=span.tokens[0].gap), *words[1:]]
        new.update(dict.fromkeys(range(span.start + 1, span.start + len(span.tokens)), ()))
    return Draft(substituted(reference, new), count, count_words(reference))


def unimportant_sentences(
    reference: Sequence[Sentence], source: Sequence[Sentence]
) -> list[Sentence]:
    """Return the sentences of a source that a summary would not choose, least important first.

    They are the third with the lowest recall of the reference's content words; of equals, those
    that come last.

    Raises
    ------
    CannotEdit
        If the source is too short to have any.
    """
    wanted = _content([word for sentence in reference for word in sentence])
    long = [sentence for sentence in source if len(sentence) >= FEWEST_WORDS]
    ranked = sorted(
        range(len(long)), key=lambda k: (len(wanted.intersection(_content(long[k]))), -k)
    )
    chosen = ranked[: int(len(long) * UNIMPORTANT_SHARE)]
    if not chosen:
        raise CannotEdit("too few sentences in the source")
    return [long[k] for k in chosen]


@functools.lru_cache(_MAX_REMEMBERED)
def _counts(word: str) -> bool:
    return TextRules().counts(word)


def _content(sentence: Iterable[Token]) -> set[str]:
    return {token.word.casefold() for token in sentence if _counts(token.word)}


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


def _names_and_numbers(text: Sequence[Sentence], lower: set[str]) -> list[Span]:
    """Find numbers, and runs of words that are capitalised wherever they stand."""
    spans: list[Span] = []
    run: list[Token] = []
    place = 0

    def close() -> None:
        if run:
            spans.append(Span(place - len(run), tuple(run), "name"))
            run.clear()

    for sentence in text:
        for token in sentence:
            if _is_name(token.word, lower):
                run.append(token)
            else:
                close()
                if token.word[:1].isdigit():
                    spans.append(Span(place, (token,), _kind_of_number(token.word)))
            place += 1
        close()
    return spans


def _is_name(word: str, lower: set[str]) -> bool:
    is_capitalised = word[:1].isupper() and any(map(str.isalpha, word))
    return is_capitalised and word.lower() not in lower and _counts(word)


def _kind_of_number(word: str) -> str:
    """Tell years, other whole numbers and the rest apart, so that the result reads well."""
    if word.isdigit():
        return "year" if len(word) == 4 and word[:2] in ("18", "19", "20") else "number"
    return "figure" if all(c.isdigit() or c in ",." for c in word) else "mixed figure"


def _repeated(source: Sequence[Sentence]) -> set[str]:
    counts = Counter(token.word.casefold() for sentence in source for token in sentence)
    return {word for word, count in counts.items() if count >= _TERM_REPEATS}


def _terms(text: Sequence[Sentence], repeated: set[str]) -> list[Span]:
    """Find content words that the source repeats; their ending stands for their part of speech."""
    tokens = [token for sentence in text for token in sentence]
    return [
        Span(place, (token,), f"term-{_ending(token.word)}")
        for place, token in enumerate(tokens)
        if token.word.isalpha()
        and len(token.word) >= _TERM_LETTERS
        and not token.word[:1].isupper()
        and token.word.casefold() in repeated
        and _counts(token.word)
    ]


def _ending(word: str) -> str:
    return next((ending for ending in _ENDINGS if word.endswith(ending)), "")
