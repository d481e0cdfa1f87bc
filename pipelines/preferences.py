"""Which of two systems people prefer, head to head, as table 6 of Clark et al. (2019).

Judgements come one a row, as counts, or as filled sheets with their key (`pipelines.judging_sheet`
makes them). Whatever they come from, they become one table.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from agreement.differences import holm
from agreement.intervals import CONFIDENCE
from agreement.preferences import (
    FIRST,
    SECOND,
    TIE,
    judge_agreement,
    majorities,
    sign_test,
    win_share,
)
from cluster import InputFile
from cluster.output import output_of
from cluster.store import real_path
from pipelines.judging_sheet import (
    KEY_COLUMNS,
    SHEET_COLUMNS,
    SIDES,
    JudgingSheet,
    make_sheet,
)
from pipelines.reports.preferences import HeadToHead, Preferences, preferences_sheet
from pipelines.reports.tables import SUFFIXES
from pipelines.runs.forks import with_threads
from pipelines.settings.preferences import PreferencesSettings
from pipelines.tables.keyed import files_of, listed, read_texts, record_of
from sms.naming import OneOrMore, counted, several

DEFAULT_CRITERION = "overall"
"""Where the judgements name none."""
TIES = ("tie", "=")
"""What a judge may write for no difference."""

_PAIR = ("system_a", "system_b")
_TIED = "\0"  # who won a tie: not "", which may be a system
_COUNTS = ("wins", "losses", "ties")
"""Of the first of the two systems; in the order of `FIRST`, `SECOND` and `TIE`."""
_COLUMNS = ("criterion", "document_id", "judge", *_PAIR, "winner", *_COUNTS, *SHEET_COLUMNS)


@with_threads
def preferences(judgements: OneOrMore, settings: PreferencesSettings) -> Preferences | JudgingSheet:
    """Compare systems by the judgements of people, or make a sheet for them to fill.

    Raises ValueError if a file does not hold judgements, or the request is for both.
    """
    judgements = several(judgements)
    if settings.make_sheet is not None:
        if judgements:
            raise ValueError("`--make-sheet` makes a sheet; leave out the judgements")
        return make_sheet(settings)
    if not judgements:
        raise ValueError("name at least one file of judgements, or `--make-sheet CORPUS`")
    apart = [*judgements, *([settings.key] if settings.key else [])]
    output = output_of(settings.out, *SUFFIXES, apart=apart)
    result = _compared(judgements, settings)
    if output:
        output.write(preferences_sheet(result).content(output.suffix).encode())
    return result


def _compared(judgements: Sequence[str], settings: PreferencesSettings) -> Preferences:
    frame, systems, n_missing = _read(judgements, settings)
    rows = []
    for a, b in itertools.combinations(systems, 2):
        of_pair = frame.filter(system_a=a, system_b=b)
        for criterion in frame["criterion"].unique(maintain_order=True):
            judged = of_pair.filter(criterion=criterion)
            if judged.height:
                rows.append(_head_to_head(criterion, a, b, judged))
    files = [(path, "judgements") for path in judgements]
    if settings.key is not None:
        files.append((str(settings.key), "key"))
    return Preferences(
        rows=tuple(_corrected(rows)),
        n_missing=n_missing,
        inputs=tuple(record_of(file, role) for path, role in files for file in files_of(path)),
        interval="wilson",
        confidence=CONFIDENCE,
    )


def _head_to_head(criterion: str, a: str, b: str, judged: pl.DataFrame) -> HeadToHead:
    wins_a, wins_b, ties = (
        int(judged.filter(outcome=each)["n"].sum()) for each in (FIRST, SECOND, TIE)
    )
    share = win_share(wins_a, wins_b)
    by_item = _by_item(judged)
    items_a, items_b, items_tied = majorities(by_item)
    alpha, share_equal, n_repeated = judge_agreement(by_item)
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
        n_items=by_item.shape[1],
        n_judges=judged["judge"].drop_nulls().n_unique(),
        items_a=items_a,
        items_b=items_b,
        items_tied=items_tied,
        p_items=sign_test(items_a, items_b),
        n_items_repeated=n_repeated,
        alpha=alpha,
        share_equal=share_equal,
    )


def _by_item(judged: pl.DataFrame) -> np.ndarray:
    """Lay outcomes out by turn and item, shape (n_turns, n_items), NaN where none.

    Which judge is in which row does not matter for the agreement, so unnamed ones serve, too.
    """
    known = judged.drop_nulls("document_id")
    item = known["document_id"].rank("dense").cast(pl.Int64).to_numpy() - 1
    turns = known.select(pl.int_range(pl.len(), dtype=pl.Int64).over("document_id"))
    turn = turns.to_series().to_numpy()
    outcomes = np.full((turn.max(initial=0) + 1, item.max(initial=-1) + 1), np.nan)
    outcomes[turn, item] = known["outcome"].to_numpy()
    return outcomes


def _corrected(rows: Sequence[HeadToHead]) -> Iterator[HeadToHead]:
    """Correct the p-values, of items if some were judged repeatedly, and say who is preferred."""
    tested = [
        (row.p_items, row.items_b - row.items_a)
        if row.n_items_repeated
        else (row.p_value, row.wins_b - row.wins_a)
        for row in rows
    ]
    corrected = holm(np.array([p_value for p_value, _ in tested]))
    for row, p, (_, lead) in zip(rows, corrected, tested, strict=True):
        preferred = ("b" if lead > 0 else "a") if p <= 1.0 - CONFIDENCE else None
        yield replace(row, p_holm=float(p), preferred=preferred)


# Reading


def _read(
    paths: Sequence[str], settings: PreferencesSettings
) -> tuple[pl.DataFrame, Sequence[str], int]:
    """Read judgements from files (Parquet, CSV or JSONL) of one or several kinds.

    Returns `criterion`, `document_id` and `judge` (null where unknown), `system_a`, `system_b`,
    `outcome` (`FIRST`, `SECOND` or `TIE`) and `n`, how often; the systems, in the order asked for
    or found: of each pair, the earlier one is A; and how many judgements were left blank.
    """
    key = None if settings.key is None else _read_key(os.fspath(settings.key))
    files = [file for path in paths for file in files_of(path)]
    for path, n in Counter(real_path(file.path) for file in files).items():
        if n > 1:
            raise ValueError(f"every file must be named once, got {path} {n} times")
    frame = pl.concat(_part(file, settings.columns or {}, key) for file in files)
    n_missing = frame["winner"].null_count()
    frame = frame.drop_nulls("winner")
    if frame.is_empty():
        raise ValueError(f"no judgement in {listed(list(paths))}: every entry is blank")
    known = {*frame["system_a"], *frame["system_b"]}
    # Systems in the order of the key, then of the judgements; in a pair, A before B.
    pairs = [*([] if key is None else key.select(_PAIR).rows()), *frame.select(_PAIR).rows()]
    found = [name for name in dict.fromkeys(itertools.chain(*pairs)) if name in known]
    systems = list(dict.fromkeys(settings.systems)) or found
    for system in systems:
        if system not in known:
            raise ValueError(
                f"`--systems` must name judged systems, got `{system}`; there are "
                f"{listed(sorted(known))}"
            )
    frame = _oriented(frame, systems)
    if frame.is_empty():
        raise ValueError(f"no judgement compares any two of {listed(systems)}")
    keys = ["criterion", "document_id", "judge", *_PAIR]
    named = frame.drop_nulls(["document_id", "judge"])
    repeated = named.filter(named.select(keys).is_duplicated())
    _refuse(repeated, "a judge must judge each item once per criterion", keys, "the judgements")
    return frame, systems, n_missing


def _part(file: InputFile, columns: Mapping[str, str], key: pl.DataFrame | None) -> pl.DataFrame:
    """Read one file, whichever kind it is; `winner` is null if blank, `_TIED` for a tie."""
    frame = _renamed(read_texts(file, _COLUMNS), columns)
    if {"item", *SIDES} <= set(frame.columns):
        return _from_sheet(frame, file.path, key)
    _require(frame, _PAIR, file.path)
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in _PAIR)
    a, b = (pl.col(name) for name in _PAIR)
    called_tie = pl.any_horizontal(one.str.to_lowercase().is_in(TIES) for one in (a, b))
    wrong = {
        "`system_a` and `system_b` must be two different systems": (
            a.is_null() | b.is_null() | (a == b)
        ),
        f"a system must not be called {' or '.join(TIES)}, which says that neither was preferred": (
            called_tie
        ),
    }
    if "document_id" in frame.columns:
        wrong["a judgement must have a `document_id`"] = pl.col("document_id").is_null()
    for rule, is_wrong in wrong.items():
        _refuse(frame.filter(is_wrong), rule, _PAIR, file.path)
    return (_with_winner if "winner" in frame.columns else _from_counts)(frame, file.path)


def _renamed(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Give columns our names; a column that already has one of them makes room."""
    for ours in columns:
        if ours not in _COLUMNS:
            raise ValueError(f"`--columns` must rename one of {', '.join(_COLUMNS)}, got `{ours}`")
    theirs = {name: ours for ours, name in columns.items() if name in frame.columns}
    in_the_way = {*theirs.values()} - {*theirs}
    return frame.drop(in_the_way, strict=False).rename(theirs)


