"""What the heads of a scorer of features learn from: kinds of negatives, features, comparisons.

`data/features.toml` says which. Each feature counts in one direction only, so that weights cannot
use it against its sense to make made-up mistakes stand out. A positive is compared with the
negatives that were made from it, and kinds of negatives are never ranked against each other.
Candidates without a positive among them (rated ones, preferences) are compared by their labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reffree.features import TABLES, WORD_FEATURES
from reffree.features.linear import Comparisons
from reffree.negatives import POSITIVE
from reffree.training_pairs.examples import Example

DIRECTIONS: dict[str, int] = (
    dict.fromkeys(WORD_FEATURES, 1)
    | dict.fromkeys(TABLES["directions"]["worse"], -1)
    | dict.fromkeys(TABLES["directions"]["either"], 0)
)
"""Whether more of a feature is better (1), worse (-1) or may be either (0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """What the heads of a scorer learn from, and what they read."""

    positives: tuple[str, ...]
    """What negatives are made from, out of `negatives.POSITIVES`."""
    kinds: Mapping[str, Sequence[str]]
    """Kinds of negatives, out of `negatives.KINDS`, by head."""
    features: Mapping[str, tuple[str, ...]]
    """What a head is fitted to; heads that are not there read all features."""
    composed: Mapping[str, tuple[str, ...]]
    """What a head reads as an equal part, not fitted (`fit_linear`), where no metric is a
    feature."""

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]], positives: Sequence[str]) -> Heads:
        """Read the tables of `data/features.toml`."""
        by_key = {
            key: {head: tuple(table.get(key, ())) for head, table in tables.items()}
            for key in ("kinds", "features", "composed")
        }
        return cls(positives=tuple(positives), **by_key)

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """The kinds of all heads."""
        return tuple(dict.fromkeys(kind for kinds in self.kinds.values() for kind in kinds))

    def directions_of(self, head: str) -> dict[str, int] | None:
        """Return the features that a head is fitted to, and their directions; None for all, any."""
        if head not in self.features:
            return None
        return {name: DIRECTIONS[name] for name in self.features[head]}


NEWS_HEADS = Heads.of(TABLES["heads"], ("reference", "lead", "extract"))
GENERAL_HEADS = Heads.of(TABLES["general"], ("reference", "extract"))
"""For any kind of text: the lead of a dialogue or a paper is no summary of it."""
OVERALL = "overall"  # the head of candidates that do not say what they teach
RATING_ATOL = 1e-9
"""Mean ratings that differ by no more are equal: they were summed in another order."""


def heads_of(example: Example, kinds_of_head: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Name the heads that an example teaches."""
    if example.aspect:
        return tuple(name.strip() for name in example.aspect.split(","))
    by_kind = tuple(head for head, kinds in kinds_of_head.items() if example.kind in kinds)
    return by_kind or (OVERALL,)


def comparisons_of(
    examples: Sequence[Example], kinds_of_head: Mapping[str, Sequence[str]]
) -> dict[str, Comparisons]:
    """Compare the examples of each pair and positive; a head's kinds count the same in all.

    What is left out together when the penalty is chosen is a kind of positive where there are
    several, so that what is learnt carries over to another way to write; else some documents.
    """
    groups: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for place, example in enumerate(examples):
        groups[example.document_id, example.number, example.base].append(place)
    pairs_of_head: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for places in groups.values():
        for better, worse in _pairs(examples, places):
            for head in heads_of(examples[worse], kinds_of_head):
                pairs_of_head[head].append((better, worse))
    order = [*(head for head in kinds_of_head if head in pairs_of_head), *pairs_of_head]
    return {head: _comparisons(examples, pairs_of_head[head]) for head in dict.fromkeys(order)}


def _pairs(examples: Sequence[Example], places: Sequence[int]) -> list[tuple[int, int]]:
    positives = [place for place in places if examples[place].kind == POSITIVE]
    if positives:
        others = [place for place in places if examples[place].kind != POSITIVE]
        return [(positive, other) for positive in positives for other in others]
    return [(i, j) for i in places for j in places if examples[i].label > examples[j].label]


def _comparisons(examples: Sequence[Example], pairs: Sequence[tuple[int, int]]) -> Comparisons:
    better, worse = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    chosen = [examples[place] for place in worse.tolist()]
    _, kinds, n_of_kind = np.unique(
        [one.kind for one in chosen], return_inverse=True, return_counts=True
    )
    bases = [one.base for one in chosen]
    left_out = bases if len(set(bases)) > 1 else [one.document_id for one in chosen]
    return Comparisons(
        better=better,
        worse=worse,
        weights=np.array([one.weight for one in chosen]) / n_of_kind[kinds],
        groups=np.unique(left_out, return_inverse=True)[1],
    )


def rated_comparisons(documents: np.ndarray, ratings: np.ndarray) -> Comparisons:
    """Compare the candidates of each document that people rated differently.

    `documents` has the number of each candidate's document, `ratings` NaN where there is none, both
    of shape (n,). Every document counts the same; documents are left out together.
    """
    better, worse = np.nonzero(
        (documents[:, None] == documents) & (ratings[:, None] > ratings + RATING_ATOL)
    )
    groups = documents[worse]
    return Comparisons(
        better=better, worse=worse, weights=1 / np.bincount(groups)[groups], groups=groups
    )
