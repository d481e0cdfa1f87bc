"""Tables of keys and numbers, from files of any kind: a thin layer on `cluster.rows`.

A key is a document and a system, both compared as text. What these tables mean (scores, ratings,
judgements) is known to the files that use this one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from types import NoneType
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars import selectors

from cluster import InputFile, column_names, list_inputs
from cluster.arrays import is_text, plain_array
from cluster.ids import id_array, id_cells
from cluster.partitions import partition_columns
from cluster.rows import BATCH_ROWS, Cells, Rows, read_rows
from cluster.schema import column_called
from cluster.store import open_input
from pipelines.tables.records import InputRecord
from sms.naming import counted

KEYS = ("document_id", "system_id")
RATER = "rater"
OF_RATINGS = "ratings."
"""Before our name in `--columns`: the ratings' own name for it."""
NOT_NUMBERS = frozenset(
    {*KEYS, RATER, "status", "candidate", "reference", "references", "source", "sources"}
    | {"input_file", "input_row"}
    | {"", "Unnamed: 0", "__index_level_0__"}  # what pandas calls a row's number
)
"""Columns that are neither a metric nor an aspect."""

SHOWN = 3
"""Examples in a message."""

LABELS = (*KEYS, RATER)
"""Columns that hold names: what is in them is text, whatever it looks like."""

