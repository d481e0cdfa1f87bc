"""`assay compare`."""

from __future__ import annotations

import shutil
import sys

import click

from pipelines.cli.common import columns_of, columns_option, show, split


@click.command()
@click.argument("scores_a", metavar="SCORES_A")
@click.argument("scores_b", metavar="SCORES_B")
@click.option(
    "--metrics",
    metavar="LIST",
    default="",
    help="Names or patterns, separated by commas.  [default: all that both have]",
)
@click.option(
    "--systems-a",
    metavar="LIST",
    default="",
    help="Systems of SCORES_A to compare, names or patterns.  [default: all]",
)
@click.option(
    "--systems-b",
    metavar="LIST",
    default="",
    help="Systems of SCORES_B to compare, names or patterns.  [default: all]",
)
@columns_option("system_id=model")
@click.option(
    "--out",
    metavar="FILE",
    help="Write the table to a file, too: .csv, .json or .md by its name.",
)
@click.option(
    "--resamples",
    metavar="N",
    type=int,
    default=10_000,
    show_default=True,
    help="Bootstrap resamples of the documents.",
)
@click.option(
    "--confidence",
    metavar="SHARE",
    type=float,
    default=0.95,
    show_default=True,
    help="Of the intervals; one minus it is the level of the tests.",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Of the draws.")
def compare(
    scores_a: str,
    scores_b: str,
    metrics: str,
    systems_a: str,
    systems_b: str,
    columns: tuple[str, ...],
    out: str | None,
    resamples: int,
    confidence: float,
    seed: int,
) -> None:
    """Say which system has the higher scores, without ratings: SCORES_A or SCORES_B.

    Both are folders of `assay score` or files of scores. Where they hold the same systems, two
    runs of each are compared, else every system of the one with every system of the other, on
    the documents both have. A metric whose signature differs is refused.
    """
    from cluster.output import Output
    from pipelines.compare import compare_scores
    from pipelines.reports.comparison import comparison_sheet
    from pipelines.reports.sheet import SUFFIXES

    output = Output.named("--out", out) if out else None
    if output:
        output.check_file(*SUFFIXES)
        output.check_apart([scores_a, scores_b])
    result = compare_scores(
        scores_a,
        scores_b,
        metrics=split(metrics),
        systems_a=split(systems_a),
        systems_b=split(systems_b),
        columns=columns_of(columns),
        n_resamples=resamples,
        confidence=confidence,
        seed=seed,
    )
    sheet = comparison_sheet(result)
    if output:
        output.write(sheet.content(output.suffix).encode())
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    show(sheet.text(is_terminal=is_terminal, width=width))
