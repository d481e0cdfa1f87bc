"""`assay import`: published data sets into the columns that Assay reads."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from pipelines.cli.common import show
from pipelines.cli.options import command
from pipelines.settings.datasets import ImportSettings
from sms.naming import counted

if TYPE_CHECKING:
    from pipelines.datasets.readers import DataSource
    from pipelines.datasets.run import ImportRun

_WIDTH = 96


@command(ImportSettings, "[NAME]", "[FILES...]", name="import")
def import_data(name: str | None, files: tuple[str, ...], settings: ImportSettings) -> None:
    """Convert a published data set into the columns assay reads.

    NAME is a data set of `assay import --list`. Without FILES (files or folders), the command
    describes the data set and says which FILES it needs. Nothing is written until all of them
    have been read.
    """
    from pipelines.datasets.readers import SOURCES, find_source

    if settings.list:
        print(_listing(list(SOURCES.values())))
        return
    if name is None:
        raise click.UsageError("name a data set; `assay import --list` shows them")
    source = find_source(name)
    if not files and settings.out is None:
        print(_description(source))
        return
    if not files:
        raise click.UsageError(f"name the files of {name}: {source.takes}")
    if settings.out is None:
        raise click.UsageError("`--out FILE` is missing: name a Parquet file to write")

    from pipelines.datasets.run import import_data as run_import

    run = run_import(name, files, settings.out, ratings=settings.ratings)
    show("\n".join(_summary(run)))


def _listing(sources: list[DataSource]) -> str:
    from pipelines.reports.terminal import table_text

    rows = [(source.name, source.gives, source.title) for source in sources]
    table = table_text(("name", "gives", "what it is"), rows, n_left=3)
    return f"{table}\n`assay import NAME` says which files a data set needs and where to get them."


def _description(source: DataSource) -> str:
    cells = {
        "gives": source.gives,
        "files": source.takes,
        "from": source.origin,
        "licence": source.licence,
        "paper": source.paper,
        "note": source.note,
    }
    wrap = textwrap.TextWrapper(
        _WIDTH, subsequent_indent=" " * 9, break_on_hyphens=False, break_long_words=False
    )
    described = [wrap.fill(f"{name:<9}{text}") for name, text in cells.items() if text]
    return "\n".join([f"{source.name}: {source.title}", *described])


def _summary(run: ImportRun) -> list[str]:
    lines = []
    for name, table in run.tables.items():
        columns = ", ".join(table.columns)
        where = f"in {table.path}" if table.path else f"not written; name a file with --{name}"
        what = run.source.gives if name == "corpus" and run.source.gives == "pairs" else name
        n_rows = counted(table.n_rows, f"row of {what}", f"rows of {what}")
        lines.append(f"{n_rows} {where} ({columns})")
    lines += [f"Left out: {n:,}, {reason}." for reason, n in run.left_out.items()]
    return lines
