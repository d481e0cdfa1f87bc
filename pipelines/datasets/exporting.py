"""Writes corpora and scores in the format of another tool; the opposite of importing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cluster import list_inputs
from cluster.output import Output
from cluster.reading import column_names, read_files
from cluster.schema import (
    CANDIDATE,
    DOCUMENT_ID,
    IDS,
    REFERENCES,
    SOURCES,
    SYSTEM_ID,
    UNREADABLE,
    Wanted,
    resolve_columns,
)
from pipelines.datasets import sacrerouge
from pipelines.datasets.rows import Candidate, Numbers
from pipelines.tables.keyed import (
    KEYS,
    NOT_NUMBERS,
    RATER,
    check_unique,
    collect,
    notes_on_dropped,
    number_columns,
    place,
    scan_files,
)
from pipelines.tables.ratings import pools_of, with_rater_names
from pipelines.tables.scores import find_scores, is_folder
from sms.naming import AnyPath, OneOrMore, nearest, several


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """What was written."""

    out: str
    files: Sequence[str]
    """Relative to `out`, sorted."""
    n_candidates: int
    n_scored: int
    """Candidates with scores."""
    notes: Sequence[str] = ()
    """What was left out."""


def export_data(name: str, paths: OneOrMore, out: AnyPath) -> ExportRun:
    """Write a corpus, scores or ratings in the format of another tool.

    Raises ValueError if the format is not known or cannot hold the data, or `out` exists.
    """
    if name != sacrerouge.NAME:
        raise ValueError(f"unknown format `{name}`; {nearest(name, [sacrerouge.NAME])}")
    output = Output.named("--out", out)
    output.check_folder(is_new=True)
    inputs = several(paths)
    corpora = [path for path in inputs if _is_corpus(path)]
    numbers, notes = _joined_numbers([path for path in inputs if path not in corpora])
    with output.filled() as folder:
        candidates = (sacrerouge.candidate_line(row) for row in _candidates(corpora))
        scores = (sacrerouge.numbers_line(row) for row in _number_rows(numbers))
        n_candidates = _write_lines(folder / sacrerouge.SUMMARIES_FILE, candidates)
        n_scored = _write_lines(folder / sacrerouge.METRICS_FILE, scores)
        files = sorted(path.name for path in folder.iterdir())
    return ExportRun(
        out=output.path, files=files, n_candidates=n_candidates, n_scored=n_scored, notes=notes
    )


def _write_lines(file: Path, lines: Iterator[str]) -> int:
    """Write lines and return how many; where there are none there is no file."""
    n_lines = 0
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        for line in lines:
            stream.write(line)
            n_lines += 1
    if not n_lines:
        file.unlink()
    return n_lines


# Corpora


def _is_corpus(path: str) -> bool:
    if is_folder(path):
        return False
    file = list_inputs([path])[0]
    return CANDIDATE in column_names(file.path, file.format)


def _candidates(corpora: Sequence[str]) -> Iterator[Candidate]:
    """Read the corpora, a batch at a time, each candidate once."""
    seen: set[tuple[str, str]] = set()
    for path in corpora:
        files = list_inputs([path])
        names = column_names(files[0].path, files[0].format)
        needed = (*IDS, CANDIDATE, *(name for name in (REFERENCES, SOURCES) if _has(names, name)))
        number = 0
        for table in read_files(files, Wanted(needed=needed)):
            for cells in table.to_pylist():
                number += 1
                row = _candidate(cells, path, number)
                if (key := (row.document_id, row.system_id)) in seen:
                    raise ValueError(
                        f"(document_id, system_id) must name one row of the corpora, but "
                        f"({', '.join(key)}) in {path} repeats; keep one row of each"
                    )
                seen.add(key)
                yield row


def _candidate(row: Mapping[str, Any], path: str, number: int) -> Candidate:
    if why := row[UNREADABLE]:
        raise ValueError(f"cannot read row {number:,} of {path}: {why}; correct it or leave it out")
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


# Numbers


def _joined_numbers(paths: Sequence[str]) -> tuple[pl.DataFrame | None, list[str]]:
    """Read numbers of candidates side by side, and notes on columns that hold none."""
    joined: pl.DataFrame | None = None
    notes: list[str] = []
    for path in paths:
        table, own_notes = _numbers(path)
        notes += own_notes
        if joined is None:
            joined = table
            continue
        if shared := sorted({*joined.columns} & {*table.columns} - {*KEYS}):
            raise ValueError(
                f"`{shared[0]}` must be in only one of the inputs, but is in several; leave out "
                "the others"
            )
        joined = joined.join(table, on=KEYS, how="full", coalesce=True, maintain_order="left_right")
    return joined, notes


def _numbers(path: str) -> tuple[pl.DataFrame, list[str]]:
    """Read numbers of candidates; those of the raters of one pool are averaged."""
    files = find_scores(path).files
    where = place(files)
    frame = collect(scan_files(files, {}), where).drop_nulls(KEYS)
    by = [*KEYS]
    if RATER in frame.columns:
        by.append(RATER)
        frame = with_rater_names(frame, where)
        names = frame[RATER].drop_nulls().unique().sort().to_list()
        if len(pools := pools_of(names)) > 1:
            raise ValueError(
                f"raters in {where} must be of one pool to be averaged, got {', '.join(pools)}; "
                "keep the rows of one"
            )
    check_unique(frame, by, where, "keep one row of each")
    names = [name for name in frame.columns if name not in NOT_NUMBERS]
    numbers = number_columns(frame, names, where)
    notes = notes_on_dropped(frame, names, numbers, where)
    kept = [name for name in names if name in numbers.columns]
    if not kept:
        raise ValueError(
            f"{where} must have a column of numbers besides the keys, got none"
            + "".join(f"; {note}" for note in notes)
        )
    means = numbers.group_by(KEYS, maintain_order=True).agg(pl.col(name).mean() for name in kept)
    return means, notes


def _number_rows(numbers: pl.DataFrame | None) -> Iterator[Numbers]:
    for row in numbers.iter_rows(named=True) if numbers is not None else ():
        keys = [row.pop(key) for key in KEYS]
        yield Numbers(kind="scores", document_id=keys[0], system_id=keys[1], values=row)
