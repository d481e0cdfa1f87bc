"""What `correlate` finds: tables of agreement, and where they come from.

The tables are polars DataFrames with the columns that `records.toml` declares.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import polars as pl

from sms.naming import counted

BEST, ALL = "best", "all"
"""Families of tests, besides those against a baseline, which are called by its name."""

TABLES: Mapping[str, pl.Schema] = {
    name: pl.Schema({column: getattr(pl, kind) for column, kind in columns.items()})
    for name, columns in tomllib.loads(
        files(__package__).joinpath("records.toml").read_text("utf-8")
    ).items()
}
"""Columns of every table, by its name in `AgreementResult`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """A file that was read."""

    path: str
    bytes: int
    sha256: str
    """Of the content, in hexadecimal."""
    role: str
    """Such as "scores" or "ratings"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Where the numbers come from: everything a reader needs to make them again."""

    command: str
    version: str
    """Of assay."""
    libraries: Mapping[str, str]
    """Versions, by distribution."""
    seed: int
    n_resamples: int
    """Of the bootstrap; permutation tests of many metrics may make more swaps."""
    confidence: float
    """Of all intervals."""
    inputs: Sequence[InputRecord]
    signatures: Mapping[str, str]
    """By metric as it is called in the tables; only metrics whose run recorded one."""
    systems: Sequence[str]
    """Kept, in the order of all matrices."""
    excluded_systems: Sequence[str]
    raters: str
    """The pattern asked for, "all" where it was none and there is one pool, "not named" where
    the ratings do not name raters."""
    n_documents: int
    main_level: str
    """What the verdict is about, as is the next: see `CorrelateSettings.lead`."""
    main_coefficient: str
    n_rows: int
    """Rows with every score and rating: all numbers are about these."""
    notes: Sequence[str]
    """Sentences a reader must see; the first says which rows are compared."""

    @property
    def compared(self) -> str:
        """What every number is about."""
        return (
            f"{counted(self.n_rows, 'row')} of {counted(len(self.systems), 'system')} and "
            f"{counted(self.n_documents, 'document')}"
        )

    @property
    def resampled(self) -> str:
        """What intervals are over, in words: what there is one of only never varies."""
        drawn = {"systems": len(self.systems), "documents": self.n_documents}
        varied = [noun for noun, n in drawn.items() if n > 1]
        return " and ".join(varied or drawn)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgreementResult:
    """Everything `correlate` has computed. Cells are pairs of a system and a document."""

    about: About
    correlations: pl.DataFrame
    """One row per aspect, metric, level and coefficient."""
    differences: pl.DataFrame
    """One row per aspect, level, coefficient, pair of metrics, test and family of tests."""
    raters: pl.DataFrame
    """Agreement among the raters of one pool, the ceiling for a metric."""
    systems: pl.DataFrame
    """Mean and rank of each system under each aspect and metric."""
    sample_size: pl.DataFrame
    """Correlations on random subsets of the documents."""
    disagreements: pl.DataFrame
    """Candidates that metric and people rank most differently inside their document."""
    power: pl.DataFrame
    """What a larger study would need: see `agreement.power`."""
    score_names: Sequence[str]
    """Metrics, in the order they were found."""
    aspects: Sequence[str]
    """Aspects, in the order asked for or found."""


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Make one of the tables from its rows; NaN becomes null, a column not given is null."""
    schema = TABLES[name]
    frame = pl.DataFrame([{column: row.get(column) for column in schema} for row in rows], schema)
    return frame.with_columns(pl.selectors.float().fill_nan(None))
