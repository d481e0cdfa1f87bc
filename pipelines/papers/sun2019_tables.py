"""Tables of Sun and Nenkova (2019), on evaluation by cosine of embeddings.

"The Feasibility of Embedding Based Automatic Evaluation for Single Document Summarization":
system-level Pearson and Spearman with p-values (Tables 1 and 3, appendix Table 2) and the average
rank of each metric (Table 4); the figures are in `sun2019_figures`. A metric against the document
is one whose name ends in `:source`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from pipelines.papers.published import (
    COUNTS,
    PublishedTable,
    baselines_last,
    correlation_row,
    is_against_source,
    is_rouge,
    is_rouge_f,
    laid_out,
    size_note,
    typed,
    undefined_notes,
)
from pipelines.papers.sun2019_figures import (
    COEFFICIENTS,
    LEVEL,
    figure1,
    figure2,
    figure3,
    source_cuts,
)
from pipelines.reports.numbers import number_text
from pipelines.tables.study import is_baseline

ALPHA = 0.05
"""A p-value below it is marked with a star."""
RANK_DECIMALS = 12
"""Correlations that agree to so many decimals share a rank."""

REFERENCE, SOURCE = "reference", "source"

_NAMES = {"pearson": "P", "spearman": "S"}
_TABLE1 = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "against": pl.String,
        "level": pl.String,
        "coefficient": pl.String,
        "value": pl.Float64,
        "p_value": pl.Float64,
    }
)
_TABLE4 = pl.Schema(
    {
        "against": pl.String,
        "coefficient": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
        "n_data_sets": pl.Int64,
        "reason": pl.String,
    }
)


def sun2019_tables(
    scores: Mapping[str, np.ndarray],
    ratings: Mapping[str, np.ndarray],
    *,
    systems: Sequence[str],
    signatures: Mapping[str, str],
    seed: int = 0,
) -> list[PublishedTable]:
    """Make Tables 1, 3 and 4, Table 2 of the appendix, and Figures 1 to 3.

    Parameters
    ----------
    scores : mapping of str to ndarray, shape (n_systems, n_documents)
        By metric; NaN where missing.
    ratings : mapping of str to ndarray, shape (n_systems, n_documents)
        By aspect; NaN where missing.
    systems : sequence of str
        Names of the rows.
    signatures : mapping of str to str
        By metric; Figure 2 reads from them how far a source was read.
    seed : int
        Of the draws of articles; every metric gets the same ones.

    Returns
    -------
    list of PublishedTable
        Figure 2 only where a metric was computed with several numbers of source tokens.
    """
    table1 = correlation_table(scores, ratings)
    frame = table1.frame
    tables = [
        table1,
        _by_aspect(frame, "spearman", "sun2019-table3"),
        _by_aspect(frame, "pearson", "sun2019-appendix-table2"),
        _table4(frame),
        figure1(scores, ratings, seed),
        figure3(scores, ratings, systems),
    ]
    cuts = source_cuts(signatures, scores)
    return [*tables, figure2(scores, ratings, cuts)] if cuts else tables


def correlation_table(
    scores: Mapping[str, np.ndarray], ratings: Mapping[str, np.ndarray]
) -> PublishedTable:
    """Make Table 1: system-level Pearson and Spearman, a star where p < 0.05.

    Parameters
    ----------
    scores, ratings
        See `sun2019_tables`.

    Returns
    -------
    PublishedTable
        Printed with a row per metric; where a metric was computed against the reference and
        against the document, both stand in one cell, "ref / doc", as in the paper.
    """
    rows = [
        correlation_row(scores[metric], rating, level=LEVEL, coefficient=coefficient)
        | {"aspect": aspect, "metric": metric, "against": _against(metric)}
        for metric in baselines_last(scores)
        for aspect, rating in ratings.items()
        for coefficient in COEFFICIENTS
    ]
    frame = typed(rows, _TABLE1, COUNTS)
    texts: dict[tuple[str, str], dict[str | None, str]] = {}
    for row in frame.iter_rows(named=True):
        key = row["metric"].removesuffix(":source"), f"{row['aspect']} {_NAMES[row['coefficient']]}"
        texts.setdefault(key, {})[row["against"]] = _starred(row["value"], row["p_value"])
    cells = []
    for (metric, column), by_side in texts.items():
        ordered = [by_side[side] for side in (REFERENCE, SOURCE, None) if side in by_side]
        only_source = " (doc)" if SOURCE in by_side and len(by_side) == 1 else ""
        cells.append(([metric + only_source], column, " / ".join(ordered)))
    return PublishedTable(
        name="sun2019-table1",
        title="System-level correlation with human ratings",
        frame=frame,
        printed=laid_out(["metric"], cells),
        notes=(
            "P: Pearson, S: Spearman; * for p < 0.05, two-sided, not corrected for many "
            "comparisons. Two numbers: against the reference / against the document.",
            size_note(frame),
            *undefined_notes(frame),
        ),
    )


def average_ranks(correlations: pl.DataFrame) -> pl.DataFrame:
    """Average each metric's rank over data sets (Table 4).

    Parameters
    ----------
    correlations : DataFrame
        Columns `data_set`, `against`, `coefficient`, `metric` and `value`, null where undefined.
        Metrics are ranked inside each of the first three, the highest first; equal values share
        the better rank, as in the paper.

    Returns
    -------
    DataFrame
        `against`, `coefficient`, `metric`, `value` (the average rank; lower is better; null for a
        metric that is undefined or absent on a data set), `n_data_sets` it has a rank on, and
        `reason`.
    """
    group = ["data_set", "against", "coefficient"]
    value = pl.col("value").round(RANK_DECIMALS)
    ranked = correlations.with_columns(
        rank=value.rank("min", descending=True).over(group),
        n_wanted=pl.col("data_set").n_unique().over("against", "coefficient"),
    )
    by_metric = ranked.group_by("against", "coefficient", "metric", maintain_order=True).agg(
        value=pl.col("rank").mean(),
        n_data_sets=pl.col("rank").count().cast(pl.Int64),
        n_wanted=pl.col("n_wanted").first(),
    )
    is_whole = pl.col("n_data_sets") == pl.col("n_wanted")
    reason = pl.format("undefined on {} of {}", pl.col("n_wanted") - pl.col("n_data_sets"),
                       pl.col("n_wanted"))  # fmt: skip
    return by_metric.with_columns(
        value=pl.when(is_whole).then("value"), reason=pl.when(~is_whole).then(reason)
    ).select(list(_TABLE4))


def _by_aspect(table1: pl.DataFrame, coefficient: str, name: str) -> PublishedTable:
    """Lay the numbers of one coefficient out with a column per aspect (Table 3)."""
    frame = table1.filter(pl.col("coefficient") == coefficient)
    rows = sorted(frame.iter_rows(named=True), key=lambda row: _BLOCKS.index(_block(row["metric"])))
    cells = [
        (
            (_block(row["metric"]), row["metric"]),
            row["aspect"],
            number_text(row["value"], minus="-"),
        )
        for row in rows
    ]
    return PublishedTable(
        name=name,
        title=f"System-level {coefficient.capitalize()} correlation by aspect",
        frame=frame,
        printed=laid_out(("against", "metric"), cells),
        n_labels=2,
        notes=(size_note(frame), *undefined_notes(frame)),
    )


_BLOCKS = ("ROUGE", REFERENCE, SOURCE, "baseline")


def _block(metric: str) -> str:
    if is_baseline(metric):
        return "baseline"
    if is_rouge(metric):
        return "ROUGE"
    return SOURCE if is_against_source(metric) else REFERENCE


def _table4(table1: pl.DataFrame) -> PublishedTable:
    """Rank metrics against the reference, and against the document, each next to the yardsticks.

    As in the paper, ROUGE-1 F and ROUGE-2 F are ranked in both; so are the trivial baselines.
    """
    metrics = table1["metric"].unique(maintain_order=True).to_list()
    yardsticks = [metric for metric in metrics if _is_yardstick(metric)]
    sides = []
    for side in (REFERENCE, SOURCE):
        judged = [metric for metric in metrics if _block(metric) == side]
        if judged:
            kept = table1.filter(pl.col("metric").is_in([*judged, *yardsticks]))
            sides.append(kept.with_columns(against=pl.lit(side)))
    ranks = average_ranks(pl.concat(sides or [table1.clear()]).rename({"aspect": "data_set"}))
    cells = [
        (
            [row["metric"].removesuffix(":source")],
            f"{_NAMES[row['coefficient']]}({'doc' if row['against'] == SOURCE else 'ref'})",
            number_text(row["value"]),
        )
        for row in ranks.iter_rows(named=True)
    ]
    return PublishedTable(
        name="sun2019-table4",
        title="Average rank of each metric; lower is better",
        frame=ranks,
        printed=laid_out(["metric"], cells),
        notes=(
            f"Averaged over the {table1['aspect'].n_unique()} aspects of this data set, where the "
            "paper averages over three data sets. Equal correlations share the better rank.",
            *undefined_notes(ranks),
        ),
    )


def _against(metric: str) -> str | None:
    if is_baseline(metric):
        return None
    return SOURCE if is_against_source(metric) else REFERENCE


def _is_yardstick(metric: str) -> bool:
    """Say whether a metric is ranked both among those against reference and against document."""
    return is_baseline(metric) or any(is_rouge_f(metric, kind) for kind in "12")


def _starred(value: float | None, p_value: float | None) -> str:
    star = "*" if p_value is not None and p_value < ALPHA else ""
    return number_text(value, minus="-") + star