_ROWS_AT_ONCE = 1 << 16
_TRUTHS = {"true": "1", "false": "0"}
_LIKE_A_NUMBER = r"^[-+\u2212]?[\d.,'\u2019\s]*\d[\d.,'\u2019\s]*[%\u2030]?$"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedRows:
    """What was read of a table."""

    frame: pl.DataFrame
    """Keys as text, and the columns that were asked for; rows without a key are there."""
    n_rows: int
    """All rows of the files."""
    notes: Sequence[str]
    """On rows that cannot be read: these are not in the frame."""
    records: Sequence[InputRecord]
    """Of the files, if their role was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable:
    """Files that are read as one table: their columns are known, their rows read when asked for."""

    files: Sequence[InputFile]
    names: Sequence[str]
    """Columns of all files, by our names where we have one."""
    theirs: Sequence[Mapping[str, str]]
    """Of each file, the names of its columns by those."""

    @property
    def where(self) -> str:
        """Name the files in a message."""
        return place(self.files)

    def read(
        self,
        names: Sequence[str] | None = None,
        *,
        among: pl.DataFrame | None = None,
        role: str = "",
    ) -> KeyedRows:
        """Read keys and some columns, all where none are named.

        With `among` only rows whose values are in that table: no others are ever held. With a
        `role`, such as "scores", the files are described for a report, too.
        """
        asked = list(dict.fromkeys([*KEYS, *(self.names if names is None else names)]))
        frames, n_rows = [pl.DataFrame(schema=dict.fromkeys(KEYS, pl.String))], 0
        unreadable: list[str] = []
        records: list[InputRecord] = []
        for some in _several(self._frames(asked, records, role)):
            n_rows += sum(frame.height + len(reasons) for frame, reasons in some)
            unreadable += [reason for _, reasons in some for reason in reasons]
            frame = pl.concat([frame for frame, _ in some], how="diagonal_relaxed")
            if among is not None:
                frame = frame.join(among, on=among.columns, how="semi", maintain_order="left")
            frames.append(frame)
        notes = []
        if unreadable:
            rows_of = counted(len(unreadable), "row cannot", "rows cannot")
            notes.append(
                f"{rows_of} be read and {'is' if len(unreadable) == 1 else 'are'} left out: "
                f"{listed(unreadable, SHOWN)}"
            )
        frame = pl.concat(frames, how="diagonal_relaxed")
        return KeyedRows(frame=frame, n_rows=n_rows, notes=notes, records=records)

    def _frames(
        self, asked: Sequence[str], records: list[InputRecord], role: str
    ) -> Iterator[tuple[pl.DataFrame, list[str]]]:
        for file, known in zip(self.files, self.theirs, strict=True):
            theirs = {name: known[name] for name in asked if name in known}
            choose = partial(_checked, theirs, file.path)
            at_once = _ROWS_AT_ONCE if file.format == "parquet" else BATCH_ROWS
            # While a file is open anyway: it may be far away.
            describe = partial(_describe, records, file, role) if role else None
            for rows in read_rows(
                file.path, file.format, choose, batch_rows=at_once, on_open=describe
            ):
                yield _frame(rows, theirs, file)


def _several(frames: Iterable[tuple[pl.DataFrame, list[str]]]) -> Iterator[list[Any]]:
    """Take frames together up to a size at which a join with them pays."""
    held: list[tuple[pl.DataFrame, list[str]]] = []
    for frame in frames:
        held.append(frame)
        if sum(each.height for each, _ in held) >= _ROWS_AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _checked(theirs: Mapping[str, str], path: str, names: list[str]) -> list[str]:
    """Choose columns, which must be there once."""
    for name in theirs.values():
        if (n := names.count(name)) > 1:
            raise ValueError(f"column `{name}` must be in {path} once, got it {n} times")
    return [*theirs.values()]


def _frame(
    rows: Rows, theirs: Mapping[str, str], file: InputFile
) -> tuple[pl.DataFrame, list[str]]:
    """Return the rows that can be read, by our names, and where and why others cannot."""
    columns = {}
    for name, named in theirs.items():
        make = id_cells if name in LABELS else values
        where = f"`{named}` in {file.path}"
        columns[name] = make(rows.columns[named], where, is_csv=file.format == "csv")
    frame = pl.DataFrame({name: pl.from_arrow(array) for name, array in columns.items()})
    unreadable = [
        f"{_place(file, place)} ({reason})"
        for place, reason in zip(rows.places, rows.reasons or (), strict=False)
        if reason
    ]
    if unreadable and rows.reasons:
        frame = frame.filter(pl.Series([reason is None for reason in rows.reasons]))
    return frame, unreadable


def open_table(
    files: Sequence[InputFile], columns: Mapping[str, str], role: str = ""
) -> KeyedTable:
    """Open files of any kinds as one table with keys.

    `columns` has our column name to the files', where they have it. `role` stands before our name
    in `--columns` where a second file is read, for messages.
    """
    theirs = [_theirs(file, columns, role) for file in files]
    names = list(dict.fromkeys(name for each in theirs for name in each))
    return KeyedTable(files=files, names=names, theirs=theirs)


def _theirs(file: InputFile, columns: Mapping[str, str], role: str) -> dict[str, str]:
    """Find what a file calls each of its columns, by our name where we have one."""
    names = _names_of(file)
    if not (names or file.size):
        raise ValueError(f"{file.path} must have rows, got an empty file")
    for name in partition_columns(file.path):  # other folder names are no metrics
        if name not in names and (name in LABELS or name in columns.values()):
            names.append(name)
    ours = {name: our for our, name in columns.items() if name in names}
    for label in LABELS:
        if label not in ours.values() and (called := column_called(names, [label])):
            ours[called] = label
    theirs: dict[str, str] = {}
    for name in names:
        if name in ours or name not in ours.values():  # a renamed column replaces its namesake
            theirs[ours.get(name, name)] = name
    for key in KEYS:
        if key not in theirs:
            raise ValueError(
                f"column `{key}` is missing in {file.path}, which has {listed(names)}; "
                f"name it with `--columns {role}{key}=NAME`"
            )
    return theirs


def check_columns(
    columns: Mapping[str, str] | None,
    inputs: Sequence[Sequence[InputFile]],
    ratings: Sequence[InputFile] = (),
) -> None:
    """Refuse to rename a column that none of the inputs has, or the ratings after `ratings.`."""
    if not columns:
        return
    of_ratings = _names_in([ratings])
    of_any = of_ratings | _names_in(inputs)
    for ours, theirs in columns.items():
        names = of_ratings if ours.startswith(OF_RATINGS) else of_any
        if theirs not in names:
            raise ValueError(
                f"`--columns` must name a column of the files, got `{ours}={theirs}`; there are "
                f"{listed(sorted(names))}"
            )


def _names_in(inputs: Sequence[Sequence[InputFile]]) -> set[str]:
    firsts = [files[0] for files in inputs if files]
    return {name for file in firsts for name in (*_names_of(file), *partition_columns(file.path))}


def _names_of(file: InputFile) -> list[str]:
    """List the columns of a file, which is opened only if its listing did not tell."""
    if file.outline is not None:
        return list(file.outline.schema.names)
    return column_names(file.path, file.format, of_all_rows=True, of_folders=False)


def _place(file: InputFile, number: int) -> str:
    return f"{'row' if file.format == 'parquet' else 'line'} {number:,} of {file.path}"


def read_texts(file: InputFile, needed: Sequence[str]) -> pl.DataFrame:
    """Read all columns of a file as text; one that is a list or the like only if it is needed.

    Raises `ValueError` if a row, or a needed column, cannot be read.
    """
    frames = [pl.DataFrame(schema=dict.fromkeys(column_names(file.path, file.format), pl.String))]
    for rows in read_rows(file.path, file.format):
        columns = {}
        for name, cells in rows.columns.items():
            with nullcontext() if name in needed else suppress(ValueError):
                where = f"`{name}` in {file.path}"
                columns[name] = pl.from_arrow(id_cells(cells, where, is_csv=file.format == "csv"))
        for place, reason in zip(rows.places, rows.reasons or (), strict=False):
            if reason:
                raise ValueError(f"cannot read {_place(file, place)}: {reason}; correct it")
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames, how="diagonal_relaxed")


def values(cells: Cells, where: str, *, is_csv: bool) -> pa.Array:
    """Return numbers as such where they have a type of their own, else as text.

    What can be neither is some text that is no number.
    """
    if isinstance(cells, list):
        if {*map(type, cells)} <= {int, float, NoneType}:
            with suppress(pa.ArrowInvalid, OverflowError):  # a whole number of too many digits
                return pa.array(cells, pa.float64())
        return id_cells(cells, where, is_csv=is_csv)
    array = plain_array(cells)
    kind = array.type
    if pa.types.is_decimal(kind):
        return array.cast(pa.float64())
    if pa.types.is_primitive(kind) and not pa.types.is_temporal(kind):
        return array.cast(pa.float32()) if pa.types.is_float16(kind) else array
    if is_text(kind):
        return id_array(array, where)
    text = pa.scalar(f"<{kind}>", pa.string())
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def with_key(
    frame: pl.DataFrame, where: str, *, may_be_empty: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """Leave out the rows without a key; a note says how many. Refuse a table of no others."""
    kept = frame.drop_nulls(KEYS)
    if kept.is_empty() and not may_be_empty:
        raise ValueError(f"{where} must have rows with `document_id` and `system_id`, got none")
    if kept.height == frame.height:
        return kept, []
    one, many = f"row of {where} lacks an id and is", f"rows of {where} lack an id and are"
    return kept, [f"{counted(frame.height - kept.height, one, many)} left out"]


def cells_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column; methods of a series called `*` or `^a.*$` would take that for a pattern."""
    return frame[name].alias("cells")


