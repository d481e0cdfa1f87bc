"""Undoes what tokenisers do to English text, so that a score does not depend on them.

Systems write text as their tokeniser left it: ``did n't -LRB- yet -RRB- .`` (Penn Treebank) or
``didn ' t ( yet ) .`` (BERT), where the document has ``didn't (yet).`` What counts words that both
have would take such text for reworded.

`nltk` and `sacremoses` have detokenisers, each for its own tokens. They move the quotation marks of
text that was never tokenised, too, and know nothing of BERT's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import regex

SIGNATURE = "detok:v1"
"""Part of signatures; another version where the same text comes out otherwise."""

_Made = str | Callable[[regex.Match[str]], str]
_Rule = tuple[tuple[str, ...], regex.Pattern[str], _Made]

_BRACKETS = {"lr": "(", "rr": ")", "ls": "[", "rs": "]", "lc": "{", "rc": "}"}


def _bracket(found: regex.Match[str]) -> str:
    return _BRACKETS[(found[1] + found[2]).lower()]


def _closed_up(found: regex.Match[str]) -> str:
    return found[0].replace(" ", "")


def _rules(*rules: tuple[str, str, _Made]) -> tuple[_Rule, ...]:
    return tuple(
        (tuple(signs.split("|")), regex.compile(pattern), made) for signs, pattern, made in rules
    )


_STRAIGHT = {'"': ("“", "”", "``", "''"), "'": ("\u2018", "\u2019", "\u00b4", "`")}
# Signs that a text has, one or the other, if the pattern is in it: to look for them first is ten
# times faster. White space is a space only, for a line may end a sentence.
_WORDS = _rules(
    ("b-|B-", "-(?i:([lr])([rsc])b)-", _bracket),
    (" n't| N'T", r"(?<=\p{L}) (?=(?i:n't)\b)", ""),  # did n't
    ("' ", r"(?<=\p{L}) ?' (?=(?:s|t|re|ve|ll|d|m)\b)", "'"),  # they ' re
    (" 't| 'r| 'v| 'l| 'd| 'm", r"(?<=\p{L}) '(?=(?:t|re|ve|ll|d|m)\b)", "'"),  # they 're
    (" ' ", r"(?<=\b[DLOdlo]) ' (?=\p{L})", "'"),  # O ' Brien, 8 o ' clock
    (
        "an not|on na|an na|ot ta|im me|em me",
        r"\b(?:[Cc]an not|(?:[Gg]on|[Ww]an) na|[Gg]ot ta|(?:[Gg]im|[Ll]em) me)\b",
        _closed_up,
    ),
    (". | .", r"(?<=\b\p{L})(?: \. ?|\. )(?=\p{L} ?\.)", "."),  # U. S., U . S .
    ("€ |£ |¥ ", "(?<=[€£¥]) (?=[0-9])", ""),
    (", ", r"(?<=\b[0-9]{1,3}) ?, (?=[0-9]{3}\b)", ","),  # 5, 000
    (" . ", r"(?<=[0-9]) \. (?=[0-9])", "."),  # 7 . 25
)
_SPACES = _rules(
    (" 's", r"(?<=\p{L}) (?='s\b)", ""),  # no word changes: 's is one
    (" ,| .| ;| :| !| ?| )| ]| }| %", r"(?<=\S) (?=(?:[,;:!?)\]}%]|\.+)(?!\S))", ""),
    ("( |[ |{ ", r"(?<=[(\[{]) ", ""),
)


def detokenized(text: str) -> str:
    """Return a text as people write it; of one that they wrote, next to nothing changes.

    Quotation marks and apostrophes become straight ones.

    Examples
    --------
    >>> detokenized("They did n't -LRB- yet -RRB- agree , and the U. S. can not .")
    "They didn't (yet) agree, and the U.S. cannot."
    >>> detokenized("Officials don ' t pay £ 5 , 000 or 7 . 25 %")
    "Officials don't pay £5,000 or 7.25%"
    """
    return _changed(_straight(text), _WORDS + _SPACES)


def detokenized_if_cut(text: str) -> str | None:
    """Return a text as people write it; None if no tokeniser has cut its words."""
    straight = _straight(text)
    whole = _changed(straight, _WORDS)
    return None if whole == straight else _changed(whole, _SPACES)


def _straight(text: str) -> str:
    for made, marks in _STRAIGHT.items():
        for mark in marks:
            text = text.replace(mark, made)
    return text


def _changed(text: str, rules: Sequence[_Rule]) -> str:
    for signs, pattern, made in rules:
        if any(sign in text for sign in signs):
            text = pattern.sub(made, text)
    return text
