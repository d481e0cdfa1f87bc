"""Tables of an agreement report for papers: Markdown, LaTeX (booktabs) and CSV of the same cells.

CSV keeps every digit and every count; Markdown and LaTeX round and put an interval behind its
value. Text that comes from the data is escaped for the format it is written in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.reports.file_names import file_stem
from pipelines.reports.numbers import (
    MINUS,
    UNDEFINED,
    count_text,
    interval_text,
    is_undefined,
    number_text,
    p_value_text,
    range_text,
)
from pipelines.reports.words import (
    COEFFICIENTS,
    LEVELS,
    TESTS,
    in_order,
    selection,
    sentence,
    statistic_name,
)
from pipelines.tables.records import AgreementResult

COUNTS = {
    "n_systems": "systems",
    "n_documents": "documents",
    "n_missing": "missing cells",
    "n_skipped": "skipped documents",
}
"""Columns of the correlations that stand beside every number, with what they count."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    MINUS: "$-$",
    "–": "--",
    "’": "'",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$",
    "\N{GREEK SMALL LETTER RHO}": r"$\rho$",
    "\N{GREEK SMALL LETTER TAU}": r"$\tau$",
}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}|#~]|(?<=\])[(:\[])")  # a bracket alone makes no link
_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How one column of a table is shown; it may put several columns of the frame together."""

    header: str
    show: Callable[[Row], str]
    is_numeric: bool = True
    is_best: Callable[[Row], bool] | None = None
    """Whether a cell is set in bold."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperTable:
    """One table, and how it is shown."""

    name: str
    """Of its files, without a suffix."""
    title: str
    caption: str
    """Counts, and what bold or a dash means."""
    frame: pl.DataFrame
    """The cells with all digits."""
    columns: Sequence[Column]


def paper_tables(result: AgreementResult) -> list[PaperTable]:
    """Make every table of the report, in its order; a table without rows is left out."""
    tables = [
        *_correlation_tables(result),
        _raters_table(result),
        *_difference_tables(result),
        *_systems_tables(result),
        _sample_size_table(result),
        _power_table(result),
        _disagreements_table(result),
    ]
    return [table for table in tables if not table.frame.is_empty()]


def to_csv(table: PaperTable) -> str:
    """Write all columns of the frame with all digits."""
    return table.frame.write_csv()


def to_markdown(table: PaperTable) -> str:
    """Write the table without its title and caption."""
    lines = [
        _markdown_line(escape_markdown(column.header) for column in table.columns),
        _markdown_line("---:" if column.is_numeric else ":---" for column in table.columns),
    ]
    for row, cells in shown_rows(table):
        lines.append(
            _markdown_line(
                _emphasised(escape_markdown(cell), column, row, "**{}**")
                for cell, column in zip(cells, table.columns, strict=True)
            )
        )
    return "\n".join(lines) + "\n"


def to_latex(table: PaperTable) -> str:
    r"""Write a `table` environment; it needs `\usepackage{booktabs}`."""
    alignment = "".join("r" if column.is_numeric else "l" for column in table.columns)
    lines = [
        r"\begin{table}",  # noqa: RUF027  (LaTeX)
        r"\centering",
        rf"\caption{{{escape_latex(f'{table.title}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', table.name.lower())}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_line(escape_latex(column.header) for column in table.columns),
        r"\midrule",
    ]
    for row, cells in shown_rows(table):
        lines.append(
            _latex_line(
                _emphasised(escape_latex(cell), column, row, r"\textbf{{{}}}")
                for cell, column in zip(cells, table.columns, strict=True)
            )
        )
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",  # noqa: RUF027  (LaTeX)
    ]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    r"""Write any text so that LaTeX prints it.

    Examples
    --------
    >>> escape_latex("rouge_1 & 50%")
    'rouge\\_1 \\& 50\\%'
    """
    escaped = "".join(_LATEX.get(each, each) for each in _one_line(text))
    # After the end of a row these would be read as its arguments.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def escape_markdown(text: str) -> str:
    r"""Write any text so that Markdown shows it, inside a table too.

    Examples
    --------
    >>> escape_markdown("a|b <script>")
    'a\\|b &lt;script&gt;'
    """
    plain = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", plain)


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text)


def shown_rows(table: PaperTable) -> Iterator[tuple[Row, list[str]]]:
    """Yield each row of the frame with its cells as they are shown."""
    for row in table.frame.iter_rows(named=True):
        yield row, [column.show(row) for column in table.columns]


def _emphasised(cell: str, column: Column, row: Row, pattern: str) -> str:
    return pattern.format(cell) if column.is_best is not None and column.is_best(row) else cell


