"""Tables 1 to 8 of Bao et al. (2020): scorers on made-up negatives, and against people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from pipelines.learned_columns import PREFIX
from pipelines.papers.bao2020_tables import ALL, MACHINES, bao2020_tables
from pipelines.papers.comparison import Cell, Ours
from pipelines.papers.needs import DataNeed, ScorerNeed, WeightsNeed
from pipelines.papers.target import Made, Target
from pipelines.runs.progress import Progress

if TYPE_CHECKING:
    from pipelines.papers.bench import Bench, Judged

PAIRS = {
    need.name: need
    for need in (
        DataNeed(name="cnn-dailymail", what="CNN/DailyMail pairs", is_rated=False),
        DataNeed(name="newsroom", what="Newsroom pairs", is_rated=False),
        DataNeed(name="bigpatent", what="BigPatent pairs", is_rated=False),
    )
}
TAC2010 = DataNeed(name="tac2010", what="TAC 2010 guided summaries and manual scores")
BERT = WeightsNeed(alias="BERT", spec="hf:{}/bert-base-uncased", what="BERT base")
_USE2 = "use:{}/universal-sentence-encoder-2"
_USE3 = "use:{}/universal-sentence-encoder-large-3"
COLUMNS: Mapping[str, tuple[str, WeightsNeed]] = {
    "GloVe": (
        "word",
        WeightsNeed(
            alias="GloVe-100", spec="glove:{}/glove.6B.100d.txt", what="GloVe, 100 dimensions"
        ),
    ),
    "USE-DAN": (
        "sentence",
        WeightsNeed(alias="USE-DAN", spec=_USE2, what="USE, averaging network"),
    ),
    "USE-Trans": ("sentence", WeightsNeed(alias="USE-Trans", spec=_USE3, what="USE, Transformer")),
    "InferSent": (
        "sentence",
        WeightsNeed(
            alias="InferSent",
            spec="infersent:{}/infersent1.pkl,vectors={}/glove.840B.300d.txt",
            what="InferSent",
        ),
    ),
    "BERT": ("bert", BERT),
}
"""By column of Tables 1 and 2: the kind of scorer, and what it begins with."""
HEADS = {"FC-only": "fc", "CNN": "cnn", "LSTM": "lstm"}
CROSS_PAIR = ("cross-pair",)
MIX = ("cross-pair", "add", "delete", "replace")
_DATA = {"CNN/DailyMail": "cnn-dailymail", "Newsroom": "newsroom", "Big-Patent": "bigpatent"}
_SIZES = {"30k": 30_000, "100k": 100_000, "300k": 300_000}
_ASPECTS = {
    "pyramid_jackknife": "Modified score",
    "linguistic_quality": "Linguistic quality",
    "overall": "Overall score",
}
_NEGATIVES = {
    "crosspair": CROSS_PAIR,
    "add": ("add",),
    "delete": ("delete",),
    "replace": ("replace",),
    "mix": MIX,
}
_BEST = "mix"
_ON_MACHINES = "mix on machines'"
_ROUGE = {
    f"ROUGE-{kind} {part}": f"rouge{kind.removesuffix('-1.2')}_{part.lower()}"
    for kind in ("1", "2", "4", "W-1.2")
    for part in "PRF"
}


# Scorers


def _need(data: str, kinds: tuple[str, ...], column: str, network: str = "FC-only") -> ScorerNeed:
    scorer, encoder = COLUMNS[column]
    return ScorerNeed(data=data, kinds=kinds, scorer=scorer, head=HEADS[network], encoder=encoder)


def scorer_folder(bench: Bench, need: ScorerNeed) -> Path | None:
    """Return the folder of a trained scorer; train it if that is asked for, else None."""
    if bench.find(need).is_there or not bench.trains:
        return bench.folder_of(need) if bench.has(need) else None
    pairs = bench.pairs(PAIRS[need.data], need.n_pairs)
    if not bench.specs([need.encoder]) or pairs is None:
        return None
    from pipelines.train import Machines, train_scorer

    bench.tell(Progress(stage=f"training {need.name}"))
    out = bench.folder_of(need)
    train_scorer(
        [pairs],
        out,
        recipe_of(need, bench.spec_of(need.encoder), bench.seed),
        machines=Machines(device=bench.device),
        resume=out.exists(),
        on_progress=bench.tell,
    )
    return out


def recipe_of(need: ScorerNeed, encoder: str, seed: int) -> Any:  # noqa: ANN401  (a `Recipe`)
    """Return the paper's recipe for a scorer: `assay train --preset bao2020`."""
    from reffree.losses import default_loss
    from reffree.models import MODEL_PRESETS, ModelConfig
    from reffree.negatives import PRESETS, NegativesConfig
    from reffree.training import Recipe, TrainConfig

    return Recipe(
        model=ModelConfig(
            scorer=need.scorer,
            encoder=encoder,
            head=need.head,
            max_pieces=512,
            frozen_layers=0,
            features=(),
            is_calibrated=False,
            **MODEL_PRESETS["bao2020"],
        ),
        negatives=NegativesConfig(seed=seed, **(PRESETS["bao2020"] | {"kinds": need.kinds})),
        training=TrainConfig(
            loss=default_loss(need.kinds),
            learning_rate=5e-5 if need.scorer == "bert" else 1e-3,
            batch_size=32,
            epochs=10,
            patience=3,
            ema_decay=0.0,
            checkpoint_steps=200,
            precision="auto",
            seed=seed,
        ),
    )


