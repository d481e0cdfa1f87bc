"""Parquet files that grow a batch at a time and appear whole, when all has been read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cluster import write_whole
from pipelines.datasets.rows import Candidate, Numbers, Pair

PAIR_SCHEMA = pa.schema(
    {"document_id": pa.string(), "source": pa.large_string(), "reference": pa.large_string()}
)
CANDIDATE_SCHEMA = pa.schema(
    {
        "document_id": pa.string(),
        "system_id": pa.string(),
        "candidate": pa.large_string(),
        "references": pa.list_(pa.large_string()),
        "source": pa.list_(pa.large_string()),
    }
)

_KEYS = ("document_id", "system_id", "rater")
"""What numbers are about; the first columns of their tables."""
_ROWS_AT_ONCE = 1_000


class GrowingTable:
    """Rows on their way into one Parquet file.

    Columns of numbers may turn up late: rows go to a temporary part for as long as the columns
    stay the same, and the parts are joined at the end, with nulls where a part lacks a column.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batch: list[Pair | Candidate | Numbers] = []
        self._writer: pq.ParquetWriter | None = None
        self._parts: list[Path] = []
        self.schema = pa.schema([])
        """All columns so far."""
        self.n_rows = 0

    def add(self, row: Pair | Candidate | Numbers) -> None:
        """Take one row."""
        self._batch.append(row)
        self.n_rows += 1
        if len(self._batch) >= _ROWS_AT_ONCE:
            self._flush()

    def end(self) -> None:
        """Say that there are no more rows; `schema` has all columns from here on."""
        self._flush()
        self.close()

    def publish(self, path: str) -> None:
        """Write everything to `path`, whole or not at all; call `end` first."""
        joined = self._joined()
        with pa.memory_map(str(joined)) as source:
            write_whole(path, source.read_buffer())

    def close(self) -> None:
        """Let go of the part that is being written, also after an error."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if not self._batch:
            return
        table = _table(self._batch)
        self._batch = []
        if self._writer is None or self._writer.schema != table.schema:
            self.close()
            self._parts.append(self._folder / f"part-{len(self._parts)}.parquet")
            self._writer = pq.ParquetWriter(self._parts[-1], table.schema, compression="zstd")
            self.schema = pa.unify_schemas([self.schema, table.schema])
        self._writer.write_table(table)

    def _joined(self) -> Path:
        if len(self._parts) == 1:
            return self._parts[0]
        path = self._folder / "joined.parquet"
        with pq.ParquetWriter(path, self.schema, compression="zstd") as writer:
            for part in self._parts:
                for batch in pq.ParquetFile(part).iter_batches(_ROWS_AT_ONCE):
                    table = pa.Table.from_batches([batch])
                    joined = pa.concat_tables(
                        [self.schema.empty_table(), table], promote_options="default"
                    )
                    writer.write_table(joined)
        return path


def _table(rows: Sequence[Pair | Candidate | Numbers]) -> pa.Table:
    if isinstance(rows[0], Pair):
        return _columns(rows, PAIR_SCHEMA, {})
    if isinstance(rows[0], Candidate):
        return _columns(rows, CANDIDATE_SCHEMA, {"source": "sources"})
    return _numbers([row for row in rows if isinstance(row, Numbers)])


def _columns(rows: Sequence[object], schema: pa.Schema, called: dict[str, str]) -> pa.Table:
    columns = {
        name: [getattr(row, called.get(name, name)) for row in rows] for name in schema.names
    }
    return pa.table(columns, schema=schema)


def _numbers(rows: Sequence[Numbers]) -> pa.Table:
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in _KEYS
    }
    if columns["rater"].null_count == len(rows):
        del columns["rater"]
    for name in _in_order(rows):
        if name in _KEYS:
            raise ValueError(
                f"a metric or aspect must not be called `{name}`, which names a column of keys; "
                "rename it"
            )
        values = [row.values.get(name) for row in rows]
        columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # NaN becomes null
    return pa.table(columns)


def _in_order(rows: Sequence[Numbers]) -> Iterator[str]:
    """Name the aspects in the order in which they first turn up."""
    yield from dict.fromkeys(name for row in rows for name in row.values)
