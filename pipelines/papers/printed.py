"""What the tables of the papers print, read from `published.toml`: as text and as numbers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from sms.naming import nearest

PAPERS = {
    "clark2019": "Clark, Celikyilmaz and Smith 2019",
    "sun2019": "Sun and Nenkova 2019",
    "bao2020": "Bao et al. 2020",
}
"""What the names of tables begin with."""

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.(\d+))?")


class PrintedCell(NamedTuple):
    """One cell of a table."""

    row: tuple[str, ...]
    """What the row is about, as many texts as the table has labels."""
    column: str
    text: str
    """As printed; "" where the cell is empty."""

    @property
    def value(self) -> float | None:
        """The number, None where there is none."""
        number = _NUMBER.search(self.text)
        return float(number[0].replace(",", "")) if number else None

    @property
    def decimals(self) -> int:
        """Digits behind the point."""
        number = _NUMBER.search(self.text)
        return len(number[1] or "") if number else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTable:
    """A table of a paper as it is printed; a figure has no cells."""

    name: str
    """For example "clark2019-table2"."""
    title: str
    where: str = ""
    """Page or section."""
    labels: Sequence[str] = ()
    """Headers of the columns that say what a row is about."""
    columns: Sequence[str] = ()
    cells: Sequence[PrintedCell] = ()
    """Row by row, empty ones too."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What only this table has, such as the texts of Table 1 of Clark et al."""

    @property
    def paper(self) -> str:
        """Who wrote it; "" for what is in no paper."""
        return PAPERS.get(self.name.partition("-")[0], "")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What the rows are about, in their order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    def column(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the numbers of a column by row; rows without one are left out."""
        return {
            cell.row: cell.value
            for cell in self.cells
            if cell.column == name and cell.value is not None
        }


@cache
def printed_tables() -> Mapping[str, PrintedTable]:
    """Return every table and figure by its name, in the order of the papers."""
    return {name: _table(name, **entry) for name, entry in toml("published").items()}


def printed_table(name: str) -> PrintedTable:
    """Return one table; a `ValueError` has the nearest name.

    Examples
    --------
    >>> printed_table("clark2019-table2").column("Essays ELMo")["SMS",]
    0.451
    """
    tables = printed_tables()
    if name not in tables:
        raise ValueError(f"no such table `{name}`; {nearest(name, tables)}")
    return tables[name]


@cache
def toml(name: str) -> dict[str, Any]:
    """Read one of the files of data in this folder."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


def _table(name: str, rows: list[list[str]], **entry: Any) -> PrintedTable:  # noqa: ANN401
    known = {key: entry.pop(key) for key in ("title", "where", "labels", "columns")}
    n_labels = len(known["labels"])
    cells = [
        PrintedCell(tuple(row[:n_labels]), column, text)
        for row in rows
        for column, text in zip(known["columns"], row[n_labels:], strict=True)
    ]
    return PrintedTable(name=name, **known, cells=cells, extra=entry)
