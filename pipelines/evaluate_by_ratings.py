"""Judges scorers by human ratings: agreement, and what is left of it without length and density.

`assay correlate` compares metrics, with tests and intervals; here one scorer is asked what it goes
by. At every level: its correlation with the ratings and with each trait, and its correlation with
the ratings while a trait is held fixed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from agreement import correlate, partial_correlate
from agreement.coefficients import merge_close
from cluster import list_inputs
from cluster.reading import Wanted, read_files
from cluster.schema import DOCUMENT_ID, SOURCES
from pipelines.evaluate import TRAITS
from pipelines.fetched import fetched_scorer
from pipelines.learned_columns import PREFIX
from pipelines.prepare_pairs import SPLIT
from pipelines.score import score_corpus
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.tables.keyed import KEYS, check_unique
from pipelines.tables.ratings import columns_apart, read_ratings
from pipelines.tables.study import cell_matrix
from reffree.naming import find_scorer, split_head
from reffree.pairs import text_key
from reffree.scorer_folder import SOURCE_SAMPLE, read_settings
from sms.naming import AnyPath

LEVELS = ("system", "summary")
COEFFICIENT = "spearman"
_RATING = "rating:"
"""Before an aspect, in the name of its column: no metric's is called like it."""


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
    """Judge scorers by the mean ratings of a corpus, aspect by aspect and level by level.

    The names of columns are as `columns_apart` reads them.
    """
    of_texts, of_ratings = columns_apart(settings.columns)
    rated = read_ratings(ratings, raters=settings.raters, columns=of_ratings, has_option=False)
    means = rated.means(_RATING)
    renamed = {ours: theirs for ours, theirs in of_texts.items() if ours != SPLIT}
    names = {folder: f"{PREFIX}{folder}" for folder in scorers}
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        run = score_corpus(
            corpus,
            f"{work}/scores",
            metrics=[*names.values(), *TRAITS],
            columns=renamed,
            device=settings.device,
            embedding_cache=settings.embedding_cache,
            local=True,
            on_progress=settings.on_progress,
        )
        if not run.is_complete:
            reason = next(iter(run.failed_shards.values()))
            raise RuntimeError(f"a part of `corpus` could not be scored: {reason}")
        table = run.to_polars()
    distinct = table.select(*KEYS, *names.values(), *TRAITS).unique()
    both = distinct.join(means, on=KEYS).sort(KEYS)
    if both.is_empty():
        raise ValueError(f"`ratings` must rate candidates of the corpus, got none in {ratings}")
    check_unique(both, KEYS, "the corpus", "give one text of each")
    notes = list(rated.notes)
    if n_lost := means.height - both.height:
        notes.append(f"Rated summaries that the corpus lacks: {n_lost:,} of {means.height:,}")
    keys = _source_keys(corpus, renamed, set(both[DOCUMENT_ID]))
    seen = {folder: _n_seen(folder, keys) for folder in scorers}
    documents, systems = (both[key].unique().sort().to_list() for key in KEYS)
    columns = [name for name in both.columns if name not in KEYS]
    matrices = {name: cell_matrix(both, name, systems, documents) for name in columns}
    for aspect in rated.aspects:  # means that tie differ in how they were summed
        means_of = matrices[f"{_RATING}{aspect}"]
        matrices[f"{_RATING}{aspect}"] = merge_close(means_of.ravel()).reshape(means_of.shape)
    return [
        _result(folder, matrices, matrices[name], aspect, level, seen[folder], notes)
        for folder, name in names.items()
        for aspect in rated.aspects
        for level in LEVELS
    ]


def _source_keys(
    corpus: AnyPath, columns: Mapping[str, str], documents: Container[str]
) -> dict[str, set[int | None]]:
    """Hash the sources of rated documents as training does: each, and all of a row as one text."""
    wanted = Wanted(needed=(DOCUMENT_ID, SOURCES), columns=columns)
    keys: dict[str, set[int | None]] = {}
    for table in read_files(list_inputs([corpus]), wanted):
        for name, sources in zip(*(table[key].to_pylist() for key in wanted.needed), strict=True):
            if name in documents and name not in keys and sources:
                keys[name] = {text_key(text) for text in (*sources, " ".join(sources))}
    return keys


def _n_seen(scorer: str, keys: Mapping[str, AbstractSet[int | None]]) -> int:
    """Count the documents that are among those the scorer remembers from its training."""
    folder, _ = split_head(fetched_scorer(scorer))
    known = set(read_settings(find_scorer(folder))["trained_on"].get(SOURCE_SAMPLE, ()))
    return sum(not known.isdisjoint(own) for own in keys.values())


def _result(
    folder: str,
    matrices: Mapping[str, np.ndarray],
    scores: np.ndarray,
    aspect: str,
    level: str,
    n_seen: int,
    notes: Sequence[str],
) -> RatedResult:
    ratings = matrices[f"{_RATING}{aspect}"]
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
