"""Which negatives every pair gets: kinds, proportions, rates, numbers and the seed."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reffree.edits import Rate
from reffree.hashing import check_seed, generator_of
from reffree.negatives import KINDS
from sms.naming import several

CHOSEN_KINDS = ("cross-pair", "sentence-delete", "replace")
"""Scorers that learnt from them agreed most with people on a development set (docs/results.md)."""
BAO2020_KINDS = ("cross-pair", "add", "delete", "replace")

PRESETS: dict[str, dict[str, Any]] = {
    # Bao et al. 2020, sections 2.2 and 3.1: one negative of every kind per document, as many
    # positives as negatives. The paper says "random" of the rates: a share of all words it is.
    "bao2020": {"kinds": BAO2020_KINDS, "per_positive": 1, "is_balanced": True},
}
"""Published recipes: arguments of `NegativesConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativesConfig:
    """The negatives of every pair."""

    kinds: tuple[str, ...] = CHOSEN_KINDS
    """Out of `negatives.KINDS`; one or several."""
    proportions: tuple[float, ...] | None = None
    """Weight of each kind; None gives every pair all kinds."""
    per_positive: int = 1
    """Negatives of a pair: of each kind, or in all where there are proportions."""
    is_balanced: bool = False
    """Whether the positive comes as often as the negatives, not once."""
    rate: Rate = field(default_factory=Rate)
    """Share of a text that is edited."""
    length_tolerance: float | None = None
    """Negatives have as many words as their positive, give or take this share of it; None for no
    such rule."""
    n_neighbours: int = 10
    """`cross-pair-hard` draws from so many nearest documents."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(several(self.kinds)))
        if not self.kinds:
            raise ValueError("`kinds` must name at least one kind of negative, got none")
        for kind in self.kinds:
            if kind not in KINDS:
                near = difflib.get_close_matches(kind, KINDS, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(KINDS)}"
                raise ValueError(f"unknown kind of negative `{kind}`; {hint}")
        if len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"`kinds` must differ, got {', '.join(self.kinds)}")
        if self.proportions is not None:
            _check_proportions(self.kinds, self.proportions)
        check_seed(self.seed)
        for name in ("per_positive", "n_neighbours"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        if self.length_tolerance is not None and not 0 <= self.length_tolerance < 1:
            raise ValueError(f"`length_tolerance` must be in [0, 1), got {self.length_tolerance:g}")

    @property
    def needs_neighbours(self) -> bool:
        """Whether any kind needs the nearest documents."""
        return any(KINDS[kind].needs_neighbours for kind in self.kinds)

    def plan(self, document_id: str, number: int, epoch: int) -> list[tuple[str, int]]:
        """Say which negatives a pair gets, as kinds and their places among equals.

        Depends on nothing but the pair's name, the epoch and this configuration.
        """
        if self.proportions is None:
            return list(itertools.product(self.kinds, range(self.per_positive)))
        rng = generator_of(self.seed, "mixture", epoch, document_id, number)
        shares = np.array(self.proportions) / sum(self.proportions)
        drawn = rng.choice(len(self.kinds), size=self.per_positive, p=shares).tolist()
        return [(self.kinds[kind], drawn[:place].count(kind)) for place, kind in enumerate(drawn)]

    def generator(
        self, kind: str, index: int, document_id: str, number: int, epoch: int
    ) -> np.random.Generator:
        """Return the random numbers of one negative, which no other one has a part in."""
        return generator_of(self.seed, kind, index, epoch, document_id, number)


def with_proportions(mixture: Mapping[str, float]) -> dict[str, Any]:
    """Return the arguments of `NegativesConfig` for kinds with weights."""
    return {"kinds": tuple(mixture), "proportions": tuple(mixture.values())}


def _check_proportions(kinds: tuple[str, ...], proportions: tuple[float, ...]) -> None:
    if len(proportions) != len(kinds):
        raise ValueError(
            f"`proportions` must have one weight per kind, got {len(proportions)} for {len(kinds)}"
        )
    for kind, weight in zip(kinds, proportions, strict=True):
        if not 0 < weight < float("inf"):
            raise ValueError(f"the weight of `{kind}` must be positive, got {weight:g}")
