"""A table or figure of a paper, and how the names of metrics are read for it.

What all papers share: rows of correlations with their counts, numbers laid out as text, and the
parts of a metric's name, `[INPUT/]METRIC[@ENCODER][:AGAINST]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from agreement import correlate, correlation_test
from pipelines.tables.study import is_baseline

if TYPE_CHECKING:
    import altair as alt

COUNTS = pl.Schema(
    {
        "n_systems": pl.Int64,
        "n_documents": pl.Int64,
        "n_cells": pl.Int64,
        "n_missing": pl.Int64,
        "n_skipped": pl.Int64,
        "reason": pl.String,
    }
)
"""What stands beside every correlation; `reason` says why a value is undefined."""

HUMAN_SYSTEMS = ("human*", "reference*")
"""Names, as patterns, of systems whose summaries people wrote."""

_NAME = re.compile(r"(?:([^@]*)/)?([^@/:]+)(?:@(.*?))?(?::(reference|source))?")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublishedTable:
    """A table or figure of a paper, made anew from other scores and ratings."""

    name: str
    """Stem of its files, such as "clark2019-table2"."""
    title: str
    frame: pl.DataFrame
    """One row per number with its counts; undefined is null."""
    printed: pl.DataFrame | None = None
    """The same as text in the layout of the paper; None for a figure."""
    n_labels: int = 1
    """Columns of `printed`, from the left, that say what a row is about."""
    notes: Sequence[str] = ()
    """What a reader must know: level, coefficient, and what differs from the paper."""
    make_chart: Callable[[], alt.TopLevelMixin] | None = None
    """Draws the figure; None for a table. Altair is imported only then."""


def typed(rows: Iterable[Mapping[str, Any]], *schemas: pl.Schema) -> pl.DataFrame:
    """Make a frame with the columns of `schemas`; NaN becomes null, what a row lacks is null."""
    schema = pl.Schema({name: kind for part in schemas for name, kind in part.items()})
    frame = pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema)
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def correlation_row(
    scores: np.ndarray, ratings: np.ndarray, *, level: str, coefficient: str
) -> dict[str, Any]:
    """Correlate at one level, with the textbook p-value and everything to be told beside it.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    level, coefficient : str
        See `agreement.correlate`.

    Returns
    -------
    dict
        `level`, `coefficient`, `value`, two-sided `p_value` (NaN at summary level, which has no
        such test) and `COUNTS`.
    """
    result = correlate(scores, ratings, level=level, coefficient=coefficient)
    test = correlation_test(scores, ratings, level=level, coefficient=coefficient)
    return {
        "level": level,
        "coefficient": coefficient,
        "value": result.value,
        "p_value": test.p_value,
        "n_systems": result.n_systems,
        "n_documents": result.n_documents,
        "n_cells": scores.size - result.n_missing,
        "n_missing": result.n_missing,
        "n_skipped": result.n_skipped,
        "reason": result.reason,
    }


def laid_out(index: Sequence[str], cells: Iterable[tuple[Sequence[str], str, str]]) -> pl.DataFrame:
    """Lay text out in rows and columns, both in the order in which they first occur.

    Parameters
    ----------
    index : sequence of str
        Names of the columns that say what a row is about.
    cells : iterable of (row, column, text)
        `row` has a text for each of `index`. A cell that is not given stays empty.

    Returns
    -------
    DataFrame
        Of text only.

    Examples
    --------
    >>> laid_out(["metric"], [(["sms"], "fluency", "0.258")]).to_dicts()
    [{'metric': 'sms', 'fluency': '0.258'}]
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    for row, column, text in cells:
        rows.setdefault(tuple(row), {})[column] = text
        columns[column] = None
    return pl.DataFrame(
        [
            dict(zip(index, row, strict=True)) | {name: texts.get(name, "") for name in columns}
            for row, texts in rows.items()
        ],
        schema=[(name, pl.String) for name in (*index, *columns)],
    )


def undefined_notes(frame: pl.DataFrame) -> tuple[str, ...]:
    """Say how many values are undefined, and why; nothing if all are defined."""
    reasons = frame.filter(pl.col("value").is_null())["reason"].drop_nulls()
    if reasons.is_empty():
        return ()
    why = "; ".join(reasons.unique(maintain_order=True))
    return (f"{len(reasons)} values are undefined (–): {why}.",)


def size_note(frame: pl.DataFrame) -> str:
    """Say on how many systems, documents and cells the correlations of a frame rest."""
    parts = [
        f"{_range(frame[column])} {unit}"
        for column, unit in (
            ("n_systems", "systems"),
            ("n_documents", "documents"),
            ("n_cells", "summaries"),
            ("n_missing", "missing cells"),
        )
    ]
    return f"From {', '.join(parts)}."


def base_of(metric: str) -> str:
    """Return what a metric computes: its name without input and encoder.

    Examples
    --------
    >>> base_of("run2/cosine@elmo:source")
    'cosine:source'
    """
    _, name, _, against = _parts(metric)
    return f"{name}:{against}" if against else name


def variant_of(metric: str) -> str:
    """Return what tells a metric from others of the same base: its input and its encoder.

    Examples
    --------
    >>> variant_of("sms@glove"), variant_of("run2/sms"), variant_of("sms")
    ('glove', 'run2', '')
    """
    source, _, encoder, _ = _parts(metric)
    return " ".join(filter(None, (source, encoder)))


def is_against_source(metric: str) -> bool:
    """Say whether a metric compares with the source document."""
    return _parts(metric)[3] == "source"


def is_rouge(metric: str) -> bool:
    """Say whether a metric is some ROUGE, of ours or of another tool."""
    return base_of(metric).lower().startswith("rouge")


def is_rouge_f(metric: str, kind: str) -> bool:
    """Say whether a metric is the F measure of ROUGE of a kind, such as "1" or "l".

    Examples
    --------
    >>> [is_rouge_f(name, "l") for name in ("rougeL_f", "ROUGE-L", "rougeL_p", "rougeLsum_f")]
    [True, True, False, False]
    """
    return (
        re.fullmatch(rf"rouge[-_ ]?{kind}([-_ ]?f[-_ ]?(1|measure)?)?", base_of(metric), re.I)
        is not None
    )


def baselines_last(metrics: Iterable[str]) -> list[str]:
    """Order metrics as they come, the trivial baselines behind the others."""
    return sorted(metrics, key=is_baseline)


def _parts(metric: str) -> tuple[str, str, str, str]:
    """Split a name into input, metric, encoder and what it is compared with, "" where not there."""
    found = _NAME.fullmatch(metric)
    return found.groups("") if found else ("", metric, "", "")  # type: ignore[return-value]


def _range(counts: pl.Series) -> str:
    values = counts.to_list()
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
