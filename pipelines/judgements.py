"""Reads judgements of pairs of systems: one a row, filled sheets with their key, or counts.

Whatever they come from, they become one table: a row says how often, under a criterion, each of
two systems was preferred, for an item and a judge where these are known.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from cluster import InputFile
from cluster.store import real_path
from pipelines.tables.keyed import files_of, listed, read_table
from sms.naming import AnyPath, OneOrMore, several

DEFAULT_CRITERION = "overall"
"""Where the judgements name none."""
TIES = ("tie", "=")
"""What a judge may write for no difference."""
KEY_COLUMNS = ("item", "document_id", "system_a", "system_b", "left")
"""Of the file that says which text of a sheet is whose; `left` names the system on the left."""
SHEET_COLUMNS = ("item", "judge", "left", "right", "comment")
"""Of a sheet; every other column is a criterion."""
SIDES = ("left", "right")
"""What a judge may write into a sheet besides a tie."""
COUNTS = ("wins_a", "wins_b", "ties")

_PAIR = ("system_a", "system_b")
_GIVEN_COUNTS = {"wins_a": "wins", "wins_b": "losses", "ties": "ties"}
_COLUMNS = (
    "criterion", "document_id", "judge", *_PAIR, "winner", *_GIVEN_COUNTS.values(),
    *SHEET_COLUMNS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgements:
    """Judgements of pairs of systems."""

    frame: pl.DataFrame
    """`criterion`, `document_id` and `judge` (null where unknown), `system_a`, `system_b`, and how
    often each was preferred and neither: `wins_a`, `wins_b`, `ties`. Of each pair, the system
    that stands first in `systems` is A."""
    systems: Sequence[str]
    criteria: Sequence[str]
    """In the order in which they were found, as are the systems unless one was asked for."""
    n_missing: int
    """Judgements that were left blank."""


def read_judgements(
    paths: OneOrMore,
    *,
    key: AnyPath | None = None,
    systems: str | Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> Judgements:
    """Read judgements from files (Parquet, CSV or JSONL) of one or several kinds.

    A file has a row per judgement (`document_id`, `system_a`, `system_b`, `winner`, which is one of
    the two or a tie, maybe `judge` and `criterion`), or counts (`system_a`, `system_b`, and `wins`,
    `losses`, `ties` of the former), or is a filled sheet, of which `key` is the key; one without
    judges' names is the work of a judge called like the file. `systems` are those to compare, the
    first one as A in every pair; all, where empty. `columns` has our column name to the file's.

    Raises ValueError if a column is missing, an entry is none of those allowed, a judge has judged
    an item twice, or nothing is left.
    """
    paths, systems = several(paths), several(systems)
    keyed = None if key is None else _read_key(os.fspath(key))
    files = [file for path in paths for file in files_of(path)]
    for path, n in Counter(real_path(file.path) for file in files).items():
        if n > 1:
            raise ValueError(f"every file must be named once, got {path} {n} times")
    frame = pl.concat(_part(file, columns or {}, keyed) for file in files)
    n_missing = frame["wins_a"].null_count()
    frame = frame.drop_nulls("wins_a")
    if frame.is_empty():
        raise ValueError(f"no judgement in {listed(list(paths))}: every entry is blank")
    named = list(dict.fromkeys(systems)) or _in_order_found(frame, keyed)
    known = {*frame["system_a"], *frame["system_b"]}
    for system in named:
        if system not in known:
            raise ValueError(
                f"`--systems` must name judged systems, got `{system}`; there are "
                f"{listed(sorted(known))}"
            )
    frame = _oriented(frame, named)
    if frame.is_empty():
        raise ValueError(f"no judgement compares any two of {listed(named)}")
    _check_judged_once(frame)
    criteria = frame["criterion"].unique(maintain_order=True).to_list()
    return Judgements(frame=frame, systems=named, criteria=criteria, n_missing=n_missing)


def _part(file: InputFile, columns: Mapping[str, str], keyed: pl.DataFrame | None) -> pl.DataFrame:
    """Read one file, whichever kind it is."""
    frame = _renamed(read_table(file), columns)
    for name, dtype in frame.schema.items():
        if name in _COLUMNS and dtype.is_nested():
            raise ValueError(f"column `{name}` of {file.path} must be text or numbers, got {dtype}")
    if {"item", *SIDES} <= set(frame.columns):
        return _from_sheet(frame, file.path, keyed)
    _require(frame, _PAIR, file.path)
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in _PAIR)
    a, b = (pl.col(name) for name in _PAIR)
    is_tie = pl.any_horizontal(one.str.to_lowercase().is_in(TIES) for one in (a, b))
    wrong = {
        "`system_a` and `system_b` must be two different systems": a.is_null()
        | b.is_null()
        | (a == b),
        f"a system must not be called {' or '.join(TIES)}, which says that neither was preferred": (
            is_tie
        ),
    }
    if "document_id" in frame.columns:
        wrong["a judgement must have a `document_id`"] = pl.col("document_id").is_null()
    for rule, is_wrong in wrong.items():
        _refuse(frame.filter(is_wrong), rule, _PAIR, file.path)
    if "winner" in frame.columns:
        return _from_winners(frame, file.path)
    _require(frame, tuple(_GIVEN_COUNTS.values()), file.path)
    return _from_counts(frame, file.path)


def _renamed(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Give columns our names; a column that already has one of them makes room."""
    for ours in columns:
        if ours not in _COLUMNS:
            raise ValueError(f"`--columns` must rename one of {', '.join(_COLUMNS)}, got `{ours}`")
    theirs = {name: ours for ours, name in columns.items() if name in frame.columns}
    in_the_way = {*theirs.values()} - {*theirs}
    return frame.drop(in_the_way, strict=False).rename(theirs)


