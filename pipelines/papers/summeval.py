"""What the papers did, done on SummEval with encoders that anybody has.

Table 2 of Clark et al., Table 3 of Sun and Nenkova, Tables 5 to 8 of Bao et al. Nothing of it is in
the papers, so that nothing is set beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipelines.learned_columns import PREFIX
from pipelines.papers.bao2020_tables import bao2020_tables
from pipelines.papers.clark2019_tables import clark2019_tables
from pipelines.papers.needs import DataNeed, WeightsNeed
from pipelines.papers.published import PublishedTable, is_rouge
from pipelines.papers.sun2019_tables import sun2019_tables
from pipelines.papers.target import Made, Target

if TYPE_CHECKING:
    from pipelines.papers.bench import Bench

NAME = "summeval"
SUMMEVAL = DataNeed(name="summeval", what="SummEval with its articles")
ENCODERS = (
    WeightsNeed(alias="minilm", spec="minilm", what="all-MiniLM-L6-v2, installed with assay"),
    WeightsNeed(alias="glove", spec="glove:{}/glove.50d.2987.txt", what="GloVe, 2,987 words"),
    WeightsNeed(
        alias="word2vec", spec="word2vec:{}/word2vec.10d.2747.bin", what="word2vec, 2,747 words"
    ),
    WeightsNeed(
        alias="fasttext", spec="fasttext:{}/fasttext.10d.1762.vec", what="fastText, 1,762 words"
    ),
    WeightsNeed(
        alias="glovemax",
        spec="glove:{}/glove.50d.2987.txt,pooling=max",
        what="GloVe, 2,987 words, maximum",
    ),
)
MOVERS = ("wms", "sms", "s+wms")
MOVER_ENCODERS = ("glove", "minilm")
"""In the place of GloVe and ELMo."""
UNTRAINED = ("sms@minilm:source", "cosine@minilm:source")
"""Beside the trained scorers: metrics that read the document and are not trained."""
BASELINES = ("length", "density")
EXPERTS = ("expert-*",)


def _make(bench: Bench) -> Made:
    judged = bench.judged(SUMMEVAL)
    if judged is None:
        return Made()
    encoders = bench.specs(ENCODERS)
    names = [*encoders, *(["all"] if len(encoders) > 1 else [])]
    movers = [f"{m}@{encoder}" for encoder in MOVER_ENCODERS if encoder in encoders for m in MOVERS]
    cosines = [f"cosine@{name}{side}" for side in ("", ":source") for name in names]
    untrained = [metric for metric in UNTRAINED if "minilm" in encoders]
    learned = _learned(bench)
    rouges = ("rouge1", "rouge2", "rouge4", "rougeL", "rougeW")
    measured = bench.measure(
        judged,
        metrics=list(
            dict.fromkeys((*rouges, *movers, *cosines, *untrained, *BASELINES, *learned.values()))
        ),
        encoders=encoders,
        raters=EXPERTS,
        multi_reference="first",
    )
    scores = {**measured.scores, **{row: measured.scores[name] for row, name in learned.items()}}
    systems = measured.study.systems

    def of(wanted: Iterable[str]) -> dict[str, np.ndarray]:
        return {name: scores[name] for name in wanted}

    rouge = [name for name in scores if is_rouge(name)]
    clark = clark2019_tables(of(["rougeL_f", *movers, *BASELINES]), measured.ratings)
    short = [name for name in rouge if name.startswith(("rouge1", "rouge2"))]
    sun = sun2019_tables(
        of([*short, *cosines, *BASELINES]),
        measured.ratings,
        systems=systems,
        signatures=measured.signatures,
        seed=bench.seed,
    )
    bao_rouge = [name for name in rouge if not name.startswith("rougeL")]
    bao = bao2020_tables(
        of([*learned, *untrained, *BASELINES, *bao_rouge]), measured.ratings, systems=systems
    )
    wanted = ("clark2019-table2", "sun2019-table3", *(f"bao2020-table{i}" for i in (5, 6, 7, 8)))
    tables = {table.name: table for table in (*clark, *sun, *bao)}
    return Made(
        figures=[_on_summeval(tables[name]) for name in wanted],
        notes=_notes(learned),
    )


def _learned(bench: Bench) -> dict[str, str]:
    """Return the metric of every trained scorer in the folder, by a short name."""
    if bench.scorers is None:
        return {}
    folders = sorted(path.parent for path in bench.scorers.glob("*/scorer.json"))
    if (bench.scorers / "scorer.json").is_file():
        folders = [bench.scorers]
    return {f"{PREFIX}{folder.name}": f"{PREFIX}{Path(folder).absolute()}" for folder in folders}


def _notes(learned: Collection[str]) -> list[str]:
    notes = ["First reference; the mean of the three experts."]
    if not learned:
        notes.append(
            "No trained scorer: those in the folder of --scorers become rows of the counterparts "
            "of Bao et al."
        )
    return notes


def _on_summeval(table: PublishedTable) -> PublishedTable:
    return replace(table, name=f"{NAME}-{table.name}", make_chart=None)


TARGET = Target(
    name=NAME,
    make=_make,
    needs=(SUMMEVAL, *ENCODERS),
    differs=(
        "SummEval's 16 systems are on 100 articles of CNN/DailyMail; data, systems and raters are "
        "not the papers'.",
        "The static vectors are small excerpts: 62 % (GloVe), 52 % (word2vec) and 40 % (fastText) "
        "of the words have one.",
    ),
)
