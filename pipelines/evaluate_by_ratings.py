"""Judges scorers by human ratings: agreement, and what is left of it without length and density.

`assay correlate` compares metrics, with tests and intervals; here one scorer is asked what it goes
by. At every level: its correlation with the ratings and with each trait, and its correlation with
the ratings while a trait is held fixed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from agreement import correlate, partial_correlate
from agreement.coefficients import merge_close
from pipelines.evaluate import TRAITS
from pipelines.learned_columns import PREFIX
from pipelines.prepare_pairs import SPLIT
from pipelines.runs.progress import Progress
from pipelines.score import score_corpus
from pipelines.tables.keyed import KEYS, RATER
from pipelines.tables.ratings import read_ratings
from sms.naming import AnyPath, OneOrMore, several

LEVELS = ("system", "summary")
COEFFICIENT = "spearman"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedResult:
    """What one scorer's scores go by, for one aspect at one level; None where undefined."""

    scorer: str
    """Folder."""
    aspect: str
    level: str
    n_systems: int
    n_documents: int
    with_rating: float | None
    with_trait: Mapping[str, float | None]
    """Correlation of the score with each trait, on the cells that are rated."""
    with_rating_given: Mapping[str, float | None]
    """Partial correlation with the rating, each trait held fixed."""
    trait_with_rating: Mapping[str, float | None]
    """What each trait alone reaches."""


def evaluate_by_ratings(
    scorers: OneOrMore,
    corpus: AnyPath,
    ratings: AnyPath,
    *,
    raters: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    embedding_cache: str | None = None,
    device: str = "auto",
    on_progress: Callable[[Progress], None] | None = None,
) -> list[RatedResult]:
    """Judge scorers that `assay train` wrote by the ratings of a corpus.

    The corpus has candidates and sources, as for `assay score`; ratings are as for `assay
    correlate`, of `raters` (patterns) or all, and their mean counts. In `columns`, `document_id`,
    `system_id` and `rater` also stand for the ratings' columns, where these differ. Gives results
    scorer by scorer, aspect by aspect, level by level.
    """
    columns = columns or {}
    of_ids = {ours: theirs for ours, theirs in columns.items() if ours in (*KEYS, RATER)}
    rated = read_ratings(ratings, raters=several(raters), columns=of_ids)
    means = rated.frame.group_by(KEYS).agg(
        pl.col(aspect).mean().alias(_rating_of(aspect)) for aspect in rated.aspects
    )
    names = {folder: f"{PREFIX}{folder}" for folder in several(scorers)}
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        run = score_corpus(
            corpus,
            f"{work}/scores",
            metrics=[*names.values(), *TRAITS],
            columns={
                ours: theirs for ours, theirs in columns.items() if ours not in (RATER, SPLIT)
            },
            device=device,
            embedding_cache=embedding_cache,
            local=True,
            on_progress=on_progress,
        )
        if not run.is_complete:
            reason = next(iter(run.failed_shards.values()))
            raise RuntimeError(f"`corpus` must be scored as a whole, but a part failed: {reason}")
        table = pl.read_parquet(Path(work) / "scores" / "scores" / "part-*.parquet")
    both = table.unique(KEYS, keep="first").join(means, on=KEYS).sort(KEYS)
    if both.is_empty():
        raise ValueError(f"`ratings` must rate candidates of the corpus, got none in {ratings}")
    matrices = _matrices(both, [*names.values(), *TRAITS, *map(_rating_of, rated.aspects)])
    for name in map(_rating_of, rated.aspects):  # means that tie differ in how they were summed
        matrices[name] = merge_close(matrices[name].ravel()).reshape(matrices[name].shape)
    return [
        _result(folder, matrices, matrices[name], aspect, level)
        for folder, name in names.items()
        for aspect in rated.aspects
        for level in LEVELS
    ]


def _rating_of(aspect: str) -> str:
    """Name an aspect's column so that no metric's is called like it."""
    return f"rating:{aspect}"


def _matrices(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Lay columns out by system and document, NaN where there is no row."""
    documents, systems = (frame[key].unique().sort() for key in KEYS)
    places = systems.search_sorted(frame[KEYS[1]]), documents.search_sorted(frame[KEYS[0]])
    found = {}
    for name in names:
        found[name] = np.full((len(systems), len(documents)), np.nan)
        found[name][places] = frame[name].cast(pl.Float64).to_numpy()
    return found


def _result(
    folder: str,
    matrices: Mapping[str, np.ndarray],
    scores: np.ndarray,
    aspect: str,
    level: str,
) -> RatedResult:
    ratings = matrices[_rating_of(aspect)]
    traits = {name: np.where(np.isnan(ratings), np.nan, matrices[name]) for name in TRAITS}
    how = {"level": level, "coefficient": COEFFICIENT}
    agreed = correlate(scores, ratings, **how)
    return RatedResult(
        scorer=folder,
        aspect=aspect,
        level=level,
        n_systems=agreed.n_systems,
        n_documents=agreed.n_documents,
        with_rating=_defined(agreed.value),
        with_trait={n: _defined(correlate(scores, own, **how).value) for n, own in traits.items()},
        with_rating_given={
            n: _defined(partial_correlate(scores, ratings, own, **how).value)
            for n, own in traits.items()
        },
        trait_with_rating={
            n: _defined(correlate(own, ratings, **how).value) for n, own in traits.items()
        },
    )


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