def number_columns(
    frame: pl.DataFrame, names: Sequence[str], where: str
) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Turn columns into float64, NaN into null; those without any number are left out.

    A column of nothing but nulls counts as numbers. `where` is the file, for messages. Also returns
    the names of those that stay, and notes on others in which people would read numbers.

    Raises ValueError if a column has numbers and text, or an infinite number.
    """
    numbers = {name: _numbers(frame, name, where) for name in names}
    kept = {name: column for name, column in numbers.items() if column is not None}
    notes = []
    for name in [name for name in names if name not in kept and frame[name].dtype == pl.String]:
        cells = cells_of(frame, name).str.strip_chars().drop_nulls()
        cells = cells.filter(cells != "")
        if 2 * int(cells.str.contains(_LIKE_A_NUMBER).sum()) > len(cells):
            notes.append(
                f"Column `{name}` of {where} is left out because its cells are not numbers: "
                f"{cells[0]!r}; write them as 1234.5, without %, a decimal comma or marks between "
                "thousands"
            )
    columns = [column.alias(name) for name, column in kept.items()]
    return frame.drop(selectors.by_name(*names)).with_columns(columns), [*kept], notes


def check_unique(frame: pl.DataFrame, keys: Sequence[str], where: str, remedy: str) -> None:
    """Refuse a table in which `keys` repeat, saying how many and three of them."""
    repeated = frame.group_by(keys).len().filter(pl.col("len") > 1).sort(keys)
    if repeated.height:
        raise ValueError(
            f"({', '.join(keys)}) must name one row of {where}, but "
            f"{counted(repeated.height, 'repeats', 'repeat')}, "
            f"for example {examples(repeated.select(keys))}; {remedy}"
        )


def examples(keys: pl.DataFrame) -> str:
    """Show the first few rows of a table of keys."""
    return ", ".join(f"({', '.join(map(str, row))})" for row in keys.head(SHOWN).iter_rows())


def matching(names: Sequence[str], patterns: Sequence[str], option: str) -> list[str]:
    """Return the names that match any pattern such as `expert-*`; refuse one that matches none."""
    chosen: set[str] = set()
    for pattern in patterns:
        matches = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        if not matches:
            raise ValueError(
                f"`{option}` must match a name, got `{pattern}`; there are {listed(names)}"
            )
        chosen |= matches
    return [name for name in names if name in chosen]


def listed(names: Sequence[str], most: int = 12) -> str:
    """List names, the first few where there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most]) or 'none'}{more}"


