"""Sun and Nenkova (2019), on evaluation by cosine of embeddings: every table and figure.

"The Feasibility of Embedding Based Automatic Evaluation for Single Document Summarization":
system-level Pearson and Spearman with p-values (Tables 1 and 3, appendix Table 2), the average rank
of each metric (Table 4). Figure 1 is a correlation that grows sure of itself with the number of
articles, Figure 2 one that changes with how much of the document is read, Figure 3 each system's
rating and score. A metric against the document is one whose name ends in `:source`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from agreement import sample_size_curve, shared_cells, system_means
from pipelines.papers.bench import Bench, RatedData, Table, differences, needs_in
from pipelines.papers.printed import printed_table
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import (
    Cell,
    Numbers,
    Ours,
    Row,
    Scored,
    Shown,
    correlation_row,
    correlation_rows,
    is_against_source,
    is_rouge,
    size_notes,
    table_of,
    typed,
)
from pipelines.reports.charts import Axis, Chart, drawn, series
from pipelines.reports.numbers import number_text
from pipelines.tables.keyed import KEYS
from pipelines.tables.study import is_baseline

ALPHA = 0.05
"""A p-value below it is marked with a star."""
DISCARDED_2002 = ("17", "30")
"""Systems that the paper leaves out (footnote 1)."""
ORACLE = "fragments"
"""System of Newsroom that the paper leaves out (section 4)."""
COVERAGE_STEPS = 4
"""DUC 2001 grades coverage from 0 to 4; the paper's lie between 0 and 1."""
N_DRAWS = 50
"""Figure 1: random sets of articles for each number of them."""
N_SIZES = 10
"""Figure 1: numbers of articles, evenly spaced."""
N_BESIDE = 4
"""Figure 1: charts in a row."""
CUTS = (400, 750, None)
"""Tokens of the source in Figure 2; None for all."""
CUT_ENCODERS = ("max", "avg", "InferSent")
"""Those that Figure 2 is about."""
RANK_DECIMALS = 12
"""Correlations that agree to so many decimals share a rank."""

ENCODERS = needs_in("sun2019")
ROUGE = {f"rouge{n}_{part.lower()}": f"R{n}-{part}" for n in (1, 2) for part in "RPF"}
_SHORT = {"pearson": "P", "spearman": "S"}
_BLOCKS = ("ROUGE", "ref", "doc", "baseline")
_CUT = re.compile(r"\|first:(\d+|all)(?=\||$)")


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


def _metrics_against_reference(bench: Bench, encoders: Sequence[str]) -> dict[str, str]:
    names = _metrics(bench, encoders)
    return {metric: "" if is_against_source(metric) else name for metric, name in names.items()}


# Tables 1 and 3, Table 2 of the appendix: correlations


def block_of(metric: str) -> str:
    """Return in which block of Table 3 a metric stands; "baseline" for a trivial one."""
    if is_baseline(metric):
        return "baseline"
    if is_rouge(metric):
        return "ROUGE"
    return "doc" if is_against_source(metric) else "ref"


def _correlated(scored: Scored, coefficients: Sequence[str]) -> pl.DataFrame:
    metrics = sorted(scored.scores, key=lambda metric: _BLOCKS.index(block_of(metric)))
    rows = correlation_rows(scored, metrics, ["system"], coefficients)
    return typed([{**row, "against": block_of(row["metric"])} for row in rows])


def table1(scored: Scored) -> Shown:
    """Correlate metrics by both coefficients, with stars for the significant."""
    frame = _correlated(scored, ("pearson", "spearman"))
    cells: dict[Cell, Ours] = {}
    for row in frame.iter_rows(named=True):
        side = "doc" if is_against_source(row["metric"]) else "ref"
        column = f"{scored.head(row['aspect'])} {_SHORT[row['coefficient']]}({side})"
        is_significant = row["p_value"] is not None and row["p_value"] < ALPHA
        form = "{}*" if is_significant else "{}"
        cells[(scored.name(row["metric"]),), column] = Ours(row["value"], form)
    note = (
        "P: Pearson, S: Spearman, against the reference or the document; * for p < 0.05, "
        "two-sided, not corrected for multiple comparisons."
    )
    return table_of("System-level correlation with human ratings", frame, cells, notes=[note])


def by_aspect(scored: Scored, *, coefficient: str) -> Shown:
    """Correlate metrics by one coefficient, in the blocks of Table 3."""
    frame = _correlated(scored, [coefficient])
    cells: dict[Cell, Ours] = {
        ((row["against"], scored.name(row["metric"])), scored.head(row["aspect"])): Ours(
            row["value"]
        )
        for row in frame.iter_rows(named=True)
    }
    title = f"System-level {coefficient.capitalize()} correlation by aspect"
    return table_of(title, frame, cells, labels=("against", "metric"))


