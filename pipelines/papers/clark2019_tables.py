"""Table 2 and Figure 3 of Clark, Celikyilmaz and Smith (2019), "Sentence Mover's Similarity".

Spearman correlation over all summaries, and stars where a metric improves on ROUGE-L by the test
of Williams (1959) with n - 3 degrees of freedom. The script they used is one-sided: it asks
whether the metric is better, not whether the two differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from agreement import LEVELS, DifferenceTest, compare_correlations
from pipelines.papers.published import (
    COUNTS,
    PublishedTable,
    base_of,
    baselines_last,
    correlation_row,
    is_rouge_f,
    laid_out,
    size_note,
    typed,
    undefined_notes,
    variant_of,
)
from pipelines.reports.numbers import number_text, p_value_text
from pipelines.tables.keyed import listed

if TYPE_CHECKING:
    import altair as alt

COEFFICIENT = "spearman"
CHART_WIDTH = 180
"""Pixels of one panel."""
STARS = ((0.01, "**"), (0.05, "*"))
"""A one-sided p-value below the first number is printed with these stars."""

_PAPER_LEVEL = "global"
_SCHEMA = pl.Schema(
    {
        "level": pl.String,
        "aspect": pl.String,
        "metric": pl.String,
        "coefficient": pl.String,
        "value": pl.Float64,
        "baseline": pl.String,
        "difference": pl.Float64,
        "statistic": pl.Float64,
        "degrees_of_freedom": pl.Float64,
        "p_greater": pl.Float64,
        "stars": pl.String,
        "test_reason": pl.String,
    }
)
_VARIANT_SCHEMA = pl.Schema(
    {
        "aspect": pl.String,
        "metric_a": pl.String,
        "metric_b": pl.String,
        "difference": pl.Float64,
        "statistic": pl.Float64,
        "p_greater": pl.Float64,
        "p_value": pl.Float64,
        "n_cells": pl.Int64,
        "reason": pl.String,
    }
)


def clark2019_tables(
    scores: Mapping[str, np.ndarray],
    ratings: Mapping[str, np.ndarray],
    *,
    baseline: str | None = None,
) -> list[PublishedTable]:
    """Make Table 2, Figure 3 and the comparison of encoders of footnotes 12 and 13.

    Parameters
    ----------
    scores : mapping of str to ndarray, shape (n_systems, n_documents)
        By metric; NaN where missing.
    ratings : mapping of str to ndarray, shape (n_systems, n_documents)
        By aspect; NaN where missing.
    baseline : str, optional
        Metric that the others are tested against; without it, ROUGE-L F.

    Returns
    -------
    list of PublishedTable
        The comparison of encoders only where a metric comes with several, or from several runs.

    Raises
    ------
    ValueError
        If there is no such metric.
    """
    baseline = _baseline(scores, baseline)
    table2 = williams_table(scores, ratings, baseline=baseline)
    tables = [table2, _figure3(table2.frame)]
    if pairs := _variant_pairs(scores):
        tables.append(_variant_table(scores, ratings, pairs))
    return tables


def williams_table(
    scores: Mapping[str, np.ndarray], ratings: Mapping[str, np.ndarray], *, baseline: str
) -> PublishedTable:
    """Make Table 2: correlations, with stars where a metric improves on `baseline`.

    Parameters
    ----------
    scores, ratings, baseline
        See `clark2019_tables`.

    Returns
    -------
    PublishedTable
        At every level, the paper's (over all summaries) first. `value` is over the cells that a
        metric and the ratings have; `difference` and the test over those that the baseline has
        too. `p_greater` is one-sided and not corrected for many comparisons.
    """
    metrics = [baseline, *(name for name in baselines_last(scores) if name != baseline)]
    levels = sorted(LEVELS, key=lambda level: level != _PAPER_LEVEL)
    rows = [
        _row(scores, rating, metric, baseline, level) | {"aspect": aspect}
        for level, (aspect, rating), metric in itertools.product(levels, ratings.items(), metrics)
    ]
    frame = typed(rows, _SCHEMA, COUNTS)
    return PublishedTable(
        name="clark2019-table2",
        title="Spearman correlation of metrics with human ratings",
        frame=frame,
        printed=_printed(frame, metrics),
        n_labels=2,
        notes=(
            f"Stars: better than {baseline} by the one-sided test of Williams, * for p < 0.05 and "
            "** for p < 0.01, not corrected for many comparisons.",
            "Level: global is the paper's, all summaries at once; its test takes the summaries of "
            "one system or document for independent and is too sure of itself. Summary level is "
            "a mean over documents and has no such test.",
            size_note(frame),
            *undefined_notes(frame),
        ),
    )


def stars(p_value: float) -> str:
    """Return the stars of a p-value, "" for one that is not significant or NaN.

    Examples
    --------
    >>> stars(0.0099), stars(0.01), stars(0.05)
    ('**', '*', '')
    """
    return next((text for limit, text in STARS if p_value < limit), "")


def _row(
    scores: Mapping[str, np.ndarray],
    rating: np.ndarray,
    metric: str,
    baseline: str,
    level: str,
) -> dict[str, Any]:
    row = correlation_row(scores[metric], rating, level=level, coefficient=COEFFICIENT)
    row |= {"metric": metric, "baseline": baseline}
    if metric == baseline:
        return row
    test = _williams(scores[metric], scores[baseline], rating, level)
    return row | {
        "difference": test.difference,
        "statistic": test.statistic,
        "degrees_of_freedom": test.degrees_of_freedom,
        "p_greater": test.p_greater,
        "stars": stars(test.p_greater),
        "test_reason": test.reason,
    }


def _williams(a: np.ndarray, b: np.ndarray, rating: np.ndarray, level: str) -> DifferenceTest:
    return compare_correlations(
        a, b, rating, level=level, coefficient=COEFFICIENT, test="williams1959"
    )


def _printed(frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    columns = _variant_columns(metrics)
    cells = []
    for row in frame.iter_rows(named=True):
        text = (row["stars"] or "") + number_text(row["value"], minus="-")
        for variant in columns[row["metric"]]:
            column = f"{row['aspect']} ({variant})" if variant else row["aspect"]
            cells.append(((row["level"], base_of(row["metric"])), column, text))
    return laid_out(("level", "metric"), cells)


def _variant_columns(metrics: Sequence[str]) -> dict[str, list[str]]:
    """Say under which variants a metric is printed: its own, or all if there is one of it."""
    in_variants = {base_of(metric) for metric in metrics if variant_of(metric)}
    own = {
        metric: variant_of(metric) or "default"
        for metric in metrics
        if base_of(metric) in in_variants
    }
    variants = list(dict.fromkeys(own.values())) or [""]
    return {metric: [own[metric]] if metric in own else variants for metric in metrics}


def _variant_pairs(metrics: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (first, second)
        for first, second in itertools.combinations(metrics, 2)
        if base_of(first) == base_of(second)
    ]


def _variant_table(
    scores: Mapping[str, np.ndarray],
    ratings: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
) -> PublishedTable:
    rows, cells = [], []
    for (first, second), (aspect, rating) in itertools.product(pairs, ratings.items()):
        test = _williams(scores[first], scores[second], rating, _PAPER_LEVEL)
        rows.append(
            {
                "aspect": aspect,
                "metric_a": first,
                "metric_b": second,
                "difference": test.difference,
                "statistic": test.statistic,
                "p_greater": test.p_greater,
                "p_value": test.p_value,
                "n_cells": test.n,
                "reason": test.reason,
            }
        )
        cells.append(((first, second), aspect, p_value_text(test.p_greater)))
    return PublishedTable(
        name="clark2019-footnote12",
        title="Does the encoder, or the run, make a difference? p-values of the test of Williams",
        frame=typed(rows, _VARIANT_SCHEMA),
        printed=laid_out(("metric_a", "metric_b"), cells),
        n_labels=2,
        notes=(
            "As in footnotes 12 and 13: Spearman over all summaries; one-sided, that the first is "
            "the better one. The two-sided p-value is in the CSV.",
        ),
    )


def _figure3(table2: pl.DataFrame) -> PublishedTable:
    frame = table2.filter(pl.col("level") == _PAPER_LEVEL)
    metrics = frame["metric"].unique(maintain_order=True).to_list()
    frame = frame.select(
        "aspect",
        "metric",
        pl.col("metric").replace_strict({name: base_of(name) for name in metrics}).alias("base"),
        pl.col("metric")
        .replace_strict({name: variant_of(name) for name in metrics})
        .alias("variant"),
        "coefficient",
        "value",
        *COUNTS,
    )

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        bases = list(dict.fromkeys(map(base_of, metrics)))
        side_by_side = sorted(metrics, key=lambda metric: bases.index(base_of(metric)))
        shown = frame.drop_nulls("value").with_columns(pl.col("variant").replace("", "none"))
        legend = alt.Legend(title="encoder") if any(map(variant_of, metrics)) else None
        return (
            alt.Chart(shown)
            .mark_bar()
            .encode(
                x=alt.X("value:Q", title="Spearman correlation"),
                y=alt.Y("metric:N", sort=side_by_side, title=None),
                color=alt.Color("variant:N", sort=None, legend=legend),
                column=alt.Column("aspect:N", sort=None, title=None),
            )
            .properties(width=CHART_WIDTH)
        )

    return PublishedTable(
        name="clark2019-figure3",
        title="Spearman correlation of each metric with human ratings, by encoder",
        frame=frame,
        notes=("Over all summaries.", size_note(frame), *undefined_notes(frame)),
        make_chart=draw,
    )


def _baseline(metrics: Iterable[str], asked: str | None) -> str:
    found = [name for name in metrics if name == asked or (not asked and is_rouge_f(name, "l"))]
    if not found:
        raise ValueError(
            f"`baseline` must be among the scores for the tables of Clark et al. 2019, got "
            f"{asked or 'no ROUGE-L'} among {listed(list(metrics))}; "
            "score with `--metrics rougeL` too"
        )
    return found[0]
