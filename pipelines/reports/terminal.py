"""Tables and lines for a terminal, as wide as their characters are there."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sms.writing import isolated, unbroken

_PLAIN_WIDTH = 80
_BETWEEN = 2  # characters between columns
_WIDEST = 10_000


def table_text(
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    n_left: int = 1,
    is_terminal: bool = False,
    width: int | None = None,
) -> str:
    """Lay out a table; the first `n_left` columns are text, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD if is_terminal else None, padding=(0, 1), pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < n_left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(_isolated_cell, row))
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width or _PLAIN_WIDTH,
        force_terminal=is_terminal,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    roomy = console.options.update(max_width=_WIDEST)
    console.width = max(console.width, console.measure(table, options=roomy).maximum)
    console.print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join(line for line in lines if line)  # a terminal's table begins with a blank one


def table_blocks(
    header: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    n_left: int = 1,
    is_terminal: bool = False,
    width: int | None = None,
) -> str:
    """Lay out a table of many columns as several that fit, each with the first `n_left` columns."""
    room = (width or _PLAIN_WIDTH) + _BETWEEN  # after the last column there is nothing
    sizes = [max(map(_cells_of, column)) + _BETWEEN for column in zip(header, *rows, strict=True)]
    left = [*range(n_left)]
    blocks: list[list[int]] = [[]]
    for place in range(n_left, len(header)):
        used = sum(sizes[i] for i in (*left, *blocks[-1]))
        if blocks[-1] and used + sizes[place] > room:
            blocks.append([])
        blocks[-1].append(place)
    return "\n\n".join(
        table_text(
            [header[i] for i in (*left, *block)],
            [[row[i] for i in (*left, *block)] for row in rows],
            n_left=n_left,
            is_terminal=is_terminal,
            width=width,
        )
        for block in blocks
    )


def _isolated_cell(cell: str | Text) -> str | Text:
    """Keep a name written from the right from turning the numbers beside it."""
    if isinstance(cell, Text):
        return Text(isolated(cell.plain), style=cell.style)
    return isolated(cell)


def _cells_of(cell: str | Text) -> int:
    return cell_len(str(cell))


def wrapped(lines: Iterable[str], width: int | None) -> str:
    """Break long lines for a terminal of this width; what goes on is indented.

    A line ends at a space, or where a language without spaces lets it end; what is longer stays
    whole, so that names and commands can be copied.
    """
    return "\n".join(
        line if width is None else "\n".join(_broken(line, width))
        for paragraph in lines
        for line in paragraph.split("\n")
    )


def _broken(line: str, width: int) -> Iterator[str]:
    indent = "    " if line.startswith(" ") else "  "
    start = ""
    for piece in _pieces(line):
        if start.strip() and cell_len(start + piece.rstrip()) > width:
            yield start.rstrip()
            start = indent + piece
        else:
            start += piece
    yield start.rstrip()


def _pieces(line: str) -> Iterator[str]:
    """Cut a line where it may end, but in a word of Latin letters, at a hyphen say, nowhere."""
    whole = ""
    for piece, after in pairwise([*unbroken(line), " "]):
        whole += piece
        if piece[-1].isspace() or not (piece[-1].isascii() and after[0].isascii()):
            yield whole
            whole = ""
    if whole:
        yield whole
