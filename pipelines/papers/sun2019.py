"""Tables 1 to 4, Table 2 of the appendix and Figures 1 to 3 of Sun and Nenkova (2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pipelines.papers.comparison import Cell, Numbers, Ours
from pipelines.papers.needs import DataNeed, WeightsNeed
from pipelines.papers.printed import printed_table
from pipelines.papers.sun2019_figures import figure1, figure2, figure3, source_cuts
from pipelines.papers.sun2019_tables import ALPHA, average_ranks, correlation_table
from pipelines.papers.target import Made, Target, named

if TYPE_CHECKING:
    from pipelines.papers.bench import Bench, Judged, Measured

DUC2001 = DataNeed(name="duc2001", what="DUC 2001 summaries and coverage")
DUC2002 = DataNeed(name="duc2002", what="DUC 2002 summaries and coverage")
NEWSROOM = DataNeed(
    name="newsroom-human", what="Newsroom's human evaluation, and test.jsonl for the references"
)
_USE2, _USE3, _ELMO, _NEWS = (
    "{}/universal-sentence-encoder-2",
    "{}/universal-sentence-encoder-large-3",
    "{}/elmo",
    "{}/GoogleNews-vectors-negative300.bin",
)
ENCODERS = (
    WeightsNeed(alias="enc-2", spec=f"use:{_USE2},unit=text", what="USE, deep averaging network"),
    WeightsNeed(alias="enc-3", spec=f"use:{_USE3},unit=text", what="USE, Transformer"),
    WeightsNeed(
        alias="max", spec=f"word2vec:{_NEWS},pooling=max", what="GoogleNews word2vec, maximum"
    ),
    WeightsNeed(alias="avg", spec=f"word2vec:{_NEWS}", what="GoogleNews word2vec, mean"),
    WeightsNeed(
        alias="InferSent",
        spec="infersent:{}/infersent1.pkl,vectors={}/glove.840B.300d.txt",
        what="InferSent",
    ),
    WeightsNeed(
        alias="ELMo-m", spec=f"elmo:{_ELMO},layers=concat,pooling=max", what="ELMo, maximum"
    ),
    WeightsNeed(alias="ELMo-a", spec=f"elmo:{_ELMO},layers=concat", what="ELMo, mean"),
)
AVERAGE = "enc-avg"
"""The mean of the cosines under all encoders: only where all of them are there."""
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

_ROUGE = {f"R{n}-{part}": f"rouge{n}_{part.lower()}" for n in (1, 2) for part in "RPF"}
_COEFFICIENTS = {"pearson": "P", "spearman": "S"}
_SIDES = {"ref": "reference", "doc": "source"}
_NEWSROOM_TABLES = {"spearman": "sun2019-table3", "pearson": "sun2019-appendix-table2"}
_ASPECTS = {"IN": "informativeness", "RL": "relevance"}


# Correlations


def _metric(encoder: str, side: str) -> str:
    """Name the metric of a row of the paper, an encoder, against `ref` or `doc`."""
    name = "cosine@all" if encoder == AVERAGE else f"cosine@{encoder}"
    return f"{name}:source" if side == "doc" else name


def _measured(
    bench: Bench, judged: Judged, aspects: tuple[str, ...], sides: tuple[str, ...] = ("ref", "doc")
) -> tuple[Measured, dict[tuple[str, str], str]]:
    """Score a corpus; return matrices, and the metric of every row and side of the tables."""
    encoders = bench.specs(ENCODERS)
    rows = [*encoders, *([AVERAGE] if len(encoders) == len(ENCODERS) else [])]
    metrics = {(row, side): _metric(row, side) for row in rows for side in sides}
    measured = bench.measure(
        judged,
        metrics=("rouge1", "rouge2", *metrics.values()),
        encoders=encoders,
        aspects=aspects,
    )
    return measured, {(row, "ref"): metric for row, metric in _ROUGE.items()} | metrics


def _correlations(bench: Bench, judged: Judged, aspects: tuple[str, ...]) -> pl.DataFrame:
    """Correlate every metric; columns `row`, `side`, `aspect`, `coefficient`, `value`, `p_value`.

    ROUGE has the side `ref`.
    """
    measured, metrics = _measured(bench, judged, aspects)
    frame = correlation_table(
        {metric: measured.scores[metric] for metric in metrics.values()}, measured.ratings
    ).frame
    names = {metric: key for key, metric in metrics.items()}
    return frame.with_columns(
        row=pl.col("metric").replace_strict({m: row for m, (row, _) in names.items()}),
        side=pl.col("metric").replace_strict({m: side for m, (_, side) in names.items()}),
    )


def _ours(row: Mapping[str, object]) -> Ours:
    value, p_value = row["value"], row["p_value"]
    assert value is None or isinstance(value, float)  # noqa: S101
    is_found = isinstance(p_value, float) and p_value < ALPHA
    return Ours(value, behind="*" if is_found else "")


def _duc_of(need: DataNeed, discarded: tuple[str, ...] = ()) -> Callable[[Bench], Judged | None]:
    """Return what keeps machines' summaries of single documents that people judged."""

    def judged(bench: Bench) -> Judged | None:
        def keep(corpus: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
            keys = ["document_id", "system_id"]
            covered = ratings.drop_nulls("coverage").select(keys)
            return corpus.filter(
                pl.col("document_id").str.contains(".P.", literal=True),
                ~pl.col("system_id").str.starts_with("human"),
                ~pl.col("system_id").is_in(discarded),
            ).join(covered, on=keys, how="semi", maintain_order="left")

        return bench.judged(need, keep)

    return judged


_DUC = {"DUC2001": _duc_of(DUC2001), "DUC2002": _duc_of(DUC2002, DISCARDED_2002)}


def _newsroom(bench: Bench) -> Judged | None:
    """Return Newsroom's summaries without the oracle's."""

    def keep(corpus: pl.DataFrame, _ratings: pl.DataFrame) -> pl.DataFrame:
        return corpus.filter(pl.col("system_id") != ORACLE)

    return bench.judged(NEWSROOM, keep)


def _table1(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    notes = []
    for name, find in _DUC.items():
        if (judged := find(bench)) is None:
            continue
        frame = _correlations(bench, judged, ("coverage",))
        for row in frame.iter_rows(named=True):
            column = f"{name} {_COEFFICIENTS[row['coefficient']]}({row['side']})"
            ours[(row["row"],), column] = _ours(row)
        first = frame.row(0, named=True)
        notes.append(
            f"{name}: {first['n_systems']} systems, {first['n_documents']} articles, "
            f"{first['n_cells']:,} summaries."
        )
    return Made(ours=ours, notes=notes)


def _newsroom_table(coefficient: str) -> Callable[[Bench], Made]:
    """Make Table 3 (Spearman) or Table 2 of the appendix (Pearson)."""

    def make(bench: Bench) -> Made:
        if (judged := _newsroom(bench)) is None:
            return Made()
        ours: dict[Cell, Ours] = {}
        columns = {aspect: column for column, aspect in _ASPECTS.items()}
        frame = _correlations(bench, judged, tuple(columns)).filter(coefficient=coefficient)
        for row in frame.iter_rows(named=True):
            block = "ROUGE" if row["row"] in _ROUGE else row["side"]
            ours[(block, row["row"]), columns[row["aspect"]]] = Ours(row["value"])
        first = frame.row(0, named=True)
        sizes = f"{first['n_systems']} systems, {first['n_documents']} articles."
        return Made(ours=ours, notes=[sizes])

    return make


# Table 2: statistics


def _table2(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for name, find in _DUC.items():
        if (judged := find(bench)) is None:
            continue
        corpus = pl.read_parquet(judged.corpus)
        step = COVERAGE_STEPS if name == "DUC2001" else 1
        ratings = pl.read_parquet(judged.ratings)
        by_system = ratings.group_by("system_id").agg(pl.col("coverage").mean() / step, pl.len())
        coverage = by_system["coverage"].to_numpy()
        statistics = {
            "# of systems": len(by_system),
            "Avg. reference length": _mean_length(corpus["references"].list.first()),
            "Avg. summary length": _mean_length(corpus["candidate"]),
            "Avg. document length": _mean_length(
                corpus.unique("document_id", maintain_order=True)["source"].list.join(" ")
            ),
            "Min coverage score": coverage.min(),
            "Max coverage range": coverage.max(),
            "Std sys coverage score": coverage.std(),
            "Avg annotated article per sys": by_system["len"].mean(),
        }
        ours |= {((row,), name): Ours(_number(value)) for row, value in statistics.items()}
    return Made(ours=ours)


def _mean_length(texts: pl.Series) -> float | None:
    """Return the mean number of words, as they stand between spaces; None without texts."""
    return _number(texts.drop_nulls().str.count_matches(r"\S+").mean())


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


# Table 4: ranks


def _table4(bench: Bench) -> Made:
    """Rank by our correlations where all three data sets are there, else by the printed ones."""
    judged = {"DUC2001": _DUC["DUC2001"](bench), "DUC2002": _DUC["DUC2002"](bench)}
    judged["Newsroom"] = _newsroom(bench)
    frames = []
    if all(judged.values()):
        for name, own in judged.items():
            assert own is not None  # noqa: S101
            aspect = "informativeness" if name == "Newsroom" else "coverage"
            frame = _correlations(bench, own, (aspect,)).with_columns(data_set=pl.lit(name))
            frames.append(frame.select("data_set", "row", "side", "coefficient", "value"))
        return Made(
            ours=ranks_of(pl.concat(frames)),
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

    Parameters
    ----------
    correlations : DataFrame
        Columns `data_set`, `row`, `side`, `coefficient` and `value`; ROUGE has the side `ref`
        and is ranked on both.
    """
    wanted = {row[0] for row in printed_table("sun2019-table4").rows}
    kept = correlations.filter(pl.col("row").is_in(wanted))
    is_rouge = pl.col("row").is_in(list(_ROUGE))
    both = pl.concat([kept, kept.filter(is_rouge).with_columns(side=pl.lit("doc"))])
    ranks = average_ranks(both.rename({"row": "metric", "side": "against"}))
    return {
        ((row["metric"],), f"{_COEFFICIENTS[row['coefficient']]}({row['against']})"): Ours(
            row["value"]
        )
        for row in ranks.iter_rows(named=True)
    }


def printed_correlations() -> pl.DataFrame:
    """Return what Table 4 was made from, as it is printed: columns as in `ranks_of`."""
    return pl.DataFrame(list(_printed_rows()))


def _printed_rows() -> Iterator[dict[str, object]]:
    table1 = printed_table("sun2019-table1")
    for column in table1.columns:
        name, _, measure = column.partition(" ")
        coefficient = next(long for long, short in _COEFFICIENTS.items() if short == measure[0])
        for (row,), value in table1.column(column).items():
            yield _row(name, row, measure[2:-1], coefficient, value)
    for coefficient, table in _NEWSROOM_TABLES.items():
        for (block, row), value in printed_table(table).column("IN").items():
            yield _row("Newsroom", row, "ref" if block == "ROUGE" else block, coefficient, value)


def _row(data_set: str, row: str, side: str, coefficient: str, value: float) -> dict[str, object]:
    return {
        "data_set": data_set,
        "row": row,
        "side": side,
        "coefficient": coefficient,
        "value": value,
    }


# Figures


def _figure1(bench: Bench) -> Made:
    figures = []
    for name, find in _DUC.items():
        if judged := find(bench):
            scores, ratings = _for_figures(bench, judged)
            figures.append(named(figure1(scores, ratings, bench.seed), name.lower()))
    return Made(figures=figures)


def _figure2(bench: Bench) -> Made:
    encoders = bench.specs([need for need in ENCODERS if need.alias in CUT_ENCODERS])
    judged = _DUC["DUC2001"](bench)
    if judged is None or not encoders:
        return Made()
    measured = bench.measure(
        judged,
        metrics=[_metric(encoder, "doc") for encoder in encoders],
        encoders=encoders,
        aspects=("coverage",),
        source_tokens=CUTS,
    )
    cuts = source_cuts(measured.signatures, measured.scores)
    return Made(figures=[figure2(measured.scores, measured.ratings, cuts)])


def _figure3(bench: Bench) -> Made:
    if (judged := _DUC["DUC2001"](bench)) is None:
        return Made()
    scores, ratings = _for_figures(bench, judged)
    systems = sorted(pl.read_parquet(judged.ratings)["system_id"].unique())
    return Made(figures=[figure3(scores, ratings, systems)])


def _for_figures(
    bench: Bench, judged: Judged
) -> tuple[dict[str, np.ndarray], Mapping[str, np.ndarray]]:
    """Return scores against the reference, by the names of the paper, and coverage."""
    measured, metrics = _measured(bench, judged, ("coverage",))
    scores = {
        row: measured.scores[metric] for (row, side), metric in metrics.items() if side == "ref"
    }
    return scores, measured.ratings


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

TARGETS = (
    Target(
        name="sun2019-table1",
        make=_table1,
        needs=(DUC2001, DUC2002, *ENCODERS),
        differs=(*_DUC_DIFFERS, *_ENCODERS_DIFFER),
    ),
    Target(
        name="sun2019-table2",
        make=_table2,
        needs=(DUC2001, DUC2002),
        differs=(
            "Lengths are words as they stand between spaces; the paper's tokens are not described.",
            "Coverage of DUC 2001 is divided by 4. “Max coverage range” is taken for the largest "
            "mean coverage of a system.",
        ),
    ),
    Target(
        name="sun2019-table3",
        make=_newsroom_table("spearman"),
        needs=(NEWSROOM, *ENCODERS),
        differs=(*_NEWSROOM_DIFFERS, *_ENCODERS_DIFFER),
    ),
    Target(
        name="sun2019-appendix-table2",
        make=_newsroom_table("pearson"),
        needs=(NEWSROOM, *ENCODERS),
        differs=(*_NEWSROOM_DIFFERS, *_ENCODERS_DIFFER),
    ),
    Target(
        name="sun2019-table4",
        make=_table4,
        needs=(DUC2001, DUC2002, NEWSROOM, *ENCODERS),
        needs_nothing=True,
    ),
    Target(
        name="sun2019-figure1",
        make=_figure1,
        needs=(DUC2001, DUC2002, *ENCODERS),
        differs=(*_DUC_DIFFERS, *_ENCODERS_DIFFER),
    ),
    Target(
        name="sun2019-figure2",
        make=_figure2,
        needs=(DUC2001, *[need for need in ENCODERS if need.alias in CUT_ENCODERS]),
        differs=(*_DUC_DIFFERS, *_ENCODERS_DIFFER),
    ),
    Target(
        name="sun2019-figure3",
        make=_figure3,
        needs=(DUC2001, *ENCODERS),
        differs=(*_DUC_DIFFERS, *_ENCODERS_DIFFER),
    ),
)
