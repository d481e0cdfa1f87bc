"""What is known about a data set that can be imported, and how its readers say what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipelines.datasets.files import Member
from pipelines.datasets.rows import Row

PAIRS, CORPUS, BOTH = "pairs", "corpus", "corpus, ratings"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A data set, in the format its owner gives it out in."""

    name: str
    title: str
    gives: str
    """`PAIRS`, `CORPUS` or `BOTH`."""
    takes: str
    """The files, for a person."""
    origin: str
    """Where they come from."""
    licence: str
    paper: str
    read: Callable[[Sequence[str]], Iterator[Row]]
    """Paths to rows. Raises ValueError, naming file and line, where a file is not of the format."""
    note: str = ""
    """What to know, and what of the format was not seen in its owner's own words."""


def pass_over(member: Member, name: str, takes: str) -> None:
    """Do nothing about a file of no use in a folder or archive; refuse one that was named.

    Raises
    ------
    ValueError
        If the user named this very file.
    """
    if member.is_named:
        raise ValueError(f"`FILES` of {name} must be {takes}, got {member.path}")
