"""Text of any script on a line: where it may be cut or broken, and what keeps its direction to it.

How many cells of a terminal a text fills is `rich.cells.cell_len`, here as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex
from icu4py.breakers import LineBreaker
from rich.cells import cell_len

ELLIPSIS = "…"

_BY_PHRASES = "ko-u-lw-phrase"
"""Asks ICU to end no line within words of Chinese, Japanese and Korean; other scripts are cut as in
any locale."""
_GRAPHEME = regex.compile(r"\X")
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_ISOLATES = "\u2066\u2067\u2068"
# Letters and figures of scripts from the right, and marks that turn the direction.
_TURNING = regex.compile(
    r"[\p{bc=R}\p{bc=AL}\p{bc=AN}\u200e\u202a-\u202e\u2066-\u2069]"
)  # fmt: skip


def graphemes(text: str) -> list[str]:
    r"""Cut a text into what its readers take for characters.

    >>> graphemes("noe\u0308l") == ["n", "o", "e\u0308", "l"]
    True
    """
    return _GRAPHEME.findall(text)


def beginning(text: str, n_cells: int) -> str:
    """Shorten a text that fills more cells to its beginning, at the end of a grapheme.

    >>> beginning("summary", 4), beginning("要約の評価", 6), beginning("sum", 4)
    ('sum…', '要約…', 'sum')
    """
    if cell_len(text) <= n_cells:
        return text
    return "".join(_fitting(graphemes(text), n_cells - 1)) + ELLIPSIS


def ending(text: str, n_cells: int) -> str:
    """Shorten a text that fills more cells to its end, at the start of a grapheme.

    >>> ending("summary", 4), ending("要約の評価", 6)
    ('…ary', '…評価')
    """
    if cell_len(text) <= n_cells:
        return text
    return ELLIPSIS + "".join([*_fitting(reversed(graphemes(text)), n_cells - 1)][::-1])


def _fitting(some: Iterable[str], n_cells: int) -> Iterator[str]:
    for grapheme in some:
        n_cells -= cell_len(grapheme)
        if n_cells < 0:
            return
        yield grapheme


def unbroken(text: str) -> list[str]:
    """Cut a text at all places where a line may end (UAX 14); spaces stay with what they follow.

    Languages that write no spaces between words are cut by dictionaries, between words or phrases.

    >>> unbroken("A low-cost plan.") + unbroken("당지 「주민」。")
    ['A ', 'low-', 'cost ', 'plan.', '당지 ', '「주민」。']
    """
    whole = text.encode("utf-8", "replace").decode()  # a half of a character is one character
    pieces, at = [], 0
    for piece in LineBreaker(whole, _BY_PHRASES):
        pieces.append(text[at : at + len(piece)])
        at += len(piece)
    return pieces


def isolated(text: str) -> str:
    r"""Keep the direction of a text to itself, so that what stands beside it is not reordered.

    Only a text that has letters or figures written from the right, or marks that turn the
    direction, is put between FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE (UAX 9). Isolates
    within it are closed, and those that it closes without an opening are opened before it.

    >>> isolated("system 2"), isolated("\u05d0 2")
    ('system 2', '\u2068\u05d0 2\u2069')
    """
    if not _TURNING.search(text):
        return text
    n_open, n_unopened = 0, 0
    for character in text:
        if character in _ISOLATES:
            n_open += 1
        elif character == _POP_ISOLATE and n_open:
            n_open -= 1
        elif character == _POP_ISOLATE:
            n_unopened += 1
    return _FIRST_STRONG_ISOLATE * (1 + n_unopened) + text + _POP_ISOLATE * (1 + n_open)
