"""Preferences of people for readers and programs: text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pipelines.preferences import Preferences
from pipelines.reports.numbers import UNDEFINED, interval_text, number_text, p_value_text
from pipelines.reports.tables import Column, PaperTable, escape_markdown, to_markdown
from pipelines.reports.terminal import table_text
from pipelines.reports.words import counted
from sms.signature import version

Row = Mapping[str, Any]


def preferences_text(
    result: Preferences, *, is_terminal: bool = False, width: int | None = None
) -> str:
    """Lay preferences out for people.

    Parameters
    ----------
    result : Preferences
    is_terminal : bool
        Whether lines and colours are welcome.
    width : int, optional
        Characters of a line; a table that needs more gets more.
    """
    return "\n\n".join([_text_of(_table(result), is_terminal, width), "\n".join(_foot(result))])


def preferences_markdown(result: Preferences) -> str:
    """Write preferences as Markdown."""
    foot = "\n".join(f"- {escape_markdown(line)}" for line in _foot(result))
    return "\n".join(["# Preferences of judges\n", to_markdown(_table(result)), f"{foot}\n"])


def preferences_csv(result: Preferences) -> str:
    """Write the rows of the head-to-head comparisons with all digits; undefined is empty."""
    return result.frame().write_csv()


def preferences_json(result: Preferences) -> str:
    """Write everything: rows, inputs with their hashes, version."""
    values = {
        "version": version(),
        **asdict(result),
        "rows": result.frame().to_dicts(),
    }
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Preferences], str]] = {
    ".csv": preferences_csv,
    ".json": preferences_json,
    ".md": preferences_markdown,
}
"""What writes a file, by the end of its name."""


def _table(result: Preferences) -> PaperTable:
    return PaperTable(
        name="preferences",
        title="Head to head",
        caption="",
        frame=result.frame(),
        columns=_row_columns(result),
    )


def _row_columns(result: Preferences) -> list[Column]:
    columns = [
        _text("criterion"),
        _text("A", "system_a"),
        _text("B", "system_b"),
        _count("A wins", "wins_a"),
        _count("B wins", "wins_b"),
        _count("=", "ties"),
        Column(header="% for B", show=lambda row: _percent(row["share_b"])),
        _interval(f"{100 * result.confidence:g} % interval", 1, scale=100),
        Column(header="p", show=lambda row: p_value_text(row["p_value"])),
        Column(header="p (Holm)", show=lambda row: p_value_text(row["p_holm"])),
    ]
    if any(row.n_items_repeated for row in result.rows):
        columns += [
            Column(
                header="items A : B : =",
                show=lambda row: f"{row['items_a']} : {row['items_b']} : {row['items_tied']}",
            ),
            Column(header="p (items)", show=lambda row: p_value_text(row["p_items"])),
            _number("alpha", "alpha"),
            Column(header="% agree", show=lambda row: _percent(row["share_equal"])),
        ]
    return [
        *columns,
        Column(header="preferred", show=lambda row: (row["preferred"] or UNDEFINED).upper()),
    ]


def _text(header: str, name: str | None = None) -> Column:
    return Column(header=header, show=lambda row: str(row[name or header]), is_numeric=False)


def _count(header: str, name: str) -> Column:
    return Column(header=header, show=lambda row: f"{row[name]:,}")


def _number(header: str, name: str, digits: int = 3) -> Column:
    return Column(header=header, show=lambda row: number_text(row[name], digits))


def _interval(header: str, digits: int, *, scale: float = 1) -> Column:
    def show(row: Row) -> str:
        low, high = (None if row[end] is None else scale * row[end] for end in ("low", "high"))
        return interval_text(low, high, digits)

    return Column(header=header, show=show)


def _percent(share: float | None) -> str:
    return number_text(None if share is None else 100 * share, 1)


def _text_of(table: PaperTable, is_terminal: bool, width: int | None) -> str:
    return table_text(
        [column.header for column in table.columns],
        [
            [column.show(row) for column in table.columns]
            for row in table.frame.iter_rows(named=True)
        ],
        n_left=sum(not column.is_numeric for column in table.columns),
        is_terminal=is_terminal,
        width=width,
    )


def _foot(result: Preferences) -> Iterator[str]:
    yield (
        "% for B: of the judgements that prefer one of the two; interval by "
        f"{result.interval.title()}; exact two-sided sign tests without ties, Holm over the "
        f"{counted(len(result.rows), 'row')}"
    )
    if any(row.n_items_repeated for row in result.rows):
        yield (
            "Judgements of one item are not independent, so p is too small: p (items) tests the "
            "items that most judges gave to A or to B; alpha is Krippendorff's, % agree the pairs "
            "of judgements of an item that are equal"
        )
    if result.n_missing:
        yield f"{counted(result.n_missing, 'judgement')} left blank"
