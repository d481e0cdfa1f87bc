"""`reproduce`: makes tables and figures of the papers, and writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import polars as pl

from cluster.output import Output
from cluster.store import is_url, local_folder
from pipelines.papers import bao2020, clark2019, summeval, sun2019
from pipelines.papers.bench import Bench, Made, Table, scored
from pipelines.papers.needs import Found, WeightsNeed
from pipelines.papers.printed import PAPERS, PrintedTable, printed_table
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import Cell, Correlations, Ours, Shown
from pipelines.runs.progress import Progress
from pipelines.settings.encoders import encoders_of
from pipelines.settings.reproduce import ReproduceSettings
from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import find_scores, read_scores
from pipelines.tables.study import make_study
from sms.encoders.registry import parse_spec
from sms.naming import AnyPath, nearest, several

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (*clark2019.TABLES, *sun2019.TABLES, *bao2020.TABLES, summeval.TABLE)
}
"""Everything that can be made, in the order of the papers."""
WORK_FOLDER = "work"
"""Of the output: what was imported and scored, for later runs."""
SCORERS_FOLDER = "scorers"
"""Of the output: scorers that were trained, unless `--scorers` names another folder."""


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
    of_study = bool(settings.scores) or settings.ratings is not None
    chosen = list(find_tables(several(tables), of_study=of_study))
    _check(chosen, settings)
    output = None if settings.out is None else Output.named("out", settings.out)
    if output is not None:
        output.check_folder()
    results = _of_study(chosen, settings) if of_study else _of_papers(chosen, settings, output)
    made = []
    for result in results:
        if output is not None:
            _write(result, output)
        made.append(result)
    return made


def _of_papers(
    tables: Sequence[Table], settings: ReproduceSettings, output: Output | None
) -> Iterable[Reproduction]:
    """Make tables from the papers' data, or what stands in for them."""
    with _work_folder(output) as work:
        bench = Bench(
            data=_checked_folder("data", settings.data),
            work=Path(work),
            encoders=encoders_of(settings.encoders or {}),
            scorers=_scorers_folder(settings, output),
            trains=settings.train,
            device=settings.device,
            seed=settings.seed,
            tell=settings.on_progress or (lambda _progress: None),
        )
        if settings.fresh:
            bench.clear()
        for table in tables:
            yield _made(table, bench)


def _of_study(tables: Sequence[Table], settings: ReproduceSettings) -> Iterable[Reproduction]:
    """Make tables from scores and ratings of one's own."""
    rated = read_ratings(
        settings.ratings or "", aspects=settings.aspects, raters=settings.raters, columns={}
    )
    inputs = [find_scores(path) for path in settings.scores]
    scores = read_scores(inputs, rated.keys, metrics=settings.metrics, columns={})
    study = make_study(rated, scores)
    own = scored(study, scores.signatures, seed=settings.seed, human_systems=settings.human_systems)
    for table in tables:
        assert table.shows is not None  # noqa: S101  (`find_tables` takes no others)
        if shown := table.shows(own):
            figure = replace(
                shown,
                name=table.name,
                frame=shown.frame.with_columns(raters=pl.lit(study.pool)),
                notes=[*shown.notes, f"Raters: {study.pool}."],
            )
            yield Reproduction(
                printed=PrintedTable(name=table.name, title=shown.title),
                ours={},
                differs=[
                    "The data are a study's, not the paper's: no published numbers belong to them."
                ],
                figures=[figure],
            )


def needs_of(
    table: str,
    data: AnyPath | None = None,
    *,
    scorers: AnyPath | None = None,
    encoders: Mapping[str, str] | None = None,
) -> list[Found]:
    """Say what a table needs and what of it is there, without reading any of it.

    The parameters are as in `ReproduceSettings`. A wrong name or specification is a `ValueError`.
    """
    (named,) = find_tables([table])
    _check_encoders([named], encoders or {})
    bench = Bench(
        data=_checked_folder("data", data),
        work=Path(),
        encoders=dict(encoders or {}),
        scorers=_checked_folder("scorers", scorers),
    )
    return [bench.find(need) for need in named.needs]


def find_tables(names: Iterable[str], *, of_study: bool = False) -> Iterable[Table]:
    """Find tables and figures by their names; with `of_study` those that a study has, and papers'.

    A wrong name is a `ValueError` with the nearest one.
    """
    known = {name: [table] for name, table in TABLES.items() if table.shows or not of_study}
    if of_study:
        papers = {paper: [t for t in TABLES.values() if t.paper == paper and t.shows]
                  for paper in PAPERS}  # fmt: skip
        known = papers | known
    for name in dict.fromkeys(names):
        if name in TABLES and name not in known:
            raise ValueError(
                f"{name} compares no scores with ratings; with `--scores` name one of "
                f"{', '.join(known)}"
            )
        if name not in known:
            raise ValueError(f"no such table `{name}`; {nearest(name, known)}")
        yield from known[name]


def about(table: Table) -> PrintedTable:
    """Return what is printed of a table; of SummEval, on which there is nothing, its title."""
    if table.name == summeval.NAME:
        return PrintedTable(name=table.name, title=summeval.TITLE)
    return printed_table(table.name)


