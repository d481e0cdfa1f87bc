"""Says of how many preferences a scorer of features is right that it was not fitted to.

Where the table has no `split`, the scorer is fitted to all documents, and each document is judged
by weights that were fitted to the others. Documents with the same source, or nearly, are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.evaluate import TRAITS, traits_of
from reffree.aspects import KINDS_OF_HEAD
from reffree.comparisons import comparisons_of
from reffree.examples import Example
from reffree.fitting import fit_heads, texts_of
from reffree.linear import MIN_GROUPS, Comparisons
from reffree.scorer import LinearPairs, load_scorer
from reffree.splits import number_groups

N_FOLDS = 5
SHIPPED = "news"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """How often one head prefers what people preferred; a tie counts half."""

    head: str
    n_fitted: int  # preferences that the scorer is fitted to
    n_fitted_documents: int
    n_judged: int  # preferences that it is judged by
    is_cross_validated: bool
    """Whether each document was judged by weights fitted to the others; else by `split`."""
    n_right: float
    others: Mapping[str, float]
    """How many the shipped scorer, length and density are right about."""


def judge_preferences(
    training: Sequence[Example],
    test: Sequence[Example],
    pairs: LinearPairs,
    values: np.ndarray,
    seed: int,
) -> list[Preferred]:
    """Judge every head by the preferences of the test documents.

    Where these have none, it is judged by those of training, cross-validated. `values` are the
    features of the training examples.
    """
    fitted = comparisons_of(training, KINDS_OF_HEAD)
    judged = comparisons_of(test, KINDS_OF_HEAD)
    is_cross_validated = not judged
    if is_cross_validated:
        judged, texts = fitted, texts_of(training)
        scores = _cross_validated(training, pairs, values, seed)
    else:
        texts = texts_of(test)
        scores = pairs.model.scores(pairs.features.read(*texts).values)
    others = others_of(*texts)
    documents = np.array([one.document_id for one in training])
    per_head = []
    for place, head in enumerate(pairs.heads):
        if head not in judged:
            continue
        # A document with too few others to fit to has no score, and is not counted.
        own = _scored(judged[head], scores[:, place])
        per_head.append(
            Preferred(
                head=head,
                n_fitted=fitted[head].worse.size,
                n_fitted_documents=np.unique(documents[fitted[head].worse]).size,
                n_judged=own[0].size,
                is_cross_validated=is_cross_validated,
                n_right=_n_right(own, scores[:, place]),
                others={
                    name: _n_right(own, others[name]) for name in (f"reffree@{SHIPPED}", *TRAITS)
                },
            )
        )
    return per_head


def others_of(sources: Sequence[str], candidates: Sequence[str]) -> dict[str, np.ndarray]:
    """Compute what a fitted scorer is to be compared with."""
    shipped = load_scorer(SHIPPED)
    scores = shipped.score_against_all([[text] for text in sources], candidates).scores
    by_name = {f"reffree@{SHIPPED}": shipped.chosen(scores)}
    by_name |= {f"reffree@{SHIPPED}.{head}": shipped.chosen(scores, head) for head in shipped.heads}
    return by_name | traits_of(sources, candidates)


def _cross_validated(
    examples: Sequence[Example], pairs: LinearPairs, values: np.ndarray, seed: int
) -> np.ndarray:
    """Score each document by weights fitted to other documents, NaN where these are too few."""
    documents = np.unique([one.document_id for one in examples], return_inverse=True)[1]
    groups = number_groups(documents, [one.source for one in examples])
    folds = np.random.default_rng(seed).permutation(groups.max() + 1)[groups] % N_FOLDS
    scores = np.full((len(examples), len(pairs.heads)), np.nan)
    for k in range(N_FOLDS):
        kept = np.flatnonzero(folds != k).tolist()
        seen = [examples[place] for place in kept]
        model = fit_heads(seen, values[kept], pairs.features.config, least_groups=MIN_GROUPS)
        if model is not None and (folds == k).any():
            held = model.scores(values[folds == k])
            for place, head in enumerate(model.heads):
                scores[folds == k, pairs.heads.index(head)] = held[:, place]
    return scores


def _scored(comparisons: Comparisons, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    better, worse = comparisons.better, comparisons.worse
    has_both = np.isfinite(scores[better]) & np.isfinite(scores[worse])
    return better[has_both], worse[has_both]


def _n_right(compared: tuple[np.ndarray, np.ndarray], scores: np.ndarray) -> float:
    better, worse = (scores[side] for side in compared)
    return float((better > worse).sum() + 0.5 * (better == worse).sum())
