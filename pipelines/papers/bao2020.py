"""Bao et al. (2020), "End-to-end Semantics-based Summary Quality Assessment": every table.

Tables 1 to 4 judge scorers on made-up negatives. Tables 5 to 8 are Pearson and Spearman over all
summaries: of the scorers, with and without the summaries that people wrote (5 and 6), and next to
ROUGE on the machine-made ones only (7 and 8).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pipelines.papers.bench import Bench, Need, RatedData, Table, needs_in
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import (
    Cell,
    Ours,
    Scored,
    Shown,
    correlation_rows,
    is_rouge,
    table_of,
    typed,
)
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.tables.study import is_baseline
from reffree.scorers.metric import PREFIX

ALL, MACHINES = "all", "machine-made"
HUMAN_SYSTEMS = ("human", "reference")
"""Beginnings of the names of systems whose summaries people wrote."""
CROSS_PAIR = "cross-pair"
EDITS = ("add", "delete", "replace")
HEADS = {"FC-only": "fc", "CNN": "cnn", "LSTM": "lstm"}
PAIRS = needs_in("pairs")
ENCODERS = needs_in("bao2020")
COLUMNS = {
    "GloVe": ("word", "GloVe-100"),
    "USE-DAN": ("sentence", "USE-DAN"),
    "USE-Trans": ("sentence", "USE-Trans"),
    "InferSent": ("sentence", "InferSent"),
    "BERT": ("bert", "BERT"),
}
"""By column of Tables 1 and 2: the kind of scorer, and the encoder that it begins with."""

_DATA = {"CNN/DailyMail": "cnn-dailymail", "Newsroom": "newsroom", "Big-Patent": "bigpatent"}
_SIZES = {"30k": 30_000, "100k": 100_000, "300k": 300_000}
_BEST = "mix"
_ROUGE = {
    f"rouge{kind.removesuffix('-1.2')}_{part.lower()}": f"ROUGE-{kind} {part}"
    for kind in ("1", "2", "4", "W-1.2")
    for part in "PRF"
}


# Scorers


def _scorer(
    *,
    data: str = "cnn-dailymail",
    kinds: tuple[str, ...] = (CROSS_PAIR,),
    column: str = "BERT",
    network: str = "FC-only",
    n_pairs: int = 30_000,
) -> Need:
    """Name a trained scorer: its pairs (a data set, so many drawn), negatives, encoder, network.

    Its folder is called, for example, "cnn-dailymail-30k-cross-pair-bert-fc".
    """
    level, encoder = COLUMNS[column][0], ENCODERS[COLUMNS[column][1]]
    learned = "mix" if len(kinds) > 1 else kinds[0]
    return Need(
        kind="trained",
        name=f"{data}-{n_pairs // 1000}k-{learned}-{encoder.name.lower()}-{HEADS[network]}",
        what=f"{level} on {data}: {', '.join(kinds)}",
        holds="scorer.json",
        made_of=(PAIRS[data], encoder),
    )


# Tables 1 and 2: held-out figures


def _grid(rows: Mapping[str, Mapping[str, Any]]) -> dict[Cell, Need]:
    """Give the cells of Table 1 or 2 with their scorers; BERT comes with one network only."""
    return {
        ((block, network), column): _scorer(**given, column=column, network=network)
        for block, given in rows.items()
        for network in HEADS
        for column in COLUMNS
        if column != "BERT" or network == "FC-only"
    }


def _held_out(
    bench: Bench, table: Table, *, cells: Mapping[Cell, Need], figure: str
) -> Reproduction:
    ours: dict[Cell, Ours] = {}
    for cell, need in cells.items():
        if folder := bench.trained(need):
            block = cell[0][0]  # the kind of negatives, or the data set of cross pairs
            settings = json.loads((folder / need.holds).read_text("utf-8"))
            held_out = settings["held_out"].get(block if block in EDITS else CROSS_PAIR, {})
            value = held_out.get(figure)
            ours[cell] = Ours(None if value is None else 100 * float(value))
    return Reproduction(printed=table.printed, ours=ours)


# Tables 3 and 4: other domains


def _accuracies(bench: Bench, table: Table, *, cells: Mapping[Cell, Need]) -> Reproduction:
    """Judge each scorer on the held-out pairs of CNN/DailyMail, of the size of its cell."""
    ours: dict[Cell, Ours] = {}
    for (row, column), need in cells.items():
        folder = bench.trained(need)
        pairs = bench.pairs(PAIRS["cnn-dailymail"], _SIZES.get(column, 30_000))
        if folder is None or pairs is None:
            continue
        from pipelines.evaluate import evaluate

        settings = EvaluateSettings(
            negatives=CROSS_PAIR,
            device=bench.settings.device,
            on_progress=bench.settings.on_progress,
        )
        (result,) = evaluate(folder, pairs, settings)
        accuracy = result.kinds[CROSS_PAIR].accuracy
        ours[row, column] = Ours(None if accuracy is None else 100 * accuracy)
    home = ours.get((("Accuracy (%)",), "CNN/DailyMail"))
    for (_, column), away in list(ours.items()):
        if home and away is not home and home.value is not None and away.value is not None:
            ours[("change",), column] = Ours(away.value - home.value, "{}%")
    return Reproduction(printed=table.printed, ours=ours)


# Tables 5 to 8: people


def _scorers(bench: Bench, _encoders: Sequence[str], *, rows: Sequence[str]) -> dict[str, str]:
    """Name the scorers of some rows that are there, and ROUGE."""
    folders = {row: bench.trained(_BY_NEGATIVES[row]) for row in rows}
    scorers = {f"{PREFIX}{folder}": row for row, folder in folders.items() if folder}
    return _ROUGE | (scorers if len(rows) > 1 else dict.fromkeys(scorers, "Our best"))


def _is_machine(scored: Scored) -> np.ndarray:
    return np.array([not system.startswith(HUMAN_SYSTEMS) for system in scored.systems])


def _of_scorers(scored: Scored, *, coefficient: str) -> Shown | None:
    """Correlate scorers over all summaries, and over those of machines where people wrote some."""
    metrics = [m for m in sorted(scored.scores, key=is_baseline) if not is_rouge(m)]
    if not metrics:
        return None
    is_machine = _is_machine(scored)
    parts = {ALL: np.full_like(is_machine, fill_value=True)}
    if not is_machine.all():
        parts[MACHINES] = is_machine
    frame = _correlated(scored, metrics, parts, coefficient)
    cells: dict[Cell, Ours] = {}
    for row in frame.iter_rows(named=True):
        part = " on machines'" if row["summaries"] == MACHINES else ""
        name = f"{scored.name(row['metric'])}{part}"
        cells[(name,), scored.head(row["aspect"])] = Ours(row["value"])
    title = f"{_title(coefficient)}: scorers"
    return table_of(title, frame, cells, digits=4, notes=[_note(scored)])


def _with_rouge(scored: Scored, *, coefficient: str) -> Shown:
    """Correlate scorers and ROUGE over the summaries of machines."""
    metrics = sorted(scored.scores, key=is_baseline)
    frame = _correlated(scored, metrics, {MACHINES: _is_machine(scored)}, coefficient)
    cells: dict[Cell, Ours] = {
        ((scored.name(row["metric"]),), scored.head(row["aspect"])): Ours(row["value"])
        for row in frame.iter_rows(named=True)
    }
    title = f"{_title(coefficient)}: scorers and ROUGE on machine-made summaries"
    note = (
        f"{_note(scored)} The paper prints only its best scorer. Here are all, because to "
        "choose one by these ratings would favour it."
    )
    return table_of(title, frame, cells, digits=4, notes=[note])


def _correlated(
    scored: Scored, metrics: Sequence[str], parts: Mapping[str, np.ndarray], coefficient: str
) -> pl.DataFrame:
    """Correlate over the systems of each part."""
    return typed(
        [
            {"summaries": part, **row}
            for part, systems in parts.items()
            for row in correlation_rows(scored, metrics, ["global"], [coefficient], systems)
        ]
    )


def _title(coefficient: str) -> str:
    return f"{coefficient.capitalize()} correlation with human ratings over all summaries"


def _note(scored: Scored) -> str:
    people = [s for s, kept in zip(scored.systems, _is_machine(scored), strict=True) if not kept]
    if people:
        return f"Written by people, and left out of the machine-made: {', '.join(people)}."
    return (
        f"No system is called {'* or '.join(HUMAN_SYSTEMS)}*: all {len(scored.systems)} count as "
        "machines, and all summaries as machine-made."
    )


_TABLE1 = _grid({block: {"data": data} for block, data in _DATA.items()})
_TABLE2 = _grid({kind: {"kinds": (kind,)} for kind in EDITS})
_TABLE3: dict[Cell, Need] = {
    (("Accuracy (%)",), column): _scorer(data=data) for column, data in _DATA.items()
}
_TABLE4: dict[Cell, Need] = {
    ((row,), column): need
    for column, n_pairs in _SIZES.items()
    for row, need in (
        ("CNN/DM itself", _scorer(n_pairs=n_pairs)),
        ("Newsroom", _scorer(data="newsroom")),
    )
}
_BY_NEGATIVES = {
    "crosspair": _scorer(),
    **{kind: _scorer(kinds=(kind,)) for kind in EDITS},
    _BEST: _scorer(kinds=(CROSS_PAIR, *EDITS)),
}
TAC2010 = RatedData(
    name="tac2010",
    aspects={
        "pyramid_jackknife": "Modified score",
        "linguistic_quality": "Linguistic quality",
        "overall": "Overall score",
    },
    # Only the initial document sets (A), not their updates (B).
    keep=lambda corpus, _ratings: corpus.filter(pl.col("document_id").str.ends_with("-A")),
)


def _table(number: int, scorers: Mapping[Any, Need], **fields: Any) -> Table:  # noqa: ANN401
    """Describe a table, with the pairs and weights that its scorers are trained from."""
    needs = list(dict.fromkeys(scorers.values()))
    pairs, encoders = (dict.fromkeys(need.made_of[i] for need in needs) for i in (0, 1))
    others = (*pairs, *encoders, *needs)
    return Table(name=f"bao2020-table{number}", others=others, **fields)


def _people(number: int, shows: Callable[[Scored], Shown | None], *rows: str) -> Table:
    scorers = {row: _BY_NEGATIVES[row] for row in rows}
    return _table(
        number,
        scorers,
        data={"": TAC2010},
        metrics=partial(_scorers, rows=rows),
        scoring={"stemmer": True},  # as NIST ran ROUGE at TAC, with `-m`
        shows=shows,
    )


TABLES = (
    _table(1, _TABLE1, make=partial(_held_out, cells=_TABLE1, figure="accuracy")),
    _table(2, _TABLE2, make=partial(_held_out, cells=_TABLE2, figure="pearson")),
    _table(3, _TABLE3, make=partial(_accuracies, cells=_TABLE3)),
    _table(4, _TABLE4, make=partial(_accuracies, cells=_TABLE4)),
    _people(5, partial(_of_scorers, coefficient="pearson"), *_BY_NEGATIVES),
    _people(6, partial(_of_scorers, coefficient="spearman"), *_BY_NEGATIVES),
    _people(7, partial(_with_rouge, coefficient="pearson"), _BEST),
    _people(8, partial(_with_rouge, coefficient="spearman"), _BEST),
)
