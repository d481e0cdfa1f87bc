"""What `assay correlate` prints: the verdict, a small table per aspect, where the files are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from cluster.store import join
from pipelines.reports.numbers import interval_text, number_text
from pipelines.reports.terminal import table_blocks, wrapped
from pipelines.reports.verdict import verdict_of
from pipelines.reports.words import SIGNIFICANCE
from pipelines.settings.correlate import ACCURACIES, CORRELATIONS, LEVELS
from pipelines.tables.records import AgreementResult
from sms.naming import counted

_NO_MARK = "\N{FIGURE SPACE}"
"""As wide as a mark, and not stripped from the end of a cell: numbers stand below each other."""


def summary_text(
    result: AgreementResult, out: str, *, is_terminal: bool = False, width: int | None = None
) -> str:
    """Sum up the agreement for people, under the coefficient of the verdict.

    `out` is the folder of the report. A table that needs more than `width` characters gets more.
    """
    about = result.about
    coefficient = about.main_coefficient
    rows = result.correlations.filter(pl.col("coefficient") == coefficient)
    levels = [level for level in LEVELS if level in rows["level"].unique()]
    intervals = (
        f"with {about.confidence:.0%} bootstrap intervals over {about.resampled} "
        f"({about.n_resamples:,} resamples)"
    )
    heading = f"{coefficient} {'without intervals' if coefficient in ACCURACIES else intervals}"
    rows_of = f"{counted(about.n_rows, 'row')} of {counted(len(about.systems), 'system')}"
    parts = [
        f"{heading}\n{rows_of} and {counted(about.n_documents, 'document')}, raters: {about.raters}"
    ]
    if coefficient in CORRELATIONS:
        verdict = verdict_of(result, about.main_level, coefficient)
        lines = [*verdict.lines(), f"({verdict.title})", verdict.meaning]
        parts.insert(0, wrapped(lines, width))
    for aspect in result.aspects:
        cells = {
            (row["metric"], row["level"]): row
            for row in rows.filter(aspect=aspect).iter_rows(named=True)
        }
        body = [
            [
                f"{name} (baseline)" if cells[name, levels[0]]["is_baseline"] else name,
                *(_cell(cells[name, level]) for level in levels),
            ]
            for name in result.score_names
        ]
        header = [aspect, *(f"{level} level{2 * _NO_MARK}" for level in levels)]
        table = table_blocks(header, body, is_terminal=is_terminal, width=width)
        parts.append(table.replace(_NO_MARK, " "))
    if coefficient in CORRELATIONS:
        parts[-1] += f"\n* the best, = cannot be told apart from it at {SIGNIFICANCE:g}"
    parts.append("\n".join(_below(result, rows)))
    parts.append(
        f"Report: {join(out, 'report.html')}, report.md; all numbers: correlations.parquet"
    )
    return "\n\n".join(parts)


def _cell(row: dict[str, Any]) -> str:
    mark = "*" if row["is_best"] else "=" if row["is_tied"] else _NO_MARK
    value = number_text(row["value"], minus="-")
    if row["value"] is None or row["low"] is None:
        return f"{value} {mark}"
    return f"{value} {interval_text(row['low'], row['high'], 2, minus='-')} {mark}"


def _below(result: AgreementResult, rows: pl.DataFrame) -> Iterator[str]:
    undefined: dict[str, list[dict[str, Any]]] = {}
    for row in rows.filter(pl.col("value").is_null()).iter_rows(named=True):
        undefined.setdefault(row["reason"], []).append(row)
    for reason, places in undefined.items():
        yield f"Undefined: {_places(places)}: {reason}"
    defined = rows.drop_nulls("value")
    if rows["coefficient"][0] in CORRELATIONS:
        without = defined.filter(pl.col("low").is_null())
        for (reason,), cells in without.group_by("reason", maintain_order=True):
            why = str(reason).removeprefix("no interval: ")
            yield f"No interval: {_places(cells.to_dicts())}: {why}"
    skipped = defined.filter((pl.col("level") == "summary") & (pl.col("n_skipped") > 0))
    why = "on which scores or ratings are constant"
    if rows["coefficient"][0] in ACCURACIES:
        why = "of which fewer than two systems have a score and a rating"
    for aspect, n_documents in (
        skipped.group_by("aspect", maintain_order=True).agg(pl.col("n_skipped").max()).iter_rows()
    ):
        skipped_text = counted(n_documents, "document")
        yield f"Summary level, {aspect}: up to {skipped_text} skipped, {why}"
    yield from result.about.notes


def _places(rows: Sequence[dict[str, Any]], most: int = 3) -> str:
    shown = [f"{row['metric']} and {row['aspect']}, {row['level']} level" for row in rows[:most]]
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return "; ".join(shown) + more
