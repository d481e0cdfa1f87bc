"""Sun and Nenkova (2019), on evaluation by cosine of embeddings: every table.

"The Feasibility of Embedding Based Automatic Evaluation for Single Document Summarization":
system-level Pearson and Spearman with p-values (Tables 1 and 3, appendix Table 2), the average rank
of each metric (Table 4). A metric against the document is one whose name ends in `:source`. The
three figures are in `sun2019_figures`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from pipelines.papers.bench import Bench, Made, Table
from pipelines.papers.needs import DataNeed, RatedData, WeightsNeed
from pipelines.papers.printed import printed_table
from pipelines.papers.sun2019_figures import figure1, figure2, figure3
from pipelines.papers.table import (
    Cell,
    Correlations,
    Numbers,
    Ours,
    Row,
    Scored,
    Shown,
    is_against_source,
    is_rouge,
    is_rouge_f,
    laid_out,
    undefined_notes,
)
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
CUTS = (400, 750, None)
"""Tokens of the source in Figure 2; None for all."""
CUT_ENCODERS = ("max", "avg", "InferSent")
"""Those that Figure 2 is about."""
RANK_DECIMALS = 12
"""Correlations that agree to so many decimals share a rank."""

ROUGE = {f"rouge{n}_{part.lower()}": f"R{n}-{part}" for n in (1, 2) for part in "RPF"}
_SHORT = {"pearson": "P", "spearman": "S"}
_BLOCKS = ("ROUGE", "ref", "doc", "baseline")


# What it is about


def _of_machines(corpus: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
    """Keep machines' summaries of single documents that people judged."""
    return corpus.filter(
        pl.col("document_id").str.contains(".P.", literal=True),
        ~pl.col("system_id").str.starts_with("human"),
    ).join(ratings.drop_nulls("coverage"), on=KEYS, how="semi", maintain_order="left")


