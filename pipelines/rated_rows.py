"""Rows of a corpus that people have rated, with their mean ratings."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from cluster import list_inputs
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES, SYSTEM_ID
from pipelines.prepare_pairs import SPLIT
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.settings.train import TrainSettings
from pipelines.tables.keyed import KEYS
from pipelines.tables.ratings import columns_apart, read_ratings
from sms.naming import AnyPath, OneOrMore, several


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedRows:
    """Rated candidates, sorted by document and system."""

    rows: pl.DataFrame
    """As `read_files` gives them; the mean ratings have the columns of `rating`."""
    aspects: list[str]
    notes: list[str]
    """What was left out, and why."""

    @staticmethod
    def rating(aspect: str) -> str:
        """Name the column of an aspect, as no metric's is called."""
        return f"rating:{aspect}"


def read_rated_rows(
    corpus: OneOrMore, ratings: AnyPath, settings: TrainSettings | EvaluateSettings
) -> RatedRows:
    """Join the rows of a corpus with the mean of their ratings, of `raters` or all.

    The names of columns are as `columns_apart` reads them.
    """
    columns, of_ratings = columns_apart(settings.columns)
    columns.pop(SPLIT, None)
    rated = read_ratings(ratings, raters=settings.raters, columns=of_ratings, has_option=False)
    means = rated.means(RatedRows.rating(""))
    wanted = Wanted(needed=(DOCUMENT_ID, SYSTEM_ID, CANDIDATE, SOURCES), columns=columns)
    limit = settings.limit if isinstance(settings, TrainSettings) else None
    tables = read_files(list_inputs(several(corpus)), wanted, limit=limit)
    frames = (pl.DataFrame(pl.from_arrow(table)) for table in tables)
    rows = pl.concat([frame.join(means, on=KEYS) for frame in frames]).sort(KEYS)
    notes = list(rated.notes)
    if n_lost := means.height - rows.select(KEYS).n_unique():
        notes.append(f"Rated summaries that the corpus lacks: {n_lost:,} of {means.height:,}")
    return RatedRows(rows=rows, aspects=list(rated.aspects), notes=notes)
