"""Reads what is to be exported: corpora, and numbers about their candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cluster import list_inputs
from cluster.reading import Wanted, column_names, read_files
from cluster.schema import (
    CANDIDATE,
    DOCUMENT_ID,
    IDS,
    REFERENCES,
    SOURCES,
    SYSTEM_ID,
    UNREADABLE,
    resolve_columns,
)
from pipelines.datasets.rows import Candidate, Numbers
from pipelines.tables.keyed import (
    KEYS,
    NOT_NUMBERS,
    RATER,
    check_unique,
    collect,
    number_columns,
    place,
    scan_files,
)
from pipelines.tables.ratings import pools_of, with_rater_names
from pipelines.tables.scores import find_scores, is_folder


@dataclass(frozen=True, slots=True)
class ExportInputs:
    """Corpora and numbers."""

    corpora: Sequence[str]
    numbers: pl.DataFrame | None
    """Keys and float64 columns."""
    rated: frozenset[str] = frozenset()
    """Columns of numbers that come from raters. Ratings without raters look like scores."""

    def candidates(self) -> Iterator[Candidate]:
        """Read the corpora, a batch at a time.

        Raises
        ------
        ValueError
            If a row lacks a text or a key, or a candidate is there twice.
        """
        seen: set[tuple[str, str]] = set()
        for path in self.corpora:
            for row in _candidates(path):
                if (key := (row.document_id, row.system_id)) in seen:
                    raise ValueError(
                        f"(document_id, system_id) must name one row of the corpora, but "
                        f"({', '.join(key)}) in {path} repeats; keep one row of each"
                    )
                seen.add(key)
                yield row

    def number_rows(self) -> Iterator[Numbers]:
        """Give out the numbers, a row at a time."""
        for row in self.numbers.iter_rows(named=True) if self.numbers is not None else ():
            keys = [row.pop(key) for key in KEYS]
            yield Numbers(kind="scores", document_id=keys[0], system_id=keys[1], values=row)


def export_inputs(paths: Sequence[str]) -> ExportInputs:
    """Tell corpora (they have a column `candidate`) from numbers, and read the numbers.

    Raises
    ------
    ValueError
        If numbers cannot be read, or two inputs have a column of the same name.
    """
    corpora = [path for path in paths if _is_corpus(path)]
    joined: pl.DataFrame | None = None
    rated: set[str] = set()
    for path in (path for path in paths if path not in corpora):
        table, is_rated = _numbers(path)
        if is_rated:
            rated |= {*table.columns} - {*KEYS}
        if joined is None:
            joined = table
            continue
        if shared := sorted({*joined.columns} & {*table.columns} - {*KEYS}):
            raise ValueError(f"`{shared[0]}` must be in one of the inputs, got it in several")
        joined = joined.join(table, on=KEYS, how="full", coalesce=True, maintain_order="left_right")
    return ExportInputs(corpora, joined, frozenset(rated))


def _is_corpus(path: str) -> bool:
    if is_folder(path):
        return False
    file = list_inputs([path])[0]
    return CANDIDATE in column_names(file.path, file.format)


def _candidates(path: str) -> Iterator[Candidate]:
    files = list_inputs([path])
    names = column_names(files[0].path, files[0].format)
    needed = (*IDS, CANDIDATE, *(n for n in (REFERENCES, SOURCES) if _has(names, n)))
    number = 0
    for table in read_files(files, Wanted(needed=needed)):
        for row in table.to_pylist():
            number += 1
            yield _candidate(row, path, number)


def _candidate(row: Mapping[str, Any], path: str, number: int) -> Candidate:
    if why := row[UNREADABLE]:
        raise ValueError(f"cannot read row {number:,} of {path}: {why}; mend it or leave it out")
    for name in (DOCUMENT_ID, SYSTEM_ID, CANDIDATE):
        if row[name] is None:
            keys = f"document {row[DOCUMENT_ID]}, system {row[SYSTEM_ID]}"
            raise ValueError(
                f"`{name}` in {path} must be filled in, got none for {keys}; leave the row out"
            )
    return Candidate(
        document_id=row[DOCUMENT_ID],
        system_id=row[SYSTEM_ID],
        candidate=row[CANDIDATE],
        references=row.get(REFERENCES) or None,
        sources=row.get(SOURCES) or None,
    )


def _has(names: Sequence[str], canonical: str) -> bool:
    try:
        resolve_columns(names, [canonical])
    except ValueError:
        return False
    return True


def _numbers(path: str) -> tuple[pl.DataFrame, bool]:
    """Read numbers of candidates, and whether raters gave them; those of one pool are averaged."""
    files = find_scores(path).files
    where = place(files)
    frame = collect(scan_files(files, {}), where).drop_nulls(KEYS)
    by = [*KEYS]
    is_rated = RATER in frame.columns
    if is_rated:
        by.append(RATER)
        frame = with_rater_names(frame, where)
        _check_one_pool(frame, where)
    check_unique(frame, by, where, "keep one row of each")
    names = [name for name in frame.columns if name not in NOT_NUMBERS]
    frame = number_columns(frame, names, where)
    kept = [name for name in names if name in frame.columns]
    if not kept:
        raise ValueError(f"{where} must have a column of numbers besides the keys, got none")
    means = frame.group_by(KEYS, maintain_order=True).agg(pl.col(name).mean() for name in kept)
    return means, is_rated


def _check_one_pool(frame: pl.DataFrame, where: str) -> None:
    names = frame[RATER].drop_nulls().unique().sort().to_list()
    if len(pools := pools_of(names)) > 1:
        raise ValueError(
            f"raters in {where} must be of one pool to be averaged, got {', '.join(pools)}; keep "
            "the rows of one"
        )
