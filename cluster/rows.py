"""The one reader of rows: every row of a file in order, with its place; why, if it cannot be read.

What the rows mean is known to those who read through this: corpora (`cluster.reading`), tables of
scores and ratings, and published data sets (both in `pipelines`). Files are Parquet, CSV, or JSON
(an object a line, a list of objects, or objects one after the other). What the folders of a file
say of it (`system_id=a/`) is a column, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, TypeAlias

import pyarrow as pa

from cluster.arrays import is_text, plain_array
from cluster.csv_records import Stray, csv_records
from cluster.ids import id_array
from cluster.json_records import json_records
from cluster.partitions import partition_columns
from cluster.scores_files import check_rows, open_parquet
from cluster.store import OnOpen
from cluster.text_blocks import opened_text

BATCH_ROWS, BATCH_BYTES = 2_000, 8 << 20
"""No batch of text has more rows, nor, unless one row does, more text."""

_PEEK_BYTES = 1 << 20
_PEEK_RECORDS = 1_000

Cells: TypeAlias = pa.Array | list[Any]
"""Of one column: Arrow of Parquet, text of CSV, any Python value of JSON; null where a row has
none."""
Choice: TypeAlias = Callable[[list[str]], Iterable[str]]
"""Chooses among the names of a file's columns, or refuses them."""
_Records: TypeAlias = Iterator[tuple[int, int, dict[str, Any] | list[str] | str]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Neighbouring rows of a file. None is left out."""

    columns: Mapping[str, Cells]
    """By the file's names."""
    places: Sequence[int]
    """Line on which each row begins, or in Parquet its number, from 1."""
    reasons: Sequence[str | None] | None = None
    """Of text: why a row cannot be read, None where it can."""

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, part: slice) -> Rows:
        columns = {name: cells[part] for name, cells in self.columns.items()}
        reasons = None if self.reasons is None else self.reasons[part]
        return Rows(columns, self.places[part], reasons)


def all_columns(names: list[str]) -> list[str]:
    """Choose every column, each once."""
    return list(dict.fromkeys(names))


def column_names(
    path: str, format: str, *, of_all_rows: bool = False, of_folders: bool = True
) -> list[str]:
    """List the columns of a file, then those of its folders.

    JSON has the keys of its first thousand readable rows, or of all. Raises `ValueError` if the
    file cannot be read as what it claims to be.
    """
    if format == "parquet":
        with open_parquet(path) as file:
            names = list(file.schema_arrow.names)
    else:
        with opened_text(path) as blocks:
            names, records = _names_and_records(blocks, path, format)
            if of_all_rows and format == "jsonl":
                keys = (record for *_, record in records if isinstance(record, dict))
                names = list(dict.fromkeys(map(_printable, chain.from_iterable(keys))))
    return _and_folders(names, path) if of_folders else names


def read_rows(
    path: str,
    format: str,
    choose: Choice = all_columns,
    *,
    batch_rows: int = BATCH_ROWS,
    has_quotes: bool = True,
    on_open: OnOpen | None = None,
) -> Iterator[Rows]:
    """Read the rows of a file, whose columns `choose` is asked about first.

    A row of text is readable if the cells of the chosen columns are. Without `has_quotes` a
    quotation mark of CSV is a character like any other. `on_open` is called with the open file
    before it is read. Raises `ValueError` if the file is not
    what it claims to be, or a chosen column contradicts the folders of the file.
    """
    if format == "parquet":
        yield from read_parquet(path, choose, batch_rows, on_open=on_open)
        return
    with opened_text(path, on_open) as blocks:
        names, records = _names_and_records(blocks, path, format, has_quotes=has_quotes)
        if not names:
            first = next(records, None)
            if first is None:
                return
            if format == "jsonl":
                raise ValueError(f"no line of {path} is a JSON object with columns")
            records = chain([first], records)
        chosen = list(choose(_and_folders(names, path)))
        for batch in _batches(records, batch_rows):
            if format == "jsonl" and choose is all_columns:  # later rows may have further keys
                keys = chain.from_iterable(row for _, row in batch if isinstance(row, dict))
                chosen = list(dict.fromkeys([*chosen, *map(_printable, keys)]))
            yield _with_folders(_rows_of(batch, names, chosen), names, chosen, path, as_arrow=False)


