"""Fits a scorer to human ratings, and says by cross-validation how well it would do elsewhere.

A candidate is scored by weights that have seen neither its document nor its system. Next to it
stands what the scorer of the package, length and density reach on the same candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from agreement import correlate
from cluster import list_inputs, with_content
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES, SYSTEM_ID, UNREADABLE
from cluster.store import base_name
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from pipelines.settings.train import TrainSettings
from pipelines.tables.keyed import KEYS, RATER
from pipelines.tables.ratings import read_ratings
from pipelines.training_folder import checked_folder, chosen_device
from reffree.comparisons import rated_comparisons
from reffree.features import PairFeatures
from reffree.fitting import LinearRecipe
from reffree.linear import MIN_GROUPS, fit_linear
from reffree.naming import SCORER_FILE
from reffree.pairs import SourceSample
from reffree.scorer import SOURCE_SAMPLE, LinearPairs, load_scorer, save_linear
from sms.naming import AnyPath, OneOrMore, several

N_FOLDS = 5
"""Of documents, and of systems where there are twice as many."""
SHIPPED = "news"
TRAITS = ("length", "density")
_RATING = "rating:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedFit:
    """How a scorer agrees with the ratings of one aspect: summary level, Spearman."""

    aspect: str
    n_documents: int
    """Rated documents that the weights are fitted to, at most."""
    cross_validated: float
    """By weights that have seen neither document nor system."""
    others: Mapping[str, float]
    """What else there is, on the same candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedTraining:
    """What came of fitting a scorer to ratings."""

    out: str
    signature: str
    n_candidates: int
    n_documents: int
    n_systems: int
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
            "`ratings` are for the scorer features, got another; leave `scorer` and `preset` out"
        )
    rated = read_rated(corpus, settings.ratings, settings)
    tell("computing the features")
    device = chosen_device(settings.device)
    features = PairFeatures(recipe.feature_config, device=device)
    features.fit_copies(rated.sources, rated.candidates)
    values = features.values(rated.sources, rated.candidates)
    tell("cross-validating")
    others = _others(rated, features, values)
    sizes = [*settings.learning_curve, np.unique(rated.documents).size]
    fits = [
        _fit_of(aspect, size, rated, features, values, others, settings.seed)
        for aspect in rated.ratings
        for size in sizes
    ]
    comparisons = {
        aspect: rated_comparisons(rated.documents, own) for aspect, own in rated.ratings.items()
    }
    pairs = LinearPairs(fit_linear(features.config, values, comparisons), features)
    n_documents, n_systems = (np.unique(own).size for own in (rated.documents, rated.systems))
    signature = save_linear(
        folder,
        pairs,
        trained_on=_trained_on(corpus, rated, recipe),
        held_out={f"{one.aspect}, {one.n_documents} documents": asdict(one) for one in fits},
        versions=library_versions(),
    )
    return RatedTraining(
        out=str(folder),
        signature=signature,
        n_candidates=len(rated.candidates),
        n_documents=n_documents,
        n_systems=n_systems,
        fits=fits,
    )


def read_rated(corpus: OneOrMore, rated: AnyPath | None, settings: TrainSettings) -> Rated:
    """Join the rows of a corpus with the mean of their ratings, of `raters` or all."""
    assert rated is not None, "asked for"  # noqa: S101
    columns = dict(settings.columns or {})
    of_ids = {ours: theirs for ours, theirs in columns.items() if ours in (*KEYS, RATER)}
    ratings = read_ratings(rated, raters=settings.raters, columns=of_ids)
    means = ratings.frame.group_by(KEYS).agg(
        pl.col(aspect).mean().alias(f"{_RATING}{aspect}") for aspect in ratings.aspects
    )
    columns.pop(RATER, None)
    wanted = Wanted(needed=(DOCUMENT_ID, SYSTEM_ID, CANDIDATE, SOURCES), columns=columns)
    tables = read_files(list_inputs(several(corpus)), wanted, limit=settings.limit)
    rows = pl.concat([pl.DataFrame(pl.from_arrow(table)) for table in tables])
    both = (
        rows.filter(pl.col(UNREADABLE).is_null() & pl.col(CANDIDATE).is_not_null())
        .unique(KEYS, keep="first")
        .join(means, on=KEYS)
        .sort(KEYS)
    )
    if both[DOCUMENT_ID].n_unique() < MIN_GROUPS:
        raise ValueError(
            f"`ratings` must rate candidates of several documents of the corpus, got "
            f"{both[DOCUMENT_ID].n_unique()}"
        )
    numbers = {key: both[key].rank("dense").to_numpy().astype(np.int64) - 1 for key in KEYS}
    return Rated(
        sources=[" ".join(own) for own in both[SOURCES].to_list()],
        candidates=both[CANDIDATE].to_list(),
        documents=numbers[DOCUMENT_ID],
        systems=numbers[SYSTEM_ID],
        ratings={a: both[f"{_RATING}{a}"].cast(pl.Float64).to_numpy() for a in ratings.aspects},
    )


