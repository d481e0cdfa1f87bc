"""The matrices of a study: scores, ratings and raters over the same systems and documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from agreement import count_tied_cells, duplicate_systems
from agreement.coefficients import merge_close
from pipelines.tables.keyed import RATER, cells_of, listed
from pipelines.tables.ratings import MEAN_COLUMN, Ratings
from pipelines.tables.scores import Scores

BASELINES = ("length", "compression", "coverage", "density", "novelty", "lead3", "repetition")
"""Trivial metrics: a score that cannot beat them is not worth reporting."""

MOST_RATER_CELLS = 50_000_000
"""Raters times cells; with more, agreement among raters is not computed."""


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
    lengths: np.ndarray | None = None
    """Shape (n_systems, n_documents), of the candidates; None where unknown."""

    @property
    def n_rows(self) -> int:
        """Rows with a rating: one for each cell that is not missing."""
        return int((~np.isnan(self.ratings)).any(0).sum())


def make_study(ratings: Ratings, scores: Scores) -> Study:
    """Lay scores and ratings out over the rated systems and documents, both sorted.

    A cell's rating is the mean over the raters who rated it.
    """
    rated = ratings.frame
    systems, documents = (
        rated[key].unique().sort().to_list() for key in ("system_id", "document_id")
    )
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
    """Say whether a metric, whatever input it comes from, is a trivial one.

    Examples
    --------
    >>> is_baseline("length"), is_baseline("other_run/lead3"), is_baseline("sms")
    (True, True, False)
    """
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


def find_lengths(
    study: Study, texts: pl.DataFrame | None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Find the candidates' lengths, a metric or the words of the texts, and say which."""
    said = "Length given in partial correlations"
    for index, metric in enumerate(study.metrics):
        if unlabelled(metric) == "length":
            return study.scores[index], (f"{said}: metric {metric}",)
    if texts is None:
        return None, ()
    words = texts.with_columns(pl.col("candidate").str.count_matches(r"\S+").alias("length"))
    lengths = cell_matrix(words, "length", study.systems, study.documents)
    return lengths, (f"{said}: words of the candidates",)


def remarks(study: Study) -> list[str]:
    """Say what a reader of the numbers must know about the matrices."""
    notes = []
    if not study.by_rater and study.pool != MEAN_COLUMN:
        notes.append("Agreement among raters is not computed: there are too many raters and cells")
    notes += _duplicates(study)
    ties = {
        name: n
        for name, matrix in zip(study.metrics, study.scores, strict=True)
        if (n := count_tied_cells(matrix))
    }
    if ties:
        most = max(ties, key=lambda name: ties[name])
        notes.append(
            f"Scores tied with another system's on the same document: {ties[most]:,} rows of "
            f"{most}, the most of any metric; {len(ties)} of {len(study.metrics)} metrics have ties"
        )
    return notes


def _duplicates(study: Study) -> list[str]:
    """Systems that are one system twice by a metric with fine steps and by no metric are not."""
    judging = {
        name: duplicate_systems(matrix)
        for name, matrix in zip(study.metrics, study.scores, strict=True)
        if not is_baseline(name) and not np.isnan(matrix).all()
    }
    in_all = set.intersection(*map(set, judging.values())) if judging else set()
    return [
        f"{study.systems[first]} and {study.systems[second]} have the same scores on every "
        f"document under {listed([*judging], 3)}: probably one system listed twice"
        for first, second in sorted(in_all)
    ]


def _cell_means(
    values: np.ndarray, cells: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]
) -> np.ndarray:
    """Mean over the values of each cell; NaN where there is none.

    Means that differ in how they were summed only, such as those of .1, .2, .3 and .3, .2, .1,
    are equal.
    """
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