def read_parquet(
    path: str,
    choose: Choice,
    batch_rows: int,
    *,
    row_groups: Sequence[int] | None = None,
    use_threads: bool = False,
    on_open: OnOpen | None = None,
) -> Iterator[Rows]:
    """Read the rows of a Parquet file, as `read_rows`, or of some of its row groups."""
    first = 1
    with open_parquet(path, on_open) as file:
        names = list(file.schema_arrow.names)
        chosen = list(choose(_and_folders(names, path)))
        file_columns = [name for name in dict.fromkeys(chosen) if name in names]
        batches = file.iter_batches(
            batch_rows, columns=file_columns, row_groups=row_groups, use_threads=use_threads
        )
        for batch in batches:
            places = range(first, first + batch.num_rows)
            first_of = {name: batch.schema.names.index(name) for name in file_columns}
            rows = Rows({name: batch.column(at) for name, at in first_of.items()}, places)
            yield _with_folders(rows, names, chosen, path, as_arrow=True)
            first += batch.num_rows
        groups = range(file.num_row_groups) if row_groups is None else row_groups
        check_rows(first - 1, sum(file.metadata.row_group(group).num_rows for group in groups))


def _printable(name: str) -> str:
    """Replace what is no Unicode in a name, which nobody could write."""
    return name.encode("utf-8", "replace").decode()


def _and_folders(names: Sequence[str], path: str) -> list[str]:
    return [*names, *(name for name in partition_columns(path) if name not in names)]


def _names_and_records(
    blocks: Iterator[bytes], path: str, format: str, *, has_quotes: bool = True
) -> tuple[list[str], _Records]:
    """Return the columns of a text file, and its records."""
    if format == "csv":
        table = csv_records(blocks, path, has_quotes=has_quotes)
        *_, header = next(table, (0, 0, []))
        names = map(str.strip, header) if isinstance(header, list) else ()
        return list(map(_printable, names)), table
    records = json_records(blocks, path)
    first: list[tuple[int, int, dict[str, Any] | str]] = []
    keys: dict[str, None] = {}
    n_bytes = 0
    for place, size, record in islice(records, _PEEK_RECORDS):
        first.append((place, size, record))
        keys.update(dict.fromkeys(map(_printable, record if isinstance(record, dict) else ())))
        n_bytes += size
        if keys and n_bytes > _PEEK_BYTES:
            break
    return list(keys), chain(first, records)


def _batches(records: _Records, batch_rows: int) -> Iterator[list[tuple[int, Any]]]:
    held: list[tuple[int, Any]] = []
    n_bytes = 0
    for place, size, record in records:
        if held and (len(held) == batch_rows or n_bytes + size > BATCH_BYTES):
            yield held
            held, n_bytes = [], 0
        held.append((place, record))
        n_bytes += size
    if held:
        yield held


def _rows_of(batch: Sequence[tuple[int, Any]], names: Sequence[str], chosen: Sequence[str]) -> Rows:
    """Lay records out in columns; a cell that is `Stray` makes its row unreadable."""
    places, records = zip(*batch, strict=True)
    reasons = [record if isinstance(record, str) else None for record in records]
    columns: dict[str, list[Any]] = {}
    of_name = {name: at for at, name in reversed([*enumerate(names)])}
    for name in dict.fromkeys(chosen):
        cells: list[Any] = [None] * len(records)
        at = of_name.get(name)
        for row, record in enumerate(records):
            if isinstance(record, dict):
                cells[row] = record.get(name)
            elif isinstance(record, list) and at is not None:
                cells[row] = record[at]
                if isinstance(record[at], Stray):
                    reasons[row], cells[row] = reasons[row] or str(record[at]), None
        columns[name] = cells
    return Rows(columns, places, reasons)


def _with_folders(
    rows: Rows, names: Sequence[str], chosen: Sequence[str], path: str, *, as_arrow: bool
) -> Rows:
    """Put the columns of a file's folders to its own, which must not contradict them."""
    columns = dict(rows.columns)
    for name, text in partition_columns(path).items():
        if name in chosen and name in names:
            _check_agreement(rows, name, text, path)
        elif name in chosen:
            n = len(rows)
            columns[name] = pa.repeat(pa.scalar(text, pa.string()), n) if as_arrow else [text] * n
    return replace(rows, columns=columns)


def _check_agreement(rows: Rows, name: str, text: str | None, path: str) -> None:
    """Refuse a column that says something else than the folder; numbers are written in many ways.

    Raises `ValueError`.
    """
    cells = rows.columns[name]
    if isinstance(cells, pa.Array):
        kind = plain_array(cells[:0]).type
        if not (is_text(kind) or pa.types.is_integer(kind)):
            return
        cells = id_array(cells, name).to_pylist()
    for place, cell in zip(rows.places, cells, strict=True):
        if isinstance(cell, str) and cell.strip() != (text or ""):
            raise ValueError(
                f"`{name}` must be the same in {path} as in its folder's name, `{name}={text}`, "
                f"got {cell!r} (row or line {place:,}); rename the folder or the column"
            )
