"""The page of a comparison: its table with the intervals drawn, and the difference by document."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from pipelines.reports.comparison import MetricComparison, ScoreComparison, comparison_sheet
from pipelines.reports.numbers import decimals, number
from pipelines.reports.pages import render_page
from pipelines.reports.tables import MAX_ROWS, to_markdown
from sms.naming import counted
from sms.signature import version

MOST_BARS = 150
"""Of the differences of documents; of more, neighbours in the order of size share a bar."""
IN_MARKDOWN = ("p", "wins", "ties", "losses", "higher")
"""Columns that there is no room for; the table to copy has them."""
N_EXTREMES = 5
"""Documents named at either end."""


def render_comparison(result: ScoreComparison) -> str:
    """Render the page as one file."""
    sheet = comparison_sheet(result)
    return render_page(
        "compare.html",
        styles=["scores.css"],
        lead=_lead(result),
        sheet=sheet,
        shown=[i for i, name in enumerate(sheet.table.header) if name not in IN_MARKDOWN],
        n_left=sheet.table.alignment.count("l"),
        rows=[
            {"cells": cells, "own": row, **_drawn(row)}
            for cells, row in zip(sheet.table.rows[:MAX_ROWS], result.rows, strict=False)
        ],
        n_more=max(0, len(result.rows) - MAX_ROWS),
        markdown=to_markdown(sheet.table),
        version=version(),
    )


def _lead(result: ScoreComparison) -> str:
    n_tested = sum(row.reason is None for row in result.rows)
    if not n_tested:
        return f"No difference could be tested: {result.rows[0].reason}"
    higher = Counter(row.higher for row in result.rows)
    tested = counted(n_tested, "comparison")
    if n_untested := len(result.rows) - n_tested:
        tested += f" ({n_untested:,} could not be tested)"
    if not higher["a"] + higher["b"]:
        return f"No significant difference in {tested}"
    return f"A is significantly higher in {higher['a']:,}, B in {higher['b']:,} of {tested}"


def _drawn(row: MetricComparison) -> dict[str, Any]:
    """Arrange what is drawn of a comparison; its axis holds 0 and the interval."""
    ends = [0.0, *(end for end in (row.low, row.high, row.difference) if not np.isnan(end))]
    ordered = sorted(row.documents, key=lambda each: -each[1])
    values = np.array([value for _, value in ordered])
    largest = abs(values).max(initial=0.0)
    parts = np.array_split(values, min(MOST_BARS, len(values))) if largest else []
    named = [*ordered[:N_EXTREMES], *ordered[N_EXTREMES:][-N_EXTREMES:]]
    n_decimals = 1 + decimals([row.mean_a, row.mean_b])
    return {
        "from": min(ends),
        "to": max(ends) if max(ends) > min(ends) else min(ends) + 1.0,
        "bars": [round(100 * float(part.mean() / largest), 1) for part in parts],
        "named": [(name, number(value, n_decimals)) for name, value in named],
    }
