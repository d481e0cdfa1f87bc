"""What a table or figure is that can be made again: its needs, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pipelines.papers.bench import Bench
from pipelines.papers.comparison import Numbers
from pipelines.papers.needs import Need
from pipelines.papers.published import PublishedTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """What a target's function returns."""

    ours: Numbers = field(default_factory=dict)
    notes: Sequence[str] = ()
    differs: Sequence[str] = ()
    """Beside what is known of the target beforehand."""
    figures: Sequence[PublishedTable] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A table or figure."""

    name: str
    """As in `published.toml`."""
    make: Callable[[Bench], Made]
    """Makes what it can of what is there."""
    needs: Sequence[Need] = ()
    differs: Sequence[str] = ()
    """What is not as in the paper, whatever the data and weights."""
    needs_nothing: bool = False
    """Whether some of it follows from what the paper prints."""


def named(figure: PublishedTable, suffix: str) -> PublishedTable:
    """Give a figure another name, for a paper that draws several of it."""
    return replace(figure, name=f"{figure.name}-{suffix}")
