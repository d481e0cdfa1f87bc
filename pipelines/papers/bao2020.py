"""Bao et al. (2020), "End-to-end Semantics-based Summary Quality Assessment": every table.

Tables 1 to 4 judge scorers on made-up negatives. Tables 5 to 8 are Pearson and Spearman over all
summaries: of the scorers, with and without the summaries that people wrote (5 and 6), and next to
ROUGE on the machine-made ones only (7 and 8).
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipelines.learned_columns import PREFIX
from pipelines.papers.bench import Bench, Made, Table
from pipelines.papers.needs import DataNeed, RatedData, ScorerNeed, WeightsNeed
from pipelines.papers.table import Cell, Correlations, Ours, Row, Scored, is_rouge
from pipelines.runs.progress import Progress
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.settings.train import TrainSettings

ALL, MACHINES = "all", "machine-made"
CROSS_PAIR = ("cross-pair",)
MIX = ("cross-pair", "add", "delete", "replace")
HEADS = {"FC-only": "fc", "CNN": "cnn", "LSTM": "lstm"}

_DATA = {"CNN/DailyMail": "cnn-dailymail", "Newsroom": "newsroom", "Big-Patent": "bigpatent"}
_SIZES = {"30k": 30_000, "100k": 100_000, "300k": 300_000}
_NEGATIVES = {
    "crosspair": CROSS_PAIR,
    "add": ("add",),
    "delete": ("delete",),
    "replace": ("replace",),
    "mix": MIX,
}
_BEST = "mix"
_ROUGE = {
    f"rouge{kind.removesuffix('-1.2')}_{part.lower()}": f"ROUGE-{kind} {part}"
    for kind in ("1", "2", "4", "W-1.2")
    for part in "PRF"
}

PAIRS = {
    name: DataNeed(name=name, what=f"{title} pairs", is_rated=False)
    for name, title in (
        ("cnn-dailymail", "CNN/DailyMail"),
        ("newsroom", "Newsroom"),
        ("bigpatent", "BigPatent"),
    )
}
TAC2010 = RatedData(
    need=DataNeed(name="tac2010", what="TAC 2010 guided summaries and manual scores"),
    aspects={
        "pyramid_jackknife": "Modified score",
        "linguistic_quality": "Linguistic quality",
        "overall": "Overall score",
    },
    # of the initial document sets (A)
    keep=lambda corpus, _ratings: corpus.filter(pl.col("document_id").str.ends_with("-A")),
)
COLUMNS: Mapping[str, tuple[str, WeightsNeed]] = {
    column: (scorer, WeightsNeed(alias=alias, spec=spec, what=what))
    for column, scorer, alias, spec, what in (
        ("GloVe", "word", "GloVe-100", "glove:{}/glove.6B.100d.txt", "GloVe, 100 dimensions"),
        (
            *("USE-DAN", "sentence", "USE-DAN", "use:{}/universal-sentence-encoder-2"),
            "USE, averaging network",
        ),
        (
            *("USE-Trans", "sentence", "USE-Trans"),
            *("use:{}/universal-sentence-encoder-large-3", "USE, Transformer"),
        ),
        (
            *("InferSent", "sentence", "InferSent"),
            *("infersent:{}/infersent1.pkl,vectors={}/glove.840B.300d.txt", "InferSent"),
        ),
        ("BERT", "bert", "BERT", "hf:{}/bert-base-uncased", "BERT base"),
    )
}
"""By column of Tables 1 and 2: the kind of scorer, and what it begins with."""


# Scorers


def _need(data: str, kinds: tuple[str, ...], column: str, network: str = "FC-only") -> ScorerNeed:
    scorer, encoder = COLUMNS[column]
    return ScorerNeed(data=data, kinds=kinds, scorer=scorer, head=HEADS[network], encoder=encoder)


def scorer_folder(bench: Bench, need: ScorerNeed) -> Path | None:
    """Return the folder of a trained scorer; train it if that is asked for, else None."""

    def train(out: Path) -> bool:
        pairs = bench.pairs(PAIRS[need.data], need.n_pairs)
        if not bench.specs([need.encoder]) or pairs is None:
            return False
        from pipelines import verbs

        bench.tell(Progress(stage=f"training {need.name}"))
        asked = {"out": out, "device": bench.device, "on_progress": bench.tell}
        verbs.train(pairs, settings_of(need, bench.spec_of(need.encoder), bench.seed, **asked))
        return True

    return bench.trained(need, train)


def settings_of(
    need: ScorerNeed,
    encoder: str,
    seed: int,
    **asked: Any,  # noqa: ANN401  (of `TrainSettings`)
) -> TrainSettings:
    """Ask for a scorer of the paper: `assay train --preset bao2020`."""
    asked |= {"scorer": need.scorer, "head": need.head, "negatives": need.kinds}
    return TrainSettings(preset="bao2020", encoder=encoder, seed=seed, **asked)


# Tables 1 and 2: held-out figures


def _grid(rows: Mapping[str, tuple[str, tuple[str, ...]]]) -> Iterator[tuple[Any, ScorerNeed]]:
    """Give the cells of Table 1 or 2 with their scorers; BERT comes with one network only."""
    for block, (data, kinds) in rows.items():
        for network in HEADS:
            for column in COLUMNS:
                if column != "BERT" or network == "FC-only":
                    yield ((block, network), column), _need(data, kinds, column, network)


def _held_out_table(cells: Mapping[Any, ScorerNeed], figure: str) -> Callable[[Bench], Made]:
    def make(bench: Bench) -> Made:
        ours: dict[Cell, Ours] = {}
        for cell, need in cells.items():
            if folder := scorer_folder(bench, need):
                settings = json.loads((folder / need.holds).read_text("utf-8"))
                value = settings["held_out"].get(need.kinds[0], {}).get(figure)
                ours[cell] = Ours(None if value is None else 100 * float(value))
        return Made(ours=ours)

    return make


# Tables 3 and 4: other domains


def _accuracies(cells: Mapping[Cell, ScorerNeed]) -> Callable[[Bench], Made]:
    """Judge each scorer on the held-out pairs of CNN/DailyMail, of the size of its cell."""

    def make(bench: Bench) -> Made:
        ours: dict[Cell, Ours] = {}
        for (row, column), need in cells.items():
            folder = scorer_folder(bench, need)
            pairs = bench.pairs(PAIRS["cnn-dailymail"], _SIZES.get(column, 30_000))
            if folder is None or pairs is None:
                continue
            from pipelines.evaluate import evaluate_scorer

            settings = EvaluateSettings(
                negatives=CROSS_PAIR, device=bench.device, on_progress=bench.tell
            )
            (result,) = evaluate_scorer([str(folder)], [str(pairs)], settings)
            accuracy = result.kinds[CROSS_PAIR[0]].accuracy
            ours[row, column] = Ours(None if accuracy is None else 100 * accuracy)
        home = ours.get((("Accuracy (%)",), "CNN/DailyMail"))
        for (_, column), away in list(ours.items()):
            if home and away is not home and home.value is not None and away.value is not None:
                ours[("change",), column] = Ours(away.value - home.value, behind="%")
        return Made(ours=ours)

    return make


# Tables 5 to 8: people


def _scorers(*rows: str) -> Callable[[Bench, Sequence[str]], dict[str, str]]:
    """Name the scorers of some rows that are there, and ROUGE."""

    def names(bench: Bench, _encoders: Sequence[str]) -> dict[str, str]:
        folders = {row: scorer_folder(bench, _BY_NEGATIVES[row]) for row in rows}
        scorers = {f"{PREFIX}{folder}": row for row, folder in folders.items() if folder}
        return _ROUGE | (scorers if len(rows) > 1 else dict.fromkeys(scorers, "Our best"))

    return names


def _is_machine(scored: Scored) -> np.ndarray:
    return np.array(
        [
            not any(fnmatch.fnmatchcase(system, pattern) for pattern in scored.human_systems)
            for system in scored.systems
        ],
        dtype=bool,
    )


def _all_and_machines(scored: Scored) -> dict[str, np.ndarray]:
    is_machine = _is_machine(scored)
    everything = {ALL: np.full_like(is_machine, fill_value=True)}
    return everything if is_machine.all() else everything | {MACHINES: is_machine}


def _on_machines(row: Row, name: str, head: str) -> Cell:
    return (f"{name} on machines'" if row["summaries"] == MACHINES else name,), head


def _note(scored: Scored) -> str:
    people = [s for s, kept in zip(scored.systems, _is_machine(scored), strict=True) if not kept]
    if people:
        return f"Written by people, and left out of the machine-made: {', '.join(people)}."
    return (
        f"No system matches {', '.join(scored.human_systems)}: all {len(scored.systems)} count as "
        "machines, and all summaries as machine-made."
    )


def _of_scorers(coefficient: str) -> Correlations:
    title = f"{coefficient.capitalize()} correlation with human ratings over all summaries"
    return Correlations(
        title=f"{title}: scorers",
        levels=("global",),
        coefficients=(coefficient,),
        digits=4,
        only=lambda metric: not is_rouge(metric),
        parts=_all_and_machines,
        cell=_on_machines,
        notes=lambda scored: (_note(scored),),
    )


def _with_rouge(coefficient: str) -> Correlations:
    of_scorers = _of_scorers(coefficient)
    return replace(
        of_scorers,
        title=f"{of_scorers.title} and ROUGE on machine-made summaries",
        only=lambda _metric: True,
        parts=lambda scored: {MACHINES: _is_machine(scored)},
        cell=lambda _row, name, head: ((name,), head),
        notes=lambda scored: (
            f"{_note(scored)} The paper prints its best scorer only; here are all, so that none is "
            "chosen on the summaries it is judged on.",
        ),
    )


_RECIPE_DIFFERS = (
    "Trained by `--preset bao2020`; the optimiser is AdamW with a warm-up, not RMSProp, whose rate "
    "is illegible in the copy at hand.",
    "Figures are of the test documents of 80/10/10, split by hash.",
)
_PEOPLE_DIFFER = (
    _RECIPE_DIFFERS[0],
    "The modified score is the jackknifed pyramid score. A summary's score is the mean over the "
    "ten articles of its set.",
)
_ROUGE_DIFFERS = ("ROUGE is that of rouge-score and our ROUGE-W, not the scores that NIST ships.",)


def _all_of(needs: Mapping[Any, ScorerNeed]) -> tuple[Any, ...]:
    """Return the scorers, with the pairs and weights that their training needs."""
    scorers = list(dict.fromkeys(needs.values()))
    pairs = dict.fromkeys(PAIRS[need.data] for need in scorers)
    return (*pairs, *dict.fromkeys(need.encoder for need in scorers), *scorers)


_TABLE1 = dict(_grid({block: (data, CROSS_PAIR) for block, data in _DATA.items()}))
_TABLE2 = dict(_grid({kind: ("cnn-dailymail", (kind,)) for kind in ("add", "delete", "replace")}))
_TABLE3: dict[Cell, ScorerNeed] = {
    (("Accuracy (%)",), column): _need(data, CROSS_PAIR, "BERT") for column, data in _DATA.items()
}
_TABLE4: dict[Cell, ScorerNeed] = {
    ((row,), column): replace(
        _need(data, CROSS_PAIR, "BERT"), n_pairs=n_pairs if row == "CNN/DM itself" else 30_000
    )
    for column, n_pairs in _SIZES.items()
    for row, data in (("CNN/DM itself", "cnn-dailymail"), ("Newsroom", "newsroom"))
}
_BY_NEGATIVES = {row: _need("cnn-dailymail", kinds, "BERT") for row, kinds in _NEGATIVES.items()}

TABLES = (
    *(
        Table(name=name, make=make, others=_all_of(cells), differs=_RECIPE_DIFFERS)
        for name, cells, make in (
            ("bao2020-table1", _TABLE1, _held_out_table(_TABLE1, "accuracy")),
            ("bao2020-table2", _TABLE2, _held_out_table(_TABLE2, "pearson")),
            ("bao2020-table3", _TABLE3, _accuracies(_TABLE3)),
            ("bao2020-table4", _TABLE4, _accuracies(_TABLE4)),
        )
    ),
    *(
        Table(
            name=name,
            data={"": TAC2010},
            others=_all_of(_BY_NEGATIVES),
            metrics=_scorers(*_NEGATIVES),
            shows=_of_scorers(coefficient),
            differs=_PEOPLE_DIFFER,
        )
        for name, coefficient in (("bao2020-table5", "pearson"), ("bao2020-table6", "spearman"))
    ),
    *(
        Table(
            name=name,
            data={"": TAC2010},
            others=_all_of({_BEST: _BY_NEGATIVES[_BEST]}),
            metrics=_scorers(_BEST),
            shows=_with_rouge(coefficient),
            differs=(*_PEOPLE_DIFFER, *_ROUGE_DIFFERS),
        )
        for name, coefficient in (("bao2020-table7", "pearson"), ("bao2020-table8", "spearman"))
    ),
)
