"""Writes corpora, scores and ratings as JSON lines of sacrerouge.

Every line has `instance_id`, `summarizer_id` and `summarizer_type` (`reference` for people's). A
line of summaries has `summary`, `references` and `documents`; a line of metrics has `metrics`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

from cluster import list_inputs
from cluster.output import Output
from cluster.reading import read_files
from cluster.rows import column_names
from cluster.schema import CANDIDATE, IDS, REFERENCES, SOURCES, UNREADABLE, Wanted, resolve_columns
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS, RATER
from pipelines.tables.ratings import pools_of
from pipelines.tables.scores import find_scores, is_folder
from sms.naming import AnyPath, OneOrMore, nearest, several

NAME = "sacrerouge"
SUMMARIES_FILE, METRICS_FILE = "summaries.jsonl", "metrics.jsonl"
HUMAN_PREFIX = "human-"
"""Begins the `system_id` of a summary that a person wrote."""


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
    if name != NAME:
        raise ValueError(f"unknown format `{name}`; {nearest(name, [NAME])}")
    output = Output.named("--out", out)
    output.check_folder(is_new=True)
    inputs = several(paths)
    corpora = [path for path in inputs if not is_folder(path) and CANDIDATE in _names(path)]
    numbers, notes = _joined_numbers([path for path in inputs if path not in corpora])
    with output.filled() as folder:
        n_candidates = _write_lines(folder / SUMMARIES_FILE, _candidate_lines(corpora))
        n_scored = _write_lines(folder / METRICS_FILE, _number_lines(numbers))
        files = sorted(path.name for path in folder.iterdir())
    return ExportRun(
        out=output.path, files=files, n_candidates=n_candidates, n_scored=n_scored, notes=notes
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


def _line(document: str, system: str, rest: Mapping[str, object]) -> str:
    name = system.removeprefix(HUMAN_PREFIX)
    for key in (document, name):
        if not key or key != key.strip():
            raise ValueError(
                "sacrerouge needs ids that are not empty and have no spaces around them, got "
                f"{key!r} for document {document}, system {system}; rename it"
            )
    cells = {
        "instance_id": document,
        "summarizer_id": name,
        "summarizer_type": "reference" if system.startswith(HUMAN_PREFIX) else "peer",
        **rest,
    }
    return f"{json.dumps(cells, ensure_ascii=False)}\n"


# Corpora


def _names(path: str) -> Sequence[str]:
    file = list_inputs([path])[0]
    return column_names(file.path, file.format)


def _has(names: Sequence[str], canonical: str) -> bool:
    with suppress(ValueError):
        return bool(resolve_columns(names, [canonical]))
    return False


def _candidate_lines(corpora: Sequence[str]) -> Iterator[str]:
    """Read the corpora, a batch at a time, each candidate once."""
    seen: set[tuple[str, str]] = set()
    for path in corpora:
        names = _names(path)
        lists = [name for name in (REFERENCES, SOURCES) if _has(names, name)]
        number = 0
        for table in read_files(list_inputs([path]), Wanted(needed=(*IDS, CANDIDATE, *lists))):
            for row in table.to_pylist():
                number += 1
                line = _candidate_line(row, path, number)
                if (key := tuple(row[name] for name in IDS)) in seen:
                    raise ValueError(
                        f"(document_id, system_id) must name one row of the corpora, but "
                        f"({', '.join(key)}) in {path} repeats; keep one row of each"
                    )
                seen.add(key)
                yield line


def _candidate_line(row: Mapping[str, Any], path: str, number: int) -> str:
    if why := row[UNREADABLE]:
        raise ValueError(f"cannot read row {number:,} of {path}: {why}; correct it or leave it out")
    document, system = (row[name] for name in IDS)
    for name in (*IDS, CANDIDATE):
        if row[name] is None:
            raise ValueError(
                f"`{name}` in {path} must be filled in, got none for document {document}, "
                f"system {system}; leave the row out"
            )
    rest = {
        "summary": {"text": row[CANDIDATE]},
        "references": [{"text": text} for text in row.get(REFERENCES) or ()],
        "documents": [{"text": text} for text in row.get(SOURCES) or ()],
    }
    return _line(document, system, rest)


# Numbers


def _joined_numbers(paths: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """Read numbers of candidates side by side, and notes on what is left out."""
    joined = pl.DataFrame(schema=dict.fromkeys(KEYS, pl.String))
    notes: list[str] = []
    for path in paths:
        table = _numbers(path, notes)
        if shared := sorted({*joined.columns} & {*table.columns} - {*KEYS}):
            raise ValueError(
                f"`{shared[0]}` must be in only one of the inputs, but is in several; leave out "
                "the others"
            )
        joined = joined.join(table, on=KEYS, how="full", coalesce=True, maintain_order="left_right")
    return joined, notes


def _numbers(path: str, notes: list[str]) -> pl.DataFrame:
    """Read numbers of candidates; those of the raters of one pool are averaged."""
    files = find_scores(path).files
    table = keyed.open_table(files, {})
    where, read = table.where, table.read()
    frame, without_key = keyed.with_key(read.frame, where, may_be_empty=True)
    notes += [*read.notes, *without_key]
    by = [*KEYS]
    if RATER in frame.columns:
        by.append(RATER)
        pools = pools_of(frame[RATER].drop_nulls().unique().sort().to_list())
        if len(pools) > 1:
            raise ValueError(
                f"raters in {where} must be of one pool to be averaged, got {', '.join(pools)}; "
                "keep the rows of one"
            )
    keyed.check_unique(frame, by, where, "keep one row of each")
    names = [name for name in frame.columns if name not in keyed.NOT_NUMBERS]
    numbers, kept, dropped = keyed.number_columns(frame, names, where)
    notes += dropped
    if not kept:
        raise ValueError(
            f"{where} must have a column of numbers besides the keys, got none"
            + "".join(f"; {note}" for note in dropped)
        )
    return numbers.group_by(KEYS, maintain_order=True).agg(selectors.by_name(*kept).mean())


def _number_lines(numbers: pl.DataFrame) -> Iterator[str]:
    for document, system, *values in numbers.iter_rows():
        cells = zip(numbers.columns[2:], values, strict=True)
        known = {name: value for name, value in cells if value is not None}
        yield _line(document, system, {"metrics": known})