def files_of(path: str) -> list[InputFile]:
    """List the files of a path, glob or URL; a problem is a `ValueError` or an `OSError`."""
    return list_inputs([path])


def place(files: Sequence[InputFile]) -> str:
    """Name files in a message."""
    others = f" and {counted(len(files) - 1, 'more file')}" if len(files) > 1 else ""
    return f"{files[0].path}{others}"


def names_of_paths(paths: Sequence[str]) -> list[str]:
    """Name inputs by the end of their path, as much of it as makes them different."""
    parts = [path.rstrip("/").split("/") for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(each[-length:]) for each in parts]
        stems = [os.path.splitext(label)[0] for label in labels]
        for names in (stems, labels):
            if len(set(names)) == len(names):
                return names
    return list(paths)


def record_of(file: InputFile, role: str) -> InputRecord:
    """Describe a file by its size and the hash of its content."""
    with open_input(file.path) as stream:
        return _record(file, role, stream)


def _describe(
    records: list[InputRecord], file: InputFile, role: str, stream: pa.NativeFile
) -> None:
    records.append(_record(file, role, stream))
    stream.seek(0)


def _record(file: InputFile, role: str, stream: pa.NativeFile) -> InputRecord:
    digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return InputRecord(path=file.path, bytes=file.size, sha256=digest, role=role)


def _numbers(frame: pl.DataFrame, name: str, where: str) -> pl.Series | None:
    """Return the column as float64, or None if it holds no number but something else."""
    column = cells_of(frame, name)
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null, pl.String)):
        return None
    is_text = pl.repeat(value=False, n=len(column), eager=True)
    if column.dtype == pl.String:
        text = column.str.strip_chars()
        text = text.set(text == "", None)
        numbers = text.str.to_lowercase().replace(_TRUTHS).cast(pl.Float64, strict=False)
        is_text = text.is_not_null() & numbers.is_null()
        if is_text.any() and not numbers.is_not_null().any():
            return None
    else:
        numbers = column.cast(pl.Float64)
    for rule, is_bad in (("numbers", is_text), ("finite numbers", numbers.is_infinite())):
        bad = frame.filter(is_bad.fill_null(value=False))
        if bad.height:
            row = bad.row(0, named=True)
            raise ValueError(
                f"column `{name}` in {where} must hold {rule}, got {row[name]!r} for document "
                f"{row[KEYS[0]]}, system {row[KEYS[1]]} ({counted(bad.height, 'such row')}); "
                "leave the cell empty if it is missing"
            )
    return numbers.fill_nan(None)
