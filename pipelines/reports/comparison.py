"""A comparison of scores: what it holds, how it is laid out, and its page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from pipelines.reports.charts import Axis, Mark, columns, spot, upright
from pipelines.reports.numbers import (
    UNDEFINED,
    decimals,
    number,
    p_value_text,
    range_text,
    span,
)
from pipelines.reports.tables import MAX_ROWS, PaperTable, Sheet, frame_of, to_latex, to_markdown
from pipelines.tables.records import InputRecord
from sms.naming import counted
from sms.signature import version
from sms.writing import isolated

PAIRS, RUNS, SYSTEMS = "pairs", "runs", "systems"
"""What is compared: every pair of systems of one run, two runs of the same systems, or systems of
two runs."""
MOST_BARS = 150
"""Of the differences of documents; of more, neighbours in the order of size share a bar."""
IN_MARKDOWN = ("p", "wins", "ties", "losses", "higher")
"""Columns that there is no room for; the table to copy has them."""
MOST_GAPS = 5
"""Pairs of systems of which it is said how many documents either has."""
N_EXTREMES = 5
"""Documents named at either end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One system (or run) against another under one metric."""

    metric: str
    system_a: str
    system_b: str
    mean_a: float
    """Over the documents both have; NaN where there is none, as are the other numbers."""
    mean_b: float
    difference: float
    """Mean of A minus mean of B."""
    low: float
    high: float
    """Bootstrap interval of the difference, documents being drawn with replacement."""
    p_value: float
    """Two-sided: share of swaps of A and B, document by document, that move the means as far apart;
    at least 2 * 0.5**n for n documents on which they differ."""
    p_holm: float
    """Corrected over all rows of the comparison."""
    wins: int
    """Documents on which A is higher."""
    ties: int
    losses: int
    n_documents: int
    """That both have."""
    n_missing: int
    """Documents that one of them lacks."""
    n_a: int
    """Documents for which A has a score."""
    n_b: int
    higher: str | None
    """"a" or "b" where `p_holm` is small enough, else None."""
    reason: str | None
    """Why the numbers are undefined."""
    documents: tuple[tuple[str, float], ...] = field(repr=False)
    """Every document that both have, and its score of A minus that of B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMean:
    """The mean of one system of one run under one metric."""

    metric: str
    system: str
    mean: float
    """Over the documents it has; NaN where there is none, as are the ends."""
    low: float
    high: float
    """Bootstrap interval, documents being drawn with replacement; the same for all systems."""
    n_documents: int
    letters: str
    """Two systems with a common letter do not differ significantly, two without one do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreComparison:
    """One or two score folders compared, and how."""

    scores_a: str
    scores_b: str | None
    """None if all pairs of `scores_a` are compared."""
    kind: str
    """`PAIRS`, `RUNS` or `SYSTEMS`."""
    rows: tuple[MetricComparison, ...]
    """Metrics in the order of A; for each, the pairs of systems."""
    means: tuple[SystemMean, ...]
    """For `PAIRS`, metric by metric all systems, the highest mean first."""
    signatures: Mapping[str, str]
    """By metric, where both have the same."""
    meanings: tuple[str, ...]
    """What a higher value of the metrics means."""
    inputs: tuple[InputRecord, ...]
    notes: tuple[str, ...]
    n_resamples: int
    confidence: float
    seed: int

    @property
    def is_one_pair(self) -> bool:
        """Whether all rows are about the same two systems."""
        return len({(row.system_a, row.system_b) for row in self.rows}) == 1

    def frame(self) -> pl.DataFrame:
        """Return the rows as a table; undefined is null."""
        return frame_of(self.rows, without="documents")


def comparison_sheet(result: ScoreComparison) -> Sheet:
    """Lay a comparison out."""
    return Sheet(
        record=result,
        frame=result.frame(),
        table=_table_of_means(result) if result.kind == PAIRS else _table(result),
        head=list(_head(result)),
        foot=list(_foot(result)),
        codes=list(result.signatures.values()),
    )


def _table(result: ScoreComparison) -> PaperTable:
    means: dict[str, list[float]] = {}
    for row in result.rows:
        means.setdefault(row.metric, []).extend([row.mean_a, row.mean_b])
    digits = max(map(decimals, means.values()))  # one format for a column; nothing is lost
    systems = {"system": "system_a"} if result.kind == RUNS else {"A": "system_a", "B": "system_b"}
    if result.kind == SYSTEMS and result.is_one_pair:
        systems = {}  # the lines above the table name them
    interval = f"{100 * result.confidence:g} % interval"
    numbers = ("mean A", "mean B", "A - B", interval, "p", "p (Holm)")
    header = ["metric", *systems, *numbers, "wins", "ties", "losses", "documents", "higher"]
    rows = [
        [row.metric, *(getattr(row, name) for name in systems.values()), *_numbers(row, digits)]
        for row in result.rows
    ]
    n_left = 1 + len(systems)
    return PaperTable(
        title="Comparison of scores",
        header=header,
        alignment="l" * n_left + "r" * (len(header) - n_left),
        rows=rows,
    )


def _table_of_means(result: ScoreComparison) -> PaperTable:
    """Lay out one run as papers do: a row a system, the highest under the first metric first."""
    metrics = list(dict.fromkeys(mean.metric for mean in result.means))
    systems = list(dict.fromkeys(mean.system for mean in result.means))
    of = {(mean.system, mean.metric): mean for mean in result.means}
    digits = {name: decimals(of[system, name].mean for system in systems) for name in metrics}
    rows = [
        [system, *(_mean_text(of[system, name], digits[name]) for name in metrics)]
        for system in systems
    ]
    letters = {
        (i, j): of[system, name].letters
        for i, system in enumerate(systems)
        for j, name in enumerate(metrics, start=1)
    }
    interval = f"{100 * result.confidence:g} % interval over documents"
    return PaperTable(
        title="Mean scores by system",
        caption=f"Mean and {interval} (bootstrap). {_on_letters(result)}.",
        header=["system", *metrics],
        alignment="l" + "r" * len(metrics),
        rows=rows,
        letters=letters,
    )


def _mean_text(mean: SystemMean, digits: int) -> str:
    if math.isnan(mean.mean):
        return UNDEFINED
    interval = "" if math.isnan(mean.low) else f" {span(mean.low, mean.high, digits)}"
    return f"{number(mean.mean, digits)}{interval}"


def _on_letters(result: ScoreComparison) -> str:
    alpha = 1.0 - result.confidence
    return (
        "Two systems without a common letter differ significantly under the metric (two-sided "
        "permutation test, the two being swapped on each document they share; p at most "
        f"{alpha:.2g} after Holm's correction for {counted(_n_tested(result), 'test')})"
    )


def _n_tested(result: ScoreComparison) -> int:
    return sum(not math.isnan(row.p_value) for row in result.rows)


def _numbers(row: MetricComparison, digits: int) -> list[str]:
    """Write the numbers of a row, its means with so many decimals."""
    return [
        *(number(mean, digits) for mean in (row.mean_a, row.mean_b)),
        number(row.difference, digits + 1),
        span(row.low, row.high, digits + 1),
        *(p_value_text(p_value) for p_value in (row.p_value, row.p_holm)),
        *(str(n) for n in (row.wins, row.ties, row.losses, row.n_documents)),
        (row.higher or UNDEFINED).upper(),
    ]


def _head(result: ScoreComparison) -> Iterator[str]:
    if result.kind == PAIRS:
        n_systems = len({mean.system for mean in result.means})
        yield f"Every pair of {counted(n_systems, 'system')} of {result.scores_a}"
        return
    if result.kind == RUNS:
        yield "Two runs of the same systems, on the documents both have"
    else:
        each = "A with B" if result.is_one_pair else "Every system of A with every system of B"
        yield f"{each}, on the documents both have"
    for side in ("a", "b"):
        systems = {getattr(row, f"system_{side}") for row in result.rows}
        named = (
            f"{isolated(systems.pop())}, " if result.kind == SYSTEMS and len(systems) == 1 else ""
        )
        yield f"{side.upper()}: {named}{getattr(result, f'scores_{side}')}"


def _foot(result: ScoreComparison) -> Iterator[str]:
    yield from result.meanings
    n_tested = _n_tested(result)
    if result.kind == PAIRS:
        yield _on_letters(result)
        yield (
            f"Interval: bootstrap over documents, {result.n_resamples:,} resamples, seed "
            f"{result.seed}; a page, .csv and .json have the difference of every pair"
        )
    else:
        yield (
            f"Interval: paired bootstrap over documents, {result.n_resamples:,} resamples, seed "
            f"{result.seed}; p: two-sided permutation test, A and B being swapped on each "
            f"document; Holm over {counted(n_tested, 'test')}; wins, ties and losses of A by "
            "document"
        )
    smallest = 1 / (result.n_resamples + 1)
    if any(row.p_value <= smallest for row in result.rows):
        yield f"p = {smallest:.2g} is the smallest p-value that this many resamples can give"
    alpha = 1.0 - result.confidence
    if n_tested * smallest > alpha:
        yield (
            f"{result.n_resamples:,} resamples are too few for {counted(n_tested, 'test')}: no p "
            f"(Holm) can be below {n_tested * smallest:.2g}; set `resamples` in the `--config` "
            f"file to {math.ceil(n_tested / alpha):,}, or compare fewer"
        )
    yield from _on_few_documents(result, n_tested, alpha)
    missing = [row.n_missing for row in result.rows]
    if any(missing):
        yield f"Documents left out because A or B has no score for them: {range_text(missing)}"
    yield from _gaps(result)
    for row in result.rows:
        if row.reason is not None:
            pair = f"{isolated(row.system_a)}, {isolated(row.system_b)}"
            yield f"Undefined: {row.metric}, {pair}: {row.reason}"
    yield from result.notes


def _on_few_documents(result: ScoreComparison, n_tested: int, alpha: float) -> Iterator[str]:
    """Say how many documents it takes before a p-value can be small.

    Of n documents that differ it is 2 / 2^n or more, and Holm multiplies the smallest by the
    number of tests; the others by less, so this counts only where no test has enough documents.
    """
    possible = [2.0 * 0.5 ** (row.wins + row.losses) for row in result.rows]
    # of resamples that are drawn at random, a p-value may be smaller than is possible of all
    smallest = [p for p, row in zip(possible, result.rows, strict=True) if row.p_value >= p]
    if not smallest:
        return
    is_all = len(smallest) == n_tested
    n_corrected = n_tested if is_all and n_tested * min(smallest) > alpha else 1
    if n_corrected * max(smallest) > alpha:
        fewest = math.ceil(1.0 + math.log2(n_corrected / alpha))
        by = f" by Holm over {n_corrected} tests" if n_corrected > 1 else ""
        yield (
            f"With fewer than {fewest} documents that differ, no p-value{by} can be below "
            f"{alpha:.2g}"
        )


def _gaps(result: ScoreComparison) -> Iterator[str]:
    """Say on what two systems are compared where one has scores that the other lacks."""
    metrics: dict[tuple[str, str, int, int, int], list[str]] = {}
    for row in result.rows:
        if row.n_missing:
            counts = (row.n_a, row.n_b, row.n_documents)
            metrics.setdefault((row.system_a, row.system_b, *counts), []).append(row.metric)
    for (a, b, n_a, n_b, n_both), names in [*metrics.items()][:MOST_GAPS]:
        yield (
            f"A ({isolated(a)}) has a score for {n_a:,}, B ({isolated(b)}) for {n_b:,}; means and "
            f"difference are over the {counted(n_both, 'document')} that both have: "
            f"{', '.join(names)}"
        )
    if len(metrics) > MOST_GAPS:
        n_more = counted(len(metrics) - MOST_GAPS, "other pair")
        yield f"The same holds for {n_more}: see `documents` in the table"


# The page: the table with the intervals drawn, and the difference by document


def render_comparison(result: ScoreComparison) -> str:
    """Render the page as one file."""
    sheet, table = comparison_sheet(result), _table(result)
    from pipelines.reports.pages import render_page  # brings jinja2, which `compare` may not need

    n_left = table.alignment.count("l")
    return render_page(
        "compare.html",
        styles=["scores.css"],
        lead=_lead(result),
        sheet=sheet,
        has_means=result.kind == PAIRS,
        table=table,
        shown=[i for i, name in enumerate(table.header) if name not in IN_MARKDOWN],
        n_left=n_left,
        rows=[
            {
                "cells": [*cells[:n_left], *_numbers(row, decimals([row.mean_a, row.mean_b]))],
                "own": row,
                **_drawn(row),
            }
            for cells, row in zip(table.rows[:MAX_ROWS], result.rows, strict=False)
        ],
        n_more=max(0, len(result.rows) - MAX_ROWS),
        markdown=to_markdown(sheet.table),
        latex=to_latex(sheet.table, sheet.table.title),
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
    n_different = higher["a"] + higher["b"]
    if not n_different:
        return f"No significant difference in {tested}"
    if result.kind == PAIRS:
        return f"{counted(n_different, 'significant difference')} in {tested} of two systems"
    return f"A is significantly higher in {higher['a']:,}, B in {higher['b']:,} of {tested}"


def _drawn(row: MetricComparison) -> dict[str, Any]:
    """Draw a comparison, on an axis that holds 0 and the interval, and its documents."""
    ends = row.low, row.high
    axis = Axis.of_numbers([0.0, *ends, row.difference])
    ordered = sorted(row.documents, key=lambda each: -each[1])
    n_decimals = 1 + decimals([row.mean_a, row.mean_b])
    named = [*ordered[:N_EXTREMES], *ordered[N_EXTREMES:][-N_EXTREMES:]]
    return {
        "interval": f"{upright(axis, [Mark(0.0, 'zero')])};{spot(axis, row.difference, ends)}",
        "columns": _columns(row, ordered, n_decimals) if ordered else "",
        "named": [(name, number(value, n_decimals)) for name, value in named],
    }


def _columns(
    row: MetricComparison, ordered: Sequence[tuple[str, float]], n_decimals: int
) -> Markup:
    """Draw the differences of documents; neighbours share a column where there are many."""
    shared = [
        ordered[places[0] : places[-1] + 1]
        for places in np.array_split(np.arange(len(ordered)), min(MOST_BARS, len(ordered)))
    ]
    means = [sum(value for _, value in some) / len(some) for some in shared]
    titles = [
        f"{isolated(some[0][0]) if len(some) == 1 else counted(len(some), 'document')}: "
        f"{number(mean, n_decimals)}"
        for some, mean in zip(shared, means, strict=True)
    ]
    return columns(means, titles, f"Differences of documents under {row.metric}")
