"""What Assay brings, and other tools' data: lists, `example`, `import`, `export`, `reproduce`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipelines.cli.common import show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.datasets import ExportSettings, ImportSettings
from pipelines.settings.reproduce import ReproduceCommand

if TYPE_CHECKING:
    from pipelines.datasets.readers import DataSource
    from pipelines.datasets.run import ImportRun

EXAMPLES = {
    "quality_ladder.jsonl": "14 documents with references, each summarised by 5 systems",
    "written_quality.csv": "ratings: the quality that each summary was written to have (5 is best)",
}
"""Of the folder `pipelines/examples`, and what they are."""


@click.command()
def metrics() -> None:
    """List the metrics, what each needs and how to read it."""
    from pipelines.reports.terminal import table_text
    from sms.metrics import all_metrics

    rows = [
        (m.spec or m.name, m.higher_is, ", ".join(m.needs) or "–", m.summary)
        for m in all_metrics().values()
    ]
    print(table_text(("metric", "higher means", "needs", "what it is"), rows, n_left=4))
    print("\nWrite METRIC[@ENCODER][:AGAINST], for example sms, wms@glove, cosine:source,")
    print("or cosine@all, the mean over the encoders of the run.")


@click.command()
def encoders() -> None:
    """List the encoders, their options and what they need."""
    from pipelines.reports.terminal import table_text
    from sms.encoders.registry import ENCODERS

    rows = [
        (e.spec, ", ".join(e.vectors), f"extra {e.extra}" if e.extra else "–", e.summary)
        for e in ENCODERS.values()
    ]
    options = [
        (e.kind, f"{option.name}={'|'.join(option.choices) or 'PATH'}",
         option.default or "must be given", option.summary)
        for e in ENCODERS.values()
        for option in e.options
    ]  # fmt: skip
    print(table_text(("encoder", "vectors of", "needs", "what it is"), rows, n_left=4))
    print()
    print(table_text(("encoder", "option", "default", "what it is"), options, n_left=4))
    print("\nWrite --encoder [ALIAS=]SPEC[,OPTION=VALUE...], for example")
    print("--encoder news=glove:vectors.txt,pooling=max, or in the file of --config:")
    print('encoders = {news = "glove:vectors.txt,pooling=max"}')
    print("An extra is installed with: pip install 'assay[EXTRA]'")


@click.command()
@click.option(
    "--out", metavar="DIR", default=".", show_default=True, help="Write the corpus to this folder."
)
def example(out: str) -> None:
    """Write a small corpus, with ratings, to try the commands on.

    The texts are invented. The ratings are not human judgements: they say what each summary was
    written to be, from 5 (good) over 4 (copied), 3 (vague) and 2 (corrupted) to 1 (of another
    document). An existing file is never replaced by a different one.
    """
    from importlib.resources import files

    from cluster.output import Output
    from cluster.store import join, read_whole

    output = Output.named("--out", out)
    output.check_folder()
    folder = files("pipelines").joinpath("examples")
    contents = {name: folder.joinpath(name).read_bytes() for name in EXAMPLES}
    for name, content in contents.items():
        there = join(output.path, name)
        if name in output.names() and read_whole(there) != content:
            raise click.UsageError(f"{there} exists with other content; choose another `--out`")
    for name, content in contents.items():
        output.write(content, name)
        print(f"{join(out, name).removeprefix('./')}: {EXAMPLES[name]}")


@command(ImportSettings, "[NAME]", "[FILES...]", name="import")
def import_data(name: str | None, files: tuple[str, ...], settings: ImportSettings) -> None:
    """Convert a published data set into the columns assay reads.

    NAME is one of `assay import --list`; without FILES, the command says what the data set is and
    which FILES it needs: files or folders. Nothing is written until all of them
    have been read.
    """
    from pipelines.datasets.readers import SOURCES, find_source
    from pipelines.datasets.run import import_data as run_import
    from pipelines.reports.terminal import table_text

    if settings.list:
        rows = [(source.name, source.gives, source.title) for source in SOURCES.values()]
        print(table_text(("name", "gives", "what it is"), rows, n_left=3))
        print("`assay import NAME` says which files a data set needs and where to get them.")
        return
    if name is None:
        raise click.UsageError("name a data set; `assay import --list` shows them")
    source = find_source(name)
    if not files and settings.out is None:
        print(_described(source))
        return
    if not files:
        raise click.UsageError(f"name the files of {name}: {source.takes}")
    if settings.out is None:
        raise click.UsageError("`--out FILE` is missing: name a Parquet file to write")

    run = run_import(name, files, settings.out, ratings=settings.ratings, scores=settings.scores)
    show("\n".join(_summary(run)))


@command(ExportSettings, "NAME", "FILES...", name="export")
def export_data(name: str, files: tuple[str, ...], settings: ExportSettings) -> None:
    """Write corpora and scores in the format of another tool.

    NAME is sacrerouge. FILES are corpora (files with a column `candidate`), ratings, score files,
    and folders of `assay score`.
    """
    from pipelines.datasets.exporting import export_data as run_export

    run = run_export(name, files, settings.out)
    print(f"{run.n_candidates:,} candidates and {run.n_scored:,} rows of scores in {run.out}:")
    show("\n".join([*run.files, *run.notes]))


def _described(source: DataSource) -> str:
    cells = {
        "gives": source.gives,
        "files": source.takes,
        "from": source.origin,
        "licence": source.licence,
        "paper": source.paper,
        "note": source.note,
    }
    lines = [f"{name:<9}{text}" for name, text in cells.items() if text]
    return "\n".join([f"{source.name}: {source.title}", *lines])


def _summary(run: ImportRun) -> list[str]:
    lines = []
    for name, table in run.tables.items():
        columns = ", ".join(table.columns)
        where = f"in {table.path}" if table.path else f"not written; name a file with --{name}"
        what = run.source.gives if name == "corpus" and run.source.gives == "pairs" else name
        lines.append(f"{table.n_rows:,} rows of {what} {where} ({columns})")
    if run.human_systems:
        lines.append(f"Written by people: {', '.join(run.human_systems)}.")
    lines += [f"Left out: {n:,}, {reason}." for reason, n in run.left_out.items()]
    return lines


@command(ReproduceCommand, "[TABLES...]")
def reproduce(tables: tuple[str, ...], settings: ReproduceCommand) -> None:
    """Recompute the tables and figures of three papers.

    Each table shows the published values, ours, and the difference. Assay computes everything that
    the files in `--data` allow, and names what is missing. `summeval` repeats the papers' analyses
    on SummEval. With `--scores` and `--ratings`, TABLES (or clark2019, sun2019, bao2020) are made
    from your own data.
    """
    from pipelines.papers.printed import printed_tables
    from pipelines.papers.run import reproduce as run_reproduce
    from pipelines.reports.terminal import table_text

    if settings.list:
        rows = [(table.name, table.where, table.title) for table in printed_tables().values()]
        print(table_text(("name", "where", "what it shows"), rows, n_left=3))
        return
    if not tables:
        raise click.UsageError("name a table; `assay reproduce --list` shows them")
    if settings.dry_run:
        for name in tables:
            show(_needs_text(name, settings))
        return
    with shown_progress(settings) as settings:
        results = run_reproduce(tables, settings)
    show("\n".join(result.to_markdown() for result in results).rstrip())


def _needs_text(name: str, settings: ReproduceCommand) -> str:
    from pipelines.papers.run import TABLES, needs_of
    from pipelines.reports.terminal import table_text

    needs = needs_of(name, settings)
    if not needs:
        return f"{name} only needs what the paper prints"
    rows = [
        ("yes" if is_there else "no", need.kind, need.name, need.what, place)
        for need, place, is_there in needs
    ]
    n_there = sum(is_there for *_, is_there in needs)
    table = table_text(("there", "kind", "name", "what it is", "where"), rows, n_left=5)
    lines = [f"{name}: {n_there} of {len(needs)} are there", table]
    if TABLES[name].needs_nothing:
        lines.append("Some of it can be made from the numbers that the paper prints.")
    return "\n".join([*lines, ""])