def _from_sheet(frame: pl.DataFrame, where: str, key: pl.DataFrame | None) -> pl.DataFrame:
    if key is None:
        raise ValueError(f"{where} is a sheet for judges; name the file of its key with `--key`")
    criteria = [name for name in frame.columns if name not in SHEET_COLUMNS]
    if not criteria:
        raise ValueError(
            f"{where} must have a column for a criterion, got only {listed(frame.columns)}"
        )
    judge = pl.lit(os.path.splitext(os.path.basename(where))[0])
    if "judge" in frame.columns:
        judge = pl.coalesce(pl.col("judge").cast(pl.String), judge)
    rows = frame.with_columns(pl.col("item").cast(pl.String), judge=judge).unpivot(
        criteria, index=["item", "judge"], variable_name="criterion", value_name="side"
    )
    side = pl.col("side").cast(pl.String).str.strip_chars().str.to_lowercase()
    rows = rows.with_columns(side=pl.when(side != "").then(side))
    is_wrong = pl.col("side").is_not_null() & ~pl.col("side").is_in([*SIDES, *TIES])
    rule = f"an entry must be {', '.join([*SIDES, *TIES])} or blank"
    _refuse(rows.filter(is_wrong), rule, ("item", "criterion", "side"), where)
    rows = rows.join(key, on="item", how="left", maintain_order="left")
    unknown = rows.filter(pl.col("system_a").is_null())
    _refuse(unknown, "every item must be in the key", ("item",), where)
    right = pl.when(pl.col("left") == pl.col("system_a")).then("system_b").otherwise("system_a")
    winner = pl.when(side == SIDES[0]).then("left").when(side == SIDES[1]).then(right)
    return _with_winner(rows.with_columns(winner=winner.otherwise("side")), where)


