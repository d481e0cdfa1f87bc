"""Fits a scorer to human ratings, and says by cross-validation how well it would do elsewhere.

A candidate is scored by weights that have not seen its document nor, where there are enough
systems, its system. Documents with the same source, or nearly, are left out together. The scorer of
the package, length and density are judged on the same candidates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from agreement import Interval, Resamples, correlate, resampled_correlations
from agreement.intervals import percentile_interval, widened
from agreement.resampling import draw_counts
from cluster import list_inputs, with_content
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES, SYSTEM_ID
from cluster.store import base_name
from pipelines.evaluate import TRAITS
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from pipelines.settings.train import TrainSettings
from pipelines.tables.keyed import KEYS, check_unique
from pipelines.tables.ratings import columns_apart, read_ratings
from pipelines.train_on_preferences import N_FOLDS, SHIPPED, others_of
from pipelines.training_folder import checked_folder, chosen_device
from pipelines.training_table import why_unused
from reffree.comparisons import rated_comparisons
from reffree.features import PairFeatures
from reffree.fitting import LinearRecipe
from reffree.linear import MIN_GROUPS, Comparisons, fit_linear
from reffree.naming import SCORER_FILE
from reffree.pairs import SourceSample
from reffree.scorer import LinearPairs
from reffree.scorer_folder import SOURCE_SAMPLE, save_linear
from reffree.splits import number_groups
from sms.naming import AnyPath, OneOrMore, several

FIGURES_FILE = "learning_curve.json"
"""All figures, in the folder of the scorer."""
CONFIDENCE = 0.95
N_RESAMPLES = 1_000
FEWEST_DOCUMENTS = 6
"""With fewer, 2 * 0.5**n > 0.05: chance alone puts all of them on one side that often."""
_RATING = "rating:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedFit:
    """How a scorer agrees with the ratings of one aspect: summary level, Spearman."""

    aspect: str
    n_documents: int
    """Rated documents that were asked for; all of them in the last fit of an aspect."""
    n_fitted: int
    """Documents that the weights of a fold were fitted to, at most."""
    cross_validated: float
    """By weights that have not seen the document, nor the system where there are enough."""
    others: Mapping[str, float]
    """What else there is, on the same candidates."""
    differences: Mapping[str, Interval]
    """How much more the fitted weights reach than the shipped scorer, and than length and density
    (`-length` where shorter is better), with a paired bootstrap over documents; only where all
    documents were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedTraining:
    """The result of fitting a scorer to ratings."""

    out: str
    signature: str
    n_candidates: int
    n_documents: int
    n_systems: int
    notes: Sequence[str]
    """What was left out, and why."""
    leaves_systems_out: bool
    """Whether the weights that score a candidate have seen nothing else of its system, either."""
    fits: Sequence[RatedFit]
    """Aspect by aspect, with few documents first where a learning curve was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Rated candidates; arrays have shape (n,)."""

    sources: list[str]
    candidates: list[str]
    documents: np.ndarray
    systems: np.ndarray
    ratings: Mapping[str, np.ndarray]
    groups: np.ndarray
    """Numbers of the documents, those with the same source or nearly so alike."""
    notes: Sequence[str]
    """What was left out, and why."""


def train_on_ratings(corpus: OneOrMore, settings: TrainSettings) -> RatedTraining:
    """Fit a head to each rated aspect of a corpus, into a new folder."""
    folder = checked_folder(
        settings.out, result=SCORER_FILE, called="a trained scorer", is_resumed=False
    )

    def tell(stage: str) -> None:
        if settings.on_progress is not None:
            settings.on_progress(Progress(stage=stage))

    tell("reading")
    recipe = settings.recipe()
    if not isinstance(recipe, LinearRecipe):
        raise ValueError(
            "`ratings` only work with the scorer `features`; leave out `scorer` and `preset`"
        )
    rated = read_rated(corpus, settings.ratings, settings)
    tell("computing the features")
    device = chosen_device(settings.device)
    features = PairFeatures(recipe.feature_config, device=device)
    features.fit_copies(rated.sources, rated.candidates)
    values = features.read(rated.sources, rated.candidates).values
    tell("cross-validating")
    others = others_of(rated.sources, rated.candidates)
    fits = [
        fit
        for aspect in rated.ratings
        for fit in _curve_of(aspect, rated, features, values, others, settings)
    ]
    every = np.arange(len(rated.candidates))
    comparisons = {aspect: _comparisons(rated, own, every) for aspect, own in rated.ratings.items()}
    pairs = LinearPairs(fit_linear(features.config, values, comparisons), features)
    n_documents, n_systems = (np.unique(own).size for own in (rated.documents, rated.systems))
    signature = save_linear(
        folder,
        pairs,
        trained_on=_trained_on(corpus, rated, recipe),
        held_out={
            f"{one.aspect}, {one.n_documents} documents": _defined(asdict(one)) for one in fits
        },
        versions=library_versions(),
    )
    text = json.dumps([_defined(asdict(one)) for one in fits], indent=1, ensure_ascii=False)
    (folder / FIGURES_FILE).write_text(f"{text}\n", "utf-8")
    return RatedTraining(
        out=str(folder),
        signature=signature,
        n_candidates=len(rated.candidates),
        n_documents=n_documents,
        n_systems=n_systems,
        notes=rated.notes,
        leaves_systems_out=_system_folds(rated) > 1,
        fits=fits,
    )


