"""Tables 1 to 4, 6 and 7, Figure 3 and the footnotes of Clark, Celikyilmaz and Smith (2019)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from agreement.preferences import sign_test, win_share
from pipelines.papers.clark2019_tables import clark2019_tables
from pipelines.papers.comparison import Cell, Ours
from pipelines.papers.needs import DataNeed, SummarisersNeed, WeightsNeed
from pipelines.papers.printed import printed_table
from pipelines.papers.target import Made, Target, named
from pipelines.reports.numbers import p_value_text

if TYPE_CHECKING:
    from pipelines.papers.bench import Bench, Judged
    from pipelines.papers.published import PublishedTable
    from pipelines.reinforcement import ReinforceRecipe

SUMMARIES = DataNeed(name="chaganty2018", what="summaries of Chaganty et al. 2018 and ratings")
ESSAYS = DataNeed(name="asap-sas", what="ASAP short answers to question 3, with the sample answer")
PAIRS = DataNeed(name="cnn-dailymail", what="CNN/DailyMail pairs", is_rated=False)
SUMMARISERS = SummarisersNeed(
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
ENCODERS = (GLOVE, ELMO)
FASTTEXT = WeightsNeed(
    alias="fastText", spec="fasttext:{}/wiki-news-300d-1M.vec", what="fastText, 300 dimensions"
)

PRESET = "clark2019"
ROUGE_SCALE, MOVER_SCALE = 100, 1000
"""Of the scores in Tables 1, 3 and 4 (footnote 1)."""
FEWEST_JUDGES = 2
"""Section 4.1."""
ESSAY_SENTENCES = (5, 15)
"""Section 4.2."""

_MOVERS = {"WMS": "wms", "SMS": "sms", "S+WMS": "s+wms"}
_NAMES = {"ROUGE-L": "rougeL_f", **_MOVERS}
_GLOVE_DIFFERS = (
    "The paper took GloVe from spaCy's en_core_web_md, which keeps 20,000 vectors and gives every "
    "other word the nearest of these."
)
_CODE_DIFFERS = (
    "The text is handled as by the released code (`--preset clark2019`), the transport is exact, "
    "where that code computes in float32 and cuts bags of 375 entries."
)
_ROUGE_DIFFERS = "The paper does not say which ROUGE-L; here it is the F measure of rouge-score."


# Tables 1 and 3: texts that are printed in the paper


def _table1(bench: Bench) -> Made:
    printed = printed_table("clark2019-table1")
    candidates = printed.extra["candidates"]
    references = dict.fromkeys(candidates, printed.extra["reference"])
    return Made(ours=dict(_scores_of_texts(bench, candidates, references)))


def _table3(bench: Bench) -> Made:
    extra = printed_table("clark2019-table3").extra
    ours = dict(_scores_of_texts(bench, extra["candidates"], extra["references"]))
    return Made(ours=ours, notes=_quartiles(bench, ours))


def _quartiles(bench: Bench, ours: Mapping[Cell, Ours]) -> list[str]:
    """Say which scores are in the top or bottom quartile of all summaries; the paper's colours."""
    judged, encoders = _summaries(bench), bench.specs([GLOVE])
    if judged is None or not encoders:
        return ["Quartiles, which the paper sets in colour, need the data set of the summaries."]
    names = {
        title: f"{metric}@{GLOVE.alias}" if title in _MOVERS else metric
        for title, metric in _NAMES.items()
    }
    scores = bench.measure(
        judged,
        metrics=("rougeL", *(names[title] for title in _MOVERS)),
        encoders=encoders,
        aspects=("overall",),
        preset=PRESET,
    ).scores
    places = []
    for ((sample,), title), score in ours.items():
        values = scores[names[title]]
        known = values[np.isfinite(values)]
        if score.value is None or not known.size:
            continue
        low, high = (_scaled(_NAMES[title], float(q)) for q in np.quantile(known, (0.25, 0.75)))
        if low is not None and high is not None and not low < score.value < high:
            where = "bottom" if score.value <= low else "top"
            places.append(f"{sample} {title} {where}")
    n_texts = int(np.isfinite(next(iter(scores.values()))).sum())
    listed = ", ".join(places) or "none"
    return [f"In the top or bottom quartile of {n_texts:,} summaries: {listed}."]


