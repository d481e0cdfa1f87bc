"""Preferences of people: what they hold, and how they are laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from pipelines.reports.numbers import UNDEFINED, interval_text, number_text, p_value_text
from pipelines.reports.sheet import Sheet
from pipelines.reports.tables import Column, PaperTable, number_column, text_column
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
    """Of the shares, "wilson" or "clopper-pearson"."""
    confidence: float

    def frame(self) -> pl.DataFrame:
        """Return the rows as a table; undefined is null."""
        frame = pl.DataFrame([asdict(row) for row in self.rows], infer_schema_length=None)
        return frame.with_columns(pl.selectors.float().fill_nan(None))


def preferences_sheet(result: Preferences) -> Sheet:
    """Lay preferences out."""
    is_repeated = any(row.n_items_repeated for row in result.rows)
    return Sheet(
        record=result,
        table=PaperTable(
            name="preferences",
            title="Preferences of judges",
            caption="",
            frame=result.frame(),
            columns=_columns(result, is_repeated=is_repeated),
        ),
        foot=list(_foot(result, is_repeated=is_repeated)),
    )


def _columns(result: Preferences, *, is_repeated: bool) -> list[Column]:
    of_items = [
        Column(
            header="items A : B : =",
            show=lambda row: f"{row['items_a']} : {row['items_b']} : {row['items_tied']}",
        ),
        number_column("p_items", "p (items)", p_value_text),
        number_column("alpha", "alpha"),
        Column(header="% agree", show=_percent("share_equal")),
    ]
    counts = {"A wins": "wins_a", "B wins": "wins_b", "=": "ties"}
    return [
        text_column("criterion", "criterion"),
        text_column("system_a", "A"),
        text_column("system_b", "B"),
        *(number_column(name, header, lambda n: f"{n:,}") for header, name in counts.items()),
        Column(header="% for B", show=_percent("share_b")),
        Column(header=f"{100 * result.confidence:g} % interval", show=_interval),
        number_column("p_value", "p", p_value_text),
        number_column("p_holm", "p (Holm)", p_value_text),
        *(of_items if is_repeated else ()),
        Column(header="preferred", show=lambda row: (row["preferred"] or UNDEFINED).upper()),
    ]


def _percent(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: number_text(None if row[name] is None else 100 * row[name], 1)


def _interval(row: Mapping[str, Any]) -> str:
    low, high = (None if row[end] is None else 100 * row[end] for end in ("low", "high"))
    return interval_text(low, high, 1)


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