def read_rated(corpus: OneOrMore, rated: AnyPath | None, settings: TrainSettings) -> Rated:
    """Join the rows of a corpus with the mean of their ratings, of `raters` or all."""
    assert rated is not None, "asked for"  # noqa: S101
    columns, of_ratings = columns_apart(settings.columns)
    ratings = read_ratings(rated, raters=settings.raters, columns=of_ratings, has_option=False)
    means = ratings.means(_RATING)
    wanted = Wanted(needed=(DOCUMENT_ID, SYSTEM_ID, CANDIDATE, SOURCES), columns=columns)
    tables = read_files(list_inputs(several(corpus)), wanted, limit=settings.limit)
    notes = list(ratings.notes)
    rows = pl.concat([pl.DataFrame(pl.from_arrow(table)) for table in tables])
    rows = rows.join(means, on=KEYS).sort(KEYS)
    if n_lost := means.height - rows.select(KEYS).n_unique():
        notes.append(f"Rated summaries that the corpus lacks: {n_lost:,} of {means.height:,}")
    why = pl.Series([why_unused(row) for row in rows.to_dicts()], dtype=pl.String)
    for reason, n in why.drop_nulls().value_counts(sort=True).iter_rows():
        notes.append(f"Left out: {n:,}, {reason}")
    both = rows.filter(why.is_null()).unique([*KEYS, CANDIDATE, SOURCES], maintain_order=True)
    check_unique(both, KEYS, "the corpus", "give one text of each")
    if both[DOCUMENT_ID].n_unique() < MIN_GROUPS:
        raise ValueError(
            f"`ratings` must rate candidates of several documents of the corpus, got "
            f"{both[DOCUMENT_ID].n_unique()}"
        )
    numbers = {key: both[key].rank("dense").to_numpy().astype(np.int64) - 1 for key in KEYS}
    sources = both[SOURCES].list.first().to_list()
    groups = number_groups(numbers[DOCUMENT_ID], sources)
    if n_alike := both[DOCUMENT_ID].n_unique() - np.unique(groups).size:
        notes.append(f"Documents that count as one with another, for their source: {n_alike:,}")
    return Rated(
        sources=sources,
        candidates=both[CANDIDATE].to_list(),
        documents=numbers[DOCUMENT_ID],
        systems=numbers[SYSTEM_ID],
        ratings={a: both[f"{_RATING}{a}"].cast(pl.Float64).to_numpy() for a in ratings.aspects},
        groups=groups,
        notes=notes,
    )


def _comparisons(rated: Rated, ratings: np.ndarray, rows: np.ndarray) -> Comparisons:
    """Compare some of the candidates, inside documents."""
    compared = rated_comparisons(rated.documents[rows], ratings[rows])
    return replace(compared, groups=rated.groups[rows][compared.worse])


def _curve_of(
    aspect: str,
    rated: Rated,
    features: PairFeatures,
    values: np.ndarray,
    others: Mapping[str, np.ndarray],
    settings: TrainSettings,
) -> list[RatedFit]:
    """Fit to samples of documents and to all; a sample as large as all is not fitted again."""

    def fitted(size: int, *, is_whole: bool = False) -> RatedFit:
        return _fit_of(
            aspect, size, rated, features, values, others, settings.seed, is_whole=is_whole
        )

    whole = fitted(np.unique(rated.documents).size, is_whole=True)
    sizes = [size for size in settings.learning_curve if size < whole.n_fitted]
    return [*map(fitted, sizes), whole]


