"""Summarisers compared under every metric, as in Table 4 of Clark et al. (2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from agreement import compare_systems, rank_systems
from pipelines.reports.tables import Column, PaperTable, to_markdown
from pipelines.reports.terminal import decimals, number, table_text
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
    n_documents: int
    n_missing: int
    """Documents without a score, for their references have no word."""
    n_empty: int
    """Summaries without a word that counts for some metric, whose score there is `LOWEST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One system minus another under one metric, over the documents both have."""

    system: str
    baseline: str
    metric: str
    value: float
    """Of the means; NaN if there is no such document, as are its ends."""
    low: float
    high: float
    """Bootstrap interval, documents being drawn with replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTable:
    """Every system under every metric."""

    cells: tuple[Cell, ...]
    """Systems in the order given, metrics in that of `COLUMNS`."""
    differences: tuple[Difference, ...]
    """Of every system to each baseline, but to itself, in the order of `cells`."""
    baselines: tuple[str, ...]
    signatures: Mapping[str, str]
    n_resamples: int
    confidence: float
    seed: int

    def frame(self) -> pl.DataFrame:
        """Return the cells as a table; undefined is null."""
        return _frame(self.cells)

    def difference_frame(self) -> pl.DataFrame:
        """Return the differences as a table; undefined is null."""
        return _frame(self.differences)

    def text(self, *, is_terminal: bool = False) -> str:
        """Lay out the means, and below them the differences with their intervals."""
        return "\n\n".join(
            table_text(header, rows, is_terminal=is_terminal)
            for header, rows in (self._means(), *map(self._differences, self.baselines))
        )

    def markdown(self) -> str:
        """Write both tables as Markdown."""
        parts = [
            (f"Means, with {self.confidence:.0%} intervals", self._means(with_intervals=True)),
            *((f"Differences to {one}", self._differences(one)) for one in self.baselines),
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
        rows: dict[str, list[str]] = {}
        digits = self._digits()
        for cell in self.cells:
            n = digits[cell.metric]
            shown = f" [{number(cell.low, n)}, {number(cell.high, n)}]" if with_intervals else ""
            rows.setdefault(cell.system, [cell.system]).append(number(cell.mean, n) + shown)
        return ["system", *COLUMNS], list(rows.values())

    def _differences(self, baseline: str) -> tuple[list[str], list[list[str]]]:
        rows: dict[str, list[str]] = {}
        digits = self._digits()
        for one in self.differences:
            if one.baseline == baseline:
                value, low, high = (
                    number(each, digits[one.metric]) for each in (one.value, one.low, one.high)
                )
                rows.setdefault(one.system, [one.system]).append(f"{value} [{low}, {high}]")
        return [f"minus {baseline}", *COLUMNS], list(rows.values())

    def _digits(self) -> dict[str, int]:
        """Choose the decimals of every column."""
        return {
            column: decimals(cell.mean for cell in self.cells if cell.metric == column)
            for column in COLUMNS
        }


def compare_summaries(
    summaries: pa.Table,
    *,
    baselines: Sequence[str],
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
    baselines : sequence of str
        Systems that every other is compared with.
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
        is_empty = np.array([_says_too_little(why or "") for why in status])
        n_empty.append(is_empty)
        for column in COLUMNS:
            if column in scores.column_names:
                values = scores[column].to_numpy(zero_copy_only=False)
                found[column].append(np.where(is_empty & np.isnan(values), LOWEST, values))
    found["repetition"] = [np.array([repetition_rate(words_of(text)) for text in candidates])]
    systems = list(dict.fromkeys(summaries.column("system_id").to_pylist()))
    empty = np.concatenate(n_empty).reshape(len(systems), -1).sum(axis=1).tolist()
    matrices = {
        column: np.concatenate(found[column]).reshape(len(systems), -1) for column in COLUMNS
    }
    draws = _Draws(n_resamples, confidence, seed)
    of_column = [
        _cells(column, matrix, systems, empty, draws) for column, matrix in matrices.items()
    ]
    return SummaryTable(
        cells=tuple(chain.from_iterable(zip(*of_column, strict=True))),
        differences=tuple(
            _difference(column, dict(zip(systems, matrix, strict=True)), system, baseline, draws)
            for baseline in baselines
            for system in systems
            if system != baseline
            for column, matrix in matrices.items()
        ),
        baselines=tuple(baselines),
        signatures={c: text for c, text in scorer.signatures.items() if c in COLUMNS},
        n_resamples=n_resamples,
        confidence=confidence,
        seed=seed,
    )


def _says_too_little(status: str) -> bool:
    """Tell from a status that a summary lacks words; one that was only cut does not."""
    return any(
        part.startswith("candidate:") and not part.startswith("candidate:cut@")
        for part in status.split("; ")
    )


@dataclass(frozen=True, slots=True)
class _Draws:
    """The bootstrap of every figure."""

    n_resamples: int
    confidence: float
    seed: int

    def options(self) -> dict[str, Any]:
        """Return the arguments; every call begins the same draws anew."""
        rng = np.random.default_rng(self.seed)
        return {"n_resamples": self.n_resamples, "confidence": self.confidence, "rng": rng}


def _cells(
    metric: str, matrix: np.ndarray, systems: Sequence[str], n_empty: Sequence[int], draws: _Draws
) -> list[Cell]:
    """Make the cells of a column; `matrix` is (n_systems, n_documents), NaN where missing."""
    means = rank_systems(matrix, **draws.options()).means
    n_missing = np.isnan(matrix).sum(axis=1).tolist()
    return [
        Cell(
            system=system,
            metric=metric,
            mean=means[row].value,
            low=means[row].low,
            high=means[row].high,
            n_documents=matrix.shape[1] - n_missing[row],
            n_missing=n_missing[row],
            n_empty=n_empty[row],
        )
        for row, system in enumerate(systems)
    ]


def _difference(
    metric: str, scores: Mapping[str, np.ndarray], system: str, baseline: str, draws: _Draws
) -> Difference:
    """Compare two systems by their scores, NaN where missing."""
    found = compare_systems(scores[system], scores[baseline], **draws.options()).difference
    return Difference(
        system=system,
        baseline=baseline,
        metric=metric,
        value=found.value,
        low=found.low,
        high=found.high,
    )


def _frame(records: Sequence[Cell] | Sequence[Difference]) -> pl.DataFrame:
    frame = pl.DataFrame([asdict(record) for record in records])
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    frame = pl.DataFrame([list(row) for row in rows], schema=list(header), orient="row")
    columns = [
        Column(header=name, show=itemgetter(name), is_numeric=place > 0)
        for place, name in enumerate(header)
    ]
    return to_markdown(PaperTable(name="", title="", caption="", frame=frame, columns=columns))