# Table 2: statistics


def _statistics(name: str, corpus: pl.DataFrame, ratings: pl.DataFrame) -> Row:
    step = COVERAGE_STEPS if name == "DUC2001" else 1
    by_system = ratings.group_by("system_id", maintain_order=True).agg(
        pl.col("coverage").mean() / step, pl.len()
    )
    coverage = by_system["coverage"].to_numpy()
    documents = corpus.unique("document_id", maintain_order=True)
    return {
        "# of systems": len(by_system),
        "Avg. reference length": _mean_length(corpus["references"].list.first()),
        "Avg. summary length": _mean_length(corpus["candidate"]),
        "Avg. document length": _mean_length(documents["source"].list.join(" ")),
        "Min coverage score": coverage.min(),
        "Max coverage range": coverage.max(),
        "Std sys coverage score": coverage.std(),
        "Avg annotated article per sys": by_system["len"].mean(),
    }


def _mean_length(texts: pl.Series) -> Any:  # noqa: ANN401  (a float, or None without texts)
    """Return the mean number of words, as they stand between spaces."""
    return texts.drop_nulls().str.count_matches(r"\S+").mean()


# Table 4: ranks


def average_ranks(
    correlations: pl.DataFrame, sides: Sequence[str], yardsticks: Sequence[str]
) -> pl.DataFrame:
    """Average each metric's rank over data sets (Table 4).

    Reads columns `data_set`, `against`, `coefficient`, `metric` and `value`, null where undefined.
    Metrics of one of the sides (`ref` and `doc`) are ranked with the yardsticks, the highest
    first; equal values share the better rank, as in the paper.
    Returns `against`, `coefficient`, `metric`, `value` (the average rank; lower is better; null for
    a metric that is undefined or absent on a data set), `n_data_sets` it has a rank on, and
    `reason`.
    """
    is_yardstick = pl.col("metric").is_in(yardsticks)
    both = [
        correlations.filter((pl.col("against") == side) | is_yardstick).with_columns(
            against=pl.lit(side)
        )
        for side in sides
    ]
    value = pl.col("value").round(RANK_DECIMALS)
    ranked = pl.concat(both).with_columns(
        rank=value.rank("min", descending=True).over("data_set", "against", "coefficient"),
        n_wanted=pl.col("data_set").n_unique().over("against", "coefficient"),
    )
    n_wanted, n_found = pl.col("n_wanted").first(), pl.col("rank").count().cast(pl.Int64)
    reason = pl.format("undefined on {} of {}", n_wanted - n_found, n_wanted)
    return ranked.group_by("against", "coefficient", "metric", maintain_order=True).agg(
        value=pl.when(n_found == n_wanted).then(pl.col("rank").mean()),
        n_data_sets=n_found,
        reason=pl.when(n_found != n_wanted).then(reason),
    )


def _rank_cells(ranks: pl.DataFrame) -> Numbers:
    return {
        (
            (row["metric"].removesuffix(":source"),),
            f"{_SHORT[row['coefficient']]}({row['against']})",
        ): Ours(row["value"])
        for row in ranks.iter_rows(named=True)
    }


def _table4(bench: Bench, table: Table) -> Reproduction:
    """Rank by our correlations where all three data sets are there, else by the printed ones."""
    frames = []
    for name, scored in bench.fill(table):
        aspect = next(iter(table.data[name].aspects))
        frame = (
            table1(scored)
            .frame.filter(aspect=aspect)
            .with_columns(
                data_set=pl.lit(name), metric=pl.col("metric").replace_strict(scored.names)
            )
        )
        frames.append(frame)
    if len(frames) < len(table.data):
        return Reproduction(
            printed=table.printed,
            ours=ranks_of(printed_correlations()),
            notes=[
                "Without all three data sets: ranks of the correlations that the paper prints in "
                "Table 1, Table 3 and Table 2 of the appendix. Equal ones share the better rank; "
                "three digits make more of them equal."
            ],
        )
    return Reproduction(
        printed=table.printed,
        ours=ranks_of(pl.concat(frames)),
        differs=differences("sun2019-table4-from-data"),
        notes=["Ranks of our correlations; equal ones share the better rank."],
    )


def ranks_of(correlations: pl.DataFrame) -> Numbers:
    """Average the rank of each row of Table 4; the columns are those of `average_ranks`."""
    wanted = [row[0] for row in printed_table("sun2019-table4").rows]
    kept = correlations.filter(pl.col("metric").is_in(wanted))
    return _rank_cells(average_ranks(kept, ("ref", "doc"), list(ROUGE.values())))


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


# Figures


