"""Clark, Celikyilmaz and Smith (2019), "Sentence Mover's Similarity": every table and figure.

Table 2 is Spearman's correlation over all summaries, with stars where a metric improves on ROUGE-L
by the test of Williams (1959) with n - 3 degrees of freedom. The script they used is one-sided: it
asks whether the metric is better, not whether the two differ.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
from scipy.stats import binomtest

from agreement import DifferenceTest, compare_correlations
from pipelines.papers.bench import Bench, Need, RatedData, Table, needs_in
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import (
    Cell,
    Ours,
    Row,
    Scored,
    Shown,
    base_of,
    correlation_rows,
    is_rouge_f,
    laid_out,
    table_of,
    typed,
    variant_of,
)
from pipelines.reports.charts import Axis, Chart, drawn, series
from pipelines.reports.numbers import number_text, p_value_text
from pipelines.tables.keyed import KEYS, listed
from pipelines.tables.study import is_baseline

PRESET = "clark2019"
ROUGE_SCALE, MOVER_SCALE = 100, 1000
"""Of the scores in Tables 1, 3 and 4 (footnote 1)."""
FEWEST_JUDGES = 2
"""Section 4.1."""
ESSAY_SENTENCES = (5, 15)
"""Section 4.2."""
STARS = ((0.01, "**"), (0.05, "*"))
"""A one-sided p-value below the first number is printed with these stars."""
LEVELS = ("global", "system", "summary")
"""Of Table 2; the paper's is the first."""
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


# Table 2, Figure 3 and the footnotes: correlations


def _test(scored: Scored, metrics: tuple[str, str], aspect: str, level: str) -> DifferenceTest:
    """Test by Williams whether the first of two metrics is better, over the cells both have."""
    first, second = (scored.scores[name] for name in metrics)
    rating = scored.ratings[aspect]
    return compare_correlations(
        first, second, rating, level=level, coefficient="spearman", test="williams1959"
    )


def _against_rouge(scored: Scored, row: Row) -> dict[str, Any]:
    """Test whether a metric is better than ROUGE-L."""
    baseline = baseline_of(scored.scores)
    names = ("difference", "statistic", "degrees_of_freedom", "p_greater")
    if row["metric"] == baseline:
        return {"baseline": baseline, **dict.fromkeys((*names, "stars", "test_reason"))}
    test = _test(scored, (row["metric"], baseline), row["aspect"], row["level"])
    return {
        "baseline": baseline,
        **{name: getattr(test, name) for name in names},
        "stars": stars(test.p_greater),
        "test_reason": test.reason,
    }


def stars(p_value: float) -> str:
    """Return the stars of a p-value, "" for one that is not significant or NaN."""
    return next((text for limit, text in STARS if p_value < limit), "")


def baseline_of(metrics: Iterable[str]) -> str:
    """Find ROUGE-L among metrics; a `ValueError` where there is none."""
    for name in metrics:
        if is_rouge_f(name, "l"):
            return name
    raise ValueError(
        "the tables of Clark et al. 2019 compare with ROUGE-L, got no ROUGE-L among "
        f"{listed(list(metrics))}; score with `--metrics rougeL` too"
    )


def _table2(scored: Scored) -> Shown:
    baseline = baseline_of(scored.scores)
    metrics = sorted(
        scored.scores, key=lambda metric: (not is_rouge_f(metric, "l"), is_baseline(metric))
    )
    rows = correlation_rows(scored, metrics, LEVELS, ["spearman"])
    frame = typed([row | _against_rouge(scored, row) for row in rows])
    encoders = _encoders_of(metrics, scored.encoders)
    cells: dict[Cell, Ours] = {}
    for row in frame.iter_rows(named=True):
        metric = row["metric"]
        name = scored.names.get(metric, base_of(metric))
        for encoder in encoders[metric]:
            column = f"{scored.head(row['aspect'])} {encoder}".strip()
            cells[(row["level"], name), column] = Ours(row["value"], f"{row['stars'] or ''}{{}}")
    shown = table_of(
        "Spearman correlation of metrics with human ratings",
        frame,
        cells,
        labels=("level", "metric"),
        notes=(
            f"Stars: better than {baseline} by the one-sided test of Williams, * for p < 0.05 and "
            "** for p < 0.01, not corrected for multiple comparisons.",
            "Level: global is the paper's, all summaries at once. Its test treats the summaries of "
            "one system or document as independent, so its p-values are too small. Summary level "
            "is a mean over documents and has no such test.",
        ),
    )
    numbers: dict[Cell, Ours] = {
        ((name,), column): ours
        for ((level, name), column), ours in cells.items()
        if level == LEVELS[0]
    }
    return replace(shown, numbers=numbers)


