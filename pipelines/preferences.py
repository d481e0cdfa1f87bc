"""Which of two systems people prefer, head to head, as table 6 of Clark et al. (2019).

Sign tests and shares of wins by criterion and pair of systems, and agreement of judges. What the
judgements may look like is in `pipelines.judgements`, sheets for judges are made in
`pipelines.judging_sheet`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl

from agreement.multiple import holm
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
from pipelines.tables.keyed import files_of, record_of
from pipelines.tables.records import InputRecord
from sms.naming import AnyPath, OneOrMore, several


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadToHead:
    """Two systems under one criterion."""

    criterion: str
    system_a: str
    system_b: str
    wins_a: int
    """Judgements, as are the next two."""
    wins_b: int
    ties: int
    share_b: float
    """Of the judgements that prefer one, those for B; NaN where there is none, as are its ends."""
    low: float
    high: float
    p_value: float
    """Two-sided exact sign test over judgements."""
    p_holm: float
    """The same, corrected over all rows."""
    preferred: str | None
    """"a" or "b" where `p_holm` is small enough, else None."""
    n_items: int
    """0 where the items are not known; then the numbers below are none, too."""
    n_judges: int
    """0 where the judges are not known."""
    items_a: int
    """Items that more judges gave to A than to B."""
    items_b: int
    items_tied: int
    p_items: float
    """Two-sided exact sign test over items."""
    n_items_repeated: int
    """Items that were judged more than once."""
    alpha: float
    """Krippendorff's, nominal, over these; NaN where there is none, as is the next."""
    share_equal: float
    """Pairs of judgements of one item that agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What judges prefer, and how it was computed."""

    rows: tuple[HeadToHead, ...]
    """Pair after pair, with all criteria of each."""
    n_missing: int
    """Judgements that were left blank."""
    inputs: tuple[InputRecord, ...]
    interval: str
    """One of `agreement.preferences.SHARE_METHODS`."""
    confidence: float

    def frame(self) -> pl.DataFrame:
        """Return the rows as a table; undefined is null."""
        frame = pl.DataFrame([asdict(row) for row in self.rows], infer_schema_length=None)
        return frame.with_columns(pl.selectors.float().fill_nan(None))


def compare_preferences(
    judgements: OneOrMore,
    *,
    key: AnyPath | None = None,
    systems: str | Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    interval: str = "wilson",
    confidence: float = 0.95,
) -> Preferences:
    r"""Compare systems by the judgements of people.

    Parameters
    ----------
    judgements : path or sequence of paths
        Files, as in `read_judgements`.
    key : path, optional
        Of filled sheets.
    systems : str or sequence of str
        Those to compare; in every pair the earlier one is A.
    columns : mapping of str to str, optional
        Our column name to the files'.
    interval : str
        For the share of wins, "wilson" or "clopper-pearson".
    confidence : float
        Of the intervals; one minus it is the level of the tests.

    Returns
    -------
    Preferences

    Raises
    ------
    ValueError
        If a file cannot be read as judgements, or an option is out of range.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "counts.csv")
    >>> _ = path.write_text("system_a,system_b,wins,losses,ties\nold,new,64,144,92\n")
    >>> row = compare_preferences([str(path)]).rows[0]
    >>> round(row.share_b, 3), row.preferred
    (0.692, 'b')
    """
    judgements = several(judgements)
    read = read_judgements(judgements, key=key, systems=systems, columns=columns)
    rows = [_head_to_head(*pair, interval, confidence) for pair in _pairs(read)]
    files = [(path, "judgements") for path in judgements]
    if key is not None:
        files.append((os.fspath(key), "key"))
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
    agreement = judge_agreement(_outcomes(judged))
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
        n_items_repeated=agreement.n_items,
        alpha=agreement.alpha,
        share_equal=agreement.share_equal,
    )


def _corrected(rows: Sequence[HeadToHead], confidence: float) -> tuple[HeadToHead, ...]:
    """Correct the p-values over all rows and say who is preferred."""
    corrected = holm(np.array([row.p_value for row in rows]))
    return tuple(
        replace(
            row,
            p_holm=float(p),
            preferred=("b" if row.wins_b > row.wins_a else "a") if p <= 1.0 - confidence else None,
        )
        for row, p in zip(rows, corrected, strict=True)
    )


def _item_counts(judged: pl.DataFrame) -> np.ndarray:
    """Count outcomes by item, shape (n_items, 3); only items that are known."""
    known = judged.drop_nulls("document_id")
    items = _item_numbers(known)
    counts = np.zeros((items.max(initial=-1) + 1, 3), dtype=np.int64)
    np.add.at(counts, items, known.select(COUNTS).to_numpy())
    return counts


def _outcomes(judged: pl.DataFrame) -> np.ndarray:
    """Lay single judgements out by turn and item, shape (n_turns, n_items), NaN where none.

    Which judge is in which row does not matter for the agreement, so unnamed ones serve, too.
    """
    known = judged.drop_nulls("document_id")
    items = _item_numbers(known)
    turns = known.select(pl.int_range(pl.len(), dtype=pl.Int64).over("document_id"))
    turn = turns.to_series().to_numpy()
    outcomes = np.full((turn.max(initial=0) + 1, items.max(initial=-1) + 1), np.nan)
    outcomes[turn, items] = known.select(COUNTS).to_numpy().argmax(1)
    return outcomes


def _item_numbers(known: pl.DataFrame) -> np.ndarray:
    """Return the number of each row's item, from 0, int64, shape (n_rows,)."""
    _, numbers = np.unique(known["document_id"].to_numpy().astype(str), return_inverse=True)
    return np.asarray(numbers, dtype=np.int64)