def _from_winners(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Read a row per judgement."""
    winner = pl.col("winner").cast(pl.String).str.strip_chars()
    frame = frame.with_columns(winner=pl.when(winner != "").then(winner))
    winner = pl.col("winner")
    wins = [winner == pl.col(name) for name in _PAIR]
    is_tie = winner.str.to_lowercase().is_in(TIES) & ~wins[0] & ~wins[1]
    _refuse(
        frame.filter(winner.is_not_null() & ~is_tie & ~wins[0] & ~wins[1]),
        f"`winner` must be one of the two systems, or {' or '.join(TIES)}",
        (*_PAIR, "winner"),
        where,
    )
    outcomes = (*wins, is_tie)
    return _uniform(
        frame.with_columns(
            outcome.cast(pl.Int64).alias(name)
            for name, outcome in zip(COUNTS, outcomes, strict=True)
        )
    )


def _from_counts(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Read counts; their items are not known any more."""
    counts = [
        pl.col(given).cast(pl.String).str.strip_chars().cast(pl.Int64, strict=False).alias(name)
        for name, given in _GIVEN_COUNTS.items()
    ]
    given = tuple(_GIVEN_COUNTS.values())
    read = frame.with_columns(counts)
    is_bad = pl.any_horizontal((pl.col(name).is_null() | (pl.col(name) < 0)) for name in COUNTS)
    bad = frame.filter(read.select(is_bad).to_series())
    _refuse(
        bad, "`wins`, `losses` and `ties` must be whole numbers from 0", (*_PAIR, *given), where
    )
    return _uniform(read).with_columns(document_id=pl.lit(None, pl.String))


def _from_sheet(frame: pl.DataFrame, where: str, keyed: pl.DataFrame | None) -> pl.DataFrame:
    """Read a filled sheet: a row per item, a column per criterion."""
    if keyed is None:
        raise ValueError(f"{where} is a sheet for judges; name the file of its key with `--key`")
    criteria = [name for name in frame.columns if name not in SHEET_COLUMNS]
    if not criteria:
        raise ValueError(f"{where} has no column for a criterion besides {listed(frame.columns)}")
    judge = pl.lit(os.path.splitext(os.path.basename(where))[0])
    if "judge" in frame.columns:
        judge = pl.coalesce(pl.col("judge").cast(pl.String), judge)
    rows = frame.with_columns(pl.col("item").cast(pl.String), judge=judge).unpivot(
        criteria, index=["item", "judge"], variable_name="criterion", value_name="side"
    )
    side = pl.col("side").cast(pl.String).str.strip_chars().str.to_lowercase()
    rows = rows.with_columns(side=pl.when(side != "").then(side))
    _refuse(
        rows.filter(pl.col("side").is_not_null() & ~pl.col("side").is_in([*SIDES, *TIES])),
        f"an entry must be {', '.join([*SIDES, *TIES])} or blank",
        ("item", "criterion", "side"),
        where,
    )
    rows = rows.join(keyed, on="item", how="left", maintain_order="left")
    _refuse(
        rows.filter(pl.col("system_a").is_null()),
        "every item must be in the key",
        ("item",),
        where,
    )
    right = pl.when(pl.col("left") == pl.col("system_a")).then("system_b").otherwise("system_a")
    winner = pl.when(side == SIDES[0]).then("left").when(side == SIDES[1]).then(right)
    return _from_winners(rows.with_columns(winner=winner.otherwise("side")), where)


def _uniform(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the columns that all kinds of judgements have."""
    optional = {
        name: pl.col(name).cast(pl.String) if name in frame.columns else pl.lit(None, pl.String)
        for name in ("criterion", "document_id", "judge")
    }
    optional["criterion"] = optional["criterion"].fill_null(DEFAULT_CRITERION)
    return frame.select(*(value.alias(name) for name, value in optional.items()), *_PAIR, *COUNTS)


def _read_key(path: str) -> pl.DataFrame:
    (file,) = files_of(path)
    frame = read_table(file)
    _require(frame, KEY_COLUMNS, path)
    frame = frame.select(pl.col(name).cast(pl.String) for name in KEY_COLUMNS)
    is_known = (pl.col("left") == pl.col("system_a")) | (pl.col("left") == pl.col("system_b"))
    _refuse(frame.filter(~is_known), "`left` must be one of the two systems", KEY_COLUMNS, path)
    if frame["item"].is_duplicated().any():
        twice = frame["item"].filter(frame["item"].is_duplicated())[0]
        raise ValueError(f"`item` must name one row of {path}, got {twice} twice")
    return frame


def _in_order_found(frame: pl.DataFrame, keyed: pl.DataFrame | None) -> list[str]:
    """List the systems as the key has them, then as the judgements do, A before B."""
    pairs = [] if keyed is None else [*keyed.select(_PAIR).iter_rows()]
    names = [*pairs, *frame.select(_PAIR).iter_rows()]
    judged = {*frame["system_a"], *frame["system_b"]}
    return [name for name in dict.fromkeys(n for pair in names for n in pair) if name in judged]


def _oriented(frame: pl.DataFrame, systems: Sequence[str]) -> pl.DataFrame:
    """Keep the pairs of these systems, and turn each so that the earlier one is A."""
    place = {system: i for i, system in enumerate(systems)}
    frame = frame.filter(pl.all_horizontal(pl.col(name).is_in(list(place)) for name in _PAIR))
    places = [pl.col(name).replace_strict(place, return_dtype=pl.Int64) for name in _PAIR]
    turned = {
        "system_a": "system_b",
        "system_b": "system_a",
        "wins_a": "wins_b",
        "wins_b": "wins_a",
    }
    return frame.with_columns(
        pl.when(places[0] > places[1]).then(pl.col(other)).otherwise(pl.col(name)).alias(name)
        for name, other in turned.items()
    )


def _check_judged_once(frame: pl.DataFrame) -> None:
    keys = ["criterion", "document_id", "judge", *_PAIR]
    named = frame.drop_nulls(["document_id", "judge"])
    repeated = named.filter(named.select(keys).is_duplicated())
    _refuse(repeated, "a judge must judge each item once per criterion", keys, "the judgements")


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
        raise ValueError(f"{rule}, got {entries} in {where} ({bad.height:,} such rows)")
