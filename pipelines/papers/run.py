"""`reproduce`: makes tables and figures of the papers, and writes them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from cluster.output import Output
from pipelines.papers import bao2020, clark2019, summeval, sun2019
from pipelines.papers.bench import Bench, Need, Table, differences
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import Cell, Ours, Shown
from pipelines.runs.forks import with_threads
from pipelines.settings.reproduce import ReproduceSettings
from sms.encoders.registry import parse_spec
from sms.naming import AnyPath, nearest, several
from sms.options import encoders_of
from sms.urls import is_url

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (*clark2019.TABLES, *sun2019.TABLES, *bao2020.TABLES, summeval.TABLE)
}
"""Everything that can be made, in the order of the papers."""
WORK_FOLDER = "work"
"""Of the output: what was imported and scored, for later runs."""


@with_threads
def reproduce(tables: str | Sequence[str], settings: ReproduceSettings) -> list[Reproduction]:
    """Make tables or figures of the three papers, next to the published numbers.

    Raises ValueError if the request is wrong or nothing that a table needs is there, OSError if a
    file cannot be read or written.

    Examples
    --------
    >>> (table6,) = reproduce("clark2019-table6", ReproduceSettings())
    >>> table6.frame().filter(criterion="overall", against="SMS", column="% ↑")["ours"].round(1)[0]
    67.8
    """
    chosen = list(find_tables(several(tables)))
    _check(chosen, settings)
    output = None if settings.out is None else Output.named("out", settings.out)
    if output is not None:
        output.check_folder()
    made = []
    for result in _made_one_by_one(chosen, settings, output):
        if output is not None:
            _write(result, output)
        made.append(result)
    return made


def _made_one_by_one(
    tables: Sequence[Table], settings: ReproduceSettings, output: Output | None
) -> Iterable[Reproduction]:
    """Make tables from the papers' data, or what stands in for them."""
    folder: AbstractContextManager[AnyPath] = (
        tempfile.TemporaryDirectory(prefix="assay-")
        if output is None or is_url(output.path)
        else nullcontext(output.local / WORK_FOLDER)
    )
    with folder as work:
        bench = Bench(settings, Path(work))
        if settings.fresh:
            shutil.rmtree(work, ignore_errors=True)
        for table in tables:
            yield _made(table, bench)


def needs_of(table: str, settings: ReproduceSettings) -> list[tuple[Need, str, bool]]:
    """Say what a table needs, where that belongs, and whether it is there, without reading it.

    A wrong name or specification is a `ValueError`.
    """
    (named,) = find_tables([table])
    _check_encoders([named], settings)
    bench = Bench(settings)
    return [(need, *bench.find(need)) for need in named.needs]


def find_tables(names: Iterable[str]) -> Iterable[Table]:
    """Find tables and figures by their names; a wrong one is a `ValueError` with the nearest."""
    for name in dict.fromkeys(names):
        if name not in TABLES:
            raise ValueError(f"no such table `{name}`; {nearest(name, TABLES)}")
        yield TABLES[name]


def _made(table: Table, bench: Bench) -> Reproduction:
    bench.missing, bench.differs = {}, {}
    bench.tell(f"making {table.name}")
    made = (table.make or _filled)(bench, table)
    if not (made.ours or made.figures):
        names = ", ".join(text.partition(" (")[0] for text in bench.missing)
        raise ValueError(
            f"nothing of {table.name} can be made, because these are missing: {names}; "
            f"`assay reproduce {table.name} --dry-run` says where they belong"
        )
    differs = [*bench.differs, *differences(table.name), *made.differs]
    return replace(made, differs=differs, missing=list(bench.missing))


def _filled(bench: Bench, table: Table) -> Reproduction:
    """Fill the cells of a table of correlations, or draw a figure, for each of its data sets."""
    ours: dict[Cell, Ours] = {}
    notes: list[str] = []
    figures: list[Shown] = []
    assert table.shows is not None  # noqa: S101  (a table without has its own `make`)
    for name, scored in bench.fill(table):
        if table.is_figure:
            scored = replace(
                scored, scores={scored.names.get(m, m): x for m, x in scored.scores.items()}
            )
        shown = table.shows(scored)
        if shown is not None and table.is_figure:
            suffix = f"-{name.lower()}" if len(table.data) > 1 else ""
            figures.append(replace(shown, name=f"{table.name}{suffix}"))
        elif shown is not None:
            ours |= shown.numbers
            (sizes,) = (note for note in shown.notes if note.startswith("From "))
            notes.append(f"{name}: {sizes[0].lower()}{sizes[1:]}" if name else sizes)
    return Reproduction(printed=table.printed, ours=ours, notes=notes, figures=figures)


def _check(tables: Sequence[Table], settings: ReproduceSettings) -> None:
    if not tables:
        raise ValueError("`tables` must name at least one table, got none")
    _check_encoders(tables, settings)
    for table in tables:
        if settings.out is None and table.is_figure:
            raise ValueError(f"`out` must name a folder for {table.name}, which is a picture")


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


def _write(result: Reproduction, out: Output) -> None:
    """Write a table as Markdown, CSV and JSON, its figures as pictures with their numbers."""
    name = result.printed.name
    out.write(result.to_markdown().encode(), f"{name}.md")
    out.write(result.to_json().encode(), f"{name}.json")
    if result.printed.cells:
        out.write(result.frame().write_csv().encode(), f"{name}.csv")
    for figure in result.figures:
        out.write(figure.frame.write_csv().encode(), f"{figure.name}.csv")
        if figure.chart:
            out.write(figure.chart.encode(), f"{figure.name}.svg")
