"""What an imported file becomes: pairs, candidates, and numbers about candidates.

A reader yields these one after the other; nothing here touches files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

HUMAN_PREFIX = "human-"
"""Begins the `system_id` of a summary that a person wrote, so that `--exclude-systems 'human-*'`
(and the tables of the papers, which look for `human*`) can tell it from a machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A document and the summary that belongs to it: for training, nothing is judged."""

    document_id: str
    source: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text to judge."""

    document_id: str
    system_id: str
    candidate: str
    references: Sequence[str] | None = None
    """None where the data have none."""
    sources: Sequence[str] | None = None
    """None where the data have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Ratings by people, or scores by metrics, of one candidate."""

    kind: Literal["ratings", "scores"]
    document_id: str
    system_id: str
    values: Mapping[str, float | None]
    """By aspect or metric; None = missing."""
    rater: str | None = None
    """None where the data name no raters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One thing that was read and is in no output."""

    reason: str
    """Completes "Left out: 3, ..."."""


def differing(things: str) -> str:
    """Say why a second text (or rating) of a candidate is left out.

    Examples
    --------
    >>> differing("texts")
    'texts that differ from those the candidate already had, which are kept'
    """
    return f"{things} that differ from those the candidate already had, which are kept"


Row = Pair | Candidate | Numbers | LeftOut


def whole_pair(document_id: str, source: str, reference: str) -> Pair | LeftOut:
    """Make a pair, or say that it lacks one of its texts."""
    if source.strip() and reference.strip():
        return Pair(document_id=document_id, source=source, reference=reference)
    return LeftOut(reason="pairs without a document or without a summary")


def human(name: str) -> str:
    """Name the system of a person's summary.

    Examples
    --------
    >>> human("A")
    'human-A'
    """
    return f"{HUMAN_PREFIX}{name}"


def is_human(system_id: str) -> bool:
    """Say whether `human` made this name."""
    return system_id.startswith(HUMAN_PREFIX)


def ratings_of_raters(
    document_id: str, system_id: str, rater: str, by_rater: Sequence[Mapping[str, float | None]]
) -> Iterator[Numbers]:
    """Give the ratings of one candidate to raters called `RATER-1`, `RATER-2` and so on.

    Parameters
    ----------
    document_id, system_id : str
        The candidate.
    rater : str
        What the raters are called, for example `expert`.
    by_rater : sequence of mapping of str to float
        Values by aspect, a mapping per rater.
    """
    for number, values in enumerate(by_rater, start=1):
        yield Numbers(
            kind="ratings",
            document_id=document_id,
            system_id=system_id,
            rater=f"{rater}-{number}",
            values=values,
        )