def _held_out(folder: Path, kind: str, figure: str) -> float | None:
    """Read a figure of the test documents from the folder of a scorer."""
    settings = json.loads((folder / "scorer.json").read_text("utf-8"))
    found = settings["held_out"].get(kind, {}).get(figure)
    return None if found is None else float(found)


# Tables 1 and 2: held-out figures


def _grid(rows: Mapping[str, tuple[str, tuple[str, ...]]]) -> Iterator[tuple[Any, ScorerNeed]]:
    """Give the cells of Table 1 or 2 with their scorers; BERT comes with one network only."""
    for block, (data, kinds) in rows.items():
        for network in HEADS:
            for column in COLUMNS:
                if column != "BERT" or network == "FC-only":
                    yield ((block, network), column), _need(data, kinds, column, network)


_TABLE1 = dict(_grid({block: (data, CROSS_PAIR) for block, data in _DATA.items()}))
_TABLE2 = dict(_grid({kind: ("cnn-dailymail", (kind,)) for kind in ("add", "delete", "replace")}))


def _held_out_table(cells: Mapping[Any, ScorerNeed], figure: str) -> Callable[[Bench], Made]:
    def make(bench: Bench) -> Made:
        ours: dict[Cell, Ours] = {}
        for cell, need in cells.items():
            if folder := scorer_folder(bench, need):
                value = _held_out(folder, need.kinds[0], figure)
                ours[cell] = Ours(None if value is None else 100 * value)
        return Made(ours=ours)

    return make


# Tables 3 and 4: other domains


def _table3(bench: Bench) -> Made:
    row = ("Accuracy (%)",)
    ours: dict[Cell, Ours] = {}
    for column, data in _DATA.items():
        need = _need(data, CROSS_PAIR, "BERT")
        if (value := _accuracy(bench, need, 30_000)) is not None:
            ours[row, column] = Ours(100 * value)
    home = ours.get((row, "CNN/DailyMail"))
    for column in ("Big-Patent", "Newsroom"):
        if home and (away := ours.get((row, column))):
            assert home.value is not None  # noqa: S101
            assert away.value is not None  # noqa: S101
            ours[("change",), column] = Ours(away.value - home.value, behind="%")
    return Made(ours=ours)


def _table4(bench: Bench) -> Made:
    ours: dict[Cell, Ours] = {}
    for column, n_pairs in _SIZES.items():
        own = replace(_need("cnn-dailymail", CROSS_PAIR, "BERT"), n_pairs=n_pairs)
        other = _need("newsroom", CROSS_PAIR, "BERT")
        for row, need in (("CNN/DM itself", own), ("Newsroom", other)):
            if (value := _accuracy(bench, need, n_pairs)) is not None:
                ours[(row,), column] = Ours(100 * value)
    return Made(ours=ours)


def _accuracy(bench: Bench, need: ScorerNeed, n_pairs: int) -> float | None:
    """Judge a scorer on the held-out pairs of CNN/DailyMail; None if something is not there."""
    folder = scorer_folder(bench, need)
    pairs = bench.pairs(PAIRS["cnn-dailymail"], n_pairs)
    if folder is None or pairs is None:
        return None
    from pipelines.evaluate import evaluate_scorer

    (found,) = evaluate_scorer(
        [folder], [pairs], kinds=CROSS_PAIR, device=bench.device, on_progress=bench.tell
    )
    return found.kinds[CROSS_PAIR[0]].accuracy


# Tables 5 to 8: people


def _scorers(bench: Bench, rows: Iterable[str]) -> dict[str, str]:
    """Return the metrics of the scorers that are there, by row of Tables 5 and 6."""
    folders = {row: scorer_folder(bench, _BY_NEGATIVES[row]) for row in rows}
    return {row: f"{PREFIX}{folder}" for row, folder in folders.items() if folder}


def _tac2010(bench: Bench) -> Judged | None:
    """Return the summaries of the initial document sets (A)."""

    def keep(corpus: pl.DataFrame, _ratings: pl.DataFrame) -> pl.DataFrame:
        return corpus.filter(pl.col("document_id").str.ends_with("-A"))

    return bench.judged(TAC2010, keep)


