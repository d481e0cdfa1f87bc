"""`assay negatives`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines import verbs
from pipelines.cli.common import show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.negatives import NegativesSettings

if TYPE_CHECKING:
    from pipelines.negatives import NegativesRun
    from reffree.examples import Example

_SHOWN_CHARACTERS = 150


@command(NegativesSettings, "PAIRS...")
def negatives(pairs: tuple[str, ...], settings: NegativesSettings) -> None:
    """Make wrong summaries, with labels, from the good ones in PAIRS.

    The good summaries are written to the file, too. One row of PAIRS (Parquet, JSONL or CSV; files,
    folders, globs or URLs) is one document: `document_id`, `source`, `reference` or `references`,
    and optionally `split`. Documents without a split are split 80/10/10; documents that share a
    text stay in the same part.
    """
    with shown_progress(settings) as settings:
        run = verbs.negatives(pairs, settings)
    show("\n".join(_summary(run)))


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
        left_out.append((f"{run.n_repeated:,}", "pairs", "repeated, used once"))
    left_out += [(f"{n:,}", kind, reason) for (kind, reason), n in run.left_out.items()]
    lines += [f"Left out: {n} {what}, {reason}." for n, what, reason in left_out]
    lines += [""] if left_out else []
    lines += map(_sample, run.samples)
    return [*lines, "", f"{run.n_rows:,} rows in {run.out}"]


def _sample(example: Example) -> str:
    text = " ".join(example.candidate.split())
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return f"{example.kind}, {example.label:.2f}, {example.document_id}: {shown}"