def figure1(scored: Scored) -> Shown:
    """Correlate on random sets of articles of growing size: mean and standard deviation.

    Every metric and aspect gets the same draws.
    """
    n_documents = next(iter(scored.scores.values())).shape[1]
    sizes = np.unique(np.linspace(1, n_documents, N_SIZES + 1).round().astype(np.int64)[1:])
    curve = sample_size_curve(
        np.stack(list(scored.scores.values())),
        np.stack(list(scored.ratings.values())),
        sizes,
        level="system",
        coefficient="pearson",
        n_draws=N_DRAWS,
        rng=np.random.default_rng(scored.seed),
    )
    rows = itertools.product(scored.ratings, scored.scores, ["pearson"], sizes.tolist())
    names = ("aspect", "metric", "coefficient", "n_documents")
    frame = pl.DataFrame(list(rows), names, orient="row").with_columns(
        mean=pl.Series(curve.means.T.ravel()).fill_nan(None),
        deviation=pl.Series(curve.deviations.T.ravel()).fill_nan(None),
        n_draws=pl.lit(N_DRAWS, pl.Int64),
        n_undefined=pl.Series(curve.n_undefined.T.ravel(), dtype=pl.Int64),
    )

    return Shown(
        title="System-level Pearson correlation against the number of articles",
        frame=frame,
        notes=(
            f"Mean and standard deviation over {N_DRAWS} random sets of articles; the paper does "
            "not name its coefficient. Sets of nearly all articles overlap: the bars shrink "
            "to nothing at the right end whatever the error of the last point.",
        ),
        chart=_curves(frame.drop_nulls("mean")),
    )


def _curves(shown: pl.DataFrame) -> str | None:
    """Draw a chart for each metric, with a line for each aspect and its deviations."""
    if shown.is_empty():
        return None
    aspects = shown["aspect"].unique(maintain_order=True).to_list()
    low, high = shown["mean"] - shown["deviation"], shown["mean"] + shown["deviation"]
    x, y = (
        Axis.of_numbers(shown["n_documents"], "articles"),
        Axis.of_numbers([*low, *high], "Pearson"),
    )
    charts = []
    for (metric,), of_metric in shown.group_by("metric", maintain_order=True):
        chart = Chart(x, y, title=str(metric))
        for (aspect,), rows in of_metric.group_by("aspect", maintain_order=True):
            kind = series(aspects.index(aspect))
            points = rows.select("n_documents", "mean", "deviation").rows()
            chart.line([(n, mean) for n, mean, _ in points], kind, str(aspect))
            for n, mean, deviation in points:
                chart.line([(n, mean - deviation), (n, mean + deviation)], kind)
                said = f"{aspect}, {n} articles: {number_text(mean)} ± {number_text(deviation)}"
                chart.dot(n, mean, kind, said)
        charts.append(chart)
    rows_of_charts = [charts[k : k + N_BESIDE] for k in range(0, len(charts), N_BESIDE)]
    return drawn(rows_of_charts, "Correlation against articles", legend=aspects, is_file=True)


def figure2(scored: Scored) -> Shown | None:
    """Correlate metrics whose sources were cut to different lengths; None if none were."""
    # Of several runs a metric is called RUN/METRIC; the paper's data have names without the run.
    names = {m: scored.names.get(m.rpartition("/")[2], m) for m in scored.scores}
    rows = [
        {
            "aspect": aspect,
            "metric": names[metric],
            "cut_metric": names[cut],
            "source_tokens": n_tokens,
        }
        | correlation_row(scored.scores[cut], rating, "system", coefficient)
        for metric, by_length in _source_cuts(scored).items()
        for n_tokens, cut in by_length.items()
        for aspect, rating in scored.ratings.items()
        for coefficient in ("pearson", "spearman")
    ]
    if not rows:
        return None
    frame = typed(rows)

    return Shown(
        title="System-level correlation when only the beginning of the source is read",
        frame=frame,
        notes=("`source_tokens` is null where the whole source was read.", *size_notes(frame)),
        chart=_by_length(frame.drop_nulls("value")),
    )


def _by_length(shown: pl.DataFrame) -> str | None:
    """Draw a row of charts for each coefficient and a column for each aspect."""
    if shown.is_empty():
        return None
    lengths = [*shown["source_tokens"].drop_nulls().unique().sort(), None]
    metrics, aspects, coefficients = (
        shown[name].unique(maintain_order=True).to_list()
        for name in ("metric", "aspect", "coefficient")
    )
    x = Axis.of_names([str(n or "all") for n in lengths], "first tokens of the source")
    charts = []
    for coefficient in coefficients:
        y = Axis.of_numbers(shown.filter(coefficient=coefficient)["value"], coefficient)
        charts.append([Chart(x, y, title=aspect) for aspect in aspects])
        for chart, (k, metric) in itertools.product(charts[-1], enumerate(metrics)):
            rows = shown.filter(coefficient=coefficient, aspect=chart.title, metric=metric)
            points = [
                (lengths.index(n), v) for n, v in rows.select("source_tokens", "value").rows()
            ]
            chart.line(points, series(k), metric)
            for at, value in points:
                chart.dot(at, value, series(k), f"{metric}: {number_text(value)}")
    return drawn(charts, "Correlation by length of the source", legend=metrics, is_file=True)


