"""Sun and Nenkova (2019), on evaluation by cosine of embeddings: every table.

"The Feasibility of Embedding Based Automatic Evaluation for Single Document Summarization":
system-level Pearson and Spearman with p-values (Tables 1 and 3, appendix Table 2), the average rank
of each metric (Table 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from pipelines.papers.bench import Bench
from pipelines.papers.table import (
    Made,
    Numbers,
    Ours,
    RatedData,
    Row,
    Scored,
    Table,
    correlated,
    correlation_rows,
    differences,
    needs_in,
    printed_table,
)
from pipelines.tables.keyed import KEYS

ALPHA = 0.05
"""A p-value below it is marked with a star."""
DISCARDED_2002 = ("17", "30")
"""Systems that the paper leaves out (footnote 1)."""
ORACLE = "fragments"
"""System of Newsroom that the paper leaves out (section 4)."""
COVERAGE_STEPS = 4
"""DUC 2001 grades coverage from 0 to 4; the paper's lie between 0 and 1."""
RANK_DECIMALS = 12
"""Correlations that agree to so many decimals share a rank."""

ENCODERS = needs_in("sun2019")
ROUGE = {f"rouge{n}_{part.lower()}": f"R{n}-{part}" for n in (1, 2) for part in "RPF"}
_SHORT = {"pearson": "P", "spearman": "S"}
_BOTH = ("pearson", "spearman")


# What it is about