def _encoders_of(metrics: Sequence[str], printed: Sequence[str]) -> dict[str, list[str]]:
    """Say under which encoders a metric stands: its own, or all if there is one of it."""
    with_several = {base_of(name) for name in metrics if variant_of(name)}
    encoder_of = {
        name: variant_of(name) or "default" for name in metrics if base_of(name) in with_several
    }
    every = list(printed) or list(dict.fromkeys(encoder_of.values())) or [""]
    return {name: [encoder_of[name]] if name in encoder_of else every for name in metrics}


def _figure3(scored: Scored) -> Shown:
    table2 = _table2(scored)
    names = table2.frame["metric"].unique(maintain_order=True).to_list()
    frame = table2.frame.filter(level="global").with_columns(
        base=pl.col("metric").replace_strict({name: base_of(name) for name in names}),
        variant=pl.col("metric").replace_strict({name: variant_of(name) for name in names}),
    )
    frame = frame.select(
        *("aspect", "metric", "base", "variant", "coefficient", "value", "^n_.*$", "reason")
    )

    return Shown(
        title="Spearman correlation of each metric with human ratings, by encoder",
        frame=frame,
        notes=("Over all summaries.", *table2.notes[2:]),
        chart=_bars(frame.drop_nulls("value")),
    )


def _bars(shown: pl.DataFrame) -> str | None:
    """Draw a bar for each metric, by aspect, in the colour of its encoder."""
    if shown.is_empty():
        return None
    bases = shown["base"].unique(maintain_order=True).to_list()
    metrics = sorted(
        shown["metric"].unique(maintain_order=True), key=lambda m: bases.index(base_of(m))
    )
    variants = shown["variant"].unique(maintain_order=True).to_list()
    x = Axis.of_numbers([0.0, *shown["value"]], "Spearman correlation")
    charts = []
    for (aspect,), rows in shown.group_by("aspect", maintain_order=True):
        y = Axis.of_names(metrics[::-1])
        chart = Chart(x, y, width=180, height=18 * len(metrics), title=str(aspect))
        for row in rows.iter_rows(named=True):
            at = len(metrics) - 1 - metrics.index(row["metric"])
            title = f"{row['metric']}: {number_text(row['value'])}"
            kind = series(variants.index(row["variant"]))
            chart.bar((0.0, at - 0.4), (row["value"], at + 0.4), kind, title)
        charts.append(chart)
    legend = [variant or "none" for variant in variants] if any(variants) else []
    return drawn([charts], "Spearman correlation of each metric", legend=legend, is_file=True)


def _encoders_compared(scored: Scored) -> Shown | None:
    """Test a metric with one encoder, or of one run, against the same with another."""
    rows, cells = [], []
    for pair, aspect in itertools.product(itertools.combinations(scored.scores, 2), scored.ratings):
        if base_of(pair[0]) == base_of(pair[1]):
            test = _test(scored, pair, aspect, "global")
            row = {"aspect": aspect, "metric_a": pair[0], "metric_b": pair[1], "n_cells": test.n}
            names = ("difference", "statistic", "p_greater", "p_value", "reason")
            rows.append(row | {name: getattr(test, name) for name in names})
            cells.append((pair, aspect, p_value_text(test.p_greater)))
    if not rows:
        return None
    return Shown(
        title="Does the encoder, or the run, make a difference? p-values of the test of Williams",
        frame=typed(rows),
        printed=laid_out(("metric_a", "metric_b"), cells),
        n_labels=2,
        notes=(
            "As in footnotes 12 and 13: Spearman over all summaries; one-sided, that the first is "
            "the better one. The two-sided p-value is in the CSV.",
        ),
    )


def _footnotes(bench: Bench, table: Table) -> Reproduction:
    ours: dict[Cell, Ours] = {}
    for name, scored in bench.fill(table):
        shown = _encoders_compared(scored)
        for row in shown.frame.iter_rows(named=True) if shown else ():
            p_value = row["p_greater"]
            cell = (scored.names[row["metric_a"]],), name
            ours[cell] = Ours(p_value and min(p_value, 1 - p_value))
    note = "One-sided, in the direction that the texts at hand show; WMS is not printed."
    return Reproduction(printed=table.printed, ours=ours, notes=[note])


# Tables 1 and 3: texts that are printed in the paper


def _of_printed_texts(bench: Bench, table: Table) -> Reproduction:
    """Score the candidates of a table against its reference, or each against its own."""
    from sms.scoring import score_texts

    extra, encoders = table.printed.extra, bench.specs([ENCODERS["GloVe"]])
    candidates: Mapping[str, str] = extra["candidates"]
    references = extra.get("references") or dict.fromkeys(candidates, extra.get("reference"))
    scores = score_texts(
        list(candidates.values()),
        [references[row] for row in candidates],
        metrics=("rougeL", *(MOVERS.values() if encoders else ())),
        preset=PRESET,
        encoders=encoders or {"minilm": "minilm"},
    )
    ours: dict[Cell, Ours] = {
        ((row,), column): Ours(_scaled(metric, value))
        for column, metric in NAMES.items()
        if metric in scores.column_names
        for row, value in zip(candidates, scores[metric].to_pylist(), strict=True)
    }
    return Reproduction(printed=table.printed, ours=ours)


