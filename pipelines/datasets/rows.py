"""What an imported file becomes: pairs, candidates, and numbers about candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

HUMAN_PREFIX = "human-"
"""Begins the `system_id` of a summary that a person wrote, so that `--exclude-systems 'human-*'`
(and the tables of the papers, which look for `human*`) can tell it from a machine's."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A document and the summary that belongs to it: for training, nothing is judged."""

    document_id: str
    source: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text to judge; None stands for what the data have none of."""

    document_id: str
    system_id: str
    candidate: str
    references: Sequence[str] | None = None
    source: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Ratings by people, or scores by metrics, of one candidate."""

    kind: Literal["ratings", "scores"]
    document_id: str
    system_id: str
    rater: str | None = None
    """None where the data name no raters."""
    values: Mapping[str, float | None]
    """By aspect or metric; None = missing."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One thing that was read and is in no output."""

    reason: str
    """Completes "Left out: 3, ..."."""


Row = Pair | Candidate | Numbers | LeftOut