def _others(rated: Rated, features: PairFeatures, values: np.ndarray) -> dict[str, np.ndarray]:
    """Compute what a fitted scorer is to be compared with."""
    shipped = load_scorer(SHIPPED)
    scores = shipped.score_against_all([[text] for text in rated.sources], rated.candidates).scores
    found = {f"reffree@{SHIPPED}": shipped.chosen(scores)}
    found |= {f"reffree@{SHIPPED}.{head}": shipped.chosen(scores, head) for head in shipped.heads}
    names = features.config.names
    return found | {trait: values[:, names.index(trait)] for trait in TRAITS}


def _fit_of(
    aspect: str,
    n_documents: int,
    rated: Rated,
    features: PairFeatures,
    values: np.ndarray,
    others: Mapping[str, np.ndarray],
    seed: int,
) -> RatedFit:
    """Cross-validate one head, fitted to so many documents."""
    ratings = rated.ratings[aspect]
    n_systems = np.unique(rated.systems).size
    system_folds = N_FOLDS if n_systems >= 2 * N_FOLDS else 1
    # Documents whose candidates all have one rating tell nothing.
    telling = rated.documents[rated_comparisons(rated.documents, ratings).worse]
    rng = np.random.default_rng(seed)
    order = rng.permutation(int(rated.documents.max()) + 1)
    scores = np.full(ratings.size, np.nan)
    for k in range(N_FOLDS):
        is_held = order[rated.documents] % N_FOLDS == k
        kept = rng.permutation(np.unique(telling[~np.isin(telling, rated.documents[is_held])]))
        kept = kept[:n_documents]
        for j in range(system_folds):
            is_system = rated.systems % system_folds == j
            seen = np.flatnonzero(
                np.isin(rated.documents, kept) & (~is_system | (system_folds == 1))
            )
            compared = rated_comparisons(rated.documents[seen], ratings[seen])
            model = fit_linear(features.config, values[seen], {aspect: compared})
            asked = is_held & is_system
            scores[asked] = model.scores(values[asked])[:, 0]
    return RatedFit(
        aspect=aspect,
        n_documents=n_documents,
        cross_validated=_agreement(scores, ratings, rated),
        others={name: _agreement(own, ratings, rated) for name, own in others.items()},
    )


def _agreement(scores: np.ndarray, ratings: np.ndarray, rated: Rated) -> float:
    """Correlate scores with ratings inside documents, and average."""
    shape = int(rated.systems.max()) + 1, int(rated.documents.max()) + 1
    laid = []
    for own in (scores, ratings.round(9)):
        matrix = np.full(shape, np.nan)
        matrix[rated.systems, rated.documents] = own
        laid.append(matrix)
    return correlate(*laid, level="summary", coefficient="spearman").value


def _trained_on(corpus: OneOrMore, rated: Rated, recipe: LinearRecipe) -> dict[str, Any]:
    sample = SourceSample()
    sample.add_texts(zip(map(str, rated.documents.tolist()), rated.sources, strict=True))
    return {
        "files": [base_name(file.path) for file in with_content(list_inputs(several(corpus)))],
        "candidates": len(rated.candidates),
        "ratings": list(rated.ratings),
        SOURCE_SAMPLE: list(sample.text_keys()),
        "negatives": asdict(recipe.negatives),
    }
