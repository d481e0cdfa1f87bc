"""`assay negatives`."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.common import (
    DONE,
    columns_of,
    columns_option,
    config_option,
    quiet_option,
    show,
)
from pipelines.cli.common import split as listed
from pipelines.cli.pair_options import (
    check_named,
    leaks_option,
    limit_option,
    neighbour_encoder_option,
    pairs_argument,
    refuses,
    split_anew_option,
    weights_of,
)

if TYPE_CHECKING:
    from pipelines.negatives import NegativesRun
    from reffree.examples import Example
    from reffree.negatives import NegativesConfig

_RATE = re.compile(r"([\d.]+)\.\.([\d.]+)")
_SHOWN_CHARACTERS = 150


@click.command()
@pairs_argument
@config_option()
@click.option("--out", metavar="FILE", help="Parquet file or URL to write. Required.")
@click.option(
    "--kinds",
    metavar="LIST",
    help="Kinds, separated by commas, each once for every pair; or `all`.  "
    "[default: cross-pair,sentence-delete,replace]",
)
@click.option(
    "--mixture",
    metavar="LIST",
    help="Kinds with weights instead, drawn for every pair: cross-pair-hard=2,exchange=1.",
)
@click.option(
    "--per-positive",
    metavar="N",
    type=int,
    help="Negatives of a pair: of each kind, or in all with `--mixture`.  [default: 1]",
)
@click.option("--preset", metavar="NAME", help="`bao2020` is the recipe of Bao et al.")
@click.option(
    "--rate",
    metavar="LOW..HIGH",
    help="Share of a summary that is edited, drawn evenly.  [default: 0..1]",
)
@click.option(
    "--length-matched",
    is_flag=True,
    help="Negatives as long as their positive, within `--length-tolerance`.",
)
@click.option(
    "--length-tolerance",
    metavar="SHARE",
    type=float,
    default=0.1,
    show_default=True,
    help="How far a negative's words may be from the positive's.",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True)
@click.option(
    "--split",
    metavar="train|validation|test|all",
    default="all",
    show_default=True,
    help="Which documents. Added words come from the training references either way.",
)
@split_anew_option
@leaks_option
@neighbour_encoder_option
@columns_option("source=article")
@limit_option()
@quiet_option
def negatives(
    pairs: tuple[str, ...],
    out: str | None,
    columns: tuple[str, ...],
    leaks: str,
    quiet: bool,
    split: str,
    neighbour_encoder: str,
    limit: int | None,
    split_anew: bool,
    **options: Any,  # noqa: ANN401  (read by `_config`)
) -> int:
    """Make wrong summaries from the right ones in PAIRS, with labels, and write them to a file.

    One row of PAIRS (Parquet, JSONL or CSV; files, folders, globs or URLs) is one document:
    `document_id`, `source`, `reference` or `references`, and perhaps `split`. Documents without
    one are split 80/10/10; those that share a text are on the same side.
    """
    out = check_named(pairs, out, "a Parquet file to write")
    refuses_leaks = refuses(leaks)
    config = _config(**options)

    from pipelines.negatives import write_negatives
    from pipelines.runs.progress import show_progress

    shown = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    with nullcontext() if quiet else shown as on_progress:
        run = write_negatives(
            pairs,
            out,
            config,
            side=split,
            encoder=neighbour_encoder,
            columns=columns_of(columns),
            limit=limit,
            split_anew=split_anew,
            refuse_leaks=refuses_leaks,
            on_progress=on_progress,
        )
    show("\n".join(_summary(run)))
    return DONE


def _config(
    *,
    kinds: str | None,
    mixture: str | None,
    per_positive: int | None,
    preset: str | None,
    rate: str | None,
    length_matched: bool,
    length_tolerance: float,
    seed: int,
) -> NegativesConfig:
    from reffree.negatives import KINDS, PRESETS, NegativesConfig

    if kinds and mixture:
        raise click.UsageError("`--kinds` and `--mixture` both name the kinds; give one of them")
    if preset is not None and preset not in PRESETS:
        raise click.UsageError(f"`--preset` must be {' or '.join(PRESETS)}, got `{preset}`")
    chosen: dict[str, Any] = dict(PRESETS[preset]) if preset else {}
    if kinds:
        chosen["kinds"] = tuple(KINDS) if kinds.strip() == "all" else tuple(listed(kinds))
    if mixture:
        weights = weights_of(mixture, "mixture")
        chosen |= {"kinds": tuple(weights), "proportions": tuple(weights.values())}
    if per_positive is not None:
        chosen["per_positive"] = per_positive
    if rate is not None:
        chosen["rate"] = _rate(rate)
    if length_matched:
        chosen["length_tolerance"] = length_tolerance
    return NegativesConfig(seed=seed, **chosen)


def _rate(text: str) -> Any:  # noqa: ANN401  (Rate is imported when it is needed)
    from reffree.edits import Rate

    found = _RATE.fullmatch(text.strip())
    try:
        low, high = map(float, found.groups()) if found else (1.0, 0.0)
        return Rate(low, high)
    except ValueError as error:
        raise click.UsageError(
            f"`--rate` must be LOW..HIGH with 0 <= LOW <= HIGH <= 1, got `{text}`"
        ) from error


def _summary(run: NegativesRun) -> list[str]:
    from pipelines.reports.terminal import table_text

    pairs = run.pairs
    sides = ", ".join(f"{side} {n:,}" for side, n in pairs.n_pairs.items())
    rule = "by the column `split`" if pairs.has_own_split else "by document"
    rows = [(kind, f"{count.n:,}", f"{count.mean_label:.3f}") for kind, count in run.kinds.items()]
    lines = [
        f"{pairs.n_rows:,} rows read; pairs: {sides} (split {rule}).",
        f"{pairs.n_shared:,} documents share a text with another one, in {pairs.n_groups:,} groups "
        f"(the largest has {pairs.largest_group:,}); no text is on two sides.",
        "",
        table_text(("kind", "rows", "mean label"), rows, n_left=1),
        "",
    ]
    left_out = [(f"{n:,}", "rows or texts", reason) for reason, n in pairs.left_out.items()]
    if run.n_repeated:
        left_out.append((f"{run.n_repeated:,}", "pairs", "there more than once, used once"))
    left_out += [(f"{n:,}", kind, reason) for (kind, reason), n in run.left_out.items()]
    lines += [f"Left out: {n} {what}, {reason}." for n, what, reason in left_out]
    lines += [""] if left_out else []
    lines += map(_sample, run.samples)
    return [*lines, "", f"{run.n_rows:,} rows in {run.out}"]


def _sample(example: Example) -> str:
    text = " ".join(example.candidate.split())
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return f"{example.kind}, {example.label:.2f}, {example.document_id}: {shown}"
