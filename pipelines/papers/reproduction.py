"""A table of a paper next to the same numbers of ours: as text for people, as rows for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from pipelines.papers.printed import PrintedCell, PrintedTable
from pipelines.papers.table import Numbers, Ours, Shown, laid_out
from pipelines.reports.numbers import UNDEFINED, number_text
from pipelines.reports.tables import PaperTable, escape_markdown, to_markdown

_LEGEND = "Each cell: published / ours (ours minus published); a number alone is published."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reproduction:
    """The result of making a table or figure again."""

    printed: PrintedTable
    ours: Numbers = field(default_factory=dict)
    differs: Sequence[str] = ()
    """What is not as in the paper: data, weights, or how something is computed."""
    notes: Sequence[str] = ()
    """What else a reader must know, such as numbers of documents."""
    missing: Sequence[str] = ()
    """What was needed and is not there."""
    figures: Sequence[Shown] = ()
    """Figures (with their numbers) that belong to it, and tables that were not published."""

    def frame(self) -> pl.DataFrame:
        """Return a row per printed cell.

        Columns are the labels of the table, `column`, `printed` (the text), `published`, `ours`
        and `difference` (ours minus published); null where there is no number.
        """
        rows = [
            (*cell.row, cell.column, cell.text, cell.value, self._ours(cell).value)
            for cell in self.printed.cells
        ]
        texts = dict.fromkeys((*self.printed.labels, "column", "printed"), pl.String)
        schema = {**texts, "published": pl.Float64, "ours": pl.Float64}
        frame = pl.DataFrame(rows, schema, orient="row")
        return frame.with_columns(difference=pl.col("ours") - pl.col("published"))

    def to_markdown(self) -> str:
        """Write the table in the layout of the paper: `published / ours (difference)`."""
        printed = self.printed
        place = f" {printed.paper}, {printed.where}." if printed.where else ""
        lines = [f"# {printed.name}", "", escape_markdown(f"{printed.title}.{place}"), ""]
        if printed.cells:
            texts = ((cell.row, cell.column, self._text(cell)) for cell in printed.cells)
            table = laid_out(printed.labels, texts)
            lines += [_LEGEND, "", _markdown(table, len(printed.labels)), ""]
        for figure in self.figures:
            shown = f"![{figure.name}]({figure.name}.svg)"
            if figure.printed is not None:
                shown = _markdown(figure.printed, figure.n_labels)
            lines += [f"## {escape_markdown(figure.title)}", "", shown, ""]
            lines += [escape_markdown(" ".join(figure.notes)), ""] if figure.notes else []
        for title, items in (
            ("What differs from the paper", self.differs),
            ("Notes", self.notes),
            ("Not computed, because it is not there", self.missing),
        ):
            if items:
                lines += [f"{title}:", "", *(f"- {escape_markdown(item)}" for item in items), ""]
        return "\n".join(lines).rstrip() + "\n"

    def to_json(self) -> str:
        """Write everything but the figures."""
        content = {
            **{name: getattr(self.printed, name) for name in ("name", "title", "paper", "where")},
            "cells": self.frame().to_dicts(),
            **{name: list(getattr(self, name)) for name in ("differs", "notes", "missing")},
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def _ours(self, cell: PrintedCell) -> Ours:
        return self.ours.get((cell.row, cell.column), Ours(None))

    def _text(self, cell: PrintedCell) -> str:
        if (cell.row, cell.column) not in self.ours:
            return cell.text
        ours = self._ours(cell)
        shown = ours.text(cell.decimals)
        if cell.value is None or ours.value is None:
            return f"{cell.text or UNDEFINED} / {shown}"
        difference = number_text(ours.value - cell.value, cell.decimals, minus="-")
        sign = "" if difference.startswith("-") or not float(difference) else "+"
        return f"{cell.text} / {shown} ({sign}{difference})"


def _markdown(frame: pl.DataFrame, n_labels: int) -> str:
    """Write a table of text, numbers to the right of the labels."""
    sides = "l" * n_labels + "r" * (frame.width - n_labels)
    table = PaperTable(title="", header=frame.columns, alignment=sides, rows=frame.rows())
    return to_markdown(table).rstrip()
