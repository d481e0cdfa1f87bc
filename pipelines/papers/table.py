"""What the tables of the papers have in common: what they need, what they hold, correlations."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import polars as pl

from agreement import correlate, correlation_test
from pipelines.papers.printed import toml
from pipelines.reports.numbers import number_text, range_text

if TYPE_CHECKING:
    from pipelines.papers.bench import Bench

Row: TypeAlias = dict[str, Any]
Cell: TypeAlias = tuple[tuple[str, ...], str]
"""Row and column of a table as it is printed."""


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


Numbers: TypeAlias = dict[Cell, Ours]
"""By cell; what could not be computed is not there."""
Parts: TypeAlias = dict[str, np.ndarray | slice]
"""Groups of systems by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that a table needs."""

    kind: Literal["data", "weights", "trained"]
    name: str
    """A data set as in `assay import --list`, what the paper's tables call an encoder, or the
    folder of something trained."""
    what: str
    spec: str = ""
    """Of weights: the specification, `{}` standing for the folder of encoders."""
    is_rated: bool = False
    """Of a data set: whether it has ratings."""
    holds: str = ""
    """Of something trained: the file that marks a finished training."""


def needs_in(group: str) -> dict[str, Need]:
    """Read the data sets or the weights of a group of `inputs.toml`, by name."""
    if group in ("data", "pairs"):
        return {
            name: Need(kind="data", name=name, what=what, is_rated=group == "data")
            for name, what in toml("inputs")[group].items()
        }
    return {
        name: Need(kind="weights", name=name, spec=spec, what=what)
        for name, (spec, what) in toml("inputs")[group].items()
    }


def differences(table: str) -> list[str]:
    """Say what of a table is not as in the paper, whatever the data and weights."""
    return [
        each["text"]
        for each in toml("inputs")["differs"]
        if any(fnmatch.fnmatchcase(table, pattern) for pattern in each["tables"])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedData:
    """Summaries that people judged, as a paper uses them."""

    name: str
    """Of the data set."""
    aspects: Mapping[str, str]
    """By the aspect, what the paper calls it; "" where it names the data set instead."""
    raters: Sequence[str] = ()
    keep: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
    """Makes of the corpus and the ratings the rows of the corpus that the paper is about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Scores by metric and ratings by aspect, shape (n_systems, n_documents), NaN = missing."""

    data: str = ""
    """What the paper calls the data set."""
    systems: Sequence[str]
    scores: Mapping[str, np.ndarray]
    ratings: Mapping[str, np.ndarray]
    names: Mapping[str, str]
    """What the paper calls the metrics."""
    heads: Mapping[str, str]
    """What the paper writes above the columns of an aspect."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """The result of making a table."""

    ours: Numbers = field(default_factory=dict)
    notes: Sequence[str] = ()
    differs: Sequence[str] = ()
    """In addition to what is known of the table beforehand."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table of a paper: what it is about, what it needs, and what fills it."""

    name: str
    """As in `published.toml`."""
    make: Callable[[Bench, Table], Made]
    data: Mapping[str, RatedData] = field(default_factory=dict)
    """What it is about, by what the paper calls it."""
    encoders: Sequence[Need] = ()
    others: Sequence[Need] = ()
    """What else it needs."""
    metrics: Callable[[Bench, Sequence[str]], Mapping[str, str]] = lambda _bench, _encoders: {}
    """What the paper calls each metric, for the encoders that are there."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """Options of `score_corpus`."""
    needs_nothing: bool = False
    """Whether some of it follows from what the paper prints."""

    @property
    def needs(self) -> list[Need]:
        """Everything that it needs."""
        rated = needs_in("data")
        return [*(rated[d.name] for d in self.data.values()), *self.encoders, *self.others]


# Ways to make tables


def correlated(
    level: str,
    coefficients: Sequence[str],
    place: Callable[[Scored, Row], Mapping[Cell, Ours]],
    parts: Callable[[Scored], Parts] = lambda _scored: {"": slice(None)},
) -> Callable[[Bench, Table], Made]:
    """Correlate all metrics with all aspects; `place` says in which cells a correlation stands.

    `parts` are the systems that are correlated, by what is then called the `part` of a row.
    """

    def make(bench: Bench, table: Table) -> Made:
        ours: Numbers = {}
        notes = []
        for scored in bench.fill(table):
            rows = [
                row | {"part": part}
                for part, kept in parts(scored).items()
                for row in correlation_rows(scored, level, coefficients, kept)
            ]
            for row in rows:
                ours |= place(scored, row)
            sizes = sizes_text(rows)
            notes.append(f"{scored.data}: {sizes}" if scored.data else f"F{sizes[1:]}")
        return Made(ours=ours, notes=notes)

    return make


def correlation_rows(
    scored: Scored,
    level: str,
    coefficients: Sequence[str],
    kept: np.ndarray | slice = slice(None),
) -> list[Row]:
    """Correlate metrics with aspects, with the textbook p-value; undefined numbers are None."""
    rows = []
    for (metric, x), (aspect, y), coefficient in itertools.product(
        scored.scores.items(), scored.ratings.items(), coefficients
    ):
        scores, ratings = x[kept], y[kept]
        result = correlate(scores, ratings, level=level, coefficient=coefficient)
        p_value = correlation_test(scores, ratings, level=level, coefficient=coefficient)
        rows.append(
            {
                "aspect": aspect,
                "metric": metric,
                "coefficient": coefficient,
                "value": None if np.isnan(result.value) else result.value,
                "p_value": None if np.isnan(p_value) else p_value,
                "n_systems": result.n_systems,
                "n_documents": result.n_documents,
                "n_cells": scores.size - result.n_missing,
                "n_missing": result.n_missing,
            }
        )
    return rows


def sizes_text(rows: Sequence[Row]) -> str:
    """Say on how many systems, documents and cells correlations rest."""
    parts = []
    for column, one, several in (
        ("n_systems", "system", "systems"),
        ("n_documents", "document", "documents"),
        ("n_cells", "summary", "summaries"),
        ("n_missing", "missing cell", "missing cells"),
    ):
        counts = [row[column] for row in rows]
        parts.append(f"{range_text(counts)} {one if max(counts) == 1 else several}")
    return f"from {', '.join(parts)}."
