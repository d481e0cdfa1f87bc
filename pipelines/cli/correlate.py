"""`assay correlate`."""

from __future__ import annotations

import shlex
import shutil
import sys

import click
from click.core import ParameterSource

from pipelines.cli.common import (
    DONE,
    columns_of,
    columns_option,
    config_option,
    quiet_option,
    show,
    split,
)


@click.command()
@click.argument("scores", nargs=-1, metavar="SCORES...")
@config_option()
@click.option("--ratings", metavar="FILE", help="Human ratings. Required.")
@click.option("--out", metavar="DIR", help="Folder for the report and its tables. Required.")
@click.option(
    "--aspects",
    metavar="LIST",
    default="",
    help="Columns of the ratings.  [default: all that hold numbers]",
)
@click.option(
    "--raters",
    metavar="LIST",
    default="",
    help="Raters to average, names or patterns such as 'expert-*'.  [default: all, if they are "
    "of one pool]",
)
@click.option(
    "--metrics",
    metavar="LIST",
    default="",
    help="Columns of the scores, names or patterns.  [default: all that hold numbers]",
)
@click.option(
    "--systems",
    metavar="LIST",
    default="",
    help="Systems to keep, names or patterns.  [default: all that are rated]",
)
@click.option(
    "--exclude-systems", metavar="LIST", default="", help="Systems to leave out, likewise."
)
@click.option(
    "--levels",
    metavar="LIST",
    default="system,summary,global",
    show_default=True,
    help="Means of systems; systems inside each document, averaged; all cells at once.",
)
@click.option(
    "--coefficients",
    metavar="LIST",
    default="pearson,spearman,kendall_b,pairwise_accuracy,soft_pairwise_accuracy",
    show_default=True,
    help="Also kendall_c. The first that the levels have is shown here: pairwise_accuracy is not "
    "defined at global level, soft_pairwise_accuracy at system level only.",
)
@click.option(
    "--resamples",
    metavar="N",
    type=int,
    default=1_000,
    show_default=True,
    help="Bootstrap resamples. Permutation tests make as many swaps, and 25 for every pair of "
    "metrics where the first ones leave it open. 10000 is for print, and takes ten times as long.",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, show_default=True, help="Of all random numbers."
)
@click.option(
    "--corpus",
    metavar="PATH",
    help="The texts: file, folder, glob or URL. They are shown where metric and people disagree.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also a page for each score of `assay score` that people disagree with most.",
)
@click.option(
    "--all-tables",
    is_flag=True,
    help="Also every table as Parquet, CSV and LaTeX, and every plot as SVG and PNG.",
)
@columns_option("system_id=model")
@click.option(
    "--accept-unfinished", is_flag=True, help="Take what an unfinished `assay score` has so far."
)
@click.option("--fresh", is_flag=True, help="Replace the report that is in DIR.")
@quiet_option
@click.pass_context
def correlate(
    ctx: click.Context,
    scores: tuple[str, ...],
    ratings: str | None,
    out: str | None,
    aspects: str,
    raters: str,
    metrics: str,
    systems: str,
    exclude_systems: str,
    levels: str,
    coefficients: str,
    resamples: int,
    seed: int,
    corpus: str | None,
    explain: bool,
    all_tables: bool,
    columns: tuple[str, ...],
    accept_unfinished: bool,
    fresh: bool,
    quiet: bool,
) -> int:
    """Correlate SCORES with human ratings: folders of `assay score`, or any tool's files.

    A file (Parquet, CSV, JSONL) has a row per candidate: `document_id`, `system_id` and a column
    of numbers per metric, or per aspect in the ratings, which may also name a `rater`. A metric
    that several inputs have is called INPUT/METRIC. DIR gets a report (report.html, report.md),
    correlations.parquet and about.json.
    """
    if not scores:
        raise click.UsageError("name at least one folder or file of scores")
    if not ratings:
        raise click.UsageError("`--ratings` is missing; name the file of human ratings")
    if not out:
        raise click.UsageError("`--out` is missing; name a folder for the report")
    from pipelines.correlation.run import correlate as compute
    from pipelines.correlation.summary import summary_text

    result = compute(
        scores,
        ratings,
        out,
        aspects=split(aspects),
        raters=split(raters),
        systems=split(systems),
        exclude_systems=split(exclude_systems),
        metrics=split(metrics),
        levels=split(levels),
        coefficients=split(coefficients),
        n_resamples=resamples,
        seed=seed,
        corpus=corpus,
        explain=explain,
        all_tables=all_tables,
        columns=columns_of(columns),
        accept_unfinished=accept_unfinished,
        fresh=fresh,
        command=_command_line(ctx),
        on_stage=_say_nothing if quiet else _say,
    )
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    text = summary_text(
        result,
        out.rstrip("/"),
        coefficients=split(coefficients),
        is_terminal=is_terminal,
        width=width,
    )
    show(text)
    return DONE


def _say(stage: str) -> None:
    print(f"assay: {stage}", file=sys.stderr)


def _say_nothing(_stage: str) -> None:
    pass


def _command_line(ctx: click.Context) -> str:
    """Write the command with every option that was given, on the line or in a file."""
    given = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
    words = ["assay", str(ctx.info_name)]
    options = []
    for parameter in ctx.command.params:
        name = str(parameter.name)
        if name not in ctx.params or ctx.get_parameter_source(name) not in given:
            continue
        value = ctx.params[name]
        if isinstance(parameter, click.Argument):
            words += value
        elif isinstance(value, bool):
            options += [parameter.opts[0]] * value
        else:
            for each in value if isinstance(value, tuple) else (value,):
                options += [parameter.opts[0], str(each)]
    return shlex.join([*words, *options])
