"""What the tables of the papers have in common: what is printed, what they need, correlations."""

from __future__ import annotations

import fnmatch
import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from agreement import correlate, correlation_test
from pipelines.reports.numbers import number_text, range_text
from sms.naming import nearest

if TYPE_CHECKING:
    from pipelines.papers.bench import Bench

PAPERS = {
    "clark2019": "Clark, Celikyilmaz and Smith 2019",
    "sun2019": "Sun and Nenkova 2019",
    "bao2020": "Bao et al. 2020",
}
"""What the names of tables begin with."""

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.(\d+))?")

Row: TypeAlias = dict[str, Any]
Cell: TypeAlias = tuple[tuple[str, ...], str]
"""Row and column of a table as it is printed."""


# As printed, in `published.toml`


class PrintedCell(NamedTuple):
    """One cell of a table."""

    row: tuple[str, ...]
    """What the row is about, as many texts as the table has labels."""
    column: str
    text: str
    """As printed; "" where the cell is empty."""

    @property
    def value(self) -> float | None:
        """The number, None where there is none."""
        number = _NUMBER.search(self.text)
        return float(number[0].replace(",", "")) if number else None

    @property
    def decimals(self) -> int:
        """Digits behind the point."""
        number = _NUMBER.search(self.text)
        return len(number[1] or "") if number else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTable:
    """A table of a paper as it is printed."""

    name: str
    """For example "clark2019-table2"."""
    title: str
    where: str = ""
    """Page or section."""
    labels: Sequence[str] = ()
    """Headers of the columns that say what a row is about."""
    columns: Sequence[str] = ()
    cells: Sequence[PrintedCell] = ()
    """Row by row, empty ones too."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What only this table has, such as the texts of Table 1 of Clark et al."""

    @property
    def paper(self) -> str:
        """Who wrote it."""
        return PAPERS[self.name.partition("-")[0]]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What the rows are about, in their order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    def column(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the numbers of a column by row; rows without one are left out."""
        return {
            cell.row: cell.value
            for cell in self.cells
            if cell.column == name and cell.value is not None
        }


@cache
def printed_tables() -> Mapping[str, PrintedTable]:
    """Return every table by its name, in the order of the papers."""
    return {name: _table(name, **entry) for name, entry in toml("published").items()}


def printed_table(name: str) -> PrintedTable:
    """Return one table; a `ValueError` has the nearest name.

    Examples
    --------
    >>> printed_table("clark2019-table2").column("Essays ELMo")["SMS",]
    0.451
    """
    tables = printed_tables()
    if name not in tables:
        raise ValueError(f"no such table `{name}`; {nearest(name, tables)}")
    return tables[name]


@cache
def toml(name: str) -> dict[str, Any]:
    """Read one of the files of data in this folder."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


def _table(name: str, rows: list[list[str]], **entry: Any) -> PrintedTable:  # noqa: ANN401
    known = {key: entry.pop(key) for key in ("title", "where", "labels", "columns")}
    n_labels = len(known["labels"])
    cells = [
        PrintedCell(tuple(row[:n_labels]), column, text)
        for row in rows
        for column, text in zip(known["columns"], row[n_labels:], strict=True)
    ]
    return PrintedTable(name=name, **known, cells=cells, extra=entry)


# Ours


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
            counts = []
            for column, one, several in (
                ("n_systems", "system", "systems"),
                ("n_documents", "document", "documents"),
                ("n_cells", "summary", "summaries"),
                ("n_missing", "missing cell", "missing cells"),
            ):
                numbers = [row[column] for row in rows]
                counts.append(f"{range_text(numbers)} {one if max(numbers) == 1 else several}")
            start = f"{scored.data}: from" if scored.data else "From"
            notes.append(f"{start} {', '.join(counts)}.")
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
