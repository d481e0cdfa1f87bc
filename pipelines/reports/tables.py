"""Tables as Markdown and LaTeX, and sheets: with what is said above and below, in several formats.

Text that comes from the data is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import polars as pl
import pyarrow as pa

from pipelines.reports.numbers import MINUS
from pipelines.reports.terminal import table_blocks
from sms.naming import counted
from sms.signature import version
from sms.writing import isolated

SUFFIXES = (".csv", ".json", ".md", ".tex")
"""What a sheet can be written as."""
MAX_ROWS = 60
"""The text has no more; a file has them all."""
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
_NO_LETTER = "\N{FIGURE SPACE}"
"""As wide as a letter, and not stripped from the end of a cell: numbers stand below each other."""
_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperTable:
    """One table as it is shown."""

    title: str
    caption: str = ""
    """Counts, and what bold or a dash means."""
    header: Sequence[str]
    alignment: str
    """For each column, "l" (text) or "r" (numbers)."""
    rows: Sequence[Sequence[str]]
    bold: Collection[tuple[int, int]] = ()
    """Row and column of the cells set in bold."""
    letters: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """What stands raised after some cells, by row and column."""

    def plain_rows(self) -> list[list[str]]:
        """Return the rows for a terminal, with letters of equal width in a column."""
        widest = {j: 0 for _, j in self.letters}
        for (_, j), letters in self.letters.items():
            widest[j] = max(widest[j], len(letters))
        return [
            [
                f"{cell} {self.letters.get((i, j), ''):{_NO_LETTER}<{widest[j]}}"
                if j in widest
                else cell
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(self.rows)
        ]


def to_markdown(table: PaperTable) -> str:
    """Write the table without its title and caption."""
    rule = [":---" if side == "l" else "---:" for side in table.alignment]
    header, *rows = _cells(table, escape_markdown, "**{}**", " <sup>{}</sup>")
    lines = (header, rule, *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def to_latex(table: PaperTable, name: str) -> str:
    r"""Write a `table` environment with this label; it needs `\usepackage{booktabs}`."""
    cells = _cells(table, escape_latex, r"\textbf{{{}}}", r"\textsuperscript{{{}}}")
    header, *rows = (f"{' & '.join(row)} \\\\\n" for row in cells)
    return (
        "\\begin{table}\n\\centering\n"  # noqa: RUF027  (LaTeX)
        f"\\caption{{{escape_latex(f'{table.title}. {table.caption}'.strip())}}}\n"
        f"\\label{{tab:{re.sub(r'[^a-z0-9]+', '-', name.lower())}}}\n"
        f"\\begin{{tabular}}{{{table.alignment}}}\n"
        f"\\toprule\n{header}\\midrule\n{''.join(rows)}\\bottomrule\n"
        "\\end{tabular}\n\\end{table}\n"
    )


def _cells(
    table: PaperTable, escape: Callable[[str], str], bold: str, raised: str
) -> list[list[str]]:
    """Return header and rows as they are written."""
    written = [[escape(cell) for cell in row] for row in table.rows]
    for i, j in table.bold:
        written[i][j] = bold.format(written[i][j])
    for (i, j), letters in table.letters.items():
        written[i][j] += raised.format(escape(letters))
    return [[escape(name) for name in table.header], *written]


def escape_latex(text: str) -> str:
    """Write any text so that LaTeX prints it."""
    escaped = "".join(_LATEX.get(each, each) for each in _BREAKS.sub(" ", text))
    # After the end of a row these would be read as its arguments.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def escape_markdown(text: str) -> str:
    r"""Write any text so that Markdown shows it, inside a table too.

    What is written from the right keeps its direction to itself.
    """
    plain = isolated(_BREAKS.sub(" ", text))
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", plain)


# Sheets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sheet:
    """What a command has found, ready to be written."""

    record: Any
    """The result, a dataclass."""
    frame: pl.DataFrame
    """The cells with all digits."""
    table: PaperTable
    head: Sequence[str] = ()
    foot: Sequence[str] = ()
    codes: Sequence[str] = ()
    """Signatures, for Markdown."""

    def text(self, *, is_terminal: bool = False, width: int | None = None) -> str:
        """Lay it out for people; a table that needs more characters than `width` gets more."""
        rows = self.table.plain_rows()
        table = table_blocks(
            self.table.header,
            rows[:MAX_ROWS],
            n_left=self.table.alignment.count("l"),
            is_terminal=is_terminal,
            width=width,
        )
        if len(rows) > MAX_ROWS:
            table += f"\nand {counted(len(rows) - MAX_ROWS, 'more row')}; `--out` writes all"
        parts = ("\n".join(self.head), table, "\n".join(self.foot))
        return "\n\n".join(part for part in parts if part)

    def content(self, suffix: str) -> str:
        """Write all rows for a file whose name ends with one of `SUFFIXES`."""
        if suffix == ".csv":
            return self.frame.write_csv()
        if suffix == ".json":
            values = {"version": version(), **asdict(self.record), "rows": self.frame.to_dicts()}
            return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        if suffix == ".tex":
            return to_latex(self.table, self.table.title)
        lines = [f"- {escape_markdown(line)}\n" for line in (*self.head, *self.foot)]
        lines += [f"- `{code}`\n" for code in self.codes]
        return f"# {self.table.title}\n\n{to_markdown(self.table)}\n{''.join(lines)}"


def frame_of(rows: Sequence[Any], *, without: str = "") -> pl.DataFrame:
    """Turn records of one kind into a table, undefined numbers into nulls."""
    names = [one.name for one in fields(rows[0]) if one.name != without]
    # column by column: rows, or an expression, need threads of polars, which forks lack
    cells = {name: [getattr(row, name) for row in rows] for name in names}
    arrays = {name: pa.array(column, from_pandas=True) for name, column in cells.items()}
    return pl.DataFrame({name: pl.from_arrow(array) for name, array in arrays.items()})