DUC2001 = RatedData(
    need=DataNeed(name="duc2001", what="DUC 2001 summaries and coverage"),
    aspects={"coverage": ""},
    keep=_of_machines,
)
DUC2002 = RatedData(
    need=DataNeed(name="duc2002", what="DUC 2002 summaries and coverage"),
    aspects={"coverage": ""},
    keep=lambda corpus, ratings: _of_machines(corpus, ratings).filter(
        ~pl.col("system_id").is_in(DISCARDED_2002)
    ),
)
NEWSROOM = RatedData(
    need=DataNeed(
        name="newsroom-human", what="Newsroom's human evaluation, and test.jsonl for the references"
    ),
    aspects={"informativeness": "IN", "relevance": "RL"},
    keep=lambda corpus, _ratings: corpus.filter(pl.col("system_id") != ORACLE),
)
DUC = {"DUC2001": DUC2001, "DUC2002": DUC2002}
_USE2, _USE3, _ELMO, _NEWS = (
    "{}/universal-sentence-encoder-2",
    "{}/universal-sentence-encoder-large-3",
    "{}/elmo",
    "{}/GoogleNews-vectors-negative300.bin",
)
ENCODERS = tuple(
    WeightsNeed(alias=alias, spec=spec, what=what)
    for alias, spec, what in (
        ("enc-2", f"use:{_USE2},unit=text", "USE, deep averaging network"),
        ("enc-3", f"use:{_USE3},unit=text", "USE, Transformer"),
        ("max", f"word2vec:{_NEWS},pooling=max", "GoogleNews word2vec, maximum"),
        ("avg", f"word2vec:{_NEWS}", "GoogleNews word2vec, mean"),
        ("InferSent", "infersent:{}/infersent1.pkl,vectors={}/glove.840B.300d.txt", "InferSent"),
        ("ELMo-m", f"elmo:{_ELMO},layers=concat,pooling=max", "ELMo, maximum"),
        ("ELMo-a", f"elmo:{_ELMO},layers=concat", "ELMo, mean"),
    )
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


def _star(row: Row) -> tuple[str, str]:
    is_found = row["p_value"] is not None and row["p_value"] < ALPHA
    return "", "*" if is_found else ""


_TABLE1 = Correlations(
    title="System-level correlation with human ratings",
    levels=("system",),
    coefficients=("pearson", "spearman"),
    order=lambda metric: _BLOCKS.index(block_of(metric)),
    more=lambda _scored, row: {"against": block_of(row["metric"])},
    marks=_star,
    cell=lambda row, name, head: (
        (name,),
        f"{head} {_SHORT[row['coefficient']]}"
        f"({'doc' if is_against_source(row['metric']) else 'ref'})",
    ),
    notes=lambda _scored: (
        "P: Pearson, S: Spearman, against the reference or the document; * for p < 0.05, "
        "two-sided, not corrected for many comparisons.",
    ),
)


def _by_aspect(coefficient: str) -> Correlations:
    return replace(
        _TABLE1,
        title=f"System-level {coefficient.capitalize()} correlation by aspect",
        labels=("against", "metric"),
        coefficients=(coefficient,),
        marks=lambda _row: ("", ""),
        cell=lambda row, name, head: ((block_of(row["metric"]), name), head),
        notes=lambda _scored: (),
    )


# Table 2: statistics


def _table2(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for name, data in DUC.items():
        if (judged := bench.judged(data)) is None:
            continue
        corpus = pl.read_parquet(judged.corpus)
        step = COVERAGE_STEPS if data is DUC2001 else 1
        by_system = (
            pl.read_parquet(judged.ratings)
            .group_by("system_id", maintain_order=True)
            .agg(pl.col("coverage").mean() / step, pl.len())
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


def average_ranks(correlations: pl.DataFrame) -> pl.DataFrame:
    """Average each metric's rank over data sets (Table 4).

    Reads columns `data_set`, `against`, `coefficient`, `metric` and `value`, null where undefined.
    Metrics are ranked inside each of the first three, the highest first; equal values share the
    better rank, as in the paper. Returns `against`, `coefficient`, `metric`, `value` (the average
    rank; lower is better; null for a metric that is undefined or absent on a data set),
    `n_data_sets` it has a rank on, and `reason`.
    """
    value = pl.col("value").round(RANK_DECIMALS)
    ranked = correlations.with_columns(
        rank=value.rank("min", descending=True).over("data_set", "against", "coefficient"),
        n_wanted=pl.col("data_set").n_unique().over("against", "coefficient"),
    )
    by_metric = ranked.group_by("against", "coefficient", "metric", maintain_order=True).agg(
        value=pl.col("rank").mean(),
        n_data_sets=pl.col("rank").count().cast(pl.Int64),
        n_wanted=pl.col("n_wanted").first(),
    )
    is_whole = pl.col("n_data_sets") == pl.col("n_wanted")
    n_lacking = pl.col("n_wanted") - pl.col("n_data_sets")
    reason = pl.format("undefined on {} of {}", n_lacking, pl.col("n_wanted"))
    return by_metric.with_columns(
        value=pl.when(is_whole).then("value"), reason=pl.when(~is_whole).then(reason)
    ).drop("n_wanted")


def _ranks_of_study(scored: Scored) -> Shown | None:
    """Rank metrics against the reference, and against the document, each next to the yardsticks.

    As in the paper, ROUGE-1 F and ROUGE-2 F are ranked in both; so are the trivial baselines.
    """
    table1 = _TABLE1(scored)
    if table1 is None:
        return None
    sides = []
    for side in ("ref", "doc"):
        judged = [metric for metric in scored.scores if block_of(metric) == side]
        both = [m for m in scored.scores if is_baseline(m) or is_rouge_f(m, "[12]")]
        if judged:
            kept = table1.frame.filter(pl.col("metric").is_in([*judged, *both]))
            sides.append(kept.with_columns(against=pl.lit(side)))
    if not sides:
        return None
    ranks = average_ranks(pl.concat(sides).rename({"aspect": "data_set"}))
    cells = [
        (
            [row["metric"].removesuffix(":source")],
            f"{_SHORT[row['coefficient']]}({row['against']})",
            number_text(row["value"]),
        )
        for row in ranks.iter_rows(named=True)
    ]
    return Shown(
        title="Average rank of each metric; lower is better",
        frame=ranks,
        printed=laid_out(["metric"], cells),
        notes=(
            f"Averaged over the {len(scored.ratings)} aspects of this data set, where the paper "
            "averages over three data sets. Equal correlations share the better rank.",
            *undefined_notes(ranks),
        ),
    )


def _table4(bench: Bench) -> Made:
    """Rank by our correlations where all three data sets are there, else by the printed ones."""
    frames = []
    for name, scored in bench.fill(TABLE4):
        shown = _TABLE1(scored)
        aspect = next(iter(TABLE4.data[name].aspects))
        if shown is not None:
            frames.append(shown.frame.filter(aspect=aspect).with_columns(data_set=pl.lit(name)))
    if len(frames) == len(TABLE4.data):
        names = {**_metrics(bench, [need.alias for need in ENCODERS])}
        frame = pl.concat(frames).with_columns(
            row=pl.col("metric").replace_strict(names),
            side=pl.when(pl.col("metric").str.ends_with(":source"))
            .then(pl.lit("doc"))
            .otherwise(pl.lit("ref")),
        )
        return Made(
            ours=ranks_of(frame),
            differs=(*_DUC_DIFFERS, *_NEWSROOM_DIFFERS, *_ENCODERS_DIFFER),
            notes=["Ranks of our correlations; equal ones share the better rank."],
        )
    return Made(
        ours=ranks_of(printed_correlations()),
        notes=[
            "Without all three data sets: ranks of the correlations that the paper prints in Table "
            "1, Table 3 and Table 2 of the appendix. Equal ones share the better rank; three "
            "digits make more of them equal."
        ],
    )


def ranks_of(correlations: pl.DataFrame) -> Numbers:
    """Average each metric's rank over the data sets, in the layout of Table 4.

    Reads columns `data_set`, `row`, `side`, `coefficient` and `value`; ROUGE has the side `ref` and
    is ranked on both.
    """
    wanted = {row[0] for row in printed_table("sun2019-table4").rows}
    kept = correlations.filter(pl.col("row").is_in(wanted))
    is_yardstick = pl.col("row").is_in(list(ROUGE.values()))
    both = pl.concat([kept, kept.filter(is_yardstick).with_columns(side=pl.lit("doc"))])
    ranks = average_ranks(both.select("data_set", "coefficient", "value", metric="row",
                                      against="side"))  # fmt: skip
    return {
        ((row["metric"],), f"{_SHORT[row['coefficient']]}({row['against']})"): Ours(row["value"])
        for row in ranks.iter_rows(named=True)
    }


def printed_correlations() -> pl.DataFrame:
    """Return what Table 4 was made from, as it is printed: columns as in `ranks_of`."""
    columns = ("data_set", "row", "side", "coefficient", "value")
    return pl.DataFrame(list(_printed_rows()), columns, orient="row")


def _printed_rows() -> Iterator[tuple[str, str, str, str, float]]:
    table1 = printed_table("sun2019-table1")
    for column in table1.columns:
        name, _, measure = column.partition(" ")
        coefficient = next(long for long, short in _SHORT.items() if short == measure[0])
        for (row,), value in table1.column(column).items():
            yield name, row, measure[2:-1], coefficient, value
    for coefficient, table in (("spearman", "table3"), ("pearson", "appendix-table2")):
        for (block, row), value in printed_table(f"sun2019-{table}").column("IN").items():
            yield "Newsroom", row, "ref" if block == "ROUGE" else block, coefficient, value


_ENCODERS_DIFFER = (
    "InferSent reads sentence by sentence and averages; the paper does not say what it reads.",
    "ROUGE is that of rouge-score; the paper does not say which it took.",
)
_DUC_DIFFERS = (
    "DUC 2001 and 2002: where several people wrote a reference, the best counts. Where the paper's "
    "coverage of DUC 2001 comes from is not said; here it is the mean over model units.",
)
_NEWSROOM_DIFFERS = (
    "The paper collected ratings of its own (CN, IN, RL, SR, UC, VE), which are not published; "
    "here IN and RL are informativeness and relevance of Grusky et al. 2018.",
)
_ON_DUC = Table(
    name="sun2019-table1",
    data=DUC,
    encoders=ENCODERS,
    metrics=_metrics,
    shows=_TABLE1,
    differs=(*_DUC_DIFFERS, *_ENCODERS_DIFFER),
)
_ON_NEWSROOM = replace(
    _ON_DUC,
    name="sun2019-table3",
    data={"Newsroom": NEWSROOM},
    shows=_by_aspect("spearman"),
    differs=(*_NEWSROOM_DIFFERS, *_ENCODERS_DIFFER),
)
TABLE4 = replace(
    _ON_DUC,
    name="sun2019-table4",
    data=DUC | {"Newsroom": NEWSROOM},
    shows=_ranks_of_study,
    make=_table4,
    differs=(),
    needs_nothing=True,
)
TABLES = (
    _ON_DUC,
    Table(
        name="sun2019-table2",
        data=DUC,
        make=_table2,
        differs=(
            "Lengths are words as they stand between spaces; the paper's tokens are not described.",
            "Coverage of DUC 2001 is divided by 4. “Max coverage range” is taken for the largest "
            "mean coverage of a system.",
        ),
    ),
    _ON_NEWSROOM,
    replace(_ON_NEWSROOM, name="sun2019-appendix-table2", shows=_by_aspect("pearson")),
    TABLE4,
    replace(_ON_DUC, name="sun2019-figure1", metrics=_metrics_against_reference, shows=figure1),
    replace(
        _ON_DUC,
        name="sun2019-figure2",
        data={"DUC2001": DUC2001},
        encoders=tuple(need for need in ENCODERS if need.alias in CUT_ENCODERS),
        metrics=lambda _bench, encoders: {f"cosine@{name}:source": name for name in encoders},
        scoring={"source_tokens": CUTS},
        shows=figure2,
    ),
    replace(
        _ON_DUC,
        name="sun2019-figure3",
        data={"DUC2001": DUC2001},
        metrics=_metrics_against_reference,
        shows=figure3,
    ),
)
