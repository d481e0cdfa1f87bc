"""`assay reproduce`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from pipelines.cli.common import DONE, device_option, quiet_option, show

if TYPE_CHECKING:
    from pipelines.papers.needs import Found


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE...]")
@click.option("--list", "is_list", is_flag=True, help="Show the tables and figures, one a line.")
@click.option(
    "--data",
    metavar="DIR",
    help="Folder with the data sets (`NAME/` as its owner gives it out, or `NAME.parquet` of "
    "`assay import`) and, in `encoders/`, the weights.",
)
@click.option("--out", metavar="DIR", help="Folder for the tables, figures and scores.")
@click.option("--dry-run", is_flag=True, help="Only say what TABLE needs, and what is there.")
@click.option(
    "--scorers",
    metavar="DIR",
    help="Folder of trained scorers and summarisers, for Bao et al. and Table 4 of Clark et al.",
)
@click.option("--train", "is_training", is_flag=True, help="Train what is not there; takes days.")
@click.option(
    "--encoder",
    "encoders",
    metavar="ALIAS=SPEC",
    multiple=True,
    help="Other weights than the paper's, e.g. ELMo=minilm; the aliases are in --dry-run.",
)
@device_option("Where it runs.")
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Of all draws.")
@click.option("--fresh", is_flag=True, help="Import and score anew.")
@quiet_option
def reproduce(
    tables: tuple[str, ...],
    is_list: bool,
    data: str | None,
    out: str | None,
    dry_run: bool,
    scorers: str | None,
    is_training: bool,
    encoders: tuple[str, ...],
    device: str,
    seed: int,
    fresh: bool,
    quiet: bool,
) -> int:
    """Make tables of the three papers again: published, ours, and the difference.

    What can be computed from what is in DIR is computed; what is missing is named. `summeval`
    is what the papers did, done on SummEval.
    """
    from pipelines.papers.run import find_target, needs_of
    from pipelines.papers.run import reproduce as run_reproduce

    if is_list:
        print(_listing())
        return DONE
    if not tables:
        raise click.UsageError("name a table; `assay reproduce --list` shows them")
    chosen = _encoders(encoders)
    if dry_run:
        for name in tables:
            found = needs_of(name, data, scorers=scorers, encoders=chosen)
            show(_needs_text(name, found, find_target(name).needs_nothing))
        return DONE

    from pipelines.runs.progress import show_progress

    progress = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    with nullcontext() if quiet else progress as on_progress:
        results = run_reproduce(
            tables,
            data,
            out,
            scorers=scorers,
            train=is_training,
            encoders=chosen,
            device=device,
            seed=seed,
            fresh=fresh,
            on_progress=on_progress,
        )
    show("\n".join(result.to_markdown() for result in results).rstrip())
    return DONE


def _encoders(items: Sequence[str]) -> dict[str, str]:
    found = {}
    for item in items:
        alias, equals, spec = item.partition("=")
        if not (alias and equals and spec):
            raise click.UsageError(
                f"`--encoder` must be written ALIAS=SPEC, got `{item}`; for example ELMo=minilm"
            )
        found[alias] = spec
    return found


def _listing() -> str:
    from pipelines.papers.run import TARGETS, about
    from pipelines.reports.terminal import table_text

    shown = [about(target) for target in TARGETS.values()]
    rows = [(table.name, table.where, table.title) for table in shown]
    return table_text(("name", "where", "what it shows"), rows, n_left=3)


def _needs_text(name: str, found: Sequence[Found], needs_nothing: bool) -> str:
    from pipelines.reports.terminal import table_text

    if not found:
        return f"{name} needs nothing but what the paper prints"
    rows = [
        (
            "yes" if need.is_there else "no",
            need.kind,
            need.name,
            need.what,
            need.place,
        )
        for need in found
    ]
    table = table_text(("there", "kind", "name", "what it is", "where"), rows, n_left=5)
    n_there = sum(need.is_there for need in found)
    lines = [f"{name}: {n_there} of {len(found)} are there", table]
    if needs_nothing:
        lines.append("Some of it can be made from what the paper prints alone.")
    return "\n".join([*lines, ""])
