"""`assay reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pipelines.cli.common import show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.encoders import encoders_of
from pipelines.settings.reproduce import ReproduceCommand

if TYPE_CHECKING:
    from pipelines.papers.needs import Found


@command(ReproduceCommand, "[TABLES...]")
def reproduce(tables: tuple[str, ...], settings: ReproduceCommand) -> None:
    """Recompute the tables and figures of three papers.

    Each table shows the published values, ours, and the difference. Assay computes everything that
    the files in `--data` allow, and names what is missing. `summeval` repeats the papers' analyses
    on SummEval. With `--scores` and `--ratings`, TABLES (or clark2019, sun2019, bao2020) are made
    from your own data.
    """
    from pipelines.papers.run import find_tables, needs_of
    from pipelines.papers.run import reproduce as run_reproduce

    if settings.list:
        print(_listing())
        return
    if not tables:
        raise click.UsageError("name a table; `assay reproduce --list` shows them")
    if settings.dry_run:
        for name in tables:
            needs = needs_of(
                name,
                settings.data,
                scorers=settings.scorers,
                encoders=encoders_of(settings.encoders or {}),
            )
            (table,) = find_tables([name])
            show(_needs_text(name, needs, table.needs_nothing))
        return
    with shown_progress(settings) as settings:
        results = run_reproduce(tables, settings)
    show("\n".join(result.to_markdown() for result in results).rstrip())


def _listing() -> str:
    from pipelines.papers.run import TABLES, about
    from pipelines.reports.terminal import table_text

    shown = [about(table) for table in TABLES.values()]
    rows = [(table.name, table.where, table.title) for table in shown]
    return table_text(("name", "where", "what it shows"), rows, n_left=3)


def _needs_text(name: str, needs: Sequence[Found], needs_nothing: bool) -> str:
    from pipelines.reports.terminal import table_text

    if not needs:
        return f"{name} only needs what the paper prints"
    rows = [
        ("yes" if need.is_there else "no", need.kind, need.name, need.what, need.place)
        for need in needs
    ]
    table = table_text(("there", "kind", "name", "what it is", "where"), rows, n_left=5)
    n_there = sum(need.is_there for need in needs)
    lines = [f"{name}: {n_there} of {len(needs)} are there", table]
    if needs_nothing:
        lines.append("Some of it can be made from the numbers that the paper prints.")
    return "\n".join([*lines, ""])
