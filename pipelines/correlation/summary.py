"""What `assay correlate` prints: a small table per aspect, what to know, where the files are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from cluster.store import join
from pipelines.reports.numbers import number_text
from pipelines.reports.terminal import table_text
from pipelines.settings.correlate import ACCURACIES, LEVELS
from pipelines.tables.records import AgreementResult


def summary_text(
    result: AgreementResult,
    out: str,
    *,
    coefficients: Sequence[str] = (),
    is_terminal: bool = False,
    width: int | None = None,
) -> str:
    """Sum up the agreement for people.

    Shown is the first of `coefficients`, as they were asked for, that the levels have (pairwise
    accuracy is not defined at every level); where empty, the first in the table. `out` is the
    folder of the report. A table that needs more than `width` characters gets more.
    """
    about = result.about
    there = result.correlations["coefficient"]
    coefficient = next((name for name in coefficients if name in there), there[0])
    rows = result.correlations.filter(pl.col("coefficient") == coefficient)
    levels = [level for level in LEVELS if level in rows["level"].unique()]
    intervals = (
        f"with {about.confidence:.0%} bootstrap intervals over {about.resampled} "
        f"({about.n_resamples:,} resamples)"
    )
    parts = [
        f"{coefficient} {'without intervals' if coefficient in ACCURACIES else intervals}\n"
        f"Systems: {len(about.systems)}, documents: {about.n_documents:,}, raters: {about.raters}"
    ]
    for aspect in result.aspects:
        cells = rows.filter(pl.col("aspect") == aspect)
        body = [
            [_called(metric, cells), *(_cell(cells, metric, level) for level in levels)]
            for metric in result.score_names
        ]
        header = [aspect, *(f"{level} level" for level in levels)]
        parts.append(table_text(header, body, is_terminal=is_terminal, width=width))
    parts.append("\n".join(_below(result, rows)))
    parts.append(
        f"Report: {join(out, 'report.html')}, report.md\n"
        f"Correlations: {join(out, 'correlations.parquet')}; all tables with --all-tables"
    )
    return "\n\n".join(parts)


def _called(metric: str, cells: pl.DataFrame) -> str:
    is_baseline = cells.filter(pl.col("metric") == metric)["is_baseline"].any()
    return f"{metric} (baseline)" if is_baseline else metric


def _cell(cells: pl.DataFrame, metric: str, level: str) -> str:
    row = cells.row(
        by_predicate=(pl.col("metric") == metric) & (pl.col("level") == level), named=True
    )
    value = number_text(row["value"], minus="-")
    if row["value"] is None or row["low"] is None:
        return value
    low, high = (number_text(row[end], 2, minus="-") for end in ("low", "high"))
    return f"{value} [{low}, {high}]"


def _below(result: AgreementResult, rows: pl.DataFrame) -> Iterator[str]:
    undefined: dict[str, list[dict[str, Any]]] = {}
    for row in rows.filter(pl.col("value").is_null()).iter_rows(named=True):
        undefined.setdefault(row["reason"], []).append(row)
    for reason, found in undefined.items():
        yield f"Undefined: {_places(found)}: {reason}"
    skipped = rows.filter((pl.col("level") == "summary") & (pl.col("n_skipped") > 0))
    why = "on which scores or ratings are constant"
    if rows["coefficient"][0] in ACCURACIES:
        why = "of which fewer than two systems have a score and a rating"
    for aspect, n_documents in (
        skipped.group_by("aspect", maintain_order=True).agg(pl.col("n_skipped").max()).iter_rows()
    ):
        yield f"Summary level, {aspect}: up to {n_documents} documents skipped, {why}"
    yield from result.about.notes


def _places(rows: Sequence[dict[str, Any]], most: int = 3) -> str:
    shown = [f"{row['metric']} and {row['aspect']}, {row['level']} level" for row in rows[:most]]
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return "; ".join(shown) + more
