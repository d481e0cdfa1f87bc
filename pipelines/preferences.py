"""Which of two systems people prefer, head to head, as table 6 of Clark et al. (2019).

Sign tests and shares of wins by criterion and pair of systems, and agreement of judges. What the
judgements may look like is in `pipelines.judgements`, sheets for judges are made in
`pipelines.judging_sheet`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from agreement.differences import holm
from agreement.preferences import (
    FIRST,
    SECOND,
    TIE,
    judge_agreement,
    majorities,
    sign_test,
    win_share,
)
from pipelines.judgements import COUNTS, Judgements, read_judgements
from pipelines.reports.preferences import HeadToHead, Preferences
from pipelines.settings.preferences import PreferencesSettings
from pipelines.tables.keyed import files_of, record_of


def compare_preferences(judgements: Sequence[str], settings: PreferencesSettings) -> Preferences:
    """Compare systems by the judgements of people.

    Raises ValueError if a file cannot be read as judgements, or an option is out of range.
    """
    key, interval, confidence = settings.key, settings.interval, settings.confidence
    read = read_judgements(judgements, key=key, systems=settings.systems, columns=settings.columns)
    rows = [_head_to_head(*pair, interval, confidence) for pair in _pairs(read)]
    files = [(path, "judgements") for path in judgements]
    if key is not None:
        files.append((str(key), "key"))
    return Preferences(
        rows=_corrected(rows, confidence),
        n_missing=read.n_missing,
        inputs=tuple(record_of(file, role) for path, role in files for file in files_of(path)),
        interval=interval,
        confidence=confidence,
    )


def _pairs(read: Judgements) -> Iterator[tuple[str, str, str, pl.DataFrame]]:
    """Yield criterion, the two systems and their judgements, of those that were compared."""
    for a, b in itertools.combinations(read.systems, 2):
        of_pair = read.frame.filter(system_a=a, system_b=b)
        for criterion in read.criteria:
            judged = of_pair.filter(criterion=criterion)
            if judged.height:
                yield criterion, a, b, judged


def _head_to_head(
    criterion: str, a: str, b: str, judged: pl.DataFrame, interval: str, confidence: float
) -> HeadToHead:
    wins_a, wins_b, ties = (int(judged[name].sum()) for name in COUNTS)
    share = win_share(wins_a, wins_b, confidence=confidence, method=interval)
    items = _item_counts(judged)
    of_items = majorities(items)
    alpha, share_equal, n_repeated = judge_agreement(_outcomes(judged))
    return HeadToHead(
        criterion=criterion,
        system_a=a,
        system_b=b,
        wins_a=wins_a,
        wins_b=wins_b,
        ties=ties,
        share_b=share.value,
        low=share.low,
        high=share.high,
        p_value=sign_test(wins_a, wins_b),
        p_holm=np.nan,
        preferred=None,
        n_items=len(items),
        n_judges=judged["judge"].drop_nulls().n_unique(),
        items_a=int(of_items[FIRST]),
        items_b=int(of_items[SECOND]),
        items_tied=int(of_items[TIE]),
        p_items=sign_test(int(of_items[FIRST]), int(of_items[SECOND])),
        n_items_repeated=n_repeated,
        alpha=alpha,
        share_equal=share_equal,
    )


def _corrected(rows: Sequence[HeadToHead], confidence: float) -> tuple[HeadToHead, ...]:
    """Correct the p-values over all rows and say who is preferred.

    Of items, where some were judged repeatedly: their judgements are not independent.
    """
    tested = [
        (row.p_items, row.items_b - row.items_a)
        if row.n_items_repeated
        else (row.p_value, row.wins_b - row.wins_a)
        for row in rows
    ]
    corrected = holm(np.array([p_value for p_value, _ in tested]))
    return tuple(
        replace(
            row,
            p_holm=float(p),
            preferred=("b" if lead > 0 else "a") if p <= 1.0 - confidence else None,
        )
        for row, p, (_, lead) in zip(rows, corrected, tested, strict=True)
    )


def _item_counts(judged: pl.DataFrame) -> np.ndarray:
    """Count outcomes by item, shape (n_items, 3); only items that are known."""
    known = judged.drop_nulls("document_id")
    return known.group_by("document_id").agg(pl.col(COUNTS).sum()).select(COUNTS).to_numpy()


def _outcomes(judged: pl.DataFrame) -> np.ndarray:
    """Lay single judgements out by turn and item, shape (n_turns, n_items), NaN where none.

    Which judge is in which row does not matter for the agreement, so unnamed ones serve, too.
    """
    known = judged.drop_nulls("document_id")
    item = known["document_id"].rank("dense").cast(pl.Int64).to_numpy() - 1
    turns = known.select(pl.int_range(pl.len(), dtype=pl.Int64).over("document_id"))
    turn = turns.to_series().to_numpy()
    outcomes = np.full((turn.max(initial=0) + 1, item.max(initial=-1) + 1), np.nan)
    outcomes[turn, item] = known.select(COUNTS).to_numpy().argmax(1)
    return outcomes
