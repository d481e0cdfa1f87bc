"""Tables 5 to 8 of Bao et al. (2020), "End-to-end Semantics-based Summary Quality Assessment".

Pearson and Spearman over all summaries: of the scorers, with and without the summaries that
people wrote (Tables 5 and 6), and next to ROUGE on the machine-made ones only (Tables 7 and 8).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from pipelines.papers.published import (
    COUNTS,
    HUMAN_SYSTEMS,
    PublishedTable,
    baselines_last,
    correlation_row,
    is_rouge,
    laid_out,
    size_note,
    typed,
    undefined_notes,
)
from pipelines.reports.numbers import number_text

ALL, MACHINES = "all", "machine-made"

_LEVEL = "global"
_SCHEMA = pl.Schema(
    {
        "summaries": pl.String,
        "aspect": pl.String,
        "metric": pl.String,
        "level": pl.String,
        "coefficient": pl.String,
        "value": pl.Float64,
    }
)
_TABLES = {"pearson": ("bao2020-table5", "bao2020-table7"),
           "spearman": ("bao2020-table6", "bao2020-table8")}  # fmt: skip


def bao2020_tables(
    scores: Mapping[str, np.ndarray],
    ratings: Mapping[str, np.ndarray],
    *,
    systems: Sequence[str],
    human_systems: Sequence[str] = HUMAN_SYSTEMS,
) -> list[PublishedTable]:
    """Make Tables 5 to 8.

    Parameters
    ----------
    scores : mapping of str to ndarray, shape (n_systems, n_documents)
        By metric; NaN where missing.
    ratings : mapping of str to ndarray, shape (n_systems, n_documents)
        By aspect; NaN where missing.
    systems : sequence of str
        Names of the rows.
    human_systems : sequence of str
        Patterns (`*` and `?`) of the systems whose summaries people wrote.

    Returns
    -------
    list of PublishedTable
        Tables 5 (Pearson) and 6 (Spearman) have every metric but ROUGE; Tables 7 and 8 have all,
        on machine-made summaries only.
    """
    is_human = np.array([_matches(system, human_systems) for system in systems], dtype=bool)
    rows_of = {ALL: np.full(len(systems), fill_value=True), MACHINES: ~is_human}
    note = _human_note(systems, is_human, human_systems)
    is_ours = pl.col("metric").is_in([metric for metric in scores if not is_rouge(metric)])
    on_machines = pl.col("summaries") == MACHINES
    tables = []
    for coefficient, (whole, machines_only) in _TABLES.items():
        rows = [
            correlation_row(
                scores[metric][kept], rating[kept], level=_LEVEL, coefficient=coefficient
            )
            | {"summaries": summaries, "aspect": aspect, "metric": metric}
            for summaries, kept in rows_of.items()
            for metric in baselines_last(scores)
            for aspect, rating in ratings.items()
        ]
        frame = typed(rows, _SCHEMA, COUNTS)
        without_rouge = frame.filter(is_ours)
        if not is_human.any():
            without_rouge = without_rouge.filter(~on_machines)
        tables += [
            _table(whole, f"{_title(coefficient)}: scorers", without_rouge, note),
            _table(
                machines_only,
                f"{_title(coefficient)}: scorers and ROUGE on machine-made summaries",
                frame.filter(on_machines),
                f"{note} The paper prints its best scorer only; here are all, so that none is "
                "chosen on the summaries it is judged on.",
            ),
        ]
    return sorted(tables, key=lambda table: table.name)


def _table(name: str, title: str, frame: pl.DataFrame, note: str) -> PublishedTable:
    both = frame["summaries"].n_unique() > 1
    cells = [
        (
            [_row_name(row["metric"], row["summaries"], both)],
            row["aspect"],
            number_text(row["value"], digits=4, minus="-"),
        )
        for row in frame.iter_rows(named=True)
    ]
    return PublishedTable(
        name=name,
        title=title,
        frame=frame,
        printed=laid_out(["metric"], cells),
        notes=(note, size_note(frame), *undefined_notes(frame)),
    )


def _title(coefficient: str) -> str:
    return f"{coefficient.capitalize()} correlation with human ratings over all summaries"


def _row_name(metric: str, summaries: str, is_both: bool) -> str:
    return f"{metric} on machines'" if is_both and summaries == MACHINES else metric


def _matches(system: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(system, pattern) for pattern in patterns)


def _human_note(systems: Sequence[str], is_human: np.ndarray, patterns: Sequence[str]) -> str:
    found = [system for system, human in zip(systems, is_human, strict=True) if human]
    if not found:
        return (
            f"No system matches {', '.join(patterns)}: all {len(systems)} count as machines, and "
            "all summaries as machine-made."
        )
    return f"Written by people, and left out of the machine-made: {', '.join(found)}."
