"""A table with what is said above and below it: as text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.reports.tables import PaperTable, escape_markdown, shown_rows, to_markdown
from pipelines.reports.terminal import table_blocks
from sms.naming import counted
from sms.signature import version

SUFFIXES = (".csv", ".json", ".md")
"""What a sheet can be written as."""
MAX_ROWS = 60
"""The text has no more; a file has them all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sheet:
    """What a command has found, ready to be written."""

    record: Any
    """The result, a dataclass."""
    table: PaperTable
    head: Sequence[str] = ()
    foot: Sequence[str] = ()
    codes: Sequence[str] = ()
    """Signatures, for Markdown."""

    def text(self, *, is_terminal: bool = False, width: int | None = None) -> str:
        """Lay it out for people; a table that needs more characters than `width` gets more."""
        rows = [cells for _, cells in shown_rows(self.table)]
        table = table_blocks(
            [column.header for column in self.table.columns],
            rows[:MAX_ROWS],
            n_left=sum(not column.is_numeric for column in self.table.columns),
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
            return self.table.frame.write_csv()
        if suffix == ".json":
            rows = self.table.frame.to_dicts()
            values = {"version": version(), **asdict(self.record), "rows": rows}
            return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        lines = [f"- {escape_markdown(line)}\n" for line in (*self.head, *self.foot)]
        lines += [f"- `{code}`\n" for code in self.codes]
        return f"# {self.table.title}\n\n{to_markdown(self.table)}\n{''.join(lines)}"
