"""Judges scorers by human ratings: agreement, and what is left of it without length and density.

`assay correlate` compares metrics, with tests and intervals; here one scorer is asked what it goes
by. At every level: its correlation with the ratings and with each trait, and its correlation with
the ratings while a trait is held fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from agreement import correlate, partial_correlate
from agreement.coefficients import merge_close
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES
from pipelines.evaluate import TRAITS
from pipelines.fetched import fetched_config, fetched_scorer
from pipelines.learned_columns import PREFIX
from pipelines.rated_rows import RatedRows, read_rated_rows
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.tables.keyed import KEYS, check_unique
from pipelines.tables.study import cell_matrix
from pipelines.training_folder import local_cache, stages
from reffree.naming import find_scorer, split_head
from reffree.pairs import text_key
from reffree.scorer_folder import SOURCE_SAMPLE, read_settings
from sms.config import ScoringConfig
from sms.naming import AnyPath
from sms.scoring import SummaryScorer

LEVELS = ("system", "summary")
COEFFICIENT = "spearman"
_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedResult:
    """What one scorer's scores go by, for one aspect at one level; None where undefined."""

    scorer: str
    """Folder."""
    aspect: str
    level: str
    n_systems: int
    n_documents: int
    n_seen: int
    """Rated documents that the scorer was trained on, by the sources that it remembers."""
    notes: Sequence[str]
    """What was left out, and why."""
    with_rating: float | None
    with_trait: Mapping[str, float | None]
    """Correlation of the score with each trait, on the cells that are rated."""
    with_rating_given: Mapping[str, float | None]
    """Partial correlation with the rating, each trait held fixed."""
    trait_with_rating: Mapping[str, float | None]
    """What each trait alone reaches."""


def evaluate_by_ratings(
    scorers: Sequence[str], corpus: AnyPath, ratings: AnyPath, settings: EvaluateSettings
) -> list[RatedResult]:
    """Judge scorers by the mean ratings of a corpus, aspect by aspect and level by level."""
    tell = stages(settings.on_progress)
    tell("reading")
    rated = read_rated_rows(corpus, ratings, settings)
    if rated.rows.is_empty():
        raise ValueError(f"`ratings` must rate candidates of the corpus, got none in {ratings}")
    rows = rated.rows.unique([*KEYS, CANDIDATE, SOURCES], maintain_order=True)
    check_unique(rows, KEYS, "the corpus", "give one text of each")
    tell("scoring")
    metrics = [*(f"{PREFIX}{folder}" for folder in scorers), *TRAITS]
    matrices = _matrices(rows, rated, metrics, settings)
    return [
        _result(folder, matrices, aspect, level, _n_seen(folder, rows), rated.notes)
        for folder in scorers
        for aspect in rated.aspects
        for level in LEVELS
    ]


def _matrices(
    rows: pl.DataFrame, rated: RatedRows, metrics: Sequence[str], settings: EvaluateSettings
) -> dict[str, np.ndarray]:
    """Compute scores; lay out them and the ratings, shape (n_systems, n_documents)."""
    scorer = SummaryScorer(
        fetched_config(ScoringConfig(metrics=tuple(metrics))),
        device=settings.device,
        cache_folder=local_cache(settings.embedding_cache),
    )
    scored = [scorer.score(some.to_arrow()) for some in rows.iter_slices(_ROWS_AT_ONCE)]
    scores = pl.concat([pl.DataFrame(pl.from_arrow(table)) for table in scored])
    both = rows.with_columns(scores.select(metrics))
    documents, systems = (both[key].unique().sort().to_list() for key in KEYS)
    matrices = {name: cell_matrix(both, name, systems, documents) for name in metrics}
    for name in map(rated.rating, rated.aspects):  # means that tie differ in how they were summed
        means = cell_matrix(both, name, systems, documents)
        matrices[name] = merge_close(means.ravel()).reshape(means.shape)
    return matrices


def _n_seen(scorer: str, rows: pl.DataFrame) -> int:
    """Count the documents that are among those the scorer remembers from its training.

    Sources are hashed as training does: each, and all of a row as one text.
    """
    folder, _ = split_head(fetched_scorer(scorer))
    known = set(read_settings(find_scorer(folder))["trained_on"].get(SOURCE_SAMPLE, ()))
    if not known:
        return 0
    of_documents = rows.unique(DOCUMENT_ID, keep="first")[SOURCES].to_list()
    return sum(
        not known.isdisjoint(map(text_key, (*sources, " ".join(sources))))
        for sources in of_documents
        if sources
    )


def _result(
    folder: str,
    matrices: Mapping[str, np.ndarray],
    aspect: str,
    level: str,
    n_seen: int,
    notes: Sequence[str],
) -> RatedResult:
    scores, ratings = matrices[f"{PREFIX}{folder}"], matrices[RatedRows.rating(aspect)]
    traits = {name: np.where(np.isnan(ratings), np.nan, matrices[name]) for name in TRAITS}
    how = {"level": level, "coefficient": COEFFICIENT}
    agreed = correlate(scores, ratings, **how)
    if n := int((np.isnan(scores) & ~np.isnan(ratings)).sum()):
        notes = [*notes, f"Summaries with a rating of {aspect} but no score: {n:,}"]
    return RatedResult(
        scorer=folder,
        aspect=aspect,
        level=level,
        n_systems=agreed.n_systems,
        n_documents=agreed.n_documents,
        n_seen=n_seen,
        notes=notes,
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
