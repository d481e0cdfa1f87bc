"""Tables as Markdown, and sheets: tables with what is said above and below, in several formats.

Text that comes from the data is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import polars as pl

from pipelines.reports.terminal import table_blocks
from sms.naming import counted
from sms.signature import version

SUFFIXES = (".csv", ".json", ".md")
"""What a sheet can be written as."""
MAX_ROWS = 60
"""The text has no more; a file has them all."""
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}|#~]|(?<=\])[(:\[])")  # a bracket alone makes no link
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


def to_markdown(table: PaperTable) -> str:
    """Write the table without its title and caption."""
    rule = [":---" if side == "l" else "---:" for side in table.alignment]
    rows = [
        [
            f"**{escape_markdown(cell)}**" if (i, j) in table.bold else escape_markdown(cell)
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.rows)
    ]
    lines = (map(escape_markdown, table.header), rule, *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def escape_markdown(text: str) -> str:
    r"""Write any text so that Markdown shows it, inside a table too."""
    plain = _BREAKS.sub(" ", text)
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
        rows = self.table.rows
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
        lines = [f"- {escape_markdown(line)}\n" for line in (*self.head, *self.foot)]
        lines += [f"- `{code}`\n" for code in self.codes]
        return f"# {self.table.title}\n\n{to_markdown(self.table)}\n{''.join(lines)}"


def frame_of(rows: Sequence[Any], *, without: str = "") -> pl.DataFrame:
    """Turn records of one kind into a table, undefined numbers into nulls."""
    names = [field.name for field in fields(rows[0]) if field.name != without]
    cells = [{name: getattr(row, name) for name in names} for row in rows]
    frame = pl.DataFrame(cells, infer_schema_length=None)
    return frame.with_columns(pl.selectors.float().fill_nan(None))
