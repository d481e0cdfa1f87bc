"""Tables for reports and papers, as Markdown and LaTeX (booktabs) of the same cells.

Text that comes from the data is escaped for the format it is written in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.reports.numbers import MINUS, count_text, number_text

_LATEX = {
    "\\": r"\textbackslash{}",
    **{each: rf"\{each}" for each in "{}$&#_%"},
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperTable:
    """One table as it is shown."""

    name: str
    """Of its files, without a suffix."""
    title: str
    caption: str = ""
    """Counts, and what bold or a dash means."""
    header: Sequence[str]
    alignment: str
    """For each column, "l" (text) or "r" (numbers)."""
    rows: Sequence[Sequence[str]]
    bold: Collection[tuple[int, int]] = ()
    """Row and column of the cells set in bold."""


def table_of(frame: pl.DataFrame, headers: Mapping[str, str], **described: str) -> PaperTable:
    """Show these columns of a frame: texts as they are, numbers with three decimals, counts."""
    shown = frame.select(*headers)
    return PaperTable(
        header=[*headers.values()],
        alignment="".join("l" if kind == pl.String else "r" for kind in shown.dtypes),
        rows=[[*map(_cell, row)] for row in shown.iter_rows()],
        **described,  # type: ignore[arg-type]
    )


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return number_text(value)
    return value if isinstance(value, str) else count_text(value)


def to_markdown(table: PaperTable) -> str:
    """Write the table without its title and caption."""
    rule = [":---" if side == "l" else "---:" for side in table.alignment]
    lines = (map(escape_markdown, table.header), rule, *_rows(table, escape_markdown, "**{}**"))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def to_latex(table: PaperTable) -> str:
    r"""Write a `table` environment; it needs `\usepackage{booktabs}`."""
    header, *rows = (
        f"{' & '.join(cells)} \\\\"
        for cells in (
            map(escape_latex, table.header),
            *_rows(table, escape_latex, r"\textbf{{{}}}"),
        )
    )
    lines = [
        r"\begin{table}",  # noqa: RUF027  (LaTeX)
        r"\centering",
        rf"\caption{{{escape_latex(f'{table.title}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', table.name.lower())}}}",
        rf"\begin{{tabular}}{{{table.alignment}}}",
        *(r"\toprule", header, r"\midrule", *rows, r"\bottomrule"),
        r"\end{tabular}",
        r"\end{table}",  # noqa: RUF027  (LaTeX)
    ]
    return "\n".join(lines) + "\n"


def _rows(table: PaperTable, escape: Callable[[str], str], bold: str) -> list[list[str]]:
    return [
        [
            bold.format(escape(cell)) if (i, j) in table.bold else escape(cell)
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.rows)
    ]


def escape_latex(text: str) -> str:
    r"""Write any text so that LaTeX prints it.

    Examples
    --------
    >>> escape_latex("rouge_1 & 50%")
    'rouge\\_1 \\& 50\\%'
    """
    escaped = "".join(_LATEX.get(each, each) for each in _BREAKS.sub(" ", text))
    # After the end of a row these would be read as its arguments.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def escape_markdown(text: str) -> str:
    r"""Write any text so that Markdown shows it, inside a table too.

    Examples
    --------
    >>> escape_markdown("a|b <script>")
    'a\\|b &lt;script&gt;'
    """
    plain = _BREAKS.sub(" ", text)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", plain)
