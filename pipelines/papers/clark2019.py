"""Clark, Celikyilmaz and Smith (2019), "Sentence Mover's Similarity": every table.

Table 2 is Spearman's correlation over all summaries, with stars where a metric improves on ROUGE-L
by the test of Williams (1959) with n - 3 degrees of freedom. The script they used is one-sided: it
asks whether the metric is better, not whether the two differ.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa
from scipy.stats import binomtest

from agreement import compare_correlations
from pipelines.papers.bench import Bench
from pipelines.papers.table import (
    Made,
    Need,
    Numbers,
    Ours,
    RatedData,
    Row,
    Scored,
    Table,
    correlated,
    needs_in,
    printed_table,
)
from pipelines.reports.numbers import p_value_text
from pipelines.tables.keyed import KEYS

PRESET = "clark2019"
ROUGE_SCALE, MOVER_SCALE = 100, 1000
"""Of the scores in Tables 1, 3 and 4 (footnote 1)."""
FEWEST_JUDGES = 2
"""Section 4.1."""
ESSAY_SENTENCES = (5, 15)
"""Section 4.2."""
STARS = ((0.01, "**"), (0.05, "*"))
"""A one-sided p-value below the first number is printed with these stars."""
ROUGE_L = "rougeL_f"
MOVERS = {"WMS": "wms", "SMS": "sms", "S+WMS": "s+wms"}
NAMES = {"ROUGE-L": ROUGE_L, **MOVERS}
ENCODERS = needs_in("clark2019")
SUMMARISERS = Need(
    kind="trained",
    name="clark2019-summarisers",
    what="assay reinforce --reward rougeL_f,wms,sms,s+wms",
    holds="results.json",
)


# What it is about


def _of_machines(corpus: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
    """Keep the machines' summaries that two or more people judged."""
    judges = ratings.drop_nulls("overall").group_by(KEYS).agg(pl.len().alias("n"))
    judged = judges.filter(pl.col("n") >= FEWEST_JUDGES)
    machines = corpus.filter(~pl.col("system_id").str.starts_with("human"))
    return machines.join(judged.select(KEYS), on=KEYS, how="semi", maintain_order="left")


def _of_some_length(corpus: pl.DataFrame, _ratings: pl.DataFrame) -> pl.DataFrame:
    """Keep the answers of 5 to 15 sentences."""
    n_sentences = pl.Series(sentence_counts(corpus["candidate"].to_list()))
    return corpus.filter(n_sentences.is_between(*ESSAY_SENTENCES))


def sentence_counts(texts: Sequence[str]) -> list[int]:
    """Count the sentences of texts."""
    from sms.text import Segmenter, TextRules

    segmented = Segmenter(TextRules()).segment(pa.array(texts, pa.large_string()))
    return list(segmented.text_sentences.lengths.tolist())


DATA = {
    "Summaries": RatedData(name="chaganty2018", aspects={"overall": ""}, keep=_of_machines),
    "Essays": RatedData(
        name="asap-sas", aspects={"score": ""}, raters=("rater-1",), keep=_of_some_length
    ),
}


def _metrics(_bench: Bench, encoders: Sequence[str]) -> dict[str, str]:
    movers = {f"{m}@{encoder}": title for title, m in MOVERS.items() for encoder in encoders}
    return {ROUGE_L: "ROUGE-L"} | movers


# Table 2 and the footnotes: correlations


def better_by_williams(scored: Scored, first: str, second: str, aspect: str) -> float:
    """Test by Williams whether the first of two metrics is better, over the cells both have.

    Returns the one-sided p-value, NaN where there is none.
    """
    x, y, rating = scored.scores[first], scored.scores[second], scored.ratings[aspect]
    of_all = {"level": "global", "coefficient": "spearman", "test": "williams1959"}
    return float(compare_correlations(x, y, rating, **of_all).p_greater)


def stars(p_value: float) -> str:
    """Return the stars of a p-value, "" for one that is not significant or NaN."""
    return next((text for limit, text in STARS if p_value < limit), "")


def _place(scored: Scored, row: Row) -> Numbers:
    """Print ROUGE-L, which has no encoder, in the columns of all."""
    metric, aspect = row["metric"], row["aspect"]
    encoder, form = metric.partition("@")[2], "{}"
    if metric != ROUGE_L:
        form = f"{stars(better_by_williams(scored, metric, ROUGE_L, aspect))}{{}}"
    return {
        ((scored.names[metric],), f"{scored.heads[aspect]} {column}"): Ours(row["value"], form)
        for column in ([encoder] if encoder else ENCODERS)
    }


def _footnotes(bench: Bench, table: Table) -> Made:
    """Test a metric with one encoder against the same with another."""
    ours: Numbers = {}
    for scored in bench.fill(table):
        for pair, aspect in itertools.product(
            itertools.combinations(scored.scores, 2), scored.ratings
        ):
            if len({name.partition("@")[0] for name in pair}) == 1:
                p_value = better_by_williams(scored, pair[0], pair[1], aspect)
                either = min(p_value, 1 - p_value)
                cell = (scored.names[pair[0]],), scored.data
                ours[cell] = Ours(None if math.isnan(p_value) else either)
    note = "One-sided, in the direction that the texts at hand show; WMS is not printed."
    return Made(ours=ours, notes=[note])


# Tables 1 and 3: texts that are printed in the paper