def _scaled(metric: str, value: float | None) -> float | None:
    scale = ROUGE_SCALE if metric.startswith("rouge") else MOVER_SCALE
    return None if value is None else value * scale


# Table 4: summarisers


def _table4(bench: Bench, table: Table) -> Reproduction:
    if (folder := bench.trained(SUMMARISERS)) is None:
        return Reproduction(printed=table.printed)
    from pipelines.reinforcement import SCORES_FOLDER

    results = json.loads((folder / SUMMARISERS.holds).read_text("utf-8"))
    run = json.loads((folder / SCORES_FOLDER / "run.json").read_text("utf-8"))
    scores = pl.read_parquet(folder / SCORES_FOLDER / "scores" / "part-*.parquet")
    rows = {row[1]: row for row in table.printed.rows[_OWN_MODELS:]}
    columns = {"rouge1_f": "ROUGE-1", "rouge2_f": "ROUGE-2"}
    columns |= {metric: title for title, metric in NAMES.items()}
    rewards = {"mle": "none"} | {f"mle+{metric}": name for name, metric in NAMES.items()}
    means = {
        row["system_id"]: row
        for row in scores.group_by("system_id", maintain_order=True).mean().to_dicts()
    }
    ours = {
        (rows[rewards[system]], title): Ours(_scaled(metric, row[metric]))
        for system, row in means.items()
        if system in rewards
        for metric, title in columns.items()
    }
    others = ", ".join(sorted(system for system in means if system not in rewards))
    notes = [f"{results['pairs']['test']:,} test pairs. SMS: {run['signatures']['sms']}"]
    notes += [f"Not in the table: {others}."] if others else []
    return Reproduction(printed=table.printed, ours=ours, notes=notes)


_OWN_MODELS = 3
"""Rows of Table 4 above the authors' own models."""


# Tables 6 and 7: counts


def _table6(_bench: Bench, table: Table) -> Reproduction:
    """Compute percentages and tests from the printed counts."""
    printed = table.printed
    wins, losses = printed.column("other"), printed.column("ROUGE-L")
    ours: dict[Cell, Ours] = {}
    p_values = {}
    for row in printed.rows:
        n_wins, n_both = int(wins[row]), int(wins[row] + losses[row])
        ours[row, "% ↑"] = Ours(100 * (n_wins / n_both), "{}%")
        p_values[row] = float(binomtest(n_wins, n_both).pvalue)
    largest = "; ".join(
        f"{criterion}, {other}: {p_value_text(p_values[criterion, other], 4)}"
        for criterion, other in sorted(p_values, key=lambda row: -p_values[row])[:2]
    )
    return Reproduction(
        printed=printed,
        ours=ours,
        notes=[
            "Percentages follow from the printed counts: wins among the judgements that prefer "
            "one. The paper cuts them, where here they are rounded.",
            f"Largest p-values of the two-sided sign test: {largest}. One-sided, all are below "
            ".001, as the paper says. Three judgements of one summary are not independent.",
        ],
    )


def _counts(_name: str, corpus: pl.DataFrame, _ratings: pl.DataFrame) -> Row:
    texts = corpus["candidate"].to_list()
    tokens = [token for text in texts for token in text.split()]
    return {
        "# documents": len(texts),
        "# tokens": len(tokens),
        "# types": len({*tokens}),
        "average length (tokens)": len(tokens) / len(texts),
        "average length (sent.)": sum(sentence_counts(texts)) / len(texts),
    }


_CORRELATED = Table(
    name="clark2019-table2",
    data=DATA,
    encoders=tuple(ENCODERS.values()),
    metrics=_metrics,
    scoring={"preset": PRESET},
    shows=_table2,
)
_PRINTED_TEXTS = Table(
    name="clark2019-table1",
    encoders=(ENCODERS["GloVe"],),
    make=_of_printed_texts,
    needs_nothing=True,
)
TABLES = (
    _PRINTED_TEXTS,
    _CORRELATED,
    replace(_CORRELATED, name="clark2019-footnotes", shows=_encoders_compared, make=_footnotes),
    replace(_PRINTED_TEXTS, name="clark2019-table3"),
    replace(
        _CORRELATED,
        name="clark2019-figure3",
        metrics=lambda bench, encoders: {name: name for name in _metrics(bench, encoders)},
        shows=_figure3,
    ),
    Table(name="clark2019-table4", others=(SUMMARISERS,), make=_table4),
    Table(name="clark2019-table6", make=_table6, needs_nothing=True),
    Table(name="clark2019-table7", data=DATA, make=lambda b, table: b.counted(table, _counts)),
)
