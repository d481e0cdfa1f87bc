"""What the papers did, done on SummEval with encoders that anybody has.

Table 2 of Clark et al., Table 3 of Sun and Nenkova, Tables 5 to 8 of Bao et al. Nothing of it is in
the papers, so that nothing is set beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pipelines.papers import bao2020, clark2019, sun2019
from pipelines.papers.bench import Bench, RatedData, Table, needs_in
from pipelines.papers.reproduction import Reproduction
from pipelines.tables.study import is_baseline
from reffree.scorers.metric import PREFIX

NAME = "summeval"
MOVERS = ("wms", "sms", "s+wms")
MOVER_ENCODERS = ("glove", "minilm")
"""In the place of GloVe and ELMo."""
UNTRAINED = ("sms@minilm:source", "cosine@minilm:source")
"""Metrics that read the document and are not trained, next to the trained scorers."""
ROUGES = ("rouge1", "rouge2", "rouge4", "rougeL", "rougeW")
BASELINES = ("length", "density")
PARTS: dict[str, Callable[[str], bool]] = {
    "clark2019-table2": lambda m: (
        m == clark2019.ROUGE_L or (m.partition("@")[0] in MOVERS and ":" not in m)
    ),
    "sun2019-table3": lambda m: m.startswith(("rouge1", "rouge2", "cosine@")),
    **dict.fromkeys(
        [f"bao2020-table{i}" for i in (5, 6, 7, 8)],
        lambda m: m in UNTRAINED or m.startswith((PREFIX, "rouge1", "rouge2", "rouge4", "rougeW")),
    ),
}
"""The tables, and the metrics of each; all have the baselines too."""


def _metrics(bench: Bench, encoders: Sequence[str]) -> dict[str, str]:
    names = [*encoders, *(["all"] if len(encoders) > 1 else [])]
    movers = [f"{m}@{encoder}" for encoder in MOVER_ENCODERS if encoder in encoders for m in MOVERS]
    cosines = [f"cosine@{name}{side}" for side in ("", ":source") for name in names]
    untrained = UNTRAINED if "minilm" in encoders else ()
    metrics = (*ROUGES, *movers, *cosines, *untrained, *BASELINES)
    return {metric: metric for metric in metrics} | _learned(bench)


def _learned(bench: Bench) -> dict[str, str]:
    """Name every trained scorer in the folder shortly, by its metric."""
    if bench.scorers is None:
        return {}
    folders = sorted(path.parent for path in bench.scorers.glob("*/scorer.json"))
    if (bench.scorers / "scorer.json").is_file():
        folders = [bench.scorers]
    return {f"{PREFIX}{folder.absolute()}": f"{PREFIX}{folder.name}" for folder in folders}


def _make(bench: Bench, table: Table) -> Reproduction:
    learned = _learned(bench)
    tables = {t.name: t for t in (*clark2019.TABLES, *sun2019.TABLES, *bao2020.TABLES)}
    figures = []
    for _, scored in bench.fill(table):
        names = sorted(scored.scores, key=lambda metric: metric in learned)
        scores = {learned.get(name, name): scored.scores[name] for name in names}
        for name, is_of in PARTS.items():
            wanted = {m: scores[m] for m in scores if is_of(m) or is_baseline(m)}
            # Without the paper's names and encoders, tables show metrics under their own names.
            renamed = replace(scored, scores=wanted, names={}, encoders=())
            shows = tables[name].shows
            if shows and (shown := shows(renamed)):
                figures.append(replace(shown, name=f"{NAME}-{name}"))
    notes = ["First reference; the mean of the three experts."]
    if not learned:
        notes.append(
            "No trained scorer: those in the folder of --scorers become rows of the counterparts "
            "of Bao et al."
        )
    return Reproduction(printed=table.printed, figures=figures, notes=notes)


TABLE = Table(
    name=NAME,
    data={NAME: RatedData(name=NAME, aspects={}, raters=("expert-*",))},
    encoders=tuple(needs_in("encoders-of-summeval").values()),
    metrics=_metrics,
    scoring={"multi_reference": "first"},
    make=_make,
)
