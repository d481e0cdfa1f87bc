"""The tables and figures of the three papers, made anew from a study, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import polars as pl

from cluster.store import write_whole
from pipelines.papers.bao2020_tables import bao2020_tables
from pipelines.papers.clark2019_tables import clark2019_tables
from pipelines.papers.published import HUMAN_SYSTEMS, PublishedTable
from pipelines.papers.sun2019_tables import sun2019_tables
from pipelines.reports.tables import Column, PaperTable, escape_markdown, to_latex, to_markdown
from pipelines.tables.study import Study

PAPERS = ("clark2019", "sun2019", "bao2020")
"""Names for `--as`."""
TABLES_FOLDER = "papers"


def paper_tables(
    name: str,
    study: Study,
    *,
    signatures: Mapping[str, str],
    seed: int = 0,
    human_systems: Sequence[str] = HUMAN_SYSTEMS,
) -> list[PublishedTable]:
    """Make the tables and figures of a paper from the scores and ratings of a study.

    Parameters
    ----------
    name : str
        One of `PAPERS`.
    study : Study
        From `make_study`.
    signatures : mapping of str to str
        By metric; Figure 2 of Sun and Nenkova reads from them how far a source was read.
    seed : int
        Of the draws in Figure 1 of Sun and Nenkova.
    human_systems : sequence of str
        Patterns of the systems whose summaries people wrote, for Bao et al.

    Returns
    -------
    list of PublishedTable

    Raises
    ------
    ValueError
        If there is no paper of that name, or the study lacks what it is about.
    """
    return [
        replace(
            table,
            frame=table.frame.with_columns(raters=pl.lit(study.pool)),
            notes=[*table.notes, f"Raters: {study.pool}."],
        )
        for table in _tables(name, study, signatures, seed, human_systems)
    ]


def write_paper_tables(out: str | Path, tables: Sequence[PublishedTable]) -> list[Path]:
    """Write tables as CSV, Markdown and LaTeX into `papers`, figures as SVG and PNG into `plots`.

    Parameters
    ----------
    out : path
        Folder of the report.
    tables : sequence of PublishedTable
        From `paper_tables`. Every one gets a CSV of its numbers, with all digits, and its notes in
        Markdown.

    Returns
    -------
    list of Path
        The files, in the order they were written; each appears whole or not at all.
    """
    from pipelines.reports.agreement_report import PLOTS_FOLDER

    written = []
    for table in tables:
        files = {TABLES_FOLDER: _table_files(table, PLOTS_FOLDER), PLOTS_FOLDER: plot_files(table)}
        for folder, contents in files.items():
            for suffix, content in contents.items():
                path = Path(out, folder, table.name + suffix)
                write_whole(path, content)
                written.append(path)
    return written


def _tables(
    name: str,
    study: Study,
    signatures: Mapping[str, str],
    seed: int,
    human_systems: Sequence[str],
) -> list[PublishedTable]:
    scores = dict(zip(study.metrics, study.scores, strict=True))
    ratings = dict(zip(study.aspects, study.ratings, strict=True))
    if name == "clark2019":
        return clark2019_tables(scores, ratings)
    if name == "sun2019":
        return sun2019_tables(
            scores, ratings, systems=study.systems, signatures=signatures, seed=seed
        )
    if name == "bao2020":
        return bao2020_tables(scores, ratings, systems=study.systems, human_systems=human_systems)
    raise ValueError(f"`--as` must be one of {', '.join(PAPERS)}, got {name!r}")


def _table_files(table: PublishedTable, plots: str) -> dict[str, bytes]:
    texts = {".csv": table.frame.write_csv()}
    if table.printed is not None:
        shown = shown_table(table, table.printed)
        texts |= {".md": to_markdown(shown), ".tex": to_latex(shown)}
    else:
        texts[".md"] = f"![{table.name}](../{plots}/{table.name}.svg)\n"
    notes = "".join(f"\n{escape_markdown(note)}\n" for note in table.notes)
    texts[".md"] = f"# {escape_markdown(table.title)}\n\n{texts['.md']}{notes}"
    return {suffix: text.encode() for suffix, text in texts.items()}


def plot_files(table: PublishedTable) -> dict[str, bytes]:
    """Draw a figure as SVG and PNG, by suffix; nothing for a table."""
    if table.make_chart is None:
        return {}
    import altair as alt

    from pipelines.reports.charts import draw_files

    # Altair refuses more than 5,000 rows, for the sake of web pages; these are files.
    with alt.data_transformers.enable("default", max_rows=None):
        return draw_files(table.make_chart())


def shown_table(table: PublishedTable, printed: pl.DataFrame) -> PaperTable:
    """Hand the printed text to the writers of Markdown and LaTeX, labels to the left."""
    return PaperTable(
        name=table.name,
        title=table.title,
        caption=" ".join(table.notes),
        frame=printed,
        columns=[
            Column(header=header, show=itemgetter(header), is_numeric=i >= table.n_labels)
            for i, header in enumerate(printed.columns)
        ],
    )
