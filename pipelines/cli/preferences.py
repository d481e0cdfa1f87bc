"""`assay preferences`."""

from __future__ import annotations

import shutil
import sys

import click

from pipelines.cli.common import columns_of, columns_option, show, split


@click.command()
@click.argument("judgements", nargs=-1, metavar="[JUDGEMENTS...]")
@click.option(
    "--systems",
    metavar="LIST",
    default="",
    help="Systems to compare; in every pair the earlier one is A.  [default: all]",
)
@columns_option("winner=choice")
@click.option("--key", metavar="FILE", help="Key of the sheets.  [for a new one: SHEET.key.csv]")
@click.option(
    "--out",
    metavar="FILE",
    help="Write the table to a file, too: .csv, .json or .md by its name. Or the new sheet.",
)
@click.option(
    "--interval",
    type=click.Choice(["wilson", "clopper-pearson"]),
    default="wilson",
    show_default=True,
    help="Of the share of wins.",
)
@click.option(
    "--confidence",
    metavar="SHARE",
    type=float,
    default=0.95,
    show_default=True,
    help="Of the intervals; one minus it is the level of the tests.",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, show_default=True, help="Of the new sheet."
)
@click.option(
    "--make-sheet",
    "corpus",
    metavar="CORPUS",
    help="Instead, make a sheet for judges of a corpus: needs --systems and --out.",
)
@click.option(
    "--n",
    "n_documents",
    metavar="N",
    type=int,
    default=100,
    show_default=True,
    help="Documents on the new sheet.",
)
@click.option(
    "--criteria",
    metavar="LIST",
    default="non-redundancy,coherence,focus,overall",
    show_default=True,
    help="Columns of the new sheet.",
)
def preferences(
    judgements: tuple[str, ...],
    systems: str,
    columns: tuple[str, ...],
    key: str | None,
    out: str | None,
    interval: str,
    confidence: float,
    seed: int,
    corpus: str | None,
    n_documents: int,
    criteria: str,
) -> None:
    """Say which system people prefer: JUDGEMENTS of two texts each.

    A file (Parquet, CSV, JSONL) has a row per judgement: `document_id`, `system_a`, `system_b`,
    `winner` (one of the two, or tie), maybe `judge` and `criterion`. Or counts: `system_a`,
    `system_b` and `wins`, `losses`, `ties` of the former. Or it is a sheet of `--make-sheet`,
    filled with left, right or =, and read with its `--key`.
    """
    if corpus is not None:
        if judgements:
            raise click.UsageError("`--make-sheet` makes a sheet; leave out the judgements")
        _make_sheet(corpus, systems, n_documents, out, key, criteria, columns, seed)
        return
    if not judgements:
        raise click.UsageError("name at least one file of judgements, or `--make-sheet CORPUS`")

    from cluster.output import Output
    from pipelines.preferences import compare_preferences
    from pipelines.reports.preferences import FORMATS, preferences_text

    output = Output.named("--out", out) if out else None
    if output:
        output.check_file(*FORMATS)
        output.check_apart([*judgements, *([key] if key else [])])
    result = compare_preferences(
        judgements,
        key=key,
        systems=split(systems),
        columns=columns_of(columns),
        interval=interval,
        confidence=confidence,
    )
    if output:
        output.write(FORMATS[output.suffix](result).encode())
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    show(preferences_text(result, is_terminal=is_terminal, width=width))


def _make_sheet(
    corpus: str,
    systems: str,
    n_documents: int,
    out: str | None,
    key: str | None,
    criteria: str,
    columns: tuple[str, ...],
    seed: int,
) -> None:
    from pipelines.judging_sheet import make_sheet

    if not systems:
        raise click.UsageError("`--systems` is missing; name two systems or more")
    if not out:
        raise click.UsageError("`--out` is missing; name the sheet, a .csv file")
    made = make_sheet(
        corpus,
        systems=split(systems),
        n_documents=n_documents,
        out=out,
        key=key,
        criteria=split(criteria),
        columns=columns_of(columns),
        seed=seed,
    )
    print(
        f"Sheet: {made.sheet}, {made.n_rows:,} rows on {made.n_documents:,} of "
        f"{made.n_eligible:,} documents"
    )
    if made.n_equal:
        print(f"Rows with the same text on both sides: {made.n_equal:,}")
    print(f"Key: {made.key}; keep it from the judges")
    print("Judges write left, right or = under each criterion; give each a copy named like them")
