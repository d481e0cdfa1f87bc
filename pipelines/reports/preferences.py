"""Preferences of people: what they hold, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from pipelines.reports.numbers import UNDEFINED, interval_text, number_text, p_value_text
from pipelines.reports.tables import PaperTable, Sheet, frame_of
from pipelines.tables.records import InputRecord
from sms.naming import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadToHead:
    """Two systems under one criterion."""

    criterion: str
    system_a: str
    system_b: str
    wins_a: int
    """Judgements, as are the next two."""
    wins_b: int
    ties: int
    share_b: float
    """Of the judgements that prefer one, those for B; NaN where there is none, as are its ends."""
    low: float
    high: float
    p_value: float
    """Two-sided exact sign test over judgements."""
    p_holm: float
    """`p_items` where items were judged repeatedly, else `p_value`, corrected over all rows."""
    preferred: str | None
    """"a" or "b" where `p_holm` is small enough, else None."""
    n_items: int
    """0 where the items are not known; then the numbers below are none, too."""
    n_judges: int
    """0 where the judges are not known."""
    items_a: int
    """Items that more judges gave to A than to B."""
    items_b: int
    items_tied: int
    p_items: float
    """Two-sided exact sign test over items."""
    n_items_repeated: int
    """Items that were judged more than once."""
    alpha: float
    """Krippendorff's, nominal, over these; NaN where there is none, as is the next."""
    share_equal: float
    """Pairs of judgements of one item that agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What judges prefer, and how it was computed."""

    rows: tuple[HeadToHead, ...]
    """Pair after pair, with all criteria of each."""
    n_missing: int
    """Judgements that were left blank."""
    inputs: tuple[InputRecord, ...]
    interval: str
    """Of the shares: "wilson"."""
    confidence: float

    def frame(self) -> pl.DataFrame:
        """Return the rows as a table; undefined is null."""
        return frame_of(self.rows)


def preferences_sheet(result: Preferences) -> Sheet:
    """Lay preferences out."""
    is_repeated = any(row.n_items_repeated for row in result.rows)
    interval = f"{100 * result.confidence:g} % interval"
    of_items = ["items A : B : =", "p (items)", "alpha", "% agree"] if is_repeated else []
    header = ["criterion", "A", "B", "A wins", "B wins", "=", "% for B", interval]
    header += ["p", "p (Holm)", *of_items, "preferred"]
    table = PaperTable(
        title="Preferences of judges",
        header=header,
        alignment="lll" + "r" * (len(header) - 3),
        rows=[_cells(row, is_repeated=is_repeated) for row in result.rows],
    )
    foot = list(_foot(result, is_repeated=is_repeated))
    return Sheet(record=result, frame=result.frame(), table=table, foot=foot)


def _cells(row: HeadToHead, *, is_repeated: bool) -> list[str]:
    of_items = [
        f"{row.items_a} : {row.items_b} : {row.items_tied}",
        p_value_text(row.p_items),
        number_text(row.alpha),
        number_text(100 * row.share_equal, 1),
    ]
    return [
        *(row.criterion, row.system_a, row.system_b),
        *(f"{n:,}" for n in (row.wins_a, row.wins_b, row.ties)),
        number_text(100 * row.share_b, 1),
        interval_text(100 * row.low, 100 * row.high, 1),
        *(p_value_text(p_value) for p_value in (row.p_value, row.p_holm)),
        *(of_items if is_repeated else ()),
        (row.preferred or UNDEFINED).upper(),
    ]


def _foot(result: Preferences, *, is_repeated: bool) -> Iterator[str]:
    yield (
        "% for B: share of the judgements that prefer either system; interval by "
        f"{result.interval.title()}; exact two-sided sign tests without ties, Holm over the "
        f"{counted(len(result.rows), 'row')}"
    )
    if is_repeated:
        yield (
            "Judgements of one item are not independent, so p is too small and the interval too "
            "narrow; p (items) counts each item once, for the system that most judges preferred, "
            "and p (Holm) and preferred go by it; alpha is Krippendorff's; % "
            "agree is the share of pairs of judgements of one item that are equal"
        )
    if result.n_missing:
        yield f"{counted(result.n_missing, 'judgement')} left blank"
