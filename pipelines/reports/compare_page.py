"""The page of a comparison: the verdict, every pair with its interval, and every document."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.reports.comparison import RUNS, MetricComparison, ScoreComparison, comparison_sheet
from pipelines.reports.pages import render_page
from pipelines.reports.sheet import MAX_ROWS
from pipelines.reports.tables import to_markdown
from pipelines.reports.terminal import decimals, number, span
from sms.naming import counted
from sms.signature import version

MOST_BARS = 150
"""Of the differences of documents; of more, neighbours in the order of size share a bar."""
LONGEST_NAME = 30
"""Characters of a system's name in the title; below the title both are named in any case."""
N_EXTREMES = 5
"""Documents named at either end."""


def render_comparison(result: ScoreComparison) -> str:
    """Render the page as one file."""
    sheet = comparison_sheet(result)
    return render_page(
        "compare.html",
        styles=["scores.css"],
        result=result,
        lead=_lead(result),
        is_one_pair=result.is_one_pair,
        significance=f"{1.0 - result.confidence:g}",
        head=sheet.head,
        foot=sheet.foot,
        confidence=f"{100 * result.confidence:g}%",
        rows=[_row_view(row) for row in result.rows[:MAX_ROWS]],
        n_more=max(0, len(result.rows) - MAX_ROWS),
        markdown=to_markdown(sheet.table),
        codes=result.signatures,
        version=version(),
    )


def _lead(result: ScoreComparison) -> str:
    """Say how often each side is higher; by name where only two systems are compared."""
    a, b = result.rows[0].system_a, result.rows[0].system_b
    if not result.is_one_pair or result.kind == RUNS or max(len(a), len(b)) > LONGEST_NAME:
        a, b = "A", "B"
    n_higher = {side: sum(row.higher == side for row in result.rows) for side in ("a", "b")}
    what = "metric" if result.is_one_pair else "comparison"
    n_tested = sum(row.reason is None for row in result.rows)
    if not n_tested:
        return f"No difference could be tested: {result.rows[0].reason}"
    tested = counted(n_tested, what)
    if n_untested := len(result.rows) - n_tested:
        tested += f" ({n_untested:,} could not be tested)"
    if not any(n_higher.values()):
        return f"No significant difference in {tested}"
    return f"{a} is significantly higher in {n_higher['a']:,}, {b} in {n_higher['b']:,} of {tested}"


def _row_view(row: MetricComparison) -> dict[str, Any]:
    """Arrange one comparison; its axis holds 0 and the interval."""
    n_decimals = decimals([row.mean_a, row.mean_b])
    ends = [0.0, *(end for end in (row.low, row.high, row.difference) if not np.isnan(end))]
    ordered = sorted(row.documents, key=lambda each: each[1])
    named = [*ordered[:N_EXTREMES], *ordered[N_EXTREMES:][-N_EXTREMES:]]
    systems = row.system_a if row.system_a == row.system_b else f"{row.system_a}, {row.system_b}"
    return {
        "own": row,
        "systems": systems,
        "mean_a": number(row.mean_a, n_decimals),
        "mean_b": number(row.mean_b, n_decimals),
        "shown": number(row.difference, n_decimals + 1),
        "interval": span(row.low, row.high, n_decimals),
        "from": min(ends),
        "to": max(ends) if max(ends) > min(ends) else min(ends) + 1.0,
        "counts": f"A higher on {row.wins:,}, equal on {row.ties:,}, lower on {row.losses:,}",
        "bars": _bars([value for _, value in reversed(ordered)]),
        "named": [(name, number(value, n_decimals + 1)) for name, value in reversed(named)],
    }


def _bars(values: list[float]) -> list[float]:
    """Heights of the differences, in percent of the largest, the highest first."""
    largest = max(map(abs, values), default=0.0)
    if not largest:
        return []
    parts = np.array_split(np.array(values), min(MOST_BARS, len(values)))
    return [round(100 * float(part.mean()) / largest, 1) for part in parts]
