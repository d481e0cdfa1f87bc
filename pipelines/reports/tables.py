"""Tables for reports and papers, as Markdown and LaTeX (booktabs) of the same cells.

Text that comes from the data is escaped for the format it is written in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.reports.numbers import (
    MINUS,
    UNDEFINED,
    number_text,
)

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    MINUS: "$-$",
    "±": r"$\pm$",
    "–": "--",
    "’": "'",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$",
    "\N{GREEK SMALL LETTER RHO}": r"$\rho$",
    "\N{GREEK SMALL LETTER TAU}": r"$\tau$",
}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}|#~]|(?<=\])[(:\[])")  # a bracket alone makes no link
_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How one column of a table is shown; it may put several columns of the frame together."""

    header: str
    show: Callable[[Row], str]
    is_numeric: bool = True
    is_best: Callable[[Row], bool] | None = None
    """Whether a cell is set in bold."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperTable:
    """One table, and how it is shown."""

    name: str
    """Of its files, without a suffix."""
    title: str
    caption: str
    """Counts, and what bold or a dash means."""
    frame: pl.DataFrame
    """The cells with all digits."""
    columns: Sequence[Column]


def to_markdown(table: PaperTable) -> str:
    """Write the table without its title and caption."""
    lines = [
        _markdown_line(escape_markdown(column.header) for column in table.columns),
        _markdown_line("---:" if column.is_numeric else ":---" for column in table.columns),
    ]
    for row, cells in shown_rows(table):
        lines.append(
            _markdown_line(
                _emphasised(escape_markdown(cell), column, row, "**{}**")
                for cell, column in zip(cells, table.columns, strict=True)
            )
        )
    return "\n".join(lines) + "\n"


def to_latex(table: PaperTable) -> str:
    r"""Write a `table` environment; it needs `\usepackage{booktabs}`."""
    alignment = "".join("r" if column.is_numeric else "l" for column in table.columns)
    lines = [
        r"\begin{table}",  # noqa: RUF027  (LaTeX)
        r"\centering",
        rf"\caption{{{escape_latex(f'{table.title}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', table.name.lower())}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_line(escape_latex(column.header) for column in table.columns),
        r"\midrule",
    ]
    for row, cells in shown_rows(table):
        lines.append(
            _latex_line(
                _emphasised(escape_latex(cell), column, row, r"\textbf{{{}}}")
                for cell, column in zip(cells, table.columns, strict=True)
            )
        )
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",  # noqa: RUF027  (LaTeX)
    ]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    r"""Write any text so that LaTeX prints it.

    Examples
    --------
    >>> escape_latex("rouge_1 & 50%")
    'rouge\\_1 \\& 50\\%'
    """
    escaped = "".join(_LATEX.get(each, each) for each in _one_line(text))
    # After the end of a row these would be read as its arguments.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def escape_markdown(text: str) -> str:
    r"""Write any text so that Markdown shows it, inside a table too.

    Examples
    --------
    >>> escape_markdown("a|b <script>")
    'a\\|b &lt;script&gt;'
    """
    plain = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", plain)


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text)


def shown_rows(table: PaperTable) -> Iterator[tuple[Row, list[str]]]:
    """Yield each row of the frame with its cells as they are shown."""
    for row in table.frame.iter_rows(named=True):
        yield row, [column.show(row) for column in table.columns]


def _emphasised(cell: str, column: Column, row: Row, pattern: str) -> str:
    return pattern.format(cell) if column.is_best is not None and column.is_best(row) else cell


def _markdown_line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_line(cells: Iterator[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


# Columns


def text_column(
    name: str,
    header: str,
    names: Mapping[str, str] | None = None,
    *,
    is_numeric: bool = False,
) -> Column:
    """Show a value as it is, or by its name in `names`."""

    def show(row: Row) -> str:
        value = UNDEFINED if row[name] is None else str(row[name])
        return value if names is None else names.get(value, value)

    return Column(header=header, show=show, is_numeric=is_numeric)


def number_column(name: str, header: str, write: Callable[[Any], str] = number_text) -> Column:
    """Show a number as `write` writes it."""
    return Column(header=header, show=lambda row: write(row[name]))
