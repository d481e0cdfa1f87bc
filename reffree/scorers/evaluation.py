"""How well a scorer tells references from negatives, kind by kind, and what else it goes by.

Figures of a kind are over its negatives and the references of the same pairs. They are about the
synthetic negatives; whether people agree is another question (`agreement`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice

import numpy as np

from reffree.negatives import POSITIVE
from reffree.scorers.scorer import LearnedScorer
from reffree.training_pairs.examples import Example

THRESHOLD = 0.5  # a score from here on says that the candidate is good
N_BINS = 10  # of the calibration; equally wide
SPREAD_ATOL = 1e-12  # values that differ by no more count as one value: they have no correlation

_PAIRS_AT_ONCE = 500

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """Figures of one kind of negative; None where undefined."""

    n: int  # rows: negatives and references
    accuracy: float | None
    """Share of rows with score and label on the same side of `THRESHOLD`; as `mse` and
    `calibration_error` None for a scorer whose scores only have an order."""
    auc: float  # chance that a reference scores higher than a negative; a tie counts half
    preferred: float
    """Share of negatives that score lower than the reference of the same pair; a tie counts
    half."""
    mse: float | None  # mean squared difference of score and label
    pearson: float | None  # correlation of score and label
    calibration_error: float | None
    """Mean distance of mean score and mean label over `N_BINS` bins of the score, by rows."""
    n_cut: int  # rows of which only the lead was read


@dataclass(frozen=True, slots=True)
class Judged:
    """Examples with their scores."""

    kinds: np.ndarray  # str, (n,)
    pairs: np.ndarray  # number of each example's pair, int64, (n,)
    labels: np.ndarray  # float64, (n,)
    scores: np.ndarray  # float64, NaN where there is none, (n,)
    is_cut: np.ndarray  # bool, (n,)

    @classmethod
    def of(
        cls, groups: Sequence[Sequence[Example]], first: int, scores: np.ndarray, is_cut: np.ndarray
    ) -> Judged:
        """Take the examples of pairs, whose numbers begin with `first`."""
        rows = list(chain.from_iterable(groups))
        pairs = np.repeat(np.arange(first, first + len(groups)), [*map(len, groups)])
        kinds = np.array([one.kind for one in rows], dtype=str)
        labels = np.array([one.label for one in rows], dtype=np.float64)
        return cls(kinds, pairs, labels, scores, is_cut)

    def by_kind(self, *, has_threshold: bool = True) -> dict[str, KindFigures]:
        """Compute the figures of every kind, in the order of first appearance.

        Examples without a score are left out, and all pairs whose reference has no score.
        """
        is_positive, is_scored = self.kinds == POSITIVE, np.isfinite(self.scores)
        scored_pairs = self.pairs[is_positive & is_scored]
        is_negative = ~is_positive & is_scored & np.isin(self.pairs, scored_pairs)
        figures = {}
        for kind in dict.fromkeys(self.kinds[is_negative].tolist()):
            is_kind = is_negative & (self.kinds == kind)
            chosen = is_kind | (is_positive & np.isin(self.pairs, self.pairs[is_kind]))
            figures[kind] = self._figures(np.flatnonzero(chosen), has_threshold=has_threshold)
        return figures

    def _figures(self, rows: np.ndarray, *, has_threshold: bool) -> KindFigures:
        from sklearn.metrics import roc_auc_score

        scores, labels = self.scores[rows], self.labels[rows]
        is_positive = self.kinds[rows] == POSITIVE
        is_right = (scores >= THRESHOLD) == (labels >= THRESHOLD)
        pairs = self.pairs[rows]
        order = np.argsort(pairs[is_positive], kind="stable")
        places = np.searchsorted(pairs[is_positive][order], pairs[~is_positive])
        gap = scores[is_positive][order][places] - scores[~is_positive]
        return KindFigures(
            n=rows.size,
            accuracy=float(is_right.mean()) if has_threshold else None,
            auc=float(roc_auc_score(is_positive, scores)),
            preferred=float(((gap > 0) + 0.5 * (gap == 0)).mean()),
            mse=float(np.square(scores - labels).mean()) if has_threshold else None,
            pearson=pearson(scores, labels),
            calibration_error=calibration_error(scores, labels) if has_threshold else None,
            n_cut=int(self.is_cut[rows].sum()),
        )


def main_figure(kind: str, figures: Iterable[KindFigures]) -> str:
    """Name the figure by which scorers are compared on a kind of negative.

    As in Tables 3 and 4 of Bao et al. 2020: accuracy for whole references of other documents, the
    correlation for edits; AUC instead of accuracy for a scorer without a threshold.
    """
    if not kind.startswith("cross-pair"):
        return "pearson"
    return "auc" if any(of_kind.accuracy is None for of_kind in figures) else "accuracy"


def judge(groups: Iterable[Sequence[Example]], scorer: LearnedScorer) -> Judged:
    """Score the examples of pairs; a reference that is there several times counts once."""
    pending = (positive_once(group) for group in groups)
    parts = [Judged.of([], 0, np.empty(0), np.empty(0, dtype=bool))]
    reasons: Counter[str] = Counter()
    n_pairs = 0
    while block := list(islice(pending, _PAIRS_AT_ONCE)):
        chosen = list(chain.from_iterable(block))
        scored = scorer.score([e.source for e in chosen], [e.candidate for e in chosen])
        parts.append(Judged.of(block, n_pairs, scored.scores, scored.is_cut))
        n_pairs += len(block)
        reasons.update(":".join(reason) for reason in chain.from_iterable(scored.reasons.values()))
    if reasons:
        logger.warning("examples without a score are not judged: %s", dict(reasons))
    names = [one.name for one in fields(Judged)]
    return Judged(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def positive_once(group: Sequence[Example]) -> list[Example]:
    """Drop the repetitions of the reference that a balanced mixture has."""
    return [example for example in group if example.kind != POSITIVE or example.index == 0]


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return Pearson's correlation; None if either is constant."""
    if not x.size or np.ptp(x) <= SPREAD_ATOL or np.ptp(y) <= SPREAD_ATOL:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def confounders(
    scores: np.ndarray, labels: np.ndarray, traits: Mapping[str, np.ndarray]
) -> dict[str, float | None]:
    """Say how far scores follow traits that are not quality, and what is left without these.

    All arrays have shape (n,); what has no score is left out. Gives `score~TRAIT` for each trait
    (for example length and density), `score~label`, and `score~label|traits`, the partial
    correlation.
    """
    is_scored = np.isfinite(scores)
    scores, labels = scores[is_scored], labels[is_scored]
    traits = {name: values[is_scored] for name, values in traits.items()}
    correlations = {f"score~{name}": pearson(scores, values) for name, values in traits.items()}
    correlations["score~label"] = pearson(scores, labels)
    given = np.column_stack(list(traits.values()))
    correlations["score~label|traits"] = partial_pearson(scores, labels, given)
    return correlations


def partial_pearson(x: np.ndarray, y: np.ndarray, given: np.ndarray) -> float | None:
    """Return the correlation of what is left of x and y when both are regressed on others.

    `given` has shape (n, k). None where nothing is left of one.
    """
    if not x.size:
        return None
    design = np.column_stack([np.ones(len(x)), given])
    left = [values - design @ np.linalg.lstsq(design, values, rcond=None)[0] for values in (x, y)]
    for values, rest in zip((x, y), left, strict=True):
        if np.ptp(rest) <= 1e-9 * max(np.ptp(values), SPREAD_ATOL):  # rounding is what is left
            return None
    return pearson(*left)


def calibration_error(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the expected calibration error over `N_BINS` equal bins (Naeini et al. 2015)."""
    bins = np.minimum((scores * N_BINS).astype(np.int64), N_BINS - 1)
    gaps = np.bincount(bins, weights=scores - labels, minlength=N_BINS)
    return float(np.abs(gaps).sum() / scores.size)
