"""Writes corpora and scores in the format of sacrerouge; the opposite of importing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cluster import list_inputs
from cluster.output import Output
from cluster.reading import column_names, read_files
from cluster.schema import CANDIDATE, IDS, REFERENCES, SOURCES, UNREADABLE, Wanted, resolve_columns
from pipelines.datasets import sacrerouge
from pipelines.datasets.rows import Candidate, Numbers
from pipelines.tables.keyed import KEYS, collect, place, scan_files
from pipelines.tables.scores import Scores, find_scores, is_folder, read_scores
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
    corpora = [path for path in inputs if not is_folder(path) and CANDIDATE in _names(path)]
    scores = _scores([path for path in inputs if path not in corpora])
    with output.filled() as folder:
        candidates = map(sacrerouge.candidate_line, _candidates(corpora))
        n_candidates = _write_lines(folder / sacrerouge.SUMMARIES_FILE, candidates)
        numbers = map(sacrerouge.numbers_line, _numbers(scores.frame)) if scores else iter(())
        n_scored = _write_lines(folder / sacrerouge.METRICS_FILE, numbers)
        files = sorted(path.name for path in folder.iterdir())
    return ExportRun(
        out=output.path,
        files=files,
        n_candidates=n_candidates,
        n_scored=n_scored,
        notes=scores.notes if scores else (),
    )


def _write_lines(file: Path, lines: Iterator[str]) -> int:
    """Write lines and return how many; where there are none there is no file."""
    n_lines = 0
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        for n_lines, line in enumerate(lines, start=1):  # noqa: B007  (read after the loop)
            stream.write(line)
    if not n_lines:
        file.unlink()
    return n_lines


# Corpora


def _names(path: str) -> Sequence[str]:
    file = list_inputs([path])[0]
    return column_names(file.path, file.format)


def _candidates(corpora: Sequence[str]) -> Iterator[Candidate]:
    """Read the corpora, a batch at a time, each candidate once."""
    seen: set[tuple[str, str]] = set()
    for path in corpora:
        names = _names(path)
        lists = [name for name in (REFERENCES, SOURCES) if _has(names, name)]
        number = 0
        for table in read_files(list_inputs([path]), Wanted(needed=(*IDS, CANDIDATE, *lists))):
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
    document_id, system_id = (row[name] for name in IDS)
    for name in (*IDS, CANDIDATE):
        if row[name] is None:
            raise ValueError(
                f"`{name}` in {path} must be filled in, got none for document {document_id}, "
                f"system {system_id}; leave the row out"
            )
    return Candidate(
        document_id=document_id,
        system_id=system_id,
        candidate=row[CANDIDATE],
        references=row.get(REFERENCES) or None,
        source=row.get(SOURCES) or None,
    )


def _has(names: Sequence[str], canonical: str) -> bool:
    try:
        resolve_columns(names, [canonical])
    except ValueError:
        return False
    return True


# Scores and ratings


def _scores(paths: Sequence[str]) -> Scores | None:
    """Read the numbers of all candidates that any of the files has."""
    if not paths:
        return None
    inputs = [find_scores(path) for path in paths]
    keys = [
        collect(scan_files(each.files, {}).select(KEYS), place(each.files)).drop_nulls()
        for each in inputs
    ]
    return read_scores(inputs, pl.concat(keys).unique(maintain_order=True), columns={})


def _numbers(scores: pl.DataFrame) -> Iterator[Numbers]:
    for row in scores.iter_rows(named=True):
        document_id, system_id = (row.pop(key) for key in KEYS)
        yield Numbers(kind="scores", document_id=document_id, system_id=system_id, values=row)
