"""Undoes what tokenisers do to English text, so that a score does not depend on them.

Systems write text as their tokeniser left it: ``did n't -LRB- yet -RRB- .`` (Penn Treebank) or
``didn ' t ( yet ) .`` (BERT), where the document has ``didn't (yet).`` What counts words that both
have would take such text for reworded.

`nltk` and `sacremoses` have detokenisers, each for its own tokens. They move the quotation marks of
text that was never tokenised, too, and know nothing of BERT's.
"""

from __future__ import annotations

from collections.abc import Callable

import regex

VERSION = "v1"
"""Raised when the same text comes out otherwise; part of signatures."""

_BRACKETS = {"lr": "(", "rr": ")", "ls": "[", "rs": "]", "lc": "{", "rc": "}"}


def _bracket(found: regex.Match[str]) -> str:
    return _BRACKETS[(found[1] + found[2]).lower()]


def _closed_up(found: regex.Match[str]) -> str:
    return found[0].replace(" ", "")


# In this order. White space is a space only: a line may end a sentence.
_RULES: tuple[tuple[regex.Pattern[str], str | Callable[[regex.Match[str]], str]], ...] = tuple(
    (regex.compile(pattern), made)
    for pattern, made in (
        ("“|”|``|''", '"'),
        ("[\u2018\u2019\u00b4`]", "'"),
        ("(?i)-([lr])([rsc])b-", _bracket),
        (r"(?i)(?<=\p{L}) (?=n't\b)", ""),  # did n't
        (r"(?<=\p{L}) ?' ?(?=(?:s|t|re|ve|ll|d|m)\b)", "'"),  # they 're, they ' re
        (r"(?<=\b[DLOdlo]) ' (?=\p{L})", "'"),  # O ' Brien, 8 o ' clock
        (r"(?i)\b(?:can not|(?:gon|wan) na|got ta|(?:gim|lem) me)\b", _closed_up),
        (r"(?<=\b\p{L}) ?\. ?(?=\p{L} ?\.)", "."),  # U. S., U . S .
        ("(?<=[€£¥]) (?=[0-9])", ""),
        (r"(?<=\b[0-9]{1,3}) ?, ?(?=[0-9]{3}\b)", ","),  # 5, 000
        (r"(?<=[0-9]) \. (?=[0-9])", "."),  # 7 . 25
        (r"(?<=\S) (?=(?:[,;:!?)\]}%]|\.+)(?!\S))", ""),
        (r"(?<=[(\[{]) ", ""),
    )
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
    for pattern, made in _RULES:
        text = pattern.sub(made, text)
    return text
