"""Imports a data set: reads its files, writes corpus, ratings and scores, counts."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.fetching import fetch
from cluster.output import Output
from pipelines.datasets.registry import find_source
from pipelines.datasets.rows import (
    Candidate,
    LeftOut,
    Numbers,
    Pair,
    Row,
    differing,
    is_human,
)
from pipelines.datasets.source import DataSource
from pipelines.datasets.tables import GrowingTable
from sms.naming import AnyPath, OneOrMore, several

CORPUS, RATINGS, SCORES = "corpus", "ratings", "scores"

_OPTIONS = {CORPUS: "--out", RATINGS: "--ratings", SCORES: "--scores"}
_THINGS = {CORPUS: "texts", RATINGS: "ratings", SCORES: "scores"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTable:
    """One file that was written, or (`path` is None) could have been."""

    n_rows: int
    columns: Sequence[str]
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRun:
    """What came of an import."""

    source: DataSource
    tables: Mapping[str, ImportedTable]
    """By `corpus`, `ratings`, `scores`; those the files gave rows for."""
    human_systems: Sequence[str]
    """Systems of the corpus whose texts people wrote, in the order they turned up."""
    left_out: Mapping[str, int]
    """Rows by reason."""


def import_data(
    name: str,
    paths: OneOrMore,
    out: AnyPath,
    *,
    ratings: AnyPath | None = None,
    scores: AnyPath | None = None,
) -> ImportRun:
    """Turn a data set, as its owner gives it out, into Parquet files with our columns.

    Memory does not grow with the texts; of a judged data set the keys are remembered, so that a
    candidate that is there twice is noticed.

    Parameters
    ----------
    name : str
        One of `SOURCES`.
    paths : path or sequence of paths
        Files, folders or tar archives that hold what the data set's `takes` says. What is on a
        store is copied first, as `cluster.fetching` does it.
    out : path or URL
        Parquet file for the pairs or the corpus.
    ratings, scores : path or URL, optional
        Parquet files for what people and what metrics said of the candidates.

    Returns
    -------
    ImportRun
        Where the rows went, and what was left out.

    Raises
    ------
    ValueError
        If a file is not of the format (the message has its line), gives no row, or an output
        exists already. Nothing is written then.
    OSError
        If a file cannot be read.
    """
    source = find_source(name)
    inputs = several(paths)
    asked = {CORPUS: out, RATINGS: ratings, SCORES: scores}
    outputs = {
        table: Output.named(_OPTIONS[table], path)
        for table, path in asked.items()
        if path is not None
    }
    for output in outputs.values():
        output.check_file(".parquet", is_new=True)
        output.check_apart(inputs)
    outs = {table: output.path for table, output in outputs.items()}
    if len(set(outs.values())) < len(outs):
        raise ValueError(f"the outputs must be different files, got {', '.join(outs.values())}")
    with tempfile.TemporaryDirectory() as work:
        sorter = _Sorter(Path(work))
        try:
            for row in source.read([fetch(path) for path in inputs]):
                sorter.add(row)
            for written in sorter.tables.values():
                written.end()
            _check(source, sorter, outs)
            for table in reversed(outs):  # the corpus last: where it is, the others are
                sorter.tables[table].publish(outs[table])
        finally:
            sorter.close()
    return ImportRun(
        source=source,
        tables=dict(sorter.imported(outs)),
        human_systems=list(sorter.human_systems),
        left_out=dict(sorter.left_out.most_common()),
    )


class _Sorter:
    """Sends rows to their tables and counts what is left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[tuple[str, ...], int] = {}
        """Hash of what a candidate (and rater) has, by table and key."""
        self.tables: dict[str, GrowingTable] = {}
        self.human_systems: dict[str, None] = {}
        self.left_out: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        if isinstance(row, LeftOut):
            self.left_out[row.reason] += 1
            return
        table = row.kind if isinstance(row, Numbers) else CORPUS
        if not isinstance(row, Pair) and (reason := self._repeated(table, row)):
            self.left_out[reason] += 1
            return
        if isinstance(row, Candidate) and is_human(row.system_id):
            self.human_systems[row.system_id] = None
        self._table(table).add(row)

    def close(self) -> None:
        """Close what is open, also after an error."""
        for table in self.tables.values():
            table.close()

    def imported(self, outs: Mapping[str, str]) -> Iterator[tuple[str, ImportedTable]]:
        for name, table in self.tables.items():
            yield (
                name,
                ImportedTable(n_rows=table.n_rows, columns=table.schema.names, path=outs.get(name)),
            )

    def _table(self, name: str) -> GrowingTable:
        if name not in self.tables:
            folder = self._folder / name
            folder.mkdir()
            self.tables[name] = GrowingTable(folder)
        return self.tables[name]

    def _repeated(self, table: str, row: Candidate | Numbers) -> str | None:
        """Say why a row is left out if its candidate was there before, and remember it if not."""
        if isinstance(row, Numbers):
            rater, content = row.rater or "", hash(tuple(row.values.items()))
        else:
            rater = ""
            content = hash(
                (row.candidate, *(tuple(t or ()) for t in (row.references, row.sources)))
            )
        key = (table, row.document_id, row.system_id, rater)
        if key not in self._seen:
            self._seen[key] = content
            return None
        if self._seen[key] == content:
            return f"{_THINGS[table]} that are there twice"
        return differing(_THINGS[table])


def _check(source: DataSource, sorter: _Sorter, outs: Mapping[str, str]) -> None:
    for table in outs:
        if table in sorter.tables:
            continue
        option = "FILES" if table == CORPUS else _OPTIONS[table]
        why = "".join(f"; left out: {n}, {reason}" for reason, n in sorter.left_out.items())
        raise ValueError(
            f"`{option}` of {source.name} needs files with {_THINGS[table]}, got none; it takes "
            f"{source.takes}{why}"
        )
