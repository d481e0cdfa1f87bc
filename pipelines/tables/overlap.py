"""The rows that scores and ratings both have: whatever is computed speaks of these alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from polars import selectors

from pipelines.tables.keyed import KEYS, RATER, cells_of, listed
from pipelines.tables.ratings import Ratings
from pipelines.tables.scores import Scores
from sms.naming import counted


def shared_rows(ratings: Ratings, scores: Scores) -> tuple[Ratings, Scores, str]:
    """Cut both to the rows that have a rating in every aspect and a score of every metric.

    Metrics without any score and aspects without any rating are left out first. The text is the
    one line that says what was cut.

    Raises ValueError if no row is left.
    """
    # As text: true where there is a value; a row that is in one table only has none in the other.
    rated = ratings.frame.group_by(KEYS, maintain_order=True).agg(
        selectors.by_name(*ratings.aspects).is_not_null().any()
    )
    scored = scores.frame.with_columns(selectors.by_name(*scores.metrics).is_not_null())
    scored = scored.filter(pl.any_horizontal(selectors.by_name(*scores.metrics)))
    aspects, metrics = _with_values(rated, ratings.aspects), _with_values(scored, scores.metrics)
    if not aspects:
        raise ValueError(
            f"the {counted(len(rated), 'rated row')} must have a rating, but every cell of "
            f"{listed(ratings.aspects)} is empty or NaN"
        )
    kept = _complete(rated, aspects).join(_complete(scored, metrics), on=KEYS, how="semi")
    lacking = {name: int((~cells_of(rated, name)).sum()) for name in aspects}
    lacking |= {name: int((~cells_of(scored, name)).sum()) for name in metrics}
    lacks = [f"{name} lacks {n:,}" for name, n in sorted(lacking.items(), key=lambda x: -x[1]) if n]
    if n_unscored := len(rated) - len(scored):
        lacks.insert(0, f"{n_unscored:,} without a score")
    if kept.is_empty():
        raise ValueError(
            "a row must have a rating in every aspect and a score of every metric, got none among "
            f"{len(rated):,} rated rows ({listed(lacks, 3)}); choose others with `--metrics`, or "
            "with `aspects` in the `--config` file"
        )
    systems, documents = kept["system_id"].n_unique(), kept["document_id"].n_unique()
    said = (
        f"Compared: {counted(len(kept), 'row')} of {counted(systems, 'system')} and "
        f"{counted(documents, 'document')}, with every score and rating"
    )
    if lacks:
        said += f"; {len(rated):,} are rated: {listed(lacks, 3)}"
    if empty := [n for n in (*ratings.aspects, *scores.metrics) if n not in (*aspects, *metrics)]:
        said += f"; without any value, and left out: {listed(empty)}"
    frame = ratings.frame.join(kept, on=KEYS, how="semi", maintain_order="left")
    raters = set(frame[RATER]) if ratings.rater_names else ()
    names = [name for name in ratings.rater_names if name in raters]
    cut = replace(ratings, frame=frame, aspects=aspects, rater_names=names)
    frame = scores.frame.join(kept, on=KEYS, how="semi", maintain_order="left")
    return cut, replace(scores, frame=frame, metrics=metrics), said


def _with_values(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in names if cells_of(frame, name).any()]


def _complete(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Keys of the rows that have a value in all of these columns; none without a column."""
    if not names:
        return frame.select(KEYS).clear()
    return frame.filter(pl.all_horizontal(selectors.by_name(*names))).select(KEYS)
