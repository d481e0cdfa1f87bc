"""Clark, Celikyilmaz and Smith (2019), "Sentence Mover's Similarity": every table and figure.

Table 2 is Spearman's correlation over all summaries, with stars where a metric improves on ROUGE-L
by the test of Williams (1959) with n - 3 degrees of freedom. The script they used is one-sided: it
asks whether the metric is better, not whether the two differ.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from scipy.stats import binomtest

from agreement import compare_correlations
from pipelines.papers.bench import Bench, Made, Table
from pipelines.papers.needs import DataNeed, RatedData, TrainedNeed, WeightsNeed
from pipelines.papers.printed import printed_table
from pipelines.papers.table import (
    Cell,
    Correlations,
    Ours,
    Row,
    Scored,
    Shown,
    base_of,
    is_rouge_f,
    laid_out,
    typed,
    variant_of,
)
from pipelines.reports.numbers import p_value_text
from pipelines.tables.keyed import KEYS, listed
from pipelines.tables.study import is_baseline

if TYPE_CHECKING:
    import altair as alt

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
    """Count the sentences of texts.

    Examples
    --------
    >>> sentence_counts(["One. Two.", "One."])
    [2, 1]
    """
    from sms.text import Segmenter, TextRules

    distinct = list(dict.fromkeys(texts))
    segmented = Segmenter(TextRules()).segment(pa.array(distinct, pa.large_string()))
    counts = dict(zip(distinct, segmented.text_sentences.lengths.tolist(), strict=True))
    return [counts[text] for text in texts]


SUMMARIES = RatedData(
    need=DataNeed(name="chaganty2018", what="summaries of Chaganty et al. 2018 and ratings"),
    aspects={"overall": ""},
    keep=_of_machines,
)
ESSAYS = RatedData(
    need=DataNeed(name="asap-sas", what="ASAP short answers to question 3, with the sample answer"),
    aspects={"score": ""},
    raters=("rater-1",),
    keep=_of_some_length,
)
DATA = {"Summaries": SUMMARIES, "Essays": ESSAYS}
SUMMARISERS = TrainedNeed(
    name="clark2019-summarisers",
    what="assay reinforce --reward rougeL_f,wms,sms,s+wms",
    holds="results.json",
)
GLOVE = WeightsNeed(
    alias="GloVe",
    spec="glove:{}/glove.840B.300d.txt",
    what="GloVe of Common Crawl, 300 dimensions",
)
ELMO = WeightsNeed(alias="ELMo", spec="elmo:{}/elmo", what="ELMo of the 1B Word Benchmark")

_GLOVE_DIFFERS = (
    "The paper took GloVe from spaCy's en_core_web_md, which keeps 20,000 vectors and gives every "
    "other word the nearest of these."
)
_SCORES_DIFFER = (
    _GLOVE_DIFFERS,
    "The text is handled as by the released code (`--preset clark2019`), the transport is exact, "
    "where that code computes in float32 and cuts bags of 375 entries.",
    "The paper does not say which ROUGE-L; here it is the F measure of rouge-score.",
)


def _metrics(_bench: Bench, encoders: Sequence[str]) -> dict[str, str]:
    movers = {f"{m}@{encoder}": title for title, m in MOVERS.items() for encoder in encoders}
    return {ROUGE_L: "ROUGE-L"} | movers


# Table 2, Figure 3 and the footnotes: correlations


def _against_rouge(scored: Scored, row: Row) -> dict[str, Any]:
    """Test whether a metric is better than ROUGE-L, over the cells that both have."""
    baseline = baseline_of(scored.scores)
    if row["metric"] == baseline:
        names = ("difference", "statistic", "degrees_of_freedom", "p_greater", "stars")
        return {"baseline": baseline, **dict.fromkeys(names), "test_reason": None}
    test = compare_correlations(
        scored.scores[row["metric"]],
        scored.scores[baseline],
        scored.ratings[row["aspect"]],
        level=row["level"],
        coefficient=row["coefficient"],
        test="williams1959",
    )
    return {
        "baseline": baseline,
        "difference": test.difference,
        "statistic": test.statistic,
        "degrees_of_freedom": test.degrees_of_freedom,
        "p_greater": test.p_greater,
        "stars": stars(test.p_greater),
        "test_reason": test.reason,
    }


def stars(p_value: float) -> str:
    """Return the stars of a p-value, "" for one that is not significant or NaN.

    Examples
    --------
    >>> stars(0.0099), stars(0.01), stars(0.05)
    ('**', '*', '')
    """
    return next((text for limit, text in STARS if p_value < limit), "")


def baseline_of(metrics: Mapping[str, object]) -> str:
    """Find ROUGE-L among metrics; a `ValueError` where there is none."""
    for name in metrics:
        if is_rouge_f(name, "l"):
            return name
    raise ValueError(
        "the tables of Clark et al. 2019 compare with ROUGE-L, got no ROUGE-L among "
        f"{listed(list(metrics))}; score with `--metrics rougeL` too"
    )


_TABLE2 = Correlations(
    title="Spearman correlation of metrics with human ratings",
    levels=("global", "system", "summary"),
    coefficients=("spearman",),
    is_by_encoder=True,
    order=lambda metric: (not is_rouge_f(metric, "l"), is_baseline(metric)),
    more=_against_rouge,
    marks=lambda row: (row["stars"] or "", ""),
    notes=lambda scored: (
        f"Stars: better than {baseline_of(scored.scores)} by the one-sided test of Williams, * for "
        "p < 0.05 and ** for p < 0.01, not corrected for many comparisons.",
        "Level: global is the paper's, all summaries at once; its test takes the summaries of one "
        "system or document for independent and is too sure of itself. Summary level is a mean "
        "over documents and has no such test.",
    ),
)


def _figure3(scored: Scored) -> Shown | None:
    table2 = _TABLE2(scored)
    if table2 is None:
        return None
    names = table2.frame["metric"].unique(maintain_order=True).to_list()
    frame = table2.frame.filter(level="global").with_columns(
        base=pl.col("metric").replace_strict({name: base_of(name) for name in names}),
        variant=pl.col("metric").replace_strict({name: variant_of(name) for name in names}),
    )
    frame = frame.select(
        *("aspect", "metric", "base", "variant", "coefficient", "value", "^n_.*$", "reason")
    )

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        bases = list(dict.fromkeys(map(base_of, names)))
        side_by_side = sorted(names, key=lambda name: bases.index(base_of(name)))
        legend = alt.Legend(title="encoder") if any(map(variant_of, names)) else None
        shown = frame.drop_nulls("value").with_columns(pl.col("variant").replace("", "none"))
        chart = alt.Chart(shown).mark_bar().properties(width=180)
        return chart.encode(
            x=alt.X("value:Q", title="Spearman correlation"),
            y=alt.Y("metric:N", sort=side_by_side, title=None),
            color=alt.Color("variant:N", sort=None, legend=legend),
            column=alt.Column("aspect:N", sort=None, title=None),
        )

    return Shown(
        title="Spearman correlation of each metric with human ratings, by encoder",
        frame=frame,
        notes=("Over all summaries.", *table2.notes[2:]),
        make_chart=draw,
    )


def _encoders_compared(scored: Scored) -> Shown | None:
    """Test a metric with one encoder, or of one run, against the same with another."""
    rows, cells = [], []
    for first, second in itertools.combinations(scored.scores, 2):
        for aspect, rating in scored.ratings.items():
            if base_of(first) != base_of(second):
                continue
            test = compare_correlations(
                scored.scores[first],
                scored.scores[second],
                rating,
                level="global",
                coefficient="spearman",
                test="williams1959",
            )
            row = {"aspect": aspect, "metric_a": first, "metric_b": second, "n_cells": test.n}
            for name in ("difference", "statistic", "p_greater", "p_value", "reason"):
                row[name] = getattr(test, name)
            rows.append(row)
            cells.append(((first, second), aspect, p_value_text(test.p_greater)))
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


def _footnotes(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for name, scored in bench.fill(FOOTNOTES):
        shown = _encoders_compared(scored)
        for row in shown.frame.iter_rows(named=True) if shown else ():
            title = next(t for t, own in NAMES.items() if own == base_of(row["metric_a"]))
            p_value = row["p_greater"]
            ours[(title,), name] = Ours(p_value and min(p_value, 1 - p_value))
    note = "One-sided, in the direction that the texts at hand show; WMS is not printed."
    return Made(ours=ours, notes=[note])


# Tables 1 and 3: texts that are printed in the paper


def _of_printed_texts(name: str) -> Callable[[Bench], Made]:
    def make(bench: Bench) -> Made:
        extra = printed_table(name).extra
        candidates: Mapping[str, str] = extra["candidates"]
        references = [
            extra["reference"] if "reference" in extra else extra["references"][name]
            for name in candidates
        ]
        return Made(ours=dict(_scores_of_texts(bench, candidates, references)))

    return make


def _scores_of_texts(
    bench: Bench, candidates: Mapping[str, str], references: Sequence[str]
) -> Iterator[tuple[Cell, Ours]]:
    from sms.scoring import score_texts

    encoders = bench.specs([GLOVE])
    table = score_texts(
        list(candidates.values()),
        references,
        metrics=("rougeL", *(MOVERS.values() if encoders else ())),
        preset=PRESET,
        encoders=encoders or {"minilm": "minilm"},
    )
    for column, metric in NAMES.items():
        if metric in table.column_names:
            for name, value in zip(candidates, table[metric].to_pylist(), strict=True):
                yield ((name,), column), Ours(_scaled(metric, value))


def _scaled(metric: str, value: float | None) -> float | None:
    scale = ROUGE_SCALE if metric.startswith("rouge") else MOVER_SCALE
    return None if value is None else value * scale


# Table 4: summarisers


def _table4(bench: Bench) -> Made:
    folder = bench.trained(SUMMARISERS)
    if folder is None:
        return Made()
    from pipelines.reinforcement import SCORES_FOLDER

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


def _table6(_bench: Bench) -> Made:
    """Compute percentages and tests from the printed counts."""
    printed = printed_table("clark2019-table6")
    wins, losses = printed.column("other"), printed.column("ROUGE-L")
    ours: dict[Cell, Ours] = {}
    p_values = {}
    for row in printed.rows:
        n_wins, n_both = int(wins[row]), int(wins[row] + losses[row])
        ours[row, "% ↑"] = Ours(100 * (n_wins / n_both), behind="%")
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


def _table7(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for name, data in DATA.items():
        if (judged := bench.judged(data)) is None:
            continue
        texts = pl.read_parquet(judged.corpus)["candidate"].to_list()
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


_CORRELATED = Table(
    name="clark2019-table2",
    data=DATA,
    encoders=(GLOVE, ELMO),
    metrics=_metrics,
    scoring={"preset": PRESET},
    shows=_TABLE2,
    differs=_SCORES_DIFFER,
)
FOOTNOTES = replace(
    _CORRELATED, name="clark2019-footnotes", shows=_encoders_compared, make=_footnotes
)
_PRINTED_TEXTS = Table(
    name="clark2019-table1",
    encoders=(GLOVE,),
    make=_of_printed_texts("clark2019-table1"),
    differs=_SCORES_DIFFER,
    needs_nothing=True,
)
TABLES = (
    _PRINTED_TEXTS,
    _CORRELATED,
    FOOTNOTES,
    replace(_PRINTED_TEXTS, name="clark2019-table3", make=_of_printed_texts("clark2019-table3")),
    replace(
        _CORRELATED,
        name="clark2019-figure3",
        metrics=lambda bench, encoders: {name: name for name in _metrics(bench, encoders)},
        shows=_figure3,
    ),
    Table(
        name="clark2019-table4",
        others=(SUMMARISERS,),
        make=_table4,
        differs=(
            _GLOVE_DIFFERS,
            "Documents are split 80/10/10 by hash, not as by Nallapati et al. 2017.",
            "The first three rows are other papers' models and are not made again.",
            "ROUGE is the F measure of rouge-score, ROUGE-L over the summary as one sentence.",
        ),
    ),
    Table(
        name="clark2019-table6",
        make=_table6,
        differs=("The judgements were not published: nothing but the printed counts is used.",),
        needs_nothing=True,
    ),
    Table(
        name="clark2019-table7",
        data=DATA,
        make=_table7,
        differs=(
            "The paper does not say what a token is; here it is what stands between spaces, of the "
            "summaries and essays without their references.",
        ),
    ),
)