def _fit_of(
    aspect: str,
    n_documents: int,
    rated: Rated,
    features: PairFeatures,
    values: np.ndarray,
    others: Mapping[str, np.ndarray],
    seed: int,
    *,
    is_whole: bool,
) -> RatedFit:
    """Cross-validate one head, fitted to so many documents."""
    ratings = rated.ratings[aspect]
    system_folds = _system_folds(rated)
    # Documents whose candidates all have one rating tell nothing.
    telling = rated.documents[rated_comparisons(rated.documents, ratings).worse]
    rng = np.random.default_rng(seed)
    order = rng.permutation(int(rated.groups.max()) + 1)
    scores = np.full(ratings.size, np.nan)
    n_fitted = 0
    for k in range(min(N_FOLDS, order.size)):
        is_held = order[rated.groups] % N_FOLDS == k
        kept = rng.permutation(np.unique(telling[~np.isin(telling, rated.documents[is_held])]))
        kept = kept[:n_documents]
        n_fitted = max(n_fitted, kept.size)
        for j in range(system_folds):
            is_system = rated.systems % system_folds == j
            seen = np.flatnonzero(
                np.isin(rated.documents, kept) & (~is_system | (system_folds == 1))
            )
            compared = {aspect: _comparisons(rated, ratings, seen)}
            model = fit_linear(features.config, values[seen], compared)
            asked = is_held & is_system
            scores[asked] = model.scores(values[asked])[:, 0]
    laid = {name: _laid_out(own, rated) for name, own in others.items()}
    own, matrix = _laid_out(scores, rated), _laid_out(ratings.round(9), rated)
    reached = {name: _agreement(other, matrix) for name, other in laid.items()}
    groups = np.empty(matrix.shape[1], dtype=np.int64)
    groups[rated.documents] = rated.groups
    rivals = {}
    if is_whole:
        rivals[f"reffree@{SHIPPED}"] = laid[f"reffree@{SHIPPED}"]
        for name in TRAITS:  # whichever way round they agree
            rivals |= {f"-{name}": -laid[name]} if reached[name] < 0 else {name: laid[name]}
    return RatedFit(
        aspect=aspect,
        n_documents=n_documents,
        n_fitted=n_fitted,
        cross_validated=_agreement(own, matrix),
        others=reached,
        differences={
            name: _difference(own, rival, matrix, groups, seed) for name, rival in rivals.items()
        },
    )


def _system_folds(rated: Rated) -> int:
    """Return into how many parts systems are divided, too: one where there are few."""
    return N_FOLDS if np.unique(rated.systems).size >= 2 * N_FOLDS else 1


def _laid_out(values: np.ndarray, rated: Rated) -> np.ndarray:
    """Put the values of candidates into a matrix, shape (n_systems, n_documents)."""
    matrix = np.full((int(rated.systems.max()) + 1, int(rated.documents.max()) + 1), np.nan)
    matrix[rated.systems, rated.documents] = values
    return matrix


def _agreement(scores: np.ndarray, ratings: np.ndarray) -> float:
    """Correlate scores with ratings inside documents, and average."""
    return correlate(scores, ratings, level="summary", coefficient="spearman").value


def _difference(
    first: np.ndarray, second: np.ndarray, ratings: np.ndarray, groups: np.ndarray, seed: int
) -> Interval:
    """Say how much better the first agrees, with the same groups of documents drawn for both."""
    how: dict[str, Any] = {"level": "summary", "coefficient": "spearman"}
    a, b = correlate(first, ratings, **how), correlate(second, ratings, **how)
    n_groups = int(groups.max()) + 1
    n = min(n_groups, *(one.n_documents - one.n_skipped for one in (a, b)))
    few = f"needs {FEWEST_DOCUMENTS} documents, got {n}" if n < FEWEST_DOCUMENTS else None
    rng = np.random.default_rng(seed)
    drawn = resampled_correlations(
        np.stack([first, second]),
        ratings[None],
        Resamples(
            np.ones((1, len(ratings))),
            draw_counts(n_groups, n_resamples=N_RESAMPLES, rng=rng)[:, groups],
        ),
        **how,
    )[..., 0]
    return percentile_interval(
        drawn[:, 0] - drawn[:, 1],
        a.value - b.value,
        widened(CONFIDENCE, n),
        "bootstrap-documents",
        a.reason or b.reason or few,
    )


def _defined(said: Any) -> Any:  # noqa: ANN401  (JSON)
    """Write null where a figure is undefined: JSON has no NaN."""
    if isinstance(said, Mapping):
        return {name: _defined(own) for name, own in said.items()}
    return None if isinstance(said, float) and math.isnan(said) else said


def _trained_on(corpus: OneOrMore, rated: Rated, recipe: LinearRecipe) -> dict[str, Any]:
    sample = SourceSample()
    sample.add(zip(map(str, rated.documents.tolist()), rated.sources, strict=True))
    return {
        "files": [base_name(file.path) for file in with_content(list_inputs(several(corpus)))],
        "candidates": len(rated.candidates),
        "ratings": list(rated.ratings),
        SOURCE_SAMPLE: list(sample.text_keys()),
        "negatives": asdict(recipe.negatives),
    }
