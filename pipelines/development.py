"""Which of a few recipes for a scorer of features agrees best with rated summaries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata

from pipelines.settings.train import TrainSettings
from pipelines.train_on_ratings import read_rated
from reffree.scorer import LinearPairs

STATISTIC = "rank correlation inside documents, length held fixed"


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
    columns = [own[is_known].round(9) for own in (scores, ratings, given)]
    ranks = np.zeros((3, owner.size))
    for document in np.unique(owner):
        rows = owner == document
        for k, own in enumerate(columns):
            ranks[k, rows] = rankdata(own[rows]) - (rows.sum() + 1) / 2
    if not (ranks[:2] != 0).any(axis=1).all():
        return float("nan")
    if not ranks[2].any():
        return float(np.corrcoef(ranks[:2])[0, 1])
    xy, xz, yz = np.corrcoef(ranks)[[0, 0, 1], [1, 2, 2]]
    left = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / np.sqrt(left)) if left > 0 else float("nan")
