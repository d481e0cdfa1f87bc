"""`reproduce`: makes tables and figures of the papers, and writes them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cluster.output import Output
from cluster.store import is_url, local_folder
from pipelines.papers import bao2020, clark2019, sun2019
from pipelines.papers.bench import Bench
from pipelines.papers.printed import printed_table
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import Need, Table, differences
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
    chosen = [_find_table(name) for name in dict.fromkeys(several(tables))]
    if not chosen:
        raise ValueError("`tables` must name at least one table, got none")
    _check_encoders(chosen, settings)
    output = None if settings.out is None else Output.named("out", settings.out)
    for table in chosen:
        if output is None and "figure" in table.name:
            raise ValueError(f"`out` must name a folder for {table.name}, which is a picture")
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
    if not (made.ours or made.figures):
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
        figures=made.figures,
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
    """Write a table as Markdown, CSV and JSON, its figures as pictures with their numbers."""
    name = result.printed.name
    out.write(result.to_markdown().encode(), f"{name}.md")
    out.write(result.to_json().encode(), f"{name}.json")
    if result.printed.cells:
        out.write(result.frame().write_csv().encode(), f"{name}.csv")
    for figure in result.figures:
        from pipelines.reports.charts import draw_svg

        out.write(figure.frame.write_csv().encode(), f"{figure.name}.csv")
        out.write(draw_svg(dict(figure.chart)), f"{figure.name}.svg")
