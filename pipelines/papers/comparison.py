"""A table of a paper beside the same numbers of ours: as text for people, as rows for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

import polars as pl

from pipelines.papers.from_study import shown_table
from pipelines.papers.printed import PrintedCell, PrintedTable
from pipelines.papers.published import PublishedTable, laid_out
from pipelines.reports.numbers import UNDEFINED, number_text
from pipelines.reports.tables import Column, PaperTable, escape_markdown, to_markdown

MOST_LINES = 12
"""Of each list below a table."""

_LEGEND = "Each cell: published / ours (ours minus published); a number alone is published."


@dataclass(frozen=True, slots=True)
class Ours:
    """A number that was computed here."""

    value: float | None
    """None where it is undefined, never NaN."""
    before: str = ""
    """Stars in front of it, as Clark et al. print them."""
    behind: str = ""
    """Stars behind it, as Sun and Nenkova print them."""


Cell: TypeAlias = tuple[tuple[str, ...], str]
"""Row and column of a printed table."""
Numbers: TypeAlias = Mapping[Cell, Ours]
"""By cell; what could not be computed is not there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reproduction:
    """What came of making a table or figure again."""

    printed: PrintedTable
    ours: Numbers
    differs: Sequence[str]
    """What is not as in the paper: data, weights, or how something is computed."""
    notes: Sequence[str] = ()
    """What else a reader must know, such as numbers of documents."""
    missing: Sequence[str] = ()
    """What was needed and is not there."""
    figures: Sequence[PublishedTable] = field(default=())
    """Figures (with their numbers) that belong to it."""

    @property
    def n_compared(self) -> int:
        """Cells with a printed number and one of ours."""
        return sum(row["difference"] is not None for row in self.frame().iter_rows(named=True))

    def frame(self) -> pl.DataFrame:
        """Return a row per printed cell.

        Columns are the labels of the table, `column`, `printed` (the text), `published`, `ours`
        and `difference` (ours minus published); null where there is no number.
        """
        rows = []
        for cell in self.printed.cells:
            ours = self.ours.get((cell.row, cell.column))
            value = None if ours is None else ours.value
            is_comparable = value is not None and cell.value is not None
            rows.append(
                dict(zip(self.printed.labels, cell.row, strict=True))
                | {
                    "column": cell.column,
                    "printed": cell.text,
                    "published": cell.value,
                    "ours": value,
                    "difference": value - cell.value if is_comparable else None,  # type: ignore[operator]
                }
            )
        kinds = dict.fromkeys((*self.printed.labels, "column", "printed"), pl.String)
        numbers = dict.fromkeys(("published", "ours", "difference"), pl.Float64)
        return pl.DataFrame(rows, schema={**kinds, **numbers})

    def to_markdown(self) -> str:
        """Write the table in the layout of the paper: `published / ours (difference)`."""
        printed = self.printed
        place = f" {printed.paper}, {printed.where}." if printed.where else ""
        lines = [f"# {printed.name}", "", escape_markdown(f"{printed.title}.{place}"), ""]
        if printed.cells:
            lines += [_LEGEND, "", self._table()]
        for figure in self.figures:
            lines += _figure_lines(figure)
        for title, items in (
            ("What differs from the paper", self.differs),
            ("Notes", self.notes),
            ("Not computed, because it is not there", self.missing),
        ):
            if items:
                shown = [f"- {escape_markdown(item)}" for item in items[:MOST_LINES]]
                n_more = len(items) - len(shown)
                more = [f"- and {n_more} more"] if n_more else []
                lines += [f"{title}:", "", *shown, *more, ""]
        return "\n".join(lines).rstrip() + "\n"

    def to_json(self) -> str:
        """Write everything but the figures."""
        content = {
            "name": self.printed.name,
            "title": self.printed.title,
            "paper": self.printed.paper,
            "where": self.printed.where,
            "cells": self.frame().to_dicts(),
            "differs": list(self.differs),
            "notes": list(self.notes),
            "missing": list(self.missing),
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def _table(self) -> str:
        texts = ((cell.row, cell.column, self._text(cell)) for cell in self.printed.cells)
        frame = laid_out(self.printed.labels, texts)
        columns = [
            Column(header=name, show=itemgetter(name), is_numeric=i >= len(self.printed.labels))
            for i, name in enumerate(frame.columns)
        ]
        shown = PaperTable(
            name=self.printed.name, title="", caption="", frame=frame, columns=columns
        )
        return to_markdown(shown)

    def _text(self, cell: PrintedCell) -> str:
        ours = self.ours.get((cell.row, cell.column))
        if ours is None:
            return cell.text
        shown = f"{ours.before}{number_text(ours.value, cell.decimals, minus='-')}{ours.behind}"
        if cell.value is None or ours.value is None:
            return f"{cell.text or UNDEFINED} / {shown}"
        difference = number_text(ours.value - cell.value, cell.decimals, minus="-")
        sign = "" if difference.startswith("-") or not float(difference) else "+"
        return f"{cell.text} / {shown} ({sign}{difference})"


def _figure_lines(figure: PublishedTable) -> list[str]:
    """Write a table with its own layout, or the place of a picture, with what is said of it."""
    if figure.printed is None:
        shown = f"![{figure.name}]({figure.name}.svg)\n"
    else:
        shown = to_markdown(shown_table(figure, figure.printed))
    notes = [escape_markdown(" ".join(figure.notes)), ""] if figure.notes else []
    return [f"## {escape_markdown(figure.title)}", "", shown, *notes]
