"""Reads human ratings and chooses aspects, raters of one pool, and systems."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from polars import selectors

from cluster import InputFile
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS, RATER
from pipelines.tables.records import InputRecord
from sms.naming import AnyPath, counted

MEAN_COLUMN = "not named"
"""What stands for the raters where the ratings name none."""

_NUMBER_AT_END = re.compile(r"[-_ .]*\d+$")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratings:
    """Ratings of the systems and by the raters that are kept."""

    frame: pl.DataFrame
    """`document_id`, `system_id`, `rater` where raters are named, and a float64 column per
    aspect; one row per candidate (and rater), sorted by all of these."""
    aspects: Sequence[str]
    raters: str
    """See `About.raters`."""
    rater_names: Sequence[str]
    """Empty where the ratings name none."""
    excluded_systems: Sequence[str]
    files: Sequence[InputFile]
    records: Sequence[InputRecord]
    notes: Sequence[str]

    @property
    def keys(self) -> pl.DataFrame:
        """Rated candidates, each once, sorted."""
        return self.frame.select(KEYS).unique().sort(KEYS)

    def means(self, prefix: str = "") -> pl.DataFrame:
        """Average each aspect over raters; its column is called as it is, after `prefix`."""
        means = self.frame.group_by(KEYS).agg(selectors.by_name(*self.aspects).mean())
        return means.rename({name: f"{prefix}{name}" for name in self.aspects})


def read_ratings(
    path: AnyPath,
    *,
    aspects: Sequence[str] = (),
    raters: Sequence[str] = (),
    systems: Sequence[str] = (),
    exclude_systems: Sequence[str] = (),
    columns: Mapping[str, str],
) -> Ratings:
    """Read ratings (Parquet, CSV or JSONL) and keep what is asked for.

    Where empty, `aspects` are all columns of numbers, all `raters` must be of one pool, all
    `systems` are kept and none is excluded; names may be patterns such as `expert-*`. `columns` has
    our column name to the file's.
    """
    files = keyed.files_of(os.fspath(path))
    where = keyed.place(files)
    table = keyed.open_table(files, columns, keyed.OF_RATINGS)
    read = table.read([*_rater_of(table), *_aspects_of(table, aspects)], role="ratings")
    frame, without_key = keyed.with_key(read.frame, where)
    notes = [*read.notes, *without_key]
    frame, kept_aspects, dropped = _with_aspects(frame, aspects, where)
    names: list[str] = []
    said: list[str] = []
    by, pool = [*KEYS], MEAN_COLUMN
    remedy = "keep one row of each, or name the raters with `--columns rater=NAME`"
    if RATER in frame.columns:
        by, remedy = [*KEYS, RATER], "keep one rating of each rater"
        pool = ",".join(raters) or "all"
        names, said = _chosen_raters(frame[RATER], raters, where)
        frame = frame.filter(pl.col(RATER).is_in(names))
    elif raters:
        raise ValueError(
            f"`raters` needs a column `{RATER}`, which {where} lacks; leave it out, "
            "or name the column with `--columns ratings.rater=NAME`"
        )
    all_systems = frame["system_id"].unique().sort().to_list()
    left_out = keyed.matching(all_systems, exclude_systems, "--exclude-systems")
    kept = keyed.matching(all_systems, systems, "--systems") if systems else all_systems
    kept = [name for name in kept if name not in left_out]
    if not kept:
        raise ValueError("`--systems` and `--exclude-systems` must leave a system, got none")
    if excluded := [name for name in all_systems if name not in kept]:
        notes.append(
            f"{len(kept)} of {len(all_systems)} systems are kept; left out: {', '.join(excluded)}"
        )
    frame = frame.filter(pl.col("system_id").is_in(kept))
    keyed.check_unique(frame, by, where, remedy)
    return Ratings(
        frame=frame.select(selectors.by_name(*by, *kept_aspects)).sort(by),
        aspects=kept_aspects,
        raters=pool,
        rater_names=names,
        excluded_systems=excluded,
        files=files,
        records=read.records,
        notes=[*notes, *dropped, *said],
    )


def columns_apart(columns: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Part `--columns` into the names in the files of texts or scores, and those in the ratings.

    Ids and raters count for both; after `ratings.` for the ratings alone.
    """
    ids = (*KEYS, RATER)
    texts, both, of_ratings = dict[str, str](), dict[str, str](), dict[str, str]()
    for ours, theirs in (columns or {}).items():
        name = ours.removeprefix(keyed.OF_RATINGS)
        if name == ours:
            texts |= {ours: theirs} if ours != RATER else {}
            both |= {ours: theirs} if ours in ids else {}
        elif name in ids:
            of_ratings[name] = theirs
        else:
            raise ValueError(
                f"of the ratings, `--columns` can rename only {keyed.OF_RATINGS}"
                f"{f', {keyed.OF_RATINGS}'.join(ids)}, got `{ours}`; aspects keep their names"
            )
    return texts, both | of_ratings


