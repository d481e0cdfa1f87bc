"""What a table of a paper shows: its numbers, how scores are compared with ratings, the layout.

What a table needs, and how it is made, is a `Table` of `bench`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from agreement import correlate, correlation_test
from pipelines.reports.numbers import number_text, range_text
from pipelines.tables.study import Study

Row: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = tuple[tuple[str, ...], str]
"""Row and column of a table as it is laid out."""

_NAME = re.compile(r"(?:([^@]*)/)?([^@/:]+)(?:@(.*?))?(?::(reference|source))?")
_NUMBERS = {"value", "p_value", "p_greater", "difference", "statistic", "degrees_of_freedom"}
_NUMBERS |= {"mean", "deviation", "score", "rating"}
"""Columns of frames that hold floats; counts begin with `n_`."""


@dataclass(frozen=True, slots=True)
class Ours:
    """A number that was computed here."""

    value: float | None
    """None where it is undefined, never NaN."""
    form: str = "{}"
    """How it is printed, such as "{}*"."""

    def text(self, digits: int) -> str:
        """Write it with so many digits after the point."""
        return self.form.format(number_text(self.value, digits, minus="-"))


Numbers: TypeAlias = Mapping[Cell, Ours]
"""By cell; what could not be computed is not there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Scores by metric and ratings by aspect, shape (n_systems, n_documents), NaN = missing."""

    systems: Sequence[str]
    scores: Mapping[str, np.ndarray]
    ratings: Mapping[str, np.ndarray]
    signatures: Mapping[str, str]
    """By metric."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What the paper calls the metrics; those without a name keep their own."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """What the paper writes above the columns of an aspect."""
    encoders: Sequence[str] = ()
    """Those that the paper has columns for; without them, those of the metrics."""
    seed: int = 0
    """Of draws."""

    @classmethod
    def of(cls, study: Study, **more: Any) -> Scored:  # noqa: ANN401  (fields)
        """Name the matrices of a study."""
        return cls(
            systems=study.systems,
            scores=dict(zip(study.metrics, study.scores, strict=True)),
            ratings=dict(zip(study.aspects, study.ratings, strict=True)),
            **more,
        )

    def name(self, metric: str) -> str:
        """Return what a table calls a metric."""
        return self.names.get(metric, metric.removesuffix(":source"))

    def head(self, aspect: str) -> str:
        """Return what a table writes above the columns of an aspect."""
        return self.heads.get(aspect, aspect)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shown:
    """A table or figure made from scores and ratings."""

    name: str = ""
    """Stem of its files, such as "clark2019-table2"."""
    title: str
    frame: pl.DataFrame
    """One row per number with its counts; undefined is null."""
    numbers: Numbers = field(default_factory=dict)
    """Those that the paper has, in its cells."""
    printed: pl.DataFrame | None = None
    """All numbers as text in the layout of the paper; None for a figure."""
    n_labels: int = 1
    """Columns of `printed`, from the left, that say what a row is about."""
    notes: Sequence[str] = ()
    chart: str | None = None
    """The figure as SVG; None for a table."""


def correlation_rows(
    scored: Scored,
    metrics: Sequence[str],
    levels: Sequence[str],
    coefficients: Sequence[str],
    systems: np.ndarray | slice = slice(None),
) -> list[dict[str, Any]]:
    """Correlate metrics with the ratings of every aspect, over some of the systems or all."""
    return [
        {
            "aspect": aspect,
            "metric": metric,
            **correlation_row(scored.scores[metric][systems], rating[systems], level, coefficient),
        }
        for level, metric, (aspect, rating), coefficient in itertools.product(
            levels, metrics, scored.ratings.items(), coefficients
        )
    ]


