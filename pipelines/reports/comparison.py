"""A comparison of scores: what it holds, and how it is laid out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from pipelines.reports.numbers import (
    UNDEFINED,
    decimals,
    number,
    p_value_text,
    range_text,
    span,
)
from pipelines.reports.tables import PaperTable, Sheet, frame_of
from pipelines.tables.records import InputRecord
from sms.naming import counted

RUNS, SYSTEMS = "runs", "systems"
"""What is compared: two runs of the same systems, or different systems."""


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
    higher: str | None
    """"a" or "b" where `p_holm` is small enough, else None."""
    reason: str | None
    """Why the numbers are undefined."""
    documents: tuple[tuple[str, float], ...] = field(repr=False)
    """Every document that both have, and its score of A minus that of B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreComparison:
    """Two score folders compared, and how."""

    scores_a: str
    scores_b: str
    kind: str
    """`RUNS` or `SYSTEMS`."""
    rows: tuple[MetricComparison, ...]
    """Metrics in the order of A; for each, the pairs of systems."""
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
        table=_table(result),
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
        [
            row.metric,
            *(getattr(row, name) for name in systems.values()),
            *(number(mean, digits) for mean in (row.mean_a, row.mean_b)),
            number(row.difference, digits + 1),
            span(row.low, row.high, digits + 1),
            *(p_value_text(p_value) for p_value in (row.p_value, row.p_holm)),
            *(str(n) for n in (row.wins, row.ties, row.losses, row.n_documents)),
            (row.higher or UNDEFINED).upper(),
        ]
        for row in result.rows
    ]
    n_left = 1 + len(systems)
    return PaperTable(
        title="Comparison of scores",
        header=header,
        alignment="l" * n_left + "r" * (len(header) - n_left),
        rows=rows,
    )


def _head(result: ScoreComparison) -> Iterator[str]:
    if result.kind == RUNS:
        yield "Two runs of the same systems, on the documents both have"
    else:
        each = "A with B" if result.is_one_pair else "Every system of A with every system of B"
        yield f"{each}, on the documents both have"
    for side in ("a", "b"):
        systems = {getattr(row, f"system_{side}") for row in result.rows}
        named = f"{systems.pop()}, " if result.kind == SYSTEMS and len(systems) == 1 else ""
        yield f"{side.upper()}: {named}{getattr(result, f'scores_{side}')}"


def _foot(result: ScoreComparison) -> Iterator[str]:
    yield from result.meanings
    n_tested = sum(not math.isnan(row.p_value) for row in result.rows)
    yield (
        f"Interval: paired bootstrap over documents, {result.n_resamples:,} resamples, seed "
        f"{result.seed}; p: two-sided permutation test, A and B being swapped on each document; "
        f"Holm over {counted(n_tested, 'test')}; wins, ties and losses of A by document"
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
    if any(row.p_value >= 2.0 * 0.5 ** (row.wins + row.losses) > alpha for row in result.rows):
        fewest = math.ceil(1.0 - math.log2(alpha))
        yield f"With fewer than {fewest} documents that differ, no p-value can be below {alpha:.2g}"
    missing = [row.n_missing for row in result.rows]
    if any(missing):
        yield f"Documents left out because A or B has no score for them: {range_text(missing)}"
    for row in result.rows:
        if row.reason is not None:
            yield f"Undefined: {row.metric}, {row.system_a}, {row.system_b}: {row.reason}"
    yield from result.notes
