"""`reproduce`: makes tables of the papers, and writes them next to the published."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cluster.output import Output
from cluster.store import is_url, local_folder
from pipelines.papers import bao2020, clark2019, sun2019
from pipelines.papers.bench import Bench
from pipelines.papers.table import (
    Need,
    Numbers,
    Ours,
    PrintedCell,
    PrintedTable,
    Table,
    differences,
    printed_table,
)
from pipelines.reports.numbers import UNDEFINED, number_text
from pipelines.reports.tables import escape_markdown
from pipelines.settings.encoders import encoders_of
from pipelines.settings.reproduce import ReproduceSettings
from sms.encoders.registry import parse_spec
from sms.naming import AnyPath, nearest, several

TABLES: dict[str, Table] = {
    table.name: table for table in (*clark2019.TABLES, *sun2019.TABLES, *bao2020.TABLES)
}
"""Everything that can be made, in the order of the papers."""
WORK_FOLDER = "work"
"""Of the output: what was imported and scored, for later runs."""

_LEGEND = "Each cell: published / ours (ours minus published); a number alone is published."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reproduction:
    """The result of making a table again."""

    printed: PrintedTable
    ours: Numbers
    differs: Sequence[str]
    """What is not as in the paper: data, weights, or how something is computed."""
    notes: Sequence[str] = ()
    """What else a reader must know, such as numbers of documents."""
    missing: Sequence[str] = ()
    """What was needed and is not there."""

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
        title = f"{printed.title}. {printed.paper}, {printed.where}."
        lines = [f"# {printed.name}", "", escape_markdown(title), ""]
        rows: dict[tuple[str, ...], list[str]] = {}
        for cell in printed.cells:
            rows.setdefault(cell.row, list(cell.row)).append(self._text(cell))
        header = [*printed.labels, *printed.columns]
        dashes = [":---"] * len(printed.labels) + ["---:"] * len(printed.columns)
        escaped = [map(escape_markdown, row) for row in (header, *rows.values())]
        table = [f"| {' | '.join(row)} |" for row in (escaped[0], dashes, *escaped[1:])]
        lines += [_LEGEND, "", *table, ""]
        for title, items in (
            ("What differs from the paper", self.differs),
            ("Notes", self.notes),
            ("Not computed, because it is not there", self.missing),
        ):
            if items:
                lines += [f"{title}:", "", *(f"- {escape_markdown(item)}" for item in items), ""]
        return "\n".join(lines).rstrip() + "\n"

    def to_json(self) -> str:
        """Write everything."""
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


def reproduce(tables: str | Sequence[str], settings: ReproduceSettings) -> list[Reproduction]:
    """Make tables of the three papers, next to the published numbers.

    Raises ValueError if the request is wrong or nothing that a table needs is there, OSError if a
    file cannot be read or written.

    Examples
    --------
    >>> (table6,) = reproduce("clark2019-table6", ReproduceSettings())
    >>> table6.frame().filter(criterion="overall", against="SMS", column="% ↑")["ours"].round(1)[0]
    67.8
    """
    chosen = [_find_table(name) for name in dict.fromkeys(several(tables))]
    if not chosen:
        raise ValueError("`tables` must name at least one table, got none")
    _check_encoders(chosen, settings)
    output = None if settings.out is None else Output.named("out", settings.out)
    if output is not None:
        output.check_folder()
    data, scorers = _folder("data", settings.data), _folder("scorers", settings.scorers)
    folder: AbstractContextManager[AnyPath] = (
        tempfile.TemporaryDirectory(prefix="assay-")
        if output is None or is_url(output.path)
        else nullcontext(output.local / WORK_FOLDER)
    )
    results = []
    with folder as work:
        bench = Bench(settings, Path(work), data=data, scorers=scorers)
        if settings.fresh:
            shutil.rmtree(work, ignore_errors=True)
        for table in chosen:
            results.append(_made(table, bench))
            if output is not None:
                _write(results[-1], output)
    return results


def needs_of(table: str, settings: ReproduceSettings) -> list[tuple[Need, str, bool]]:
    """Say what a table needs, where that belongs, and whether it is there, without reading it.

    A wrong name or specification is a `ValueError`.
    """
    named = _find_table(table)
    _check_encoders([named], settings)
    data, scorers = _folder("data", settings.data), _folder("scorers", settings.scorers)
    bench = Bench(settings, data=data, scorers=scorers)
    return [(need, *bench.find(need)) for need in named.needs]


def _find_table(name: str) -> Table:
    if name not in TABLES:
        raise ValueError(f"no such table `{name}`; {nearest(name, TABLES)}")
    return TABLES[name]


def _made(table: Table, bench: Bench) -> Reproduction:
    bench.missing, bench.differs = {}, {}
    bench.tell(f"making {table.name}")
    made = table.make(bench, table)
    if not made.ours:
        names = ", ".join(text.partition(" (")[0] for text in bench.missing)
        raise ValueError(
            f"nothing of {table.name} can be made, because these are missing: {names}; "
            f"`assay reproduce {table.name} --dry-run` says where they belong"
        )
    return Reproduction(
        printed=printed_table(table.name),
        ours=made.ours,
        differs=[*bench.differs, *differences(table.name), *made.differs],
        notes=made.notes,
        missing=list(bench.missing),
    )


def _check_encoders(tables: Sequence[Table], settings: ReproduceSettings) -> None:
    needs = [need for table in tables for need in table.needs]
    known = {need.name: None for need in needs if need.kind == "weights"}
    for alias, spec in encoders_of(settings.encoders or {}).items():
        if alias not in known:
            raise ValueError(
                f"`encoder` must name weights of these tables, got `{alias}`; "
                f"{nearest(alias, known)}"
            )
        parse_spec(spec)


def _folder(option: str, folder: AnyPath | None) -> Path | None:
    if folder is None:
        return None
    local = local_folder(option, folder)
    if not local.is_dir():
        raise ValueError(f"`{option}` must be a folder, got {os.fspath(folder)}")
    return local


def _write(result: Reproduction, out: Output) -> None:
    """Write a table as Markdown, CSV and JSON."""
    name = result.printed.name
    out.write(result.to_markdown().encode(), f"{name}.md")
    out.write(result.to_json().encode(), f"{name}.json")
    out.write(result.frame().write_csv().encode(), f"{name}.csv")
