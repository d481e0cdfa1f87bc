"""Fits a scorer to human ratings, and says by cross-validation how well it would do elsewhere.

A candidate is scored by weights that have not seen its document nor, where there are enough
systems, its system. Documents with the same source, or nearly, are left out together. The scorer of
the package, length and density are judged on the same candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import rankdata

from agreement import Interval, Resamples, correlate, resampled_correlations
from agreement.intervals import percentile_interval, widened
from agreement.resampling import draw_counts
from cluster import list_inputs, with_content
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES, SYSTEM_ID, UNREADABLE
from cluster.store import base_name
from pipelines.evaluate import SHIPPED, TRAITS, others_of
from pipelines.prepare_pairs import SPLIT
from pipelines.settings.pairs import chosen_device
from pipelines.settings.train import TrainSettings
from pipelines.tables.keyed import KEYS, check_unique
from pipelines.tables.ratings import columns_apart, read_ratings
from pipelines.train_features import N_FOLDS
from pipelines.training_runs import checked_folder, stages
from pipelines.training_table import why_unused
from reffree.features import PairFeatures
from reffree.features.aspects import rated_comparisons
from reffree.features.linear import MIN_GROUPS, Comparisons, fit_linear
from reffree.scorers.fitting import LinearRecipe
from reffree.scorers.folder import SOURCE_SAMPLE
from reffree.scorers.scorer import LinearPairs
from reffree.training_pairs.rows import SourceSample
from reffree.training_pairs.splits import number_groups
from sms.naming import AnyPath, OneOrMore, several
from sms.signature import library_versions

STATISTIC = "rank correlation inside documents, length held fixed"
CONFIDENCE = 0.95
N_RESAMPLES = 1_000
FEWEST_DOCUMENTS = 6
"""With fewer, 2 * 0.5**n > 0.05: chance alone puts all of them on one side that often."""
_RATING = "rating:"
_HOW: dict[str, Any] = {"level": "summary", "coefficient": "spearman"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedFit:
    """How a scorer agrees with the ratings of one aspect: summary level, Spearman."""

    aspect: str
    n_documents: int
    """Rated documents that were asked for; all of them in the last fit of an aspect."""
    n_fitted: int  # documents that the weights of a fold were fitted to, at most
    cross_validated: float
    """By weights that have not seen the document, nor the system where there are enough."""
    others: Mapping[str, float]  # what else there is, on the same candidates
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
    notes: Sequence[str]  # what was left out, and why
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
    notes: Sequence[str]  # what was left out, and why

    @property
    def n_system_folds(self) -> int:
        """Into how many parts systems are divided, too: one where there are few."""
        return N_FOLDS if np.unique(self.systems).size >= 2 * N_FOLDS else 1

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        """Put the values of candidates into a matrix, shape (n_systems, n_documents)."""
        matrix = np.full((int(self.systems.max()) + 1, int(self.documents.max()) + 1), np.nan)
        matrix[self.systems, self.documents] = values
        return matrix

    def comparisons(self, ratings: np.ndarray, rows: np.ndarray) -> Comparisons:
        """Compare some of the candidates, inside documents."""
        compared = rated_comparisons(self.documents[rows], ratings[rows])
        return replace(compared, groups=self.groups[rows][compared.worse])


def train_on_ratings(corpus: OneOrMore, settings: TrainSettings) -> RatedTraining:
    """Fit a head to each rated aspect of a corpus, into a new folder."""
    folder, tell = checked_folder(settings.out), stages(settings.on_progress)
    tell("reading")
    recipe = settings.recipe()
    if not isinstance(recipe, LinearRecipe):
        raise ValueError(
            "`ratings` only work with the scorer `features`; leave out `scorer` and `preset`"
        )
    assert settings.ratings is not None, "asked for"  # noqa: S101
    rated = read_rated(corpus, settings.ratings, settings)
    tell("computing the features")
    features = PairFeatures(recipe.feature_config, device=chosen_device(settings.device))
    features.fit_copies(rated.sources, rated.candidates)
    values = features.read(rated.sources, rated.candidates).values
    tell("cross-validating")
    others = others_of(rated.sources, rated.candidates)
    curves = _Curves(rated, features, values, others, settings.seed)
    fits = [fit for aspect in rated.ratings for fit in curves.of(aspect, settings.learning_curve)]
    every = np.arange(len(rated.candidates))
    comparisons = {
        aspect: rated.comparisons(ratings, every) for aspect, ratings in rated.ratings.items()
    }
    pairs = LinearPairs(fit_linear(features.config, values, comparisons), features)
    n_documents, n_systems = (np.unique(ids).size for ids in (rated.documents, rated.systems))
    sample = SourceSample()
    sample.add(zip(map(str, rated.documents.tolist()), rated.sources, strict=True))
    signature = pairs.save(
        folder,
        trained_on={
            "files": [base_name(file.path) for file in with_content(list_inputs(several(corpus)))],
            "candidates": len(rated.candidates),
            "ratings": list(rated.ratings),
            SOURCE_SAMPLE: list(sample.kept()),
            "negatives": asdict(recipe.negatives),
        },
        held_out={
            f"{one.aspect}, {one.n_documents} documents": _defined(asdict(one)) for one in fits
        },
        versions=library_versions(),
    )
    return RatedTraining(
        out=str(folder),
        signature=signature,
        n_candidates=len(rated.candidates),
        n_documents=n_documents,
        n_systems=n_systems,
        notes=rated.notes,
        leaves_systems_out=rated.n_system_folds > 1,
        fits=fits,
    )


def read_rated(corpus: OneOrMore, ratings: AnyPath, settings: TrainSettings) -> Rated:
    """Join the rows of a corpus with the mean of their ratings, of `raters` or all.

    What cannot be trained on is left out, which the notes say; documents and systems are numbered.
    """
    columns, of_ratings = columns_apart(settings.columns)
    columns.pop(SPLIT, None)
    given = read_ratings(ratings, raters=settings.raters, columns=of_ratings)
    means, notes = given.means(_RATING), list(given.notes)
    wanted = Wanted(needed=(DOCUMENT_ID, SYSTEM_ID, CANDIDATE, SOURCES), columns=columns)
    tables = read_files(list_inputs(several(corpus)), wanted, limit=settings.limit)
    joined, n_without_key = [], 0
    for table in tables:
        frame = pl.DataFrame(pl.from_arrow(table))
        joined.append(frame.join(means, on=KEYS))
        lacks_key = pl.any_horizontal(pl.col(KEYS).is_null()) & pl.col(UNREADABLE).is_not_null()
        n_without_key += frame.filter(lacks_key).height
    rows = pl.concat(joined).sort(KEYS)
    if n_without_key:
        notes.append(f"Rows of the corpus that cannot be read, ids included: {n_without_key:,}")
    if n_lost := means.height - rows.select(KEYS).n_unique():
        notes.append(f"Rated summaries that are not in the corpus: {n_lost:,} of {means.height:,}")
    why = pl.Series([why_unused(row) for row in rows.to_dicts()], dtype=pl.String)
    for reason, n in why.drop_nulls().value_counts(sort=True).iter_rows():
        notes.append(f"Left out: {n:,}, {reason}")
    both = rows.filter(why.is_null()).unique([*KEYS, CANDIDATE, SOURCES], maintain_order=True)
    check_unique(both, KEYS, "the corpus", "give one text of each")
    n_documents = both[DOCUMENT_ID].n_unique()
    if n_documents < MIN_GROUPS:
        raise ValueError(
            f"`ratings` must rate candidates of several documents of the corpus, got {n_documents}"
        )
    documents, systems = (
        both[key].rank("dense").to_numpy().astype(np.int64) - 1 for key in (DOCUMENT_ID, SYSTEM_ID)
    )
    sources = both[SOURCES].list.first().to_list()
    groups = number_groups(documents, sources)
    if n_alike := n_documents - np.unique(groups).size:
        notes.append(f"Documents counted with another one that has the same source: {n_alike:,}")
    return Rated(
        sources=sources,
        candidates=both[CANDIDATE].to_list(),
        documents=documents,
        systems=systems,
        ratings={
            aspect: both[f"{_RATING}{aspect}"].cast(pl.Float64).to_numpy()
            for aspect in given.aspects
        },
        groups=groups,
        notes=notes,
    )


@dataclass(frozen=True, slots=True)
class _Curves:
    """Cross-validates heads that are fitted to few documents, and to all."""

    rated: Rated
    features: PairFeatures
    values: np.ndarray
    others: Mapping[str, np.ndarray]
    seed: int

    def of(self, aspect: str, sizes: Sequence[int]) -> list[RatedFit]:
        """Fit to samples of documents and to all; as many as all are not fitted again."""
        every = np.unique(self.rated.documents).size
        whole = self._fit(aspect, every, is_whole=True)
        few = [self._fit(aspect, size) for size in sizes if size < whole.n_fitted]
        return [*few, whole]

    def _fit(self, aspect: str, n_documents: int, *, is_whole: bool = False) -> RatedFit:
        """Cross-validate one head, fitted to so many documents."""
        rated, ratings = self.rated, self.rated.ratings[aspect]
        scores, n_fitted = self._cross_validated(aspect, n_documents)
        score_matrix, rating_matrix = rated.laid_out(scores), rated.laid_out(ratings.round(9))
        laid = {name: rated.laid_out(values) for name, values in self.others.items()}
        reached = {name: _agreement(values, rating_matrix) for name, values in laid.items()}
        groups = np.empty(rating_matrix.shape[1], dtype=np.int64)
        groups[rated.documents] = rated.groups
        rivals = {}
        if is_whole:
            rivals[f"reffree@{SHIPPED}"] = laid[f"reffree@{SHIPPED}"]
            for name in TRAITS:  # a trait that agrees negatively is compared with its sign changed
                rivals |= {f"-{name}": -laid[name]} if reached[name] < 0 else {name: laid[name]}
        return RatedFit(
            aspect=aspect,
            n_documents=n_documents,
            n_fitted=n_fitted,
            cross_validated=_agreement(score_matrix, rating_matrix),
            others=reached,
            differences={
                name: _difference(score_matrix, rival, rating_matrix, groups, self.seed)
                for name, rival in rivals.items()
            },
        )

    def _cross_validated(self, aspect: str, n_documents: int) -> tuple[np.ndarray, int]:
        """Score candidates by weights that have not seen them; say how many documents these saw."""
        rated, ratings, n_parts = self.rated, self.rated.ratings[aspect], self.rated.n_system_folds
        # Nothing is learned from a document whose candidates all have the same rating.
        telling = rated.documents[rated_comparisons(rated.documents, ratings).worse]
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(int(rated.groups.max()) + 1)
        scores = np.full(ratings.size, np.nan)
        n_fitted = 0
        for k in range(min(N_FOLDS, order.size)):
            is_held = order[rated.groups] % N_FOLDS == k
            kept = rng.permutation(np.unique(telling[~np.isin(telling, rated.documents[is_held])]))
            kept = kept[:n_documents]
            n_fitted = max(n_fitted, kept.size)
            for j in range(n_parts):
                is_system = rated.systems % n_parts == j
                is_seen = np.isin(rated.documents, kept) & (~is_system | (n_parts == 1))
                seen = np.flatnonzero(is_seen)
                compared = {aspect: rated.comparisons(ratings, seen)}
                model = fit_linear(self.features.config, self.values[seen], compared)
                asked = is_held & is_system
                scores[asked] = model.scores(self.values[asked])[:, 0]
        return scores, n_fitted


def _agreement(scores: np.ndarray, ratings: np.ndarray) -> float:
    return correlate(scores, ratings, **_HOW).value


def _difference(
    first: np.ndarray, second: np.ndarray, ratings: np.ndarray, groups: np.ndarray, seed: int
) -> Interval:
    """Say how much better the first agrees, with the same groups of documents drawn for both."""
    a, b = correlate(first, ratings, **_HOW), correlate(second, ratings, **_HOW)
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
        **_HOW,
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
        return {name: _defined(value) for name, value in said.items()}
    return None if isinstance(said, float) and math.isnan(said) else said


# Which of a few recipes agrees best with rated summaries


def development_agreement(settings: TrainSettings) -> Callable[[LinearPairs], float] | None:
    """Return what recipes are compared by: how the mean of the heads agrees with the mean rating.

    None where no development set is named.
    """
    corpus, ratings = settings.dev_corpus, settings.dev_ratings
    if corpus is None and ratings is None:
        return None
    if corpus is None or ratings is None:
        raise ValueError("`dev_corpus` and `dev_ratings` belong together; give both")
    rated = read_rated(corpus, ratings, settings)
    means = np.nanmean(np.column_stack(list(rated.ratings.values())), axis=1)
    lengths = np.array([float(len(text.split())) for text in rated.candidates])

    def agreement(pairs: LinearPairs) -> float:
        scores = pairs.score(rated.sources, rated.candidates).scores.mean(axis=1)
        return agreement_inside(scores, means, lengths, rated.documents)

    return agreement


def agreement_inside(
    scores: np.ndarray, ratings: np.ndarray, given: np.ndarray, documents: np.ndarray
) -> float:
    """Correlate ranks inside documents, over all documents at once, a third number held fixed.

    Rows without a score or a rating do not count. NaN where nothing differs.
    """
    is_known = ~(np.isnan(scores) | np.isnan(ratings))
    owner = documents[is_known]
    columns = [column[is_known].round(9) for column in (scores, ratings, given)]
    ranks = np.zeros((3, owner.size))
    for document in np.unique(owner):
        rows = owner == document
        for k, column in enumerate(columns):
            ranks[k, rows] = rankdata(column[rows]) - (rows.sum() + 1) / 2
    if not (ranks[:2] != 0).any(axis=1).all():
        return float("nan")
    if not ranks[2].any():
        return float(np.corrcoef(ranks[:2])[0, 1])
    xy, xz, yz = np.corrcoef(ranks)[[0, 0, 1], [1, 2, 2]]
    left = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / np.sqrt(left)) if left > 0 else float("nan")
