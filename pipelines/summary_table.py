"""Summarisers compared under every metric, as in Table 4 of Clark et al. (2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter

import numpy as np
import polars as pl
import pyarrow as pa

from pipelines.agreement import compare_systems, rank_systems
from pipelines.reports.tables import Column, PaperTable, to_markdown
from pipelines.summary import decimals, number, table_text
from reinforce.words import repetition_rate, words_of
from sms.scoring import ScoringConfig, SummaryScorer

METRICS = ("rouge1", "rouge2", "rougeL", "wms", "sms", "s+wms", "length")
COLUMNS = ("rouge1_f", "rouge2_f", "rougeL_f", "wms", "sms", "s+wms", "repetition", "length")
"""Of the table; `repetition` is the share of trigrams that have come before in the summary."""
LOWEST = 0.0
"""Score of a summary without a word, under every metric here, as in the rewards: left out, it
would be to the credit of a system that writes none where writing is hard."""

_BATCH_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One system under one metric."""

    system: str
    metric: str
    mean: float
    """Over the documents it has a score for; NaN if there is none, as are its ends."""
    low: float
    high: float
    """Bootstrap interval, documents being drawn with replacement."""
    difference: float
    """Mean of the system minus mean of the baseline, over the documents both have."""
    difference_low: float
    difference_high: float
    n_documents: int
    n_missing: int
    """Documents without a score, for their references have no word."""
    n_empty: int
    """Summaries without a word, whose score is `LOWEST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTable:
    """Every system under every metric."""

    cells: tuple[Cell, ...]
    """Systems in the order given, metrics in that of `COLUMNS`."""
    baseline: str
    """The system that differences are taken to."""
    signatures: Mapping[str, str]
    n_resamples: int
    confidence: float
    seed: int

    def frame(self) -> pl.DataFrame:
        """Return the cells as a table; undefined is null."""
        frame = pl.DataFrame([asdict(cell) for cell in self.cells])
        return frame.with_columns(pl.selectors.float().fill_nan(None))

    def text(self, *, is_terminal: bool = False) -> str:
        """Lay out the means, and below them the differences with their intervals."""
        return "\n\n".join(
            table_text(header, rows, is_terminal=is_terminal)
            for header, rows in (self._means(), self._differences())
        )

    def markdown(self) -> str:
        """Write both tables as Markdown."""
        parts = [
            (f"Means, with {self.confidence:.0%} intervals", self._means(with_intervals=True)),
            (f"Differences to {self.baseline}", self._differences()),
        ]
        lines = ["# Summarisers under every metric", ""]
        for title, (header, rows) in parts:
            lines += [f"## {title}", "", _markdown(header, rows), ""]
        lines += [
            f"Bootstrap over documents, {self.n_resamples:,} resamples, seed {self.seed}. Higher "
            "is closer for all but `repetition` (share of repeated trigrams) and `length` (words).",
            "",
            *(f"- {column}: `{text}`" for column, text in self.signatures.items()),
        ]
        return "\n".join(lines) + "\n"

    def _means(self, *, with_intervals: bool = False) -> tuple[list[str], list[list[str]]]:
        return self._laid_out(
            lambda cell, n: (
                number(cell.mean, n)
                + (f" [{number(cell.low, n)}, {number(cell.high, n)}]" if with_intervals else "")
            )
        )

    def _differences(self) -> tuple[list[str], list[list[str]]]:
        header, rows = self._laid_out(
            lambda cell, n: (
                f"{number(cell.difference, n)} "
                f"[{number(cell.difference_low, n)}, {number(cell.difference_high, n)}]"
            )
        )
        header[0] = f"minus {self.baseline}"
        return header, [row for row in rows if row[0] != self.baseline]

    def _laid_out(self, show: Callable[[Cell, int], str]) -> tuple[list[str], list[list[str]]]:
        digits = {
            column: decimals(cell.mean for cell in self.cells if cell.metric == column)
            for column in COLUMNS
        }
        rows: dict[str, list[str]] = {}
        for cell in self.cells:
            shown = show(cell, digits[cell.metric])
            rows.setdefault(cell.system, [cell.system]).append(shown)
        return ["system", *COLUMNS], list(rows.values())


def compare_summaries(
    summaries: pa.Table,
    *,
    baseline: str,
    encoder: str = "minilm",
    threads: int | None = None,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> SummaryTable:
    """Score the summaries of several systems under every metric, with intervals.

    Parameters
    ----------
    summaries : pyarrow.Table
        `system_id`, `references` and `candidate`; every system has the same documents in the
        same order.
    baseline : str
        The system that the others are compared with.
    encoder : str
        For the movers.
    threads : int, optional
    n_resamples, confidence, seed
        Of the bootstrap over documents; every cell sees the same draws.

    Returns
    -------
    SummaryTable
    """
    config = ScoringConfig(metrics=METRICS, encoders={"encoder": encoder})
    scorer = SummaryScorer(config, threads)
    candidates = summaries.column("candidate").to_pylist()
    found: dict[str, list[np.ndarray]] = {column: [] for column in COLUMNS}
    n_empty: list[np.ndarray] = []
    for start in range(0, len(summaries), _BATCH_ROWS):
        rows = summaries.slice(start, _BATCH_ROWS).select(["candidate", "references"])
        scores = scorer.compare(scorer.prepare(rows))
        status = scores["status"].to_pylist()
        is_empty = np.array([(why or "").startswith("candidate:") for why in status])
        n_empty.append(is_empty)
        for column in COLUMNS:
            if column in scores.column_names:
                values = scores[column].to_numpy(zero_copy_only=False)
                found[column].append(np.where(is_empty, LOWEST, values))
    found["repetition"] = [np.array([repetition_rate(words_of(text)) for text in candidates])]
    systems = list(dict.fromkeys(summaries.column("system_id").to_pylist()))
    empty = np.concatenate(n_empty).reshape(len(systems), -1).sum(axis=1).tolist()
    cells: list[list[Cell]] = [[] for _ in systems]
    for column in COLUMNS:
        matrix = np.concatenate(found[column]).reshape(len(systems), -1)
        for row, cell in enumerate(
            _cells(column, matrix, systems, systems.index(baseline), n_resamples, confidence, seed)
        ):
            cells[row].append(replace(cell, n_empty=empty[row]))
    return SummaryTable(
        cells=tuple(cell for row in cells for cell in row),
        baseline=baseline,
        signatures={c: text for c, text in scorer.signatures.items() if c in COLUMNS},
        n_resamples=n_resamples,
        confidence=confidence,
        seed=seed,
    )


def _cells(
    metric: str,
    matrix: np.ndarray,
    systems: Sequence[str],
    baseline: int,
    n_resamples: int,
    confidence: float,
    seed: int,
) -> list[Cell]:
    """Make the cells of a column; `matrix` is (n_systems, n_documents), NaN where missing."""
    means = rank_systems(
        matrix, n_resamples=n_resamples, confidence=confidence, rng=np.random.default_rng(seed)
    ).means
    cells = []
    for row, system in enumerate(systems):
        difference = compare_systems(
            matrix[row],
            matrix[baseline],
            n_resamples=n_resamples,
            confidence=confidence,
            rng=np.random.default_rng(seed),
        ).difference
        n_missing = int(np.isnan(matrix[row]).sum())
        cells.append(
            Cell(
                system=system,
                metric=metric,
                mean=means[row].value,
                low=means[row].low,
                high=means[row].high,
                difference=difference.value,
                difference_low=difference.low,
                difference_high=difference.high,
                n_documents=matrix.shape[1] - n_missing,
                n_missing=n_missing,
                n_empty=0,
            )
        )
    return cells


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    frame = pl.DataFrame([list(row) for row in rows], schema=list(header), orient="row")
    columns = [
        Column(header=name, show=itemgetter(name), is_numeric=place > 0)
        for place, name in enumerate(header)
    ]
    return to_markdown(PaperTable(name="", title="", caption="", frame=frame, columns=columns))
