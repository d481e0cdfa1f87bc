"""What an imported file becomes, and what is known about a data set that can be imported.

A reader yields pairs, candidates and numbers about candidates, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.datasets.files import Member, Record, members, records

HUMAN_PREFIX = "human-"
"""Begins the `system_id` of a summary that a person wrote, so that `--exclude-systems 'human-*'`
(and the tables of the papers, which look for `human*`) can tell it from a machine's."""
PAIRS, BOTH = "pairs", "corpus, ratings"


@dataclass(frozen=True, slots=True, kw_only=True)
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
    sources: Sequence[str] | None = None


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


Row = Pair | Candidate | Numbers | LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A data set, in the format its owner gives it out in."""

    name: str
    title: str
    gives: str
    """`PAIRS`, `BOTH`, or what else there is."""
    takes: str
    """The files, for a person."""
    origin: str
    """Where they come from."""
    licence: str
    paper: str
    read: Callable[[Sequence[str]], Iterator[Row]]
    """Paths to rows. Raises ValueError, naming file and line, where a file is not of the format."""
    note: str = ""
    """What to know."""


def pass_over(member: Member, name: str, takes: str) -> None:
    """Do nothing about a file of no use in a folder or archive; refuse one that was named."""
    if member.is_named:
        raise ValueError(f"`FILES` of {name} must be {takes}, got {member.path}")


def records_of(
    paths: Sequence[str],
    name: str,
    takes: str,
    suffixes: tuple[str, ...] = (".jsonl", ".jsonl.gz"),
) -> Iterator[Record]:
    """Read the rows of all files of a kind, and pass over the others."""
    for member in members(paths):
        if member.name.endswith(suffixes):
            yield from records(member)
        else:
            pass_over(member, name, takes)


def differing(things: str) -> str:
    """Say why a second text (or rating) of a candidate is left out."""
    return f"{things} that differ from those the candidate already had, which are kept"


def whole_pair(document_id: str, source: str, reference: str) -> Pair | LeftOut:
    """Make a pair, or say that it lacks one of its texts."""
    if source.strip() and reference.strip():
        return Pair(document_id=document_id, source=source, reference=reference)
    return LeftOut(reason="pairs without a document or without a summary")


def human(name: str) -> str:
    """Name the system of a person's summary, "human-A" for "A"."""
    return f"{HUMAN_PREFIX}{name}"


def is_human(system_id: str) -> bool:
    """Say whether `human` made this name."""
    return system_id.startswith(HUMAN_PREFIX)


def ratings_of_raters(
    document_id: str, system_id: str, rater: str, by_rater: Sequence[Mapping[str, float | None]]
) -> Iterator[Numbers]:
    """Give the ratings of one candidate to raters called `RATER-1`, `RATER-2` and so on.

    `by_rater` has values by aspect, a mapping per rater.
    """
    for number, values in enumerate(by_rater, start=1):
        yield Numbers(
            kind="ratings",
            document_id=document_id,
            system_id=system_id,
            rater=f"{rater}-{number}",
            values=values,
        )