def _against_people(name: str) -> Callable[[Bench], Made]:
    is_of_scorers = name in ("bao2020-table5", "bao2020-table6")

    def make(bench: Bench) -> Made:
        judged = _tac2010(bench)
        scorers = _scorers(bench, _NEGATIVES if is_of_scorers else [_BEST])
        if judged is None or (is_of_scorers and not scorers):
            return Made()
        measured = bench.measure(
            judged,
            metrics=("rouge1", "rouge2", "rouge4", "rougeW", *scorers.values()),
            encoders={},
            aspects=tuple(_ASPECTS),
        )
        wanted = (*([] if is_of_scorers else _ROUGE.values()), *scorers.values())
        tables = bao2020_tables(
            {metric: measured.scores[metric] for metric in wanted},
            measured.ratings,
            systems=measured.study.systems,
        )
        frame = next(table for table in tables if table.name == name).frame
        rows = {metric: row for row, metric in scorers.items()}
        if not is_of_scorers:
            rows = dict.fromkeys(rows, "Our best") | {m: row for row, m in _ROUGE.items()}
        ours: dict[Cell, Ours] = {}
        for found in frame.iter_rows(named=True):
            row = rows[found["metric"]]
            if is_of_scorers and found["summaries"] == MACHINES:
                if row != _BEST:
                    continue
                row = _ON_MACHINES
            ours[(row,), _ASPECTS[found["aspect"]]] = Ours(found["value"])
        return Made(ours=ours, notes=[_sizes(frame)])

    return make


def _sizes(frame: pl.DataFrame) -> str:
    parts = []
    for summaries in (ALL, MACHINES):
        for row in frame.filter(summaries=summaries).head(1).iter_rows(named=True):
            parts.append(
                f"{row['n_systems']} systems, {row['n_documents']} document sets, "
                f"{row['n_cells']:,} summaries ({summaries})"
            )
    return f"{'; '.join(parts)}."


_RECIPE_DIFFERS = (
    "Trained by `--preset bao2020`; the optimiser is AdamW with a warm-up, not RMSProp, whose rate "
    "is illegible in the copy at hand.",
    "Figures are of the test documents of 80/10/10, split by hash.",
)
_PEOPLE_DIFFER = (
    "The modified score is the jackknifed pyramid score. A summary's score is the mean over the "
    "ten articles of its set.",
)
_ROUGE_DIFFERS = ("ROUGE is that of rouge-score and our ROUGE-W, not the scores that NIST ships.",)


def _all_of(needs: Mapping[Any, ScorerNeed]) -> tuple[Any, ...]:
    """Return the scorers, with the pairs and weights that their training needs."""
    scorers = list(dict.fromkeys(needs.values()))
    pairs = dict.fromkeys(PAIRS[need.data] for need in scorers)
    return (*pairs, *dict.fromkeys(need.encoder for need in scorers), *scorers)


_CROSS_DOMAIN = {data: _need(data, CROSS_PAIR, "BERT") for data in _DATA.values()}
_BY_SIZE = {
    n: replace(_need("cnn-dailymail", CROSS_PAIR, "BERT"), n_pairs=n) for n in _SIZES.values()
} | {0: _CROSS_DOMAIN["newsroom"]}
_BY_NEGATIVES = {row: _need("cnn-dailymail", kinds, "BERT") for row, kinds in _NEGATIVES.items()}

TARGETS = (
    Target(
        name="bao2020-table1",
        make=_held_out_table(_TABLE1, "accuracy"),
        needs=_all_of(_TABLE1),
        differs=_RECIPE_DIFFERS,
    ),
    Target(
        name="bao2020-table2",
        make=_held_out_table(_TABLE2, "pearson"),
        needs=_all_of(_TABLE2),
        differs=_RECIPE_DIFFERS,
    ),
    Target(
        name="bao2020-table3",
        make=_table3,
        needs=_all_of(_CROSS_DOMAIN),
        differs=_RECIPE_DIFFERS,
    ),
    Target(
        name="bao2020-table4",
        make=_table4,
        needs=_all_of(_BY_SIZE),
        differs=_RECIPE_DIFFERS,
    ),
    *(
        Target(
            name=f"bao2020-table{number}",
            make=_against_people(f"bao2020-table{number}"),
            needs=(TAC2010, *_all_of(_BY_NEGATIVES if number < 7 else {0: _BY_NEGATIVES[_BEST]})),
            differs=(
                *_RECIPE_DIFFERS[:1],
                *_PEOPLE_DIFFER,
                *(_ROUGE_DIFFERS if number > 6 else ()),
            ),
        )
        for number in (5, 6, 7, 8)
    ),
)