def _printed_texts(bench: Bench, table: Table) -> Made:
    """Score the candidates of a table against its reference, or each against its own."""
    from sms.scoring import score_texts

    extra, encoders = printed_table(table.name).extra, bench.specs(table.encoders)
    candidates: Mapping[str, str] = extra["candidates"]
    references = extra.get("references") or dict.fromkeys(candidates, extra.get("reference"))
    scores = score_texts(
        list(candidates.values()),
        [references[row] for row in candidates],
        metrics=("rougeL", *(MOVERS.values() if encoders else ())),
        preset=PRESET,
        encoders=encoders or {"minilm": "minilm"},
    )
    ours: Numbers = {
        ((row,), column): Ours(_scaled(metric, value))
        for column, metric in NAMES.items()
        if metric in scores.column_names
        for row, value in zip(candidates, scores[metric].to_pylist(), strict=True)
    }
    return Made(ours=ours)


def _scaled(metric: str, value: float | None) -> float | None:
    scale = ROUGE_SCALE if metric.startswith("rouge") else MOVER_SCALE
    return None if value is None else value * scale


# Table 4: summarisers


def _table4(bench: Bench, _table: Table) -> Made:
    if not bench.has(SUMMARISERS):
        return Made()
    from pipelines.reinforcement import SCORES_FOLDER

    folder = (bench.scorers or bench.work) / SUMMARISERS.name
    results = json.loads((folder / SUMMARISERS.holds).read_text("utf-8"))
    run = json.loads((folder / SCORES_FOLDER / "run.json").read_text("utf-8"))
    scores = pl.read_parquet(folder / SCORES_FOLDER / "scores" / "part-*.parquet")
    rows = {row[1]: row for row in printed_table("clark2019-table4").rows[_OWN_MODELS:]}
    columns = {"rouge1_f": "ROUGE-1", "rouge2_f": "ROUGE-2"}
    columns |= {metric: title for title, metric in NAMES.items()}
    rewards = {"mle": "none"} | {f"mle+{metric}": name for name, metric in NAMES.items()}
    means = {row["system_id"]: row for row in scores.group_by("system_id").mean().to_dicts()}
    ours = {
        (rows[rewards[system]], title): Ours(_scaled(metric, row[metric]))
        for system, row in means.items()
        if system in rewards
        for metric, title in columns.items()
    }
    others = ", ".join(sorted(system for system in means if system not in rewards))
    notes = [f"{results['pairs']['test']:,} test pairs. SMS: {run['signatures']['sms']}"]
    return Made(ours=ours, notes=[*notes, *([f"Not in the table: {others}."] if others else [])])


_OWN_MODELS = 3
"""Rows of Table 4 above the authors' own models."""


# Tables 6 and 7: counts


def _table6(_bench: Bench, _table: Table) -> Made:
    """Compute percentages and tests from the printed counts."""
    printed = printed_table("clark2019-table6")
    wins, losses = printed.column("other"), printed.column("ROUGE-L")
    ours: Numbers = {}
    p_values = {}
    for row in printed.rows:
        n_wins, n_both = int(wins[row]), int(wins[row] + losses[row])
        ours[row, "% ↑"] = Ours(100 * (n_wins / n_both), "{}%")
        p_values[row] = float(binomtest(n_wins, n_both).pvalue)
    largest = "; ".join(
        f"{criterion}, {other}: {p_value_text(p_values[criterion, other], 4)}"
        for criterion, other in sorted(p_values, key=lambda row: -p_values[row])[:2]
    )
    return Made(
        ours=ours,
        notes=[
            "Percentages follow from the printed counts: wins among the judgements that prefer "
            "one. The paper cuts them, where here they are rounded.",
            f"Largest p-values of the two-sided sign test: {largest}. One-sided, all are below "
            ".001, as the paper says. Three judgements of one summary are not independent.",
        ],
    )


def _table7(bench: Bench, _table: Table) -> Made:
    ours: Numbers = {}
    for name, data in DATA.items():
        if (judged := bench.judged(data)) is None:
            continue
        texts = pl.read_parquet(judged[0])["candidate"].to_list()
        tokens = [token for text in texts for token in text.split()]
        statistics = {
            "# documents": len(texts),
            "# tokens": len(tokens),
            "# types": len({*tokens}),
            "average length (tokens)": len(tokens) / len(texts),
            "average length (sent.)": sum(sentence_counts(texts)) / len(texts),
        }
        ours |= {((row,), name): Ours(float(value)) for row, value in statistics.items()}
    return Made(ours=ours)


_TABLE2 = Table(
    name="clark2019-table2",
    make=correlated("global", ("spearman",), _place),
    data=DATA,
    encoders=tuple(ENCODERS.values()),
    metrics=_metrics,
    scoring={"preset": PRESET},
)
_TABLE1 = Table(
    name="clark2019-table1",
    make=_printed_texts,
    encoders=(ENCODERS["GloVe"],),
    needs_nothing=True,
)
TABLES = (
    _TABLE1,
    _TABLE2,
    replace(_TABLE2, name="clark2019-footnotes", make=_footnotes),
    replace(_TABLE1, name="clark2019-table3"),
    Table(name="clark2019-table4", make=_table4, others=(SUMMARISERS,)),
    Table(name="clark2019-table6", make=_table6, needs_nothing=True),
    Table(name="clark2019-table7", make=_table7, data=DATA),
)
