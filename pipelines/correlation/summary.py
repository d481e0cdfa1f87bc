"""What `assay correlate` prints: the verdict, a small table per aspect, where the files are."""

from __future__ import annotations

from collections.abc import Iterator
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
    parts = [f"{heading}\n{about.compared}, raters: {about.raters}"]
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
    coefficient = result.about.main_coefficient
    undefined = rows.filter(pl.col("value").is_null())
    for (reason,), cells in undefined.group_by("reason", maintain_order=True):
        yield f"Undefined: {_places(cells)}: {reason}"
    defined = rows.drop_nulls("value")
    if coefficient in CORRELATIONS:
        without = defined.filter(pl.col("low").is_null())
        for (reason,), cells in without.group_by("reason", maintain_order=True):
            yield f"No interval: {_places(cells)}: {str(reason).removeprefix('no interval: ')}"
    why = "on which scores or ratings are constant"
    if coefficient in ACCURACIES:
        why = "of which fewer than two systems have a score and a rating"
    skipped = defined.filter((pl.col("level") == "summary") & (pl.col("n_skipped") > 0))
    for (aspect,), cells in skipped.group_by("aspect", maintain_order=True):
        most = counted(max(cells["n_skipped"]), "document")
        yield f"Summary level, {aspect}: up to {most} skipped, {why}"
    yield from result.about.notes


def _places(cells: pl.DataFrame, most: int = 3) -> str:
    named = cells.select("metric", "aspect", "level").head(most).iter_rows()
    shown = "; ".join(f"{metric} and {aspect}, {level} level" for metric, aspect, level in named)
    return shown + (f" and {len(cells) - most} more" if len(cells) > most else "")
