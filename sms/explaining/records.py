"""What an explanation consists of: units of text, points with mass, flows between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

WORD, SENTENCE = "word", "sentence"
"""Kinds of unit."""
CANDIDATE, REFERENCE, SOURCE = "candidate", "reference", "source"
"""Sides: whose text it is."""
LIST_COLUMN = {REFERENCE: "references", SOURCE: "sources"}
"""Column of a row that holds the texts of a side."""
STOP_WORD = "stop word"
PUNCTUATION = "punctuation"
UNKNOWN_WORD = "out of vocabulary"
NOT_ALPHABETIC = "not alphabetic"
NOTHING_KEPT = "no word that counts"
"""Why a unit does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A word or a sentence where it stands in a text."""

    text: str
    kind: str
    """`word` or `sentence`."""
    sentence: int
    """Number of its sentence, from 0."""
    start: int
    stop: int
    """Characters of the text, as in a slice."""
    weight: float = 0.0
    """Mass that it carries itself; the masses of a text have sum 1. A repeated point's mass is
    shared evenly by its occurrences."""
    dropped: str | None = None
    """Why it does not count; None where it does."""
    point: int | None = None
    """Number of its point in `TextUnits.points`; None where it is not moved itself."""

    @property
    def is_kept(self) -> bool:
        """Whether it counts in the score."""
        return self.dropped is None


@dataclass(frozen=True, slots=True)
class Point:
    """What is moved: a sentence or a word, all occurrences of the same vector together."""

    text: str
    """As it stands in the text; different spellings of one vector joined by `/`."""
    kind: str
    weight: float
    """Its share of the text's mass."""
    units: tuple[int, ...]
    """Numbers of its occurrences in `TextUnits.units`."""


@dataclass(frozen=True, slots=True)
class TextUnits:
    """One text, its units in reading order (a sentence, then its words) and its points."""

    side: str
    """`candidate`, `reference` or `source`."""
    number: int
    """Which one, where a row has several references or sources; from 0."""
    text: str
    units: tuple[Unit, ...]
    points: tuple[Point, ...] = ()

    def sentences(self) -> Iterator[tuple[Unit, list[tuple[int, Unit]]]]:
        """Yield every sentence with its words, each word with its number in `units`."""
        starts = [k for k, unit in enumerate(self.units) if unit.kind == SENTENCE]
        for start, stop in pairwise([*starts, len(self.units)]):
            yield self.units[start], list(enumerate(self.units[start + 1 : stop], start + 1))


@dataclass(frozen=True, slots=True)
class Flow:
    """Mass that moves from a point of the candidate to a point of the other text."""

    candidate: int
    """Number of the point in the candidate's `points`."""
    other: int
    mass: float
    cost: float
    """Ground cost of one unit of mass: the Euclidean distance of the two vectors."""

    @property
    def contribution(self) -> float:
        """What it adds to the distance."""
        return self.mass * self.cost


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """An optimal plan between the candidate and one other text."""

    candidate: TextUnits
    other: TextUnits
    flows: tuple[Flow, ...]
    """Every cell of the plan that carries mass, largest contribution first."""
    ground_cost: np.ndarray
    """Cost of one unit of mass between every two points, shape (n, m)."""
    distance: float
    """The least cost, by the solver; the flows' contributions add up to it."""

    @property
    def similarity(self) -> float:
        """Return `exp(-distance)`, the pair's score."""
        # `math.exp` differs from the scores' `np.exp` in the last bit of some values
        return float(np.exp(-self.distance))

    @property
    def plan(self) -> np.ndarray:
        """Mass moved between every two points, shape (n, m)."""
        plan = np.zeros(self.ground_cost.shape)
        for flow in self.flows:
            plan[flow.candidate, flow.other] = flow.mass
        return plan

    def blocks(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Return mass and contribution by the kinds of the two points (Clark et al., figure 2)."""
        parts: dict[tuple[str, str], list[Flow]] = {}
        for flow in self.flows:
            ours, theirs = self.candidate.points[flow.candidate], self.other.points[flow.other]
            parts.setdefault((ours.kind, theirs.kind), []).append(flow)
        return {
            kinds: (math.fsum(f.mass for f in flows), math.fsum(f.contribution for f in flows))
            for kinds, flows in sorted(parts.items(), reverse=True)
        }


@dataclass(frozen=True, slots=True)
class SentenceEffect:
    """What the score loses when one sentence is left out."""

    side: str
    number: int
    """Which text of that side, from 0."""
    unit: Unit
    score: float | None
    """Score without the sentence; None where what is left cannot be scored."""
    drop: float | None
    """Score of the whole minus score without the sentence: positive if the sentence helps."""