def _markdown_line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_line(cells: Iterator[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


# Columns


def text_column(
    name: str,
    header: str,
    names: Mapping[str, str] | None = None,
    *,
    is_numeric: bool = False,
) -> Column:
    """Show a value as it is, or by its name in `names`."""

    def show(row: Row) -> str:
        value = UNDEFINED if row[name] is None else str(row[name])
        return value if names is None else names.get(value, value)

    return Column(header=header, show=show, is_numeric=is_numeric)


def number_column(name: str, header: str, write: Callable[[Any], str] = number_text) -> Column:
    """Show a number as `write` writes it."""
    return Column(header=header, show=lambda row: write(row[name]))


def _estimate(prefix: str, header: str) -> Column:
    """Show a value with its interval; bold in the best cluster, with the reason if undefined."""

    def show(row: Row) -> str:
        value, low, high = (row[f"{prefix} {name}"] for name in ("value", "low", "high"))
        if is_undefined(value):
            return f"{UNDEFINED} ({row[f'{prefix} reason'] or 'undefined'})"
        interval = interval_text(low, high, 2)
        return number_text(value) if interval == UNDEFINED else f"{number_text(value)} {interval}"

    return Column(header=header, show=show, is_best=lambda row: row.get(f"{prefix} cluster") == 1)


# Tables


def _correlation_tables(result: AgreementResult) -> Iterator[PaperTable]:
    """Make one table for each level and coefficient, metrics by aspects, as papers have it."""
    table = result.correlations.join(
        result.clusters.drop("value"),
        on=["aspect", "level", "coefficient", "metric"],
        how="left",
        maintain_order="left",
    )
    for level in in_order(table["level"], LEVELS):
        at_level = table.filter(level=level)
        for coefficient in at_level["coefficient"].unique(maintain_order=True):
            rows = at_level.filter(coefficient=coefficient)
            yield PaperTable(
                name=file_stem("correlations", level, coefficient),
                title=f"{COEFFICIENTS.get(coefficient, coefficient)} with ratings, {level} level",
                caption=_correlation_caption(rows, result),
                frame=_by_metric(rows, result),
                columns=[
                    text_column("metric", "Metric"),
                    *(_estimate(aspect, aspect) for aspect in result.aspects),
                ],
            )


def _by_metric(rows: pl.DataFrame, result: AgreementResult) -> pl.DataFrame:
    """Put the aspects side by side; baselines come last."""
    wide = pl.DataFrame({"metric": list(result.score_names)}).join(
        rows.select("metric", "is_baseline").unique("metric"), on="metric", maintain_order="left"
    )
    for aspect in result.aspects:
        kept = ["value", "low", "high", "cluster", *COUNTS, "reason"]
        one = rows.filter(aspect=aspect).select("metric", *kept)
        # The last word tells the columns apart, whatever the aspects are called.
        one = one.rename({name: f"{aspect} {name}" for name in kept})
        wide = wide.join(one, on="metric", how="left", maintain_order="left")
    return wide.sort("is_baseline", maintain_order=True).drop("is_baseline")


def _correlation_caption(rows: pl.DataFrame, result: AgreementResult) -> str:
    counts = ", ".join(f"{noun} {range_text(rows[name])}" for name, noun in COUNTS.items())
    chosen = selection(result.about.raters, result.about.excluded_systems)
    sentences = [sentence(chosen), sentence(counts)]
    if rows["low"].is_not_null().any():
        share, resampled = f"{100 * result.about.confidence:g} %", result.about.resampled
        sentences.append(f"In brackets: {share} bootstrap interval over {resampled}.")
    if rows["cluster"].eq(1).any():
        sentences.append("Bold: in the best cluster, whose metrics cannot be told apart.")
    return " ".join(sentences)


def _raters_table(result: AgreementResult) -> PaperTable:
    return PaperTable(
        name="raters",
        title="Agreement among raters",
        caption="The ceiling for a metric. Leave one out: each rater with the mean of the others.",
        frame=result.raters,
        columns=[
            text_column("aspect", "Aspect"),
            text_column("pool", "Pool"),
            Column(
                header="Statistic",
                show=lambda row: statistic_name(row["statistic"]),
                is_numeric=False,
            ),
            text_column("level", "Level"),
            number_column("value", "Value"),
            number_column("n_raters", "Raters", count_text),
            number_column("n_units", "Units", count_text),
            text_column("reason", "Undefined because"),
        ],
    )


def _difference_tables(result: AgreementResult) -> Iterator[PaperTable]:
    found = result.differences
    for level, coefficient, test in (
        found.select("level", "coefficient", "test").unique(maintain_order=True).iter_rows()
    ):
        name = COEFFICIENTS.get(coefficient, coefficient)
        rows = found.filter(level=level, coefficient=coefficient, test=test)
        yield PaperTable(
            name=file_stem("differences", level, coefficient, test),
            title=f"Differences of metrics in {name}, {level} level, {TESTS.get(test, test)}",
            caption="p-values are two-sided; Holm: corrected over all pairs of an aspect.",
            frame=rows,
            columns=[
                text_column("aspect", "Aspect"),
                text_column("metric_a", "A"),
                text_column("metric_b", "B"),
                number_column("value_a", "A’s value"),
                number_column("value_b", "B’s value"),
                number_column("difference", "A – B"),
                Column(header="Interval", show=lambda row: interval_text(row["low"], row["high"])),
                number_column("p_value", "p", p_value_text),
                number_column("p_holm", "p (Holm)", p_value_text),
                number_column("n_systems", "Systems", count_text),
                number_column("n_documents", "Documents", count_text),
                text_column("reason", "Undefined because"),
            ],
        )


def _systems_tables(result: AgreementResult) -> Iterator[PaperTable]:
    """Make one table of mean ratings with their intervals, and one of mean scores."""
    ratings = _by_system(result.systems.filter(kind="rating"), result.aspects)
    yield PaperTable(
        name="systems_ratings",
        title="Mean rating of each system",
        caption="In brackets: bootstrap interval over documents.",
        frame=ratings,
        columns=[
            text_column("system_id", "System"),
            *(_estimate(aspect, aspect) for aspect in result.aspects),
        ],
    )
    scores = _by_system(result.systems.filter(kind="metric"), result.score_names)
    yield PaperTable(
        name="systems_metrics",
        title="Mean score of each system",
        caption="In brackets: bootstrap interval over documents.",
        frame=scores,
        columns=[
            text_column("system_id", "System"),
            *(_estimate(metric, metric) for metric in result.score_names),
        ],
    )


def _by_system(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    wide = rows.select("system_id").unique(maintain_order=True)
    for name in names:
        one = rows.filter(name=name).select(
            "system_id",
            pl.col("mean").alias(f"{name} value"),
            pl.col("low").alias(f"{name} low"),
            pl.col("high").alias(f"{name} high"),
            pl.col("n_documents").alias(f"{name} n_documents"),
            pl.when(pl.col("mean").is_null()).then(pl.lit("no values")).alias(f"{name} reason"),
        )
        wide = wide.join(one, on="system_id", how="left", maintain_order="left")
    return wide


def _sample_size_table(result: AgreementResult) -> PaperTable:
    return PaperTable(
        name="sample_size",
        title="Correlation against the number of documents",
        caption="Mean and percentiles over random subsets of the documents.",
        frame=result.sample_size,
        columns=[
            text_column("aspect", "Aspect"),
            text_column("metric", "Metric"),
            text_column("level", "Level"),
            text_column("coefficient", "Coefficient", COEFFICIENTS),
            number_column("n_documents", "Documents", count_text),
            number_column("mean", "Mean"),
            Column(header="Range", show=lambda row: interval_text(row["low"], row["high"])),
            number_column("n_draws", "Draws", count_text),
            number_column("n_undefined", "Undefined draws", count_text),
        ],
    )


def _power_table(result: AgreementResult) -> PaperTable:
    return PaperTable(
        name="power",
        title="What a larger study would need (system-level Pearson)",
        caption=(
            "Systems needed to find the correlation with a power of 0.8, or for a Fisher interval "
            "no wider than 0.2; the correlation expected with endless documents, and the number "
            "of documents that comes within 0.05 of it."
        ),
        frame=result.power,
        columns=[
            text_column("aspect", "Aspect"),
            text_column("metric", "Metric"),
            number_column("value", "r"),
            number_column("n_systems", "Systems", count_text),
            number_column("n_documents", "Documents", count_text),
            number_column("systems_for_correlation", "Systems for power", count_text),
            number_column("systems_for_width", "Systems for width", count_text),
            number_column("limit", "Limit"),
            number_column("documents_for_correlation", "Documents needed", count_text),
            text_column("reason", "Undefined because"),
        ],
    )


def _disagreements_table(result: AgreementResult) -> PaperTable:
    return PaperTable(
        name="disagreements",
        title="Candidates that metric and people rank most differently",
        caption="Ranks are shares of the systems of the same document, 1 for the highest.",
        frame=result.disagreements,
        columns=[
            text_column("aspect", "Aspect"),
            text_column("metric", "Metric"),
            text_column("document_id", "Document"),
            text_column("system_id", "System"),
            number_column("score", "Score"),
            number_column("rating", "Rating"),
            number_column("score_rank", "Rank by metric"),
            number_column("rating_rank", "Rank by people"),
        ],
    )