def _made(table: Table, bench: Bench) -> Reproduction:
    bench.missing, bench.differs = {}, {}
    bench.tell(Progress(stage=f"making {table.name}"))
    made = table.make(bench) if table.make else _filled(table, bench)
    if not (made.ours or made.figures):
        names = ", ".join(text.partition(" (")[0] for text in bench.missing)
        raise ValueError(
            f"nothing of {table.name} can be made, because these are missing: {names}; "
            f"`assay reproduce {table.name} --dry-run` says where they belong"
        )
    return Reproduction(
        printed=about(table),
        ours=made.ours,
        differs=[*bench.differs, *table.differs, *made.differs],
        notes=made.notes,
        missing=list(bench.missing),
        figures=made.figures,
    )


def _filled(table: Table, bench: Bench) -> Made:
    """Fill the cells of a table of correlations, or draw a figure, for each of its data sets."""
    ours: dict[Cell, Ours] = {}
    notes: list[str] = []
    figures: list[Shown] = []
    aliases = [need.alias for need in table.encoders]
    for name, own in bench.fill(table):
        titles = own.names
        if not isinstance(table.shows, Correlations):
            own = replace(own, scores={titles.get(m, m): x for m, x in own.scores.items()})
        shown = table.shows(own) if table.shows else None
        if shown is None:
            continue
        if not isinstance(table.shows, Correlations):
            suffix = f"-{name.lower()}" if len(table.data) > 1 else ""
            figures.append(replace(shown, name=f"{table.name}{suffix}"))
            continue
        frame = shown.frame.filter(level=table.shows.levels[0])
        heads = {aspect: title or name for aspect, title in table.data[name].aspects.items()}
        for _, cell, number in table.shows.cells(frame, heads, titles, aliases):
            ours[cell] = number
        notes += [note for note in shown.notes if note.startswith("From ")]
        if name:
            notes[-1] = f"{name}: {notes[-1][0].lower()}{notes[-1][1:]}"
    return Made(ours=ours, notes=notes, figures=figures)


def _check(tables: Sequence[Table], settings: ReproduceSettings) -> None:
    if not tables:
        raise ValueError("`tables` must name at least one table, got none")
    if bool(settings.scores) != (settings.ratings is not None):
        raise ValueError("`scores` and `ratings` must be given together, or neither of them")
    _check_encoders(tables, encoders_of(settings.encoders or {}))
    for table in tables:
        if settings.out is None and "figure" in table.name:
            raise ValueError(f"`out` must name a folder for {table.name}, which is a picture")
    if settings.train and settings.scorers is None and settings.out is None:
        raise ValueError("`scorers` or `out` must name a folder for the scorers that are trained")


def _check_encoders(tables: Sequence[Table], encoders: Mapping[str, str]) -> None:
    needs = [need for table in tables for need in table.needs]
    known = {need.alias: None for need in needs if isinstance(need, WeightsNeed)}
    for alias, spec in encoders.items():
        if alias not in known:
            raise ValueError(
                f"`encoder` must name weights of these tables, got `{alias}`; "
                f"{nearest(alias, known)}"
            )
        parse_spec(spec)


def _checked_folder(option: str, folder: AnyPath | None) -> Path | None:
    if folder is None:
        return None
    local = local_folder(option, folder)
    if not local.is_dir():
        raise ValueError(f"`{option}` must be a folder, got {os.fspath(folder)}")
    return local


def _scorers_folder(settings: ReproduceSettings, out: Output | None) -> Path | None:
    if not settings.train:
        return _checked_folder("scorers", settings.scorers)
    if settings.scorers is not None:
        return local_folder("scorers", settings.scorers)
    return None if out is None else out.local / SCORERS_FOLDER


def _work_folder(out: Output | None) -> AbstractContextManager[AnyPath]:
    if out is None or is_url(out.path):
        return tempfile.TemporaryDirectory(prefix="assay-")
    return nullcontext(out.local / WORK_FOLDER)


def _write(result: Reproduction, out: Output) -> None:
    """Write a table as Markdown, CSV and JSON, its figures as pictures with their numbers."""
    name = result.printed.name
    out.write(result.to_markdown().encode(), f"{name}.md")
    out.write(result.to_json().encode(), f"{name}.json")
    if result.printed.cells:
        out.write(result.frame().write_csv().encode(), f"{name}.csv")
    for figure in result.figures:
        out.write(figure.frame.write_csv().encode(), f"{figure.name}.csv")
        for suffix, content in plot_files(figure).items():
            out.write(content, f"{figure.name}{suffix}")


def plot_files(figure: Shown) -> dict[str, bytes]:
    """Draw a figure as SVG and PNG, by suffix; nothing for a table."""
    if figure.make_chart is None:
        return {}
    import altair as alt

    from pipelines.reports.charts import draw_files

    # Altair refuses more than 5,000 rows, for the sake of web pages; these are files.
    with alt.data_transformers.enable("default", max_rows=None):
        return draw_files(figure.make_chart())
