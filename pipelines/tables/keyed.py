"""Reads tables of keys and numbers: Parquet, CSV and JSONL files, lazily, checked column by column.

A key is a document and a system, both compared as text. What these tables mean (scores, ratings,
texts) is known to the files that use this one.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial

import polars as pl
from polars import selectors
from polars.io.plugins import register_io_source

from cluster import InputFile, list_inputs
from cluster.lines import csv_separator
from cluster.store import open_input
from pipelines.tables.records import InputRecord
from sms.naming import counted
from sms.urls import is_url
from sms.words import is_panic

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

_LIKE_A_NUMBER = r"^[-+\u2212]?[\d.,'\u2019\s]*\d[\d.,'\u2019\s]*[%\u2030]?$"


def scan_files(
    files: Sequence[InputFile], columns: Mapping[str, str], role: str = ""
) -> pl.LazyFrame:
    """Open files of one kind as one lazy table, with keys as text and all CSV columns as text.

    `columns` has our column name to the files', where they have it. `role` stands before our name
    in `--columns` where a second file is read, for messages.
    """
    where = place(files)
    if len(formats := {file.format for file in files}) > 1:
        kinds = ", ".join(sorted(formats))
        raise ValueError(f"files of one input must be of one kind, got {kinds}; name one kind")
    if empty := [file.path for file in files if not file.size]:
        raise ValueError(f"{empty[0]} must have rows, got an empty file")
    with _reading(where):
        lazy = _scan(files)
        schema = lazy.collect_schema()
    theirs = {name: ours for ours, name in columns.items() if name in schema}
    taken = set(theirs.values())
    # By selector: `pl.col` would take the names `*` and `^a.*$` for patterns.
    kept = [name for name in schema if name in theirs or name not in taken]
    lazy = lazy.select(selectors.by_name(*kept)).rename(theirs)
    return lazy.with_columns(
        _key(lazy.collect_schema(), key, where, role, [*schema]) for key in KEYS
    )


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
    return {name for files in inputs if files for name in _scan(files[:1]).collect_schema()}


def read_table(file: InputFile) -> pl.DataFrame:
    """Read a file of any of our formats; all columns of CSV as text, blank as null."""
    with _reading(file.path), open_input(file.path) as stream:
        content = stream.read()
        if file.format == "parquet":
            return pl.read_parquet(content)
        if file.format == "jsonl":
            return pl.read_ndjson(content, infer_schema_length=None)
        # As text: a number is then told from a text value by value, and "007" stays an id.
        return pl.read_csv(content, infer_schema=False, separator=csv_separator(file.path))


def collect(lazy: pl.LazyFrame, where: str) -> pl.DataFrame:
    """Read a lazy table with the streaming engine, which holds no more than the result."""
    with _reading(where):
        return lazy.collect(engine="streaming")


def with_key(
    frame: pl.DataFrame, where: str, *, may_be_empty: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """Leave out the rows without a key; a note says how many. Refuse a table of no others."""
    kept = frame.drop_nulls(KEYS)
    if kept.is_empty() and not may_be_empty:
        raise ValueError(f"{where} must have rows with `document_id` and `system_id`, got none")
    if kept.height == frame.height:
        return kept, []
    one, many = f"row of {where} has no key and is", f"rows of {where} have no key and are"
    return kept, [f"{counted(frame.height - kept.height, one, many)} left out"]


@contextmanager
def _reading(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, pl.exceptions.PolarsError) or is_panic(error)):
            raise
        # A panic, such as at a time zone that does not exist, has its reason inside.
        reason = str(error).rpartition('ErrString("')[2].replace("\\n", "\n")
        first_line = (reason.splitlines() or [type(error).__name__])[0]
        raise ValueError(f"cannot read {where}: {first_line}") from error


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
                f"`{option}` must match something, got `{pattern}`; there are {listed(names)}"
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
    digest = hashlib.sha256()
    with open_input(file.path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return InputRecord(path=file.path, bytes=file.size, sha256=digest.hexdigest(), role=role)


def _scan(files: Sequence[InputFile]) -> pl.LazyFrame:
    paths = [file.path for file in files]
    if any(map(is_url, paths)):  # polars would go to the store by ways of its own
        return register_io_source(partial(_read_in_turn, files), schema=read_table(files[0]).schema)
    if files[0].format == "parquet":
        return pl.scan_parquet(paths, glob=False)
    if files[0].format == "csv":
        separators = {csv_separator(path) for path in paths}
        if len(separators) > 1:
            raise ValueError(
                f"CSV files of one input must have the same separator, but {place(files)} have "
                f"{', '.join(map(repr, sorted(separators)))}"
            )
        return pl.scan_csv(paths, glob=False, infer_schema=False, separator=separators.pop())
    return pl.scan_ndjson([glob.escape(path) for path in paths], infer_schema_length=None)


def _read_in_turn(
    files: Sequence[InputFile],
    columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    _batch_size: int | None,
) -> Iterator[pl.DataFrame]:
    """Read one file after the other, as `register_io_source` asks for it."""
    for file in files:
        lazy = read_table(file).lazy()
        lazy = lazy if columns is None else lazy.select(selectors.by_name(*columns))
        lazy = lazy if predicate is None else lazy.filter(predicate)
        frame = (lazy if n_rows is None else lazy.head(n_rows)).collect()
        yield frame
        if n_rows is not None:
            n_rows -= frame.height
            if not n_rows:
                return


def _key(schema: pl.Schema, key: str, where: str, role: str, names: Sequence[str]) -> pl.Expr:
    if key not in schema:
        raise ValueError(
            f"column `{key}` is missing in {where}, which has {listed(names)}; "
            f"name it with `--columns {role}{key}=NAME`"
        )
    if not (schema[key].is_integer() or schema[key] in (pl.String, pl.Categorical, pl.Null)):
        raise ValueError(
            f"`{key}` in {where} must hold text or whole numbers, got {schema[key]}; convert it"
        )
    return pl.col(key).cast(pl.String)


def _numbers(frame: pl.DataFrame, name: str, where: str) -> pl.Series | None:
    """Return the column as float64, or None if it holds no number but something else."""
    column = cells_of(frame, name)
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null, pl.String)):
        return None
    is_text = pl.repeat(value=False, n=len(column), eager=True)
    if column.dtype == pl.String:
        text = column.str.strip_chars()
        text = text.set(text == "", None)
        numbers = text.cast(pl.Float64, strict=False)
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