def _of_machines(corpus: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
    """Keep machines' summaries of single documents that people judged."""
    return corpus.filter(
        pl.col("document_id").str.contains(".P.", literal=True),
        ~pl.col("system_id").str.starts_with("human"),
    ).join(ratings.drop_nulls("coverage"), on=KEYS, how="semi", maintain_order="left")


DUC = {
    "DUC2001": RatedData(name="duc2001", aspects={"coverage": ""}, keep=_of_machines),
    "DUC2002": RatedData(
        name="duc2002",
        aspects={"coverage": ""},
        keep=lambda corpus, ratings: _of_machines(corpus, ratings).filter(
            ~pl.col("system_id").is_in(DISCARDED_2002)
        ),
    ),
}
NEWSROOM = RatedData(
    name="newsroom-human",
    aspects={"informativeness": "IN", "relevance": "RL"},
    keep=lambda corpus, _ratings: corpus.filter(pl.col("system_id") != ORACLE),
)


def _metrics(_bench: Bench, encoders: Sequence[str]) -> dict[str, str]:
    """Name the cosines, and ROUGE; the mean of the cosines only where all encoders are there."""
    names = {f"cosine@{encoder}": encoder for encoder in encoders}
    if len(names) == len(ENCODERS):
        names["cosine@all"] = "enc-avg"
    return ROUGE | names | {f"{metric}:source": name for metric, name in names.items()}


# Tables 1 and 3, Table 2 of the appendix: correlations


def _side(metric: str) -> str:
    """Say what a metric compares with."""
    return "doc" if metric.endswith(":source") else "ref"


def _block(metric: str) -> str:
    """Return in which block of Table 3 a metric stands."""
    return "ROUGE" if metric in ROUGE else _side(metric)


def _place(scored: Scored, row: Row) -> Numbers:
    head, measure = scored.heads[row["aspect"]], _SHORT[row["coefficient"]]
    is_significant = row["p_value"] is not None and row["p_value"] < ALPHA
    column = f"{head} {measure}({_side(row['metric'])})"
    name = scored.names[row["metric"]]
    return {((name,), column): Ours(row["value"], "{}*" if is_significant else "{}")}


def _place_by_aspect(scored: Scored, row: Row) -> Numbers:
    own = (_block(row["metric"]), scored.names[row["metric"]])
    return {(own, scored.heads[row["aspect"]]): Ours(row["value"])}


# Table 2: statistics


def _table2(bench: Bench, _table: Table) -> Made:
    ours: Numbers = {}
    for name, data in DUC.items():
        if (judged := bench.judged(data)) is None:
            continue
        corpus, ratings = map(pl.read_parquet, judged)
        step = COVERAGE_STEPS if name == "DUC2001" else 1
        by_system = ratings.group_by("system_id", maintain_order=True).agg(
            pl.col("coverage").mean() / step, pl.len()
        )
        coverage = by_system["coverage"].to_numpy()
        documents = corpus.unique("document_id", maintain_order=True)
        statistics: dict[str, Any] = {
            "# of systems": len(by_system),
            "Avg. reference length": _mean_length(corpus["references"].list.first()),
            "Avg. summary length": _mean_length(corpus["candidate"]),
            "Avg. document length": _mean_length(documents["source"].list.join(" ")),
            "Min coverage score": coverage.min(),
            "Max coverage range": coverage.max(),
            "Std sys coverage score": coverage.std(),
            "Avg annotated article per sys": by_system["len"].mean(),
        }
        ours |= {
            ((row,), name): Ours(None if value is None else float(value))
            for row, value in statistics.items()
        }
    return Made(ours=ours)


def _mean_length(texts: pl.Series) -> Any:  # noqa: ANN401  (a float, or None without texts)
    """Return the mean number of words, as they stand between spaces."""
    return texts.drop_nulls().str.count_matches(r"\S+").mean()


# Table 4: ranks


def average_ranks(correlations: pl.DataFrame, yardsticks: Sequence[str]) -> Numbers:
    """Average each metric's rank over data sets (Table 4).

    Reads columns `data_set`, `against`, `coefficient`, `metric` and `value`, null where undefined.
    Metrics of one of the sides (`ref` and `doc`) are ranked with the yardsticks, the highest
    first; equal values share the better rank, as in the paper. None for a metric that is undefined
    or absent on a data set.
    """
    is_yardstick = pl.col("metric").is_in(yardsticks)
    both = [
        correlations.filter((pl.col("against") == side) | is_yardstick).with_columns(
            against=pl.lit(side)
        )
        for side in ("ref", "doc")
    ]
    value = pl.col("value").round(RANK_DECIMALS)
    ranked = pl.concat(both).with_columns(
        rank=value.rank("min", descending=True).over("data_set", "against", "coefficient"),
        n_wanted=pl.col("data_set").n_unique().over("against", "coefficient"),
    )
    by_metric = ranked.group_by("against", "coefficient", "metric", maintain_order=True).agg(
        pl.when(pl.col("rank").count() == pl.col("n_wanted").first()).then(pl.col("rank").mean())
    )
    return {
        ((metric,), f"{_SHORT[coefficient]}({side})"): Ours(rank)
        for side, coefficient, metric, rank in by_metric.iter_rows()
    }


def _table4(bench: Bench, table: Table) -> Made:
    """Rank by our correlations where all three data sets are there, else by the printed ones."""
    rows = []
    data_sets = set()
    for scored in bench.fill(table):
        aspect = next(iter(table.data[scored.data].aspects))
        first = replace(scored, ratings={aspect: scored.ratings[aspect]})
        data_sets.add(scored.data)
        rows += [
            {
                "data_set": scored.data,
                "metric": scored.names[row["metric"]],
                "against": _block(row["metric"]),
                "coefficient": row["coefficient"],
                "value": row["value"],
            }
            for row in correlation_rows(first, "system", _BOTH)
        ]
    if len(data_sets) < len(table.data):
        return Made(
            ours=ranks_of(printed_correlations()),
            notes=[
                "Without all three data sets: ranks of the correlations that the paper prints in "
                "Table 1, Table 3 and Table 2 of the appendix. Equal ones share the better rank; "
                "three digits make more of them equal."
            ],
        )
    return Made(
        ours=ranks_of(pl.DataFrame(rows, schema_overrides={"value": pl.Float64})),
        differs=differences("sun2019-table4-from-data"),
        notes=["Ranks of our correlations; equal ones share the better rank."],
    )


def ranks_of(correlations: pl.DataFrame) -> Numbers:
    """Average the rank of each row of Table 4; the columns are those of `average_ranks`."""
    wanted = [row[0] for row in printed_table("sun2019-table4").rows]
    kept = correlations.filter(pl.col("metric").is_in(wanted))
    return average_ranks(kept, list(ROUGE.values()))


def printed_correlations() -> pl.DataFrame:
    """Return what Table 4 was made from, as it is printed."""
    rows: list[tuple[str, str, str, str, float]] = []
    table1 = printed_table("sun2019-table1")
    for column in table1.columns:
        name, _, measure = column.partition(" ")
        coefficient = next(long for long, short in _SHORT.items() if short == measure[0])
        for (row,), value in table1.column(column).items():
            rows.append((name, row, measure[2:-1], coefficient, value))
    for coefficient, table in (("spearman", "table3"), ("pearson", "appendix-table2")):
        for (block, row), value in printed_table(f"sun2019-{table}").column("IN").items():
            rows.append(("Newsroom", row, block, coefficient, value))
    columns = ("data_set", "metric", "against", "coefficient", "value")
    return pl.DataFrame(rows, columns, orient="row")


_TABLE1 = Table(
    name="sun2019-table1",
    make=correlated("system", _BOTH, _place),
    data=DUC,
    encoders=tuple(ENCODERS.values()),
    metrics=_metrics,
)
_TABLE3 = replace(
    _TABLE1,
    name="sun2019-table3",
    make=correlated("system", ("spearman",), _place_by_aspect),
    data={"Newsroom": NEWSROOM},
)
TABLES = (
    _TABLE1,
    Table(name="sun2019-table2", make=_table2, data=DUC),
    _TABLE3,
    replace(
        _TABLE3,
        name="sun2019-appendix-table2",
        make=correlated("system", ("pearson",), _place_by_aspect),
    ),
    replace(
        _TABLE1,
        name="sun2019-table4",
        make=_table4,
        data=DUC | {"Newsroom": NEWSROOM},
        needs_nothing=True,
    ),
)
