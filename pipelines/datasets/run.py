"""Imports a data set: reads its files, writes corpus, ratings and scores, counts."""

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
from pipelines.datasets.readers import DataSource, find_source
from pipelines.datasets.rows import HUMAN_PREFIX, Candidate, LeftOut, Numbers, Pair, Row
from sms.naming import AnyPath, OneOrMore, several

CORPUS, RATINGS, SCORES = "corpus", "ratings", "scores"

_OPTIONS = {CORPUS: "--out", RATINGS: "--ratings", SCORES: "--scores"}
_THINGS = {CORPUS: "texts", RATINGS: "ratings", SCORES: "scores"}
_KEYS = ("document_id", "system_id", "rater")
"""What numbers are about; the first columns of their tables."""
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

    Memory does not grow with the texts; of a judged data set the keys and the numbers are held,
    so that a candidate that is there twice is noticed.

    Raises ValueError if a file is not of the format (the message has its line), gives no row, or an
    output exists already, OSError if a file cannot be read. Nothing is written then.
    """
    source = find_source(name)
    inputs = several(paths)
    outputs = _outputs({CORPUS: out, RATINGS: ratings, SCORES: scores}, inputs)
    with tempfile.TemporaryDirectory() as work:
        read = _Tables(Path(work, "texts.parquet"))
        read.take(source.read([fetch(path) for path in inputs]))
        made = {kind: _numbers(rows) for kind, rows in read.numbers.items()}
        sizes = {CORPUS: (read.n_texts, read.columns)} if read.n_texts else {}
        sizes |= {kind: (len(table), table.column_names) for kind, table in made.items()}
        for kind in outputs:
            if kind not in sizes:
                option = "FILES" if kind == CORPUS else _OPTIONS[kind]
                why = "".join(f"; left out: {n}, {reason}" for reason, n in read.left_out.items())
                raise ValueError(
                    f"`{option}` of {name} needs files with {_THINGS[kind]}, got none; it takes "
                    f"{source.takes}{why}"
                )
        # The corpus last: once it is there, the others are, too.
        for kind, output in reversed(outputs.items()):
            if kind == CORPUS:
                with pa.memory_map(str(read.texts)) as file:
                    output.write(file.read_buffer())
            else:
                sink = pa.BufferOutputStream()
                pq.write_table(made[kind], sink, compression="zstd")
                output.write(sink.getvalue())
    return ImportRun(
        source=source,
        tables={
            kind: ImportedTable(
                n_rows=n, columns=columns, path=outputs[kind].path if kind in outputs else None
            )
            for kind, (n, columns) in sizes.items()
        },
        human_systems=list(read.human_systems),
        left_out=dict(read.left_out.most_common()),
    )


def _outputs(asked: Mapping[str, AnyPath | None], inputs: Sequence[str]) -> dict[str, Output]:
    """Check where the requested tables will be written."""
    named = {t: Output.named(_OPTIONS[t], path) for t, path in asked.items() if path is not None}
    for output in named.values():
        output.check_file(".parquet", is_new=True)
        output.check_apart(inputs)
    paths = [output.path for output in named.values()]
    if len(set(paths)) < len(paths):
        raise ValueError(f"the outputs must be different files, got {', '.join(paths)}")
    return named


class _Tables:
    """Writes texts to a file and holds numbers; counts what is left out."""

    def __init__(self, texts: Path) -> None:
        self.texts = texts
        self.n_texts = 0
        self.columns: list[str] = []
        """Of the texts."""
        self.numbers: dict[str, list[Numbers]] = {}
        """By `ratings` and `scores`."""
        self.human_systems: dict[str, None] = {}
        self.left_out: Counter[str] = Counter()
        self._batch: list[Pair | Candidate] = []
        self._writer: pq.ParquetWriter | None = None
        self._seen: dict[tuple[str | None, ...], int] = {}
        """Hash of what a candidate (and rater) has, by table and key."""

    def take(self, rows: Iterable[Row]) -> None:
        """Take all rows, or close the file of texts where they break off."""
        try:
            for row in rows:
                self._add(row)
            self._flush()
        finally:
            if self._writer is not None:
                self._writer.close()

    def _add(self, row: Row) -> None:
        if isinstance(row, LeftOut):
            self.left_out[row.reason] += 1
        elif not isinstance(row, Pair) and (reason := self._repeated(row)):
            self.left_out[reason] += 1
        elif isinstance(row, Numbers):
            self.numbers.setdefault(row.kind, []).append(row)
        else:
            if isinstance(row, Candidate) and row.system_id.startswith(HUMAN_PREFIX):
                self.human_systems[row.system_id] = None
            self._batch.append(row)
            if len(self._batch) >= _ROWS_AT_ONCE:
                self._flush()

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

    def _repeated(self, row: Candidate | Numbers) -> str | None:
        """Say why a row is left out if its candidate was there before, and remember it if not."""
        kind, rater, content = CORPUS, None, hash(repr(row))
        if isinstance(row, Numbers):
            kind, rater, content = row.kind, row.rater, hash(tuple(row.values.items()))
        key = (kind, row.document_id, row.system_id, rater)
        if key not in self._seen:
            self._seen[key] = content
            return None
        if self._seen[key] == content:
            return f"{_THINGS[kind]} that are there twice"
        return f"{_THINGS[kind]} that differ from those the candidate already had, which are kept"


def _numbers(rows: Sequence[Numbers]) -> pa.Table:
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in _KEYS
    }
    if columns["rater"].null_count == len(rows):
        del columns["rater"]
    for name in dict.fromkeys(name for row in rows for name in row.values):
        if name in _KEYS:
            raise ValueError(
                f"a metric or aspect must not be called `{name}`, which names a column of keys; "
                "rename it"
            )
        values = [row.values.get(name) for row in rows]
        columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # NaN becomes null
    return pa.table(columns)
