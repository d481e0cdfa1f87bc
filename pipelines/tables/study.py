"""A study: the rows that scores and ratings both have, as matrices of systems by documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from polars import selectors

from agreement import duplicate_systems
from agreement.coefficients import merge_close
from pipelines.tables.keyed import KEYS, RATER, cells_of, listed
from pipelines.tables.ratings import MEAN_COLUMN, Ratings
from pipelines.tables.scores import Scores
from sms.naming import counted

MOST_RATER_CELLS = 50_000_000
"""Raters times cells; with more, as of a crowd, agreement among raters is not computed."""
BASELINES = ("length", "compression", "coverage", "density", "novelty", "lead3", "repetition")
"""Trivial metrics: a score that cannot beat them is not worth reporting."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """Everything the statistics need, NaN where missing."""

    systems: Sequence[str]
    documents: Sequence[str]
    metrics: Sequence[str]
    aspects: Sequence[str]
    scores: np.ndarray
    """Shape (n_metrics, n_systems, n_documents)."""
    ratings: np.ndarray
    """Shape (n_aspects, n_systems, n_documents); the mean over raters."""
    by_rater: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By aspect, shape (n_raters, n_systems, n_documents); empty where raters are not named, or are
    too many for the cells."""
    pool: str
    """See `About.raters`."""

    @property
    def lengths(self) -> np.ndarray | None:
        """The metric `length`, which partial correlations hold fixed; None where there is none."""
        matrices = zip(self.metrics, self.scores, strict=True)
        return next((matrix for name, matrix in matrices if unlabelled(name) == "length"), None)

    @property
    def n_rows(self) -> int:
        """Rows with a rating: one for each cell that is not missing."""
        return int((~np.isnan(self.ratings)).any(0).sum())


def shared_rows(ratings: Ratings, scores: Scores) -> tuple[Ratings, Scores, str]:
    """Cut both to the rows that have a rating in every aspect and a score of every metric.

    Metrics without any score and aspects without any rating are left out first. The text is the
    one line that says what was cut.
    """
    # True where there is a value. A row may be in one of the two tables only.
    rated = ratings.frame.group_by(KEYS, maintain_order=True).agg(
        selectors.by_name(*ratings.aspects).is_not_null().any()
    )
    scored = scores.frame.with_columns(selectors.by_name(*scores.metrics).is_not_null())
    scored = scored.filter(pl.any_horizontal(selectors.by_name(*scores.metrics)))
    aspects, metrics = (
        [name for name in names if cells_of(frame, name).any()]
        for frame, names in ((rated, ratings.aspects), (scored, scores.metrics))
    )
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


def _complete(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Keys of the rows that have a value in all of these columns; none without a column."""
    if not names:
        return frame.select(KEYS).clear()
    return frame.filter(pl.all_horizontal(selectors.by_name(*names))).select(KEYS)


def make_study(ratings: Ratings, scores: Scores) -> Study:
    """Lay scores and mean ratings out over the rated systems and documents, both sorted."""
    rated = ratings.frame
    documents, systems = (rated[key].unique().sort().to_list() for key in KEYS)
    shape = len(systems), len(documents)
    cells = _places(rated["system_id"], systems), _places(rated["document_id"], documents)
    values = {name: _numbers(rated, name) for name in ratings.aspects}
    raters = list(ratings.rater_names)
    by_rater = {}
    if raters and len(raters) * math.prod(shape) <= MOST_RATER_CELLS:
        k = _places(rated[RATER], raters)
        for aspect, column in values.items():
            by_rater[aspect] = np.full((len(raters), *shape), np.nan)
            by_rater[aspect][k, *cells] = column
    return Study(
        systems=systems,
        documents=documents,
        metrics=scores.metrics,
        aspects=ratings.aspects,
        scores=np.stack(
            [cell_matrix(scores.frame, name, systems, documents) for name in scores.metrics]
        ),
        ratings=np.stack([_cell_means(each, cells, shape) for each in values.values()]),
        by_rater=by_rater,
        pool=ratings.raters,
    )


def cell_matrix(
    frame: pl.DataFrame, column: str, systems: Sequence[str], documents: Sequence[str]
) -> np.ndarray:
    """Lay a column out over systems and documents, shape (n_systems, n_documents)."""
    matrix = np.full((len(systems), len(documents)), np.nan)
    i, j = _places(frame["system_id"], systems), _places(frame["document_id"], documents)
    matrix[i, j] = _numbers(frame, column)
    return matrix


def is_baseline(metric: str) -> bool:
    """Say whether a metric, whatever input it comes from, is a trivial one."""
    return unlabelled(metric).partition(":")[0] in BASELINES


def unlabelled(metric: str) -> str:
    """Return the name of a metric without the input it comes from.

    Examples
    --------
    >>> unlabelled("other_run/lead3"), unlabelled("reffree@runs/coverage")
    ('lead3', 'reffree@runs/coverage')
    """
    # Of a trained scorer, what follows the last slash is the end of its folder.
    return metric if "@" in metric else metric.rpartition("/")[2]


def remarks(study: Study) -> list[str]:
    """Say what a reader must know: raters too many to compare, systems that are one system twice.

    Those are the same by a metric with fine steps, and by no metric different. And where systems
    have not the same number of documents, their means are not over the same ones.
    """
    notes = []
    counts = (~np.isnan(study.ratings)).any(0).sum(1).tolist()
    if len({*counts}) > 1:
        fewest, most = counts.index(min(counts)), counts.index(max(counts))
        notes.append(
            "Systems differ in how many documents their means are over: from "
            f"{counts[fewest]:,} ({study.systems[fewest]}) to {counts[most]:,} "
            f"({study.systems[most]})"
        )
    if not study.by_rater and study.pool != MEAN_COLUMN:
        notes.append("Agreement among raters is not computed: there are too many raters and cells")
    judging = {
        name: duplicate_systems(matrix)
        for name, matrix in zip(study.metrics, study.scores, strict=True)
        if not is_baseline(name) and not np.isnan(matrix).all()
    }
    in_all = set.intersection(*map(set, judging.values())) if judging else set()
    return notes + [
        f"{study.systems[first]} and {study.systems[second]} have the same scores on every "
        f"document under {listed([*judging], 3)}: probably one system listed twice"
        for first, second in sorted(in_all)
    ]


def _cell_means(
    values: np.ndarray, cells: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]
) -> np.ndarray:
    """Mean over the values of each cell, NaN without any; equal if they differ by rounding."""
    present = ~np.isnan(values)
    i, j = (each[present] for each in cells)
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (i, j), values[present])
    np.add.at(counts, (i, j), 1.0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    return means if (counts <= 1.0).all() else merge_close(means.ravel()).reshape(shape)


def _numbers(frame: pl.DataFrame, name: str) -> np.ndarray:
    return cells_of(frame, name).cast(pl.Float64).fill_null(np.nan).to_numpy()


def _places(values: pl.Series, names: Sequence[str]) -> np.ndarray:
    return values.replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
