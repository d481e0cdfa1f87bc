"""`assay reproduce`."""

from __future__ import annotations

import click

from pipelines.cli.common import show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.reproduce import ReproduceCommand


@command(ReproduceCommand, "[TABLES...]")
def reproduce(tables: tuple[str, ...], settings: ReproduceCommand) -> None:
    """Recompute the tables and figures of three papers.

    Each table shows the published values, ours, and the difference. Assay computes everything that
    the files in `--data` allow, and names what is missing. `summeval` repeats the papers' analyses
    on SummEval.
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
