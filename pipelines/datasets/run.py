"""Imports a data set: reads its files, writes corpus and ratings, counts."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.fetching import fetch
from cluster.output import Output
from pipelines.datasets.readers import (
    Candidate,
    DataSource,
    LeftOut,
    Pair,
    Rating,
    Row,
    find_source,
)
from sms.naming import AnyPath, OneOrMore, several

CORPUS, RATINGS = "corpus", "ratings"

_OPTIONS = {CORPUS: "--out", RATINGS: "--ratings"}
_THINGS = {CORPUS: "texts", RATINGS: "ratings"}
_ROWS_AT_ONCE = 1_000
_TEXTS = pa.list_(pa.large_string())
_SCHEMAS = {
    Pair: pa.schema(
        {"document_id": pa.string(), "source": pa.large_string(), "reference": pa.large_string()}
    ),
    Candidate: pa.schema(
        {
            "document_id": pa.string(),
            "system_id": pa.string(),
            "candidate": pa.large_string(),
            "references": _TEXTS,
            "source": _TEXTS,
        }
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTable:
    """One file that was written, or (`path` is None) could have been."""

    n_rows: int
    columns: Sequence[str]
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRun:
    """The result of an import."""

    source: DataSource
    tables: Mapping[str, ImportedTable]
    """By `corpus` and `ratings`; those the files gave rows for."""
    left_out: Mapping[str, int]
    """Rows by reason."""


def import_data(
    name: str, paths: OneOrMore, out: AnyPath, *, ratings: AnyPath | None = None
) -> ImportRun:
    """Turn a data set, as its owner gives it out, into Parquet files with our columns.

    Memory does not grow with the texts; of a judged data set the keys and the ratings are held,
    so that a candidate that is there twice is noticed.

    Raises ValueError if a file is not of the format (the message has its line), gives no row, or an
    output exists already, OSError if a file cannot be read. Nothing is written then.
    """
    source = find_source(name)
    inputs = several(paths)
    asked = {CORPUS: out} | ({} if ratings is None else {RATINGS: ratings})
    outputs = {kind: Output.named(_OPTIONS[kind], path) for kind, path in asked.items()}
    for output in outputs.values():
        output.check_file(".parquet", is_new=True)
        output.check_apart(inputs)
    written = [output.path for output in outputs.values()]
    if len(set(written)) < len(written):
        raise ValueError(f"the outputs must be different files, got {', '.join(written)}")
    with tempfile.TemporaryDirectory() as work:
        read = _Tables(Path(work, "texts.parquet"))
        read.take(source.read([fetch(path) for path in inputs]))
        rated = _ratings_table(read.ratings)
        sizes = {CORPUS: (read.n_texts, read.columns), RATINGS: (len(rated), rated.column_names)}
        sizes = {kind: (n, columns) for kind, (n, columns) in sizes.items() if n}
        for kind in outputs:
            if kind not in sizes:
                option = "FILES" if kind == CORPUS else _OPTIONS[kind]
                why = "".join(f"; left out: {n}, {reason}" for reason, n in read.left_out.items())
                raise ValueError(
                    f"`{option}` of {name} needs files with {_THINGS[kind]}, got none; it takes "
                    f"{source.takes}{why}"
                )
        if RATINGS in outputs:
            sink = pa.BufferOutputStream()
            pq.write_table(rated, sink, compression="zstd")
            outputs[RATINGS].write(sink.getvalue())
        with pa.memory_map(str(read.texts)) as file:  # last: once it is there, the ratings are, too
            outputs[CORPUS].write(file.read_buffer())
    paths = {kind: output.path for kind, output in outputs.items()}
    tables = {
        kind: ImportedTable(n_rows=n, columns=columns, path=paths.get(kind))
        for kind, (n, columns) in sizes.items()
    }
    left_out = dict(read.left_out.most_common())
    return ImportRun(source=source, tables=tables, left_out=left_out)


class _Tables:
    """Writes texts to a file and holds ratings; counts what is left out."""

    def __init__(self, texts: Path) -> None:
        self.texts = texts
        self.n_texts = 0
        self.columns: list[str] = []
        """Of the texts."""
        self.ratings: list[Rating] = []
        self.left_out: Counter[str] = Counter()
        self._batch: list[Pair | Candidate] = []
        self._writer: pq.ParquetWriter | None = None
        self._seen: dict[tuple[str, ...], int] = {}
        """Hash of what a candidate (and rater) has, by table and key."""

    def take(self, rows: Iterable[Row]) -> None:
        """Take all rows, or close the file of texts where they break off."""
        try:
            for row in rows:
                if isinstance(row, LeftOut):
                    self.left_out[row.reason] += 1
                elif not isinstance(row, Pair) and (reason := self._repeated(row)):
                    self.left_out[reason] += 1
                elif isinstance(row, Rating):
                    self.ratings.append(row)
                else:
                    self._batch.append(row)
                    if len(self._batch) >= _ROWS_AT_ONCE:
                        self._flush()
            self._flush()
        finally:
            if self._writer is not None:
                self._writer.close()

    def _flush(self) -> None:
        if not self._batch:
            return
        schema = _SCHEMAS[type(self._batch[0])]
        columns = {name: [getattr(row, name) for row in self._batch] for name in schema.names}
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.texts, schema, compression="zstd")
            self.columns = schema.names
        self._writer.write_table(pa.table(columns, schema=schema))
        self.n_texts += len(self._batch)
        self._batch = []

    def _repeated(self, row: Candidate | Rating) -> str | None:
        """Say why a row is left out if its candidate was there before, and remember it if not."""
        what, rater = _THINGS[CORPUS], ""
        if isinstance(row, Rating):
            what, rater = _THINGS[RATINGS], row.rater
        key = (what, row.document_id, row.system_id, rater)
        if key not in self._seen:
            self._seen[key] = hash(repr(row))
            return None
        if self._seen[key] == hash(repr(row)):
            return f"{what} that are there twice"
        return f"{what} that differ from those the candidate already had, which are kept"


def _ratings_table(ratings: Sequence[Rating]) -> pa.Table:
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(row, name) for row in ratings], pa.string())
        for name in ("document_id", "system_id", "rater")
    }
    for aspect in ratings[0].values if ratings else ():
        values = [row.values[aspect] for row in ratings]
        columns[aspect] = pa.array(values, pa.float64(), from_pandas=True)  # NaN becomes null
    return pa.table(columns)
