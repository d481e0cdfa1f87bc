"""A comparison of scores for people and programs: text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from pipelines.compare import RUNS, ScoreComparison
from pipelines.reports.numbers import UNDEFINED, p_value_text
from pipelines.reports.tables import Column, PaperTable, escape_markdown, to_markdown
from pipelines.summary import decimals, meanings, number, table_text
from sms.signature import version

MAX_ROWS = 60
"""The text has no more; a file has them all."""

Row = Mapping[str, Any]


def comparison_text(
    result: ScoreComparison, *, is_terminal: bool = False, width: int | None = None
) -> str:
    """Lay a comparison out for people.

    Parameters
    ----------
    result : ScoreComparison
    is_terminal : bool
        Whether lines and colours are welcome.
    width : int, optional
        Characters of a line; a table that needs more gets more.
    """
    frame = result.frame()
    columns = _columns(result, frame)
    rows = [[column.show(row) for column in columns] for row in frame.iter_rows(named=True)]
    table = table_text(
        [column.header for column in columns],
        rows[:MAX_ROWS],
        n_left=sum(not column.is_numeric for column in columns),
        is_terminal=is_terminal,
        width=width,
    )
    more = [f"and {len(rows) - MAX_ROWS:,} more rows; `--out` writes all"] * (len(rows) > MAX_ROWS)
    parts = (_head(result), [table, *more], _foot(result, frame))
    return "\n\n".join("\n".join(part) for part in parts)


def comparison_markdown(result: ScoreComparison) -> str:
    """Write a comparison as Markdown, with all rows."""
    frame = result.frame()
    table = PaperTable(
        name="comparison",
        title="Comparison of scores",
        caption="",
        frame=frame,
        columns=_columns(result, frame),
    )
    lines = [escape_markdown(line) for line in (*_head(result), *_foot(result, frame))]
    lines += [f"`{signature}`" for signature in result.signatures.values()]
    return f"# {table.title}\n\n{to_markdown(table)}\n" + "".join(f"- {line}\n" for line in lines)


def comparison_csv(result: ScoreComparison) -> str:
    """Write the rows with all digits; undefined is empty."""
    return result.frame().write_csv()


def comparison_json(result: ScoreComparison) -> str:
    """Write everything: rows, signatures, inputs with their hashes, version, seed."""
    values = {"version": version(), **asdict(result), "rows": result.frame().to_dicts()}
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[ScoreComparison], str]] = {
    ".csv": comparison_csv,
    ".json": comparison_json,
    ".md": comparison_markdown,
}
"""What writes a file, by the end of its name."""


def _columns(result: ScoreComparison, frame: pl.DataFrame) -> list[Column]:
    n_decimals = {
        metric: decimals([*rows["mean_a"].drop_nulls(), *rows["mean_b"].drop_nulls()])
        for (metric,), rows in frame.group_by("metric")
    }

    def mean(name: str, more: int = 0) -> Callable[[Row], str]:
        return lambda row: _number(row[name], n_decimals[row["metric"]] + more)

    def interval(row: Row) -> str:
        n = n_decimals[row["metric"]] + 1
        ends = [_number(row[end], n) for end in ("low", "high")]
        return UNDEFINED if UNDEFINED in ends else f"[{', '.join(ends)}]"

    def text(name: str) -> Callable[[Row], str]:
        return lambda row: str(row[name])

    systems = (
        [("system", "system_a")] if result.kind == RUNS else [("A", "system_a"), ("B", "system_b")]
    )
    return [
        Column(header="metric", show=text("metric"), is_numeric=False),
        *(Column(header=head, show=text(name), is_numeric=False) for head, name in systems),
        Column(header="mean A", show=mean("mean_a")),
        Column(header="mean B", show=mean("mean_b")),
        Column(header="A - B", show=mean("difference", 1)),
        Column(header=f"{100 * result.confidence:g} % interval", show=interval),
        Column(header="p", show=lambda row: p_value_text(row["p_value"])),
        Column(header="p (Holm)", show=lambda row: p_value_text(row["p_holm"])),
        *(Column(header=name, show=text(name)) for name in ("wins", "ties", "losses")),
        Column(header="documents", show=text("n_documents")),
        Column(header="higher", show=lambda row: (row["higher"] or UNDEFINED).upper()),
    ]


def _number(value: float | None, n_decimals: int) -> str:
    return UNDEFINED if value is None else number(value, n_decimals)


def _head(result: ScoreComparison) -> Iterator[str]:
    if result.kind == RUNS:
        yield "Two runs of the same systems, on the documents both have"
    else:
        yield "Every system of A with every system of B, on the documents both have"
    yield f"A: {result.scores_a}"
    yield f"B: {result.scores_b}"


def _foot(result: ScoreComparison, frame: pl.DataFrame) -> Iterator[str]:
    yield from meanings(frame["metric"].unique(maintain_order=True))
    yield (
        f"Paired bootstrap over documents, {result.n_resamples:,} resamples, seed {result.seed}; "
        f"two-sided p-values, Holm over the {len(frame):,} rows; wins, ties and losses of A by "
        "document"
    )
    undefined = frame.filter(pl.col("reason").is_not_null())
    for row in undefined.iter_rows(named=True):
        yield f"Undefined: {row['metric']}, {row['system_a']}, {row['system_b']}: {row['reason']}"
    yield from result.notes
