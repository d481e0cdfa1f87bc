"""Texts in SVG: escaped, and how wide they are in Helvetica."""

from __future__ import annotations

import functools
import unicodedata
from html import escape

from sms.data_files import data_tables


def xml_text(text: str) -> str:
    """Escape a text; what XML does not allow becomes a space."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def text_width(text: str, size: float) -> float:
    """Return the width of a text in Helvetica."""
    widths = _letter_widths()
    units = 0
    for character in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(character):
            is_wide = unicodedata.east_asian_width(character) in "WF"
            units += 1000 if is_wide else widths.get(character, 556)
    return units * size / 1000


@functools.cache
def _letter_widths() -> dict[str, int]:
    tables = data_tables("helvetica")
    return {letter: int(width) for width, letters in tables.items() for letter in letters}
