"""How wide a text is in a picture, without a font at hand."""

from __future__ import annotations

import unicodedata

FONT_SIZE = 14.0
"""Of the texts of a picture, in pixels."""

# Widths of Helvetica in thousandths of the font size; other letters are about as wide as "n".
_WIDTHS = {
    **dict.fromkeys("il'j|", 222),
    **dict.fromkeys(" !,./:;[]\\ft", 278),
    **dict.fromkeys("()-r{}`", 333),
    **dict.fromkeys("*", 389),
    **dict.fromkeys("ckszvxyJ", 500),
    **dict.fromkeys("+<=>~", 584),
    **dict.fromkeys("TFZ", 611),
    **dict.fromkeys("ABEKPSVXY&", 667),
    **dict.fromkeys("CDHNRUw", 722),
    **dict.fromkeys("GOQ", 778),
    **dict.fromkeys("mM", 833),
    **dict.fromkeys("%—", 889),
    **dict.fromkeys("W@", 960),
}
_OTHER_WIDTH, _WIDE_WIDTH = 556, 1000


def width_of(text: str) -> float:
    """Return the width of a text, in Helvetica of the size of the texts."""
    units = 0
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.combining(character):
            continue
        is_wide = unicodedata.east_asian_width(character) in "WF"
        units += _WIDE_WIDTH if is_wide else _WIDTHS.get(character, _OTHER_WIDTH)
    return units * FONT_SIZE / 1000