def table_of(
    title: str,
    frame: pl.DataFrame,
    cells: Numbers,
    *,
    labels: Sequence[str] = ("metric",),
    digits: int = 3,
    notes: Sequence[str] = (),
) -> Shown:
    """Make a table of correlations, with the numbers of the frame in its cells.

    `labels` name the columns at the left.
    """
    texts = ((row, column, ours.text(digits)) for (row, column), ours in cells.items())
    return Shown(
        title=title,
        frame=frame,
        numbers=cells,
        printed=laid_out(labels, texts),
        n_labels=len(labels),
        notes=(*notes, *size_notes(frame)),
    )


def correlation_row(
    scores: np.ndarray, ratings: np.ndarray, level: str, coefficient: str
) -> dict[str, Any]:
    """Correlate two matrices, with the textbook p-value and the counts to be told with it.

    The two-sided `p_value` is NaN at summary level, which has no such test; `reason` says why a
    value is undefined.
    """
    result = correlate(scores, ratings, level=level, coefficient=coefficient)
    return {
        "level": level,
        "coefficient": coefficient,
        "value": result.value,
        "p_value": correlation_test(scores, ratings, level=level, coefficient=coefficient),
        "n_systems": result.n_systems,
        "n_documents": result.n_documents,
        "n_cells": scores.size - result.n_missing,
        "n_missing": result.n_missing,
        "n_skipped": result.n_skipped,
        "reason": result.reason,
    }


def typed(rows: Sequence[Row]) -> pl.DataFrame:
    """Make a frame of one or more rows with the same keys; NaN becomes null."""
    schema = {
        name: pl.Int64 if name.startswith("n_") or name == "source_tokens"
        else pl.Float64 if name in _NUMBERS
        else pl.String
        for name in rows[0]
    }  # fmt: skip
    return pl.DataFrame(rows, schema).with_columns(pl.selectors.float().fill_nan(None))


def laid_out(index: Sequence[str], cells: Iterable[tuple[Sequence[str], str, str]]) -> pl.DataFrame:
    """Lay text out in rows and columns, both in the order in which they first occur.

    `index` names the columns that say what a row is about. A cell is its row (a text for each of
    `index`), its column and its text; one that is not given stays empty.

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


def size_notes(frame: pl.DataFrame) -> tuple[str, ...]:
    """Say on how many systems, documents and cells correlations rest; which are undefined."""
    parts = []
    for column, one, several in (
        ("n_systems", "system", "systems"),
        ("n_documents", "document", "documents"),
        ("n_cells", "summary", "summaries"),
        ("n_missing", "missing cell", "missing cells"),
    ):
        counts = frame[column].to_list()
        parts.append(f"{range_text(counts)} {one if max(counts) == 1 else several}")
    return (f"From {', '.join(parts)}.", *undefined_notes(frame))


# Names of metrics: [INPUT/]METRIC[@ENCODER][:AGAINST]


def base_of(metric: str) -> str:
    """Return what a metric computes: its name without input and encoder."""
    _, name, _, against = _parts(metric)
    return f"{name}:{against}" if against else name


def variant_of(metric: str) -> str:
    """Return what tells a metric from others of the same base: its input and its encoder."""
    source, _, encoder, _ = _parts(metric)
    return " ".join(filter(None, (source, encoder)))


def is_against_source(metric: str) -> bool:
    """Say whether a metric compares with the source document."""
    return _parts(metric)[3] == "source"


def is_rouge(metric: str) -> bool:
    """Say whether a metric is some ROUGE, of ours or of another tool."""
    return base_of(metric).lower().startswith("rouge")


def is_rouge_f(metric: str, kind: str) -> bool:
    """Say whether a metric is the F measure of ROUGE of a kind, such as "1" or "l"."""
    pattern = rf"rouge[-_ ]?{kind}([-_ ]?f[-_ ]?(1|measure)?)?"
    return re.fullmatch(pattern, base_of(metric), re.IGNORECASE) is not None


def _parts(metric: str) -> tuple[str, str, str, str]:
    """Split a name into input, metric, encoder and what it is compared with, "" where not there."""
    match = _NAME.fullmatch(metric)
    return match.groups("") if match else ("", metric, "", "")  # type: ignore[return-value]
