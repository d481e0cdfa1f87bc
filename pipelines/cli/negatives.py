"""`assay negatives`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines import verbs
from pipelines.cli.common import show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.negatives import NegativesSettings

if TYPE_CHECKING:
    from pipelines.negatives import NegativesRun


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
    left_out = {**pairs.left_out, **run.left_out}
    return [
        f"{pairs.n_rows:,} rows read; pairs: {sides} (split {rule}).",
        f"{pairs.n_shared:,} documents share a text with another one; no text is on two sides.",
        "",
        table_text(("kind", "rows", "mean label"), rows, n_left=1),
        "",
        *(f"Left out: {n:,}, {reason}." for reason, n in left_out.items()),
        f"{run.n_rows:,} rows in {run.out}",
    ]