def _with_aspects(
    frame: pl.DataFrame, asked: Sequence[str], where: str
) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Turn aspects into numbers; return them, and what to say of columns that are left out."""
    names = [name for name in frame.columns if name not in keyed.NOT_NUMBERS]
    numbers, kept, notes = keyed.number_columns(frame, names, where)
    if text := [name for name in asked if name not in kept]:
        raise ValueError(f"aspect `{text[0]}` in {where} must hold numbers, got text only")
    if not kept:
        firsts = [
            f"{name} ({str(cells[0])[:20]!r})"
            for name in names[: keyed.SHOWN]
            if len(cells := keyed.cells_of(frame, name).drop_nulls().head(1))
        ]
        raise ValueError(
            f"{where} must have a column of numbers in addition to the ids, got "
            + (", ".join(firsts) or "none")
            + "".join(f". {note}" for note in notes)
        )
    return numbers, kept, notes


def _rater_of(table: keyed.KeyedTable) -> list[str]:
    return [RATER] if RATER in table.names else []


def _aspects_of(table: keyed.KeyedTable, asked: Sequence[str]) -> Sequence[str]:
    """Return the aspects that were asked for, all columns that may be one where none were."""
    names = [name for name in table.names if name not in keyed.NOT_NUMBERS]
    for i, name in enumerate(asked):
        if name in asked[:i]:
            raise ValueError(f"`aspects` must not repeat a name, got {name!r} twice")
        if name not in names:
            raise ValueError(
                f"aspect `{name}` is not in {table.where}, which has {keyed.listed(names)}"
            )
    return asked or names


def pools_of(raters: Sequence[str]) -> dict[str, list[str]]:
    """Group raters by their name without the number at its end; one pool, "", if none has one."""
    pools: dict[str, list[str]] = {}
    for name in raters:
        pools.setdefault(_NUMBER_AT_END.sub("", name), []).append(name)
    return pools if any(_NUMBER_AT_END.search(name) for name in raters) else {"": list(raters)}


def _chosen_raters(
    column: pl.Series, patterns: Sequence[str], where: str
) -> tuple[list[str], list[str]]:
    """Return the raters asked for, all of one pool where none are, and what to say about it."""
    if n_unnamed := column.null_count():
        lacking = counted(n_unnamed, "row lacks", "rows lack")
        raise ValueError(f"`{RATER}` in {where} must be filled in, but {lacking} it")
    names = column.unique().sort().to_list()
    pools = pools_of(names)
    if patterns:
        kept = keyed.matching(names, patterns, "raters")
        mixed = [pool for pool, members in pools.items() if set(members) & set(kept)]
        notes = [f"Raters kept: {len(kept)} of {len(names)} ({keyed.listed(kept)})"]
        if len(mixed) > 1:
            notes.append(f"Raters of {len(mixed)} pools are mixed, as chosen: {', '.join(mixed)}")
        return kept, notes
    if len(pools) > 1:
        shown = "; ".join(f"{pool}: {keyed.listed(members, 6)}" for pool, members in pools.items())
        raise ValueError(
            f"the names of the raters in {where} show {len(pools)} pools ({shown}), which are "
            f"not mixed by default; choose with `--raters '{next(iter(pools))}*'`, or with "
            "`raters` in a `--config` file"
        )
    return names, [f"Raters: all {len(names)} ({keyed.listed(names)})"]