def _from_counts(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Read counts, a row for each outcome; their items are not known any more."""
    _require(frame, _COUNTS, where)
    texts = (pl.col(name).cast(pl.String).str.strip_chars() for name in _COUNTS)
    counts = frame.select(text.cast(pl.UInt64, strict=False) for text in texts)
    bad = frame.filter(counts.select(pl.any_horizontal(pl.all().is_null())).to_series())
    rule = "`wins`, `losses` and `ties` must be whole numbers from 0"
    _refuse(bad, rule, (*_PAIR, *_COUNTS), where)
    winners = (pl.col("system_a"), pl.col("system_b"), pl.lit(_TIED))
    return pl.concat(
        _uniform(frame.with_columns(document_id=pl.lit(None), winner=winner), counts[name])
        for name, winner in zip(_COUNTS, winners, strict=True)
    )


def _with_winner(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    text = pl.col("winner").cast(pl.String).str.strip_chars()
    frame = frame.with_columns(winner=pl.when(text != "").then(text))
    winner = pl.col("winner")
    is_tie = winner.str.to_lowercase().is_in(TIES)
    is_system = (winner == pl.col("system_a")) | (winner == pl.col("system_b"))
    rule = f"`winner` must be one of the two systems, or {' or '.join(TIES)}"
    _refuse(frame.filter(~(is_system | is_tie)), rule, (*_PAIR, "winner"), where)
    winner = pl.when(is_tie & ~is_system).then(pl.lit(_TIED)).otherwise(winner)
    return _uniform(frame.with_columns(winner=winner), pl.repeat(1, frame.height, dtype=pl.UInt64))


def _uniform(frame: pl.DataFrame, n: pl.Series | pl.Expr) -> pl.DataFrame:
    """Keep the columns that all kinds of judgements have, and how often each was given."""
    optional = {
        name: pl.col(name).cast(pl.String) if name in frame.columns else pl.lit(None, pl.String)
        for name in ("criterion", "document_id", "judge")
    }
    optional["criterion"] = optional["criterion"].fill_null(DEFAULT_CRITERION)
    return frame.select(*_PAIR, "winner", **optional, n=n)


def _read_key(path: str) -> pl.DataFrame:
    (file,) = files_of(path)
    frame = read_texts(file, KEY_COLUMNS)
    _require(frame, KEY_COLUMNS, path)
    frame = frame.select(pl.col(name).cast(pl.String) for name in KEY_COLUMNS)
    is_known = (pl.col("left") == pl.col("system_a")) | (pl.col("left") == pl.col("system_b"))
    _refuse(frame.filter(~is_known), "`left` must be one of the two systems", KEY_COLUMNS, path)
    if frame["item"].is_duplicated().any():
        twice = frame["item"].filter(frame["item"].is_duplicated())[0]
        raise ValueError(f"`item` must name one row of {path}, got {twice} twice")
    return frame


def _oriented(frame: pl.DataFrame, systems: Sequence[str]) -> pl.DataFrame:
    """Keep the pairs of these systems, and turn each so that the earlier one is A."""
    place = {system: i for i, system in enumerate(systems)}
    frame = frame.filter(pl.all_horizontal(pl.col(name).is_in(list(place)) for name in _PAIR))
    a, b = (pl.col(name).replace_strict(place, return_dtype=pl.Int64) for name in _PAIR)
    is_turned = a > b
    frame = frame.with_columns(
        system_a=pl.when(is_turned).then("system_b").otherwise("system_a"),
        system_b=pl.when(is_turned).then("system_a").otherwise("system_b"),
    )
    winner = pl.col("winner")
    outcome = pl.when(winner == _TIED).then(TIE).when(winner == pl.col("system_a")).then(FIRST)
    return frame.with_columns(outcome=outcome.otherwise(SECOND))


def _require(frame: pl.DataFrame, names: Sequence[str], where: str) -> None:
    for name in names:
        if name not in frame.columns:
            raise ValueError(
                f"column `{name}` is missing in {where}, which has {listed(frame.columns)}; "
                f"name it with `--columns {name}=NAME`"
            )


def _refuse(bad: pl.DataFrame, rule: str, shown: Sequence[str], where: str) -> None:
    """Say what is wrong with the first of the bad rows, if there are any."""
    if bad.height:
        row = bad.select(shown).row(0, named=True)
        entries = ", ".join(f"{name} {value!r}" for name, value in row.items())
        raise ValueError(f"{rule}, got {entries} in {where} ({counted(bad.height, 'such row')})")
