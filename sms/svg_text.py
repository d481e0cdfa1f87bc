"""Texts in SVG: escaped, and how wide they are in Helvetica."""

from __future__ import annotations

import functools
import unicodedata
from html import escape

from rich.cells import cell_len

from sms.data_files import data_tables
from sms.writing import graphemes

_OTHER = 556
"""Width of a letter of any other script, in thousandths of the font size: from 420 (Gujarati) to
800 (Malayalam) on average."""
_WIDE = 1000
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")
_INVISIBLE_BUT_NEEDED = "Cf"
"""Joiners, and marks of direction: without them other characters are seen."""


def xml_text(text: str) -> str:
    """Escape a text; what XML does not allow becomes a space."""
    return escape("".join(c if _is_allowed(c) else " " for c in text))


def _is_allowed(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == _INVISIBLE_BUT_NEEDED


def text_width(text: str, size: float) -> float:
    """Return the width of a text in Helvetica; of other scripts and emoji, about that."""
    return sum(map(_units, graphemes(text))) * size / 1000


def _units(grapheme: str) -> int:
    """Return the width of a grapheme in thousandths of the font size."""
    first = grapheme[0]
    is_emoji = not first.isalpha() and cell_len(grapheme) == 2
    if is_emoji or unicodedata.east_asian_width(first) in "WF":
        return _WIDE
    widths = _letter_widths()
    if first.isascii() or len(unicodedata.normalize("NFD", first)) > 1:
        return widths.get(unicodedata.normalize("NFD", first)[0], _OTHER)
    return sum(
        widths.get(character, _OTHER)
        for character in grapheme
        if unicodedata.category(character) not in _WITHOUT_WIDTH
    )


@functools.cache
def _letter_widths() -> dict[str, int]:
    tables = data_tables("helvetica")
    return {letter: int(width) for width, letters in tables.items() for letter in letters}