def _source_cuts(scored: Scored) -> dict[str, dict[int | None, str]]:
    """Find metrics that were computed several times, with sources cut to different lengths.

    By the metric as it is called for the longest source: the metric for every number of source
    tokens, shortest first, None for the whole source.
    """
    families: dict[str, dict[int | None, str]] = {}
    for metric in scored.scores:
        signature = scored.signatures.get(metric, "")
        if is_against_source(metric) and (cut := _CUT.search(signature)):
            n_tokens = None if cut[1] == "all" else int(cut[1])
            families.setdefault(_CUT.sub("", signature), {})[n_tokens] = metric
    ordered = (
        dict(sorted(family.items(), key=lambda item: item[0] or float("inf")))
        for family in families.values()
        if len(family) > 1
    )
    return {list(family.values())[-1]: family for family in ordered}


def figure3(scored: Scored) -> Shown:
    """Pair each system's mean score with its mean rating, over the documents with both."""
    parts = []
    pairs = itertools.product(scored.ratings.items(), scored.scores.items())
    for (aspect, rating), (metric, matrix) in pairs:
        x, y = shared_cells(matrix, rating)
        part = pl.DataFrame({"aspect": aspect, "metric": metric, "system_id": scored.systems})
        means = {"score": system_means(x), "rating": system_means(y)}
        parts.append(part.with_columns(**means, n_documents=pl.Series((~np.isnan(x)).sum(1))))
    frame = pl.concat(parts).with_columns(pl.selectors.float().fill_nan(None))

    return Shown(
        title="Mean rating and mean score of each system",
        frame=frame,
        notes=("Means over the documents with both a score and a rating.",),
        chart=_systems(frame.drop_nulls(["score", "rating"])),
    )


def _systems(shown: pl.DataFrame) -> str | None:
    """Draw the systems, a row of charts for each metric and a column for each aspect."""
    charts: list[list[Chart]] = []
    for (metric,), of_metric in shown.group_by("metric", maintain_order=True):
        charts.append([])
        for (aspect,), rows in of_metric.group_by("aspect", maintain_order=True):
            x = Axis.of_numbers(rows["rating"], "mean rating")
            y = Axis.of_numbers(rows["score"], "mean score")
            chart = Chart(x, y, title=f"{aspect}, {metric}")
            for system, rating, score in rows.select("system_id", "rating", "score").rows():
                said = f"{system}: rating {number_text(rating)}, score {number_text(score, 4)}"
                chart.dot(rating, score, "mark", said, system)
            charts[-1].append(chart)
    return (
        drawn(charts, "Mean rating and mean score of each system", is_file=True) if charts else None
    )


_ON_DUC = Table(
    name="sun2019-table1",
    data=DUC,
    encoders=tuple(ENCODERS.values()),
    metrics=_metrics,
    shows=table1,
)
_ON_NEWSROOM = replace(
    _ON_DUC,
    name="sun2019-table3",
    data={"Newsroom": NEWSROOM},
    shows=partial(by_aspect, coefficient="spearman"),
)
_ON_DUC2001 = replace(_ON_DUC, data={"DUC2001": DUC["DUC2001"]})
TABLES = (
    _ON_DUC,
    Table(name="sun2019-table2", data=DUC, make=lambda b, table: b.counted(table, _statistics)),
    _ON_NEWSROOM,
    replace(
        _ON_NEWSROOM,
        name="sun2019-appendix-table2",
        shows=partial(by_aspect, coefficient="pearson"),
    ),
    replace(
        _ON_DUC,
        name="sun2019-table4",
        data=DUC | {"Newsroom": NEWSROOM},
        make=_table4,
        needs_nothing=True,
    ),
    replace(_ON_DUC, name="sun2019-figure1", metrics=_metrics_against_reference, shows=figure1),
    replace(
        _ON_DUC2001,
        name="sun2019-figure2",
        encoders=tuple(ENCODERS[name] for name in CUT_ENCODERS),
        metrics=lambda _bench, encoders: {f"cosine@{name}:source": name for name in encoders},
        cuts=CUTS,
        shows=figure2,
    ),
    replace(_ON_DUC2001, name="sun2019-figure3", metrics=_metrics_against_reference, shows=figure3),
)