def _scores_of_texts(
    bench: Bench, candidates: Mapping[str, str], references: Mapping[str, str]
) -> Iterator[tuple[Cell, Ours]]:
    from sms.scoring import score_texts

    encoders = bench.specs([GLOVE])
    table = score_texts(
        list(candidates.values()),
        [references[name] for name in candidates],
        metrics=("rougeL", *(_MOVERS.values() if encoders else ())),
        preset=PRESET,
        encoders=encoders or {"minilm": "minilm"},
    )
    for column, metric in _NAMES.items():
        if metric not in table.column_names:
            continue
        for name, value in zip(candidates, table[metric].to_pylist(), strict=True):
            yield ((name,), column), Ours(_scaled(metric, value))


def _scaled(metric: str, value: float | None) -> float | None:
    scale = ROUGE_SCALE if metric.startswith("rouge") else MOVER_SCALE
    return None if value is None else value * scale


# Table 2, the footnotes and Figure 3: correlations


def _table2(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    notes = []
    for name, tables in _correlations(bench).items():
        frame = tables[0].frame.filter(pl.col("level") == "global")
        for row in frame.iter_rows(named=True):
            metric, _, encoder = row["metric"].partition("@")
            shown = Ours(row["value"], before=row["stars"] or "")
            printed = next(title for title, own in _NAMES.items() if own == metric)
            for alias in [encoder] if encoder else [need.alias for need in ENCODERS]:
                ours[(printed,), f"{name} {alias}"] = shown
        first = frame.row(0, named=True)
        notes.append(f"{name}: {first['n_cells']:,} texts; the paper has {_N_TEXTS[name]:,.0f}.")
    return Made(ours=ours, notes=notes)


def _footnotes(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for name, tables in _correlations(bench).items():
        for table in tables[2:]:  # there is one where both encoders are
            for row in table.frame.iter_rows(named=True):
                metric = row["metric_a"].partition("@")[0]
                printed = next(title for title, own in _NAMES.items() if own == metric)
                p_value = row["p_greater"]
                ours[(printed,), name] = Ours(p_value and min(p_value, 1 - p_value))
    return Made(
        ours=ours,
        notes=["One-sided, in the direction that the texts at hand show; WMS is not printed."],
    )


def _figure3(bench: Bench) -> Made:
    return Made(
        figures=[named(tables[1], name.lower()) for name, tables in _correlations(bench).items()]
    )


def _correlations(bench: Bench) -> dict[str, list[PublishedTable]]:
    """Return Table 2, Figure 3 and, with both encoders, the footnotes, by data set."""
    encoders = bench.specs(ENCODERS)
    found = {}
    for name, judged, aspect, raters in (
        ("Summaries", _summaries(bench), "overall", ()),
        ("Essays", _essays(bench), "score", ("rater-1",)),
    ):
        if judged is None:
            continue
        measured = bench.measure(
            judged,
            metrics=("rougeL", *(f"{m}@{e}" for m in _MOVERS.values() for e in encoders)),
            encoders=encoders,
            aspects=(aspect,),
            raters=raters,
            preset=PRESET,
        )
        wanted = ("rougeL_f", *(f"{m}@{e}" for m in _MOVERS.values() for e in encoders))
        scores = {metric: measured.scores[metric] for metric in wanted}
        found[name] = clark2019_tables(scores, measured.ratings)
    return found


_N_TEXTS = {
    name: printed_table("clark2019-table7").column(name)[("# documents",)]
    for name in ("Summaries", "Essays")
}


def _summaries(bench: Bench) -> Judged | None:
    """Return the machines' summaries that two or more people judged."""

    def keep(corpus: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
        keys = ["document_id", "system_id"]
        judges = ratings.drop_nulls("overall").group_by(keys).agg(pl.len().alias("n"))
        judged = judges.filter(pl.col("n") >= FEWEST_JUDGES)
        machines = corpus.filter(~pl.col("system_id").str.starts_with("human"))
        return machines.join(judged.select(keys), on=keys, how="semi", maintain_order="left")

    return bench.judged(SUMMARIES, keep)


def _essays(bench: Bench) -> Judged | None:
    """Return the answers of 5 to 15 sentences."""

    def keep(corpus: pl.DataFrame, _ratings: pl.DataFrame) -> pl.DataFrame:
        n_sentences = pl.Series(sentence_counts(corpus["candidate"].to_list()))
        return corpus.filter(n_sentences.is_between(*ESSAY_SENTENCES))

    return bench.judged(ESSAYS, keep)


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


# Table 4: summarisers


def _table4(bench: Bench) -> Made:
    folder = _summarisers(bench)
    if folder is None:
        return Made()
    found = json.loads((folder / SUMMARISERS.holds).read_text("utf-8"))
    rows = {row[1]: row for row in printed_table("clark2019-table4").rows[_OWN_MODELS:]}
    columns = {metric: column for column, metric in _TABLE4_METRICS.items()}
    ours = {
        (rows[_REWARDS[cell["system"]]], columns[cell["metric"]]): Ours(
            _scaled(cell["metric"], cell["mean"])
        )
        for cell in found["cells"]
        if cell["system"] in _REWARDS and cell["metric"] in columns
    }
    systems = dict.fromkeys(cell["system"] for cell in found["cells"])
    others = ", ".join(system for system in systems if system not in _REWARDS)
    notes = [f"{found['pairs']['test']:,} test pairs. SMS: {found['signatures']['sms']}"]
    return Made(ours=ours, notes=[*notes, *([f"Not in the table: {others}."] if others else [])])


_OWN_MODELS = 3
"""Rows of Table 4 above the authors' own models."""
_TABLE4_METRICS = {"ROUGE-1": "rouge1_f", "ROUGE-2": "rouge2_f", **_NAMES}
_REWARDS = {"mle": "none"} | {f"mle+{metric}": name for name, metric in _NAMES.items()}
"""By system of `assay reinforce`, the reward in the table."""


def _summarisers(bench: Bench) -> Path | None:
    """Return the folder of trained summarisers; train them if that is asked for, else None."""
    if bench.find(SUMMARISERS).is_there or not bench.trains:
        return bench.folder_of(SUMMARISERS) if bench.has(SUMMARISERS) else None
    encoders = bench.specs([GLOVE, FASTTEXT])
    if not bench.has(PAIRS) or len(encoders) < 2:
        return None
    from pipelines.reinforcement import reinforce_summariser
    from pipelines.train import Machines

    pairs, _ = bench.imported(PAIRS)
    out = bench.folder_of(SUMMARISERS)
    reinforce_summariser(
        [pairs],
        out,
        recipe_of(encoders[GLOVE.alias], encoders[FASTTEXT.alias], bench.seed),
        machines=Machines(device=bench.device),
        resume=out.exists(),
        on_progress=bench.tell,
    )
    return out


def recipe_of(glove: str, fasttext: str, seed: int) -> ReinforceRecipe:
    """Return the recipe of section 5 and appendix A.3: the defaults of `assay reinforce`."""
    from pipelines.reinforcement import ReinforceRecipe
    from reinforce.decoding import BeamConfig
    from reinforce.learning import SummariserConfig
    from reinforce.stages import RewardConfig, StageConfig

    stage: dict[str, Any] = {
        "epochs": 25, "batch_size": 32, "patience": 3, "checkpoint_steps": 200, "log_steps": 20,
        "validation_documents": 1_000, "seed": seed,
    }  # fmt: skip
    return ReinforceRecipe(
        summariser=SummariserConfig(vectors=fasttext),
        likelihood=StageConfig(learning_rate=1e-3, **stage),
        mixed=StageConfig(learning_rate=1e-5, **stage),
        rewards=tuple(RewardConfig(metric=metric, encoder=glove) for metric in _NAMES.values()),
        beam=BeamConfig(),
        has_control=False,  # the paper has none
        seed=seed,
    )


# Table 6: counts


def _table6(_bench: Bench) -> Made:
    """Compute percentages and tests from the printed counts."""
    printed = printed_table("clark2019-table6")
    wins, losses = printed.column("other"), printed.column("ROUGE-L")
    ours: dict[Cell, Ours] = {}
    p_values = {}
    for row in printed.rows:
        first, second = int(losses[row]), int(wins[row])
        ours[row, "% ↑"] = Ours(100 * win_share(first, second).value, behind="%")
        p_values[row] = sign_test(first, second)
    worst = sorted(p_values, key=lambda row: -p_values[row])[:2]
    listed = "; ".join(
        f"{criterion}, {other}: {p_value_text(p_values[criterion, other], 4)}"
        for criterion, other in worst
    )
    return Made(
        ours=ours,
        notes=[
            "Percentages follow from the printed counts: wins among the judgements that prefer "
            "one. The paper cuts them, where here they are rounded.",
            f"Largest p-values of the two-sided sign test: {listed}. One-sided, all are below "
            ".001, as the paper says. Three judgements of one summary are not independent.",
        ],
    )


# Table 7: statistics


def _table7(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for name, judged in (("Summaries", _summaries(bench)), ("Essays", _essays(bench))):
        if judged is None:
            continue
        texts = pl.read_parquet(judged.corpus)["candidate"].to_list()
        tokens = [text.split() for text in texts]
        n_tokens = sum(map(len, tokens))
        statistics = {
            "# documents": len(texts),
            "# tokens": n_tokens,
            "# types": len({token for text in tokens for token in text}),
            "average length (tokens)": n_tokens / len(texts),
            "average length (sent.)": sum(sentence_counts(texts)) / len(texts),
        }
        ours |= {((row,), name): Ours(float(value)) for row, value in statistics.items()}
    return Made(ours=ours)


_CORRELATION_DIFFERS = (_GLOVE_DIFFERS, _CODE_DIFFERS, _ROUGE_DIFFERS)

TARGETS = (
    Target(
        name="clark2019-table1",
        make=_table1,
        needs=(GLOVE,),
        differs=_CORRELATION_DIFFERS,
        needs_nothing=True,
    ),
    Target(
        name="clark2019-table2",
        make=_table2,
        needs=(SUMMARIES, ESSAYS, *ENCODERS),
        differs=_CORRELATION_DIFFERS,
    ),
    Target(
        name="clark2019-footnotes",
        make=_footnotes,
        needs=(SUMMARIES, ESSAYS, *ENCODERS),
        differs=_CORRELATION_DIFFERS,
    ),
    Target(
        name="clark2019-table3",
        make=_table3,
        needs=(SUMMARIES, GLOVE),
        differs=_CORRELATION_DIFFERS,
        needs_nothing=True,
    ),
    Target(
        name="clark2019-figure3",
        make=_figure3,
        needs=(SUMMARIES, ESSAYS, *ENCODERS),
        differs=_CORRELATION_DIFFERS,
    ),
    Target(
        name="clark2019-table4",
        make=_table4,
        needs=(PAIRS, GLOVE, FASTTEXT, SUMMARISERS),
        differs=(
            _GLOVE_DIFFERS,
            "Documents are split 80/10/10 by hash, not as by Nallapati et al. 2017.",
            "The first three rows are other papers' models and are not made again.",
            "ROUGE is the F measure of rouge-score, ROUGE-L over the summary as one sentence.",
        ),
    ),
    Target(
        name="clark2019-table6",
        make=_table6,
        differs=("The judgements were not published: nothing but the printed counts is used.",),
        needs_nothing=True,
    ),
    Target(
        name="clark2019-table7",
        make=_table7,
        needs=(SUMMARIES, ESSAYS),
        differs=(
            "The paper does not say what a token is; here it is what stands between spaces, of the "
            "summaries and essays without their references.",
        ),
    ),
)
