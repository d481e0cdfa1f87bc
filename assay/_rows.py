"""Rows in memory: any kind of table in, the same kind with scores out."""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.ids import id_text
from cluster.rows import Rows as RowsOfFile
from cluster.schema import MissingColumnError, Wanted, canonical_table, column_called
from cluster.store import write_whole
from cluster.text_cells import corpus_arrays
from pipelines.settings.score import ScoreSettings
from sms.naming import OneOrMore, nearest
from sms.settings import shown

if TYPE_CHECKING:
    from pipelines.runs.score_run import ScoreRun

logger = logging.getLogger(__name__)

Rows: TypeAlias = Any
"""Files (`OneOrMore`), a list of dicts or of texts, a dict of lists, or a table of pandas, polars,
Arrow or datasets."""
_LIBRARIES = ("pandas", "polars", "pyarrow", "numpy", "datasets")
_ACCEPTED = {
    "candidate": ("candidate",),
    "reference": ("references", "reference"),
    "source": ("source", "sources"),
    "document_id": ("document_id",),
    "system_id": ("system_id",),
}
"""What `data` may call each of our columns, in order of preference."""
_PLURALS = {"reference": "references", "source": "sources"}
"""What a scorer calls these."""
_OURS_IN_DATA = "assay."
"""Before the name of a column of ours where `data` has one of that name."""
_OURS = {alias: ours for ours, accepted in _ACCEPTED.items() for alias in accepted}


class _CellsOfSeveralKinds(ValueError):
    """A column has cells that are no column of Arrow."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Rows, and how scores are put to them."""

    data: Any
    """A table, a dict of lists, or a list of dicts."""
    columns: Mapping[str, Any]
    """The cells of every column: a list, or a column of some library."""
    asked: Mapping[str, Any]
    """Our name to the name in `data`, or to a list of several, where it was given."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        is_listed = isinstance(self.data, list)
        return len(self.data if is_listed else next(iter(self.columns.values()), ()))

    def texts(self, wanted: Wanted) -> pa.Table:
        """Return the canonical table that a scorer reads; which column is missing, it will say.

        Where the cells of a column are of several kinds, those that are not what it must hold make
        their rows unreadable, as in a file of JSON.
        """
        named = self._named()
        read = {ours: named[ours] for ours in named if _PLURALS.get(ours, ours) in wanted.needed}
        try:
            table, reasons = self._table(read), None
        except _CellsOfSeveralKinds:
            cells = {_PLURALS.get(ours, ours): self._listed(read[ours]) for ours in read}
            rows = RowsOfFile(cells, range(1, self.n_rows + 1))
            table, reasons = corpus_arrays(
                rows, {name: name for name in cells}, wanted, is_csv=False
            )
        return canonical_table(table, wanted, reasons=reasons, where="`data`")

    def _listed(self, theirs: Any) -> list[Any]:
        """Return the cells of one column, or of several as a list in each row, as Python's own."""
        if not isinstance(theirs, str):
            return [list(row) for row in zip(*map(self._listed, theirs), strict=True)]
        cells = self.columns[theirs]
        return [*map(_plain, cells.to_list() if hasattr(cells, "to_list") else cells)]

    def run(self, arguments: dict[str, Any]) -> ScoreRun:
        """Score them as a corpus of files, into a folder."""
        from pipelines.score import score  # takes a moment

        table = self._table(self._named())
        kept = arguments["keep"]
        for name in self.columns if kept == ("all",) else kept:
            if name not in table.column_names:
                table = table.append_column(name, self._cells(name, "keep"))
        corpus = f"{os.fspath(arguments['out']).rstrip('/')}-rows.parquet"
        _write(corpus, table)
        with called({corpus: "data"}), self.naming_columns():
            return score(corpus, ScoreSettings(**arguments | {"columns": None}))

    def write_table(self, path: str, name: str) -> None:
        """Write the table as it is; `name` is what messages call it."""
        columns = {column: _array(column, cells) for column, cells in self.columns.items()}
        _write(path, pa.table(columns), name)

    @contextmanager
    def naming_columns(self) -> Iterator[None]:
        """Say how a column that is missing is named here."""
        try:
            yield
        except MissingColumnError as error:
            raise self._missing(error.column, error.column) from None

    def with_scores(self, scores: pa.Table, signatures: Mapping[str, str]) -> Any:
        """Put scores to a table of any kind, and how each was computed, where there is room."""
        names = self.names_beside(scores.column_names)
        columns = {names[name]: scores[name].combine_chunks() for name in names}
        known = {names[name]: signature for name, signature in signatures.items()}
        return _with_scores(self.data, columns, known)

    def names_beside(self, names: Iterable[str]) -> dict[str, str]:
        """Name the columns that come to the table, whose own ones stay as they are."""
        named = {name: f"{_OURS_IN_DATA}{name}" if name in self.columns else name for name in names}
        if beside := [name for name in named if name != named[name]]:
            logger.warning(
                "`data` already has a column `%s`; the new column is called `%s`%s",
                beside[0],
                named[beside[0]],
                f"; the same holds for {', '.join(beside[1:])}" if len(beside) > 1 else "",
            )
        return named

    def _named(self) -> dict[str, Any]:
        """Return by our name of a column its name in `data`, or a list of several."""
        named = {
            ours: column_called([*self.columns], accepted) for ours, accepted in _ACCEPTED.items()
        }
        named["candidate"] = named["candidate"] or "candidate"
        for name, theirs in self.asked.items():
            if name not in _OURS:
                raise ValueError(f"unknown column `{name}` in `columns`; {nearest(name, _OURS)}")
            named[_OURS[name]] = theirs
        for ours, theirs in named.items():
            if isinstance(theirs, str) and theirs not in self.columns:
                raise self._missing(theirs, ours)
        return {ours: theirs for ours, theirs in named.items() if theirs is not None}

    def _table(self, named: Mapping[str, Any]) -> pa.Table:
        table = {}
        for ours, theirs in named.items():
            cells = self._cells(theirs, ours)
            if cells.null_count == len(cells):  # of numbers, as NumPy and pandas write no texts
                cells = pa.nulls(len(cells))
            is_several = ours == "reference" and pa.types.is_list(cells.type)
            table["references" if is_several else ours] = cells
        return pa.table(table)

    def _cells(self, theirs: Any, ours: str) -> pa.Array:
        """Return the cells of one column, or of several as a list in each row."""
        if isinstance(theirs, str):
            if theirs not in self.columns:
                raise self._missing(theirs, ours)
            cells = self.columns[theirs]
            return _ids(theirs, cells) if ours.endswith("_id") else _array(theirs, cells)
        if not isinstance(theirs, Iterable) or not (names := list(theirs)):
            raise TypeError(
                f"`{ours}` must be the name of a column, or a list of several, got {shown(theirs)}"
            )
        several = [self._cells(name, ours).to_pylist() for name in names]
        return _array(", ".join(names), [list(row) for row in zip(*several, strict=True)])

    def _missing(self, theirs: Any, ours: str) -> ValueError:
        remedy = f"`columns={{'{ours}': NAME}}`" if ours.endswith("_id") else f"`{ours}=`"
        names = ", ".join(self.columns) or "none"
        return ValueError(
            f"`data` has no column `{theirs}`, only {names}; name the right one with {remedy}"
        )


def rows_of(
    data: Rows, asked: Mapping[str, Any], columns: Mapping[str, str] | None = None
) -> Memory | None:
    """Take rows in memory for what they are; None for files.

    `asked` and `columns` name columns of `data`; where it is a list of texts, `asked` are the texts
    they are compared with.
    """
    named = {**(columns or {}), **asked}
    kind = _library_of(data)
    if kind == "polars" and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if kind == "datasets" and hasattr(data, "with_format"):
        if type(data).__name__ != "Dataset":
            raise TypeError(
                f"`data` must be one split in memory, got {type(data).__name__}; choose a split, "
                "and turn a streamed one into a list"
            )
        return Memory(data, _columns_of(data.with_format("arrow")[:], "pyarrow"), named)
    if isinstance(data, Mapping):  # also a batch of `datasets.Dataset.map`
        return _of_lists(data, named)
    if kind and hasattr(data, "columns"):
        return Memory(data, _columns_of(data, kind), named)
    if kind:
        return of_texts({"candidate": data, **_compared(asked)}, columns or {})
    if isinstance(data, str | bytes | os.PathLike) or not isinstance(data, Iterable):
        return None
    given = list(data)
    if all(isinstance(row, Mapping) for row in given):
        return _of_dicts(given, named)
    are_texts = any(not isinstance(theirs, str) for theirs in asked.values())
    if are_texts or not all(isinstance(row, str | os.PathLike) for row in given):
        return of_texts({"candidate": given, **_compared(asked)}, columns or {})
    return None


@contextmanager
def called(names: Mapping[str, str]) -> Iterator[None]:
    """Call files by what they hold, in messages."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        for path, name in names.items():
            message = message.replace(path, f"`{name}`")
        if message == str(error):
            raise
        raise ValueError(message) from error


def files_of(data: Rows) -> OneOrMore:
    """Return paths; a list of them is not taken for texts."""
    if isinstance(data, str | os.PathLike):
        return data
    if not isinstance(data, Iterable) or isinstance(data, bytes):
        raise TypeError(f"`data` must be rows or files, got {type(data).__name__}")
    return list(data)


def _library_of(data: Any) -> str:
    """Name the library that a table or column is of, "" for Python's own."""
    module = type(data).__module__.partition(".")[0]
    return module if module in _LIBRARIES else ""


def _columns_of(table: Any, kind: str) -> dict[str, Any]:
    """Return the columns of a table of pandas, polars or Arrow, which must have different names."""
    names = table.schema.names if kind == "pyarrow" else list(map(str, table.columns))
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise ValueError(f"`data` must have a column `{twice[0]}` once; rename or drop the others")
    if kind == "pandas":
        cells = [table.iloc[:, k] for k in range(len(names))]
    else:
        cells = list(table.columns if kind == "pyarrow" else table.get_columns())
    return dict(zip(names, cells, strict=True))


def _of_lists(data: Mapping[Any, Any], asked: Mapping[str, Any]) -> Memory:
    for name, cells in data.items():
        if isinstance(cells, str | bytes) or not isinstance(cells, Iterable):
            raise TypeError(f"column `{name}` of `data` must be a list, got {shown(cells)}")
    columns = {
        str(name): cells if _library_of(cells) == "numpy" else list(cells)
        for name, cells in data.items()
    }
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len({*lengths.values()}) > 1:
        told = ", ".join(f"{name} ({n})" for name, n in lengths.items())
        raise ValueError(f"columns of `data` must be equally long, got {told}")
    return Memory(data, columns, asked)


def _of_dicts(rows: Sequence[Mapping[Any, Any]], asked: Mapping[str, Any]) -> Memory:
    names = dict.fromkeys(name for row in rows for name in row)
    return Memory(rows, {str(name): [row.get(name) for row in rows] for name in names}, asked)


def _compared(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts that candidates are compared with, which were given in place of names."""
    return {name: asked[name] for name in ("reference", "source") if name in asked}


def of_texts(texts: Mapping[str, Any], columns: Mapping[str, str]) -> Memory:
    """Make rows of the candidates, which come first, and of what they are compared with."""
    cells: dict[str, list[Any]] = {}
    for name, given in texts.items():
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"`{name}` must be a list of texts, got {shown(given)}")
        cells[name] = _texts(given)
        n_texts = len(next(iter(cells.values())))
        if len(cells[name]) != n_texts:
            raise ValueError(
                f"`{name}` must have a text for each of {n_texts} candidates, got "
                f"{len(cells[name])}"
            )
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    return _of_dicts(rows, columns)


def _texts(series: Any) -> list[Any]:
    """Return a list of texts or a column of a table as a list, with None where one is missing."""
    if _library_of(series) not in ("", "datasets"):
        series = _array("candidate", series).to_pylist()
    return list(series)


def _array(name: str, cells: Any) -> pa.Array:
    """Return cells as Arrow, null where one is None or NaN."""
    if str(getattr(cells, "dtype", "")) == "Object":  # of polars, which Arrow reads as addresses
        cells = cells.to_list()
    try:
        if hasattr(cells, "to_arrow"):
            cells = cells.to_arrow()  # of polars
        elif not isinstance(cells, pa.Array | pa.ChunkedArray):
            cells = pa.array(cells, from_pandas=True)
    except UnicodeEncodeError:  # half a character: bytes, so that this row alone is unreadable
        return _array(name, [_encoded(cell) for cell in cells])
    except OverflowError as error:
        raise ValueError(
            f"column `{name}` of `data` must not have integers of over 63 bits; make them text"
        ) from error
    except pa.ArrowException as error:
        what = str(error).partition("\n")[0]
        raise _CellsOfSeveralKinds(
            f"column `{name}` of `data` must have cells of one kind, such as text; {what}"
        ) from error
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    return pc.run_end_decode(cells) if pa.types.is_run_end_encoded(cells.type) else cells


def _plain(cell: Any) -> Any:
    """Return a cell with lists for tuples and arrays, None for what is missing."""
    if hasattr(cell, "tolist"):  # of NumPy
        cell = cell.tolist()
    if isinstance(cell, list | tuple):
        return [*map(_plain, cell)]
    is_missing = isinstance(cell, float) and math.isnan(cell)
    return None if is_missing or type(cell).__name__ in ("NAType", "NaTType") else cell


def _encoded(cell: Any) -> Any:
    """Return a cell with bytes for texts."""
    if isinstance(cell, str):
        return cell.encode("utf-8", "surrogatepass")
    if isinstance(cell, Mapping):
        names = [str(name).encode("utf-8", "replace").decode() for name in cell]
        return dict(zip(names, map(_encoded, cell.values()), strict=True))
    return [_encoded(one) for one in cell] if isinstance(cell, list | tuple) else cell


def _ids(name: str, cells: Any) -> pa.Array:
    """Return ids as Arrow, as text if they are of several kinds."""
    try:
        return _array(name, cells)
    except ValueError:
        return pa.array([id_text(cell) for cell in cells], pa.string())


def _write(path: str, table: pa.Table, name: str = "data") -> None:
    if not table.num_rows:
        raise ValueError(f"`{name}` must have at least one row, got none")
    sink = BytesIO()
    try:
        pq.write_table(table, sink)
    except pa.ArrowNotImplementedError as error:
        raise ValueError(f"`{name}` must have columns that Parquet can hold; {error}") from error
    write_whole(path, sink.getvalue())


def _with_scores(data: Any, scores: Mapping[str, pa.Array], signatures: Mapping[str, str]) -> Any:
    """Put scores to a table of any kind, and how each was computed, where there is room for it."""
    kind = _library_of(data)
    if kind == "pandas":
        data = data.assign(**{name: x.to_pandas().to_numpy() for name, x in scores.items()})
        data.attrs["assay.signatures"] = dict(signatures)
        return data
    if kind == "polars":
        import polars as pl

        # `drop` and `with_columns` need threads of polars, which forks lack
        known = [column for column in data.get_columns() if column.name not in scores]
        return pl.DataFrame([*known, *(pl.Series(name, column) for name, column in scores.items())])
    if kind == "pyarrow":
        data = data.drop_columns([name for name in scores if name in data.column_names])
        for name, column in scores.items():
            data = data.append_column(name, column)
        text = json.dumps(dict(signatures), ensure_ascii=False)
        metadata = {**(data.schema.metadata or {}), "assay.signatures": text}
        return data.replace_schema_metadata(metadata)
    if isinstance(data, Mapping) and "numpy" in map(_library_of, data.values()):
        arrays = {name: x.to_numpy(zero_copy_only=False) for name, x in scores.items()}
        return {**data, **arrays}
    cells = {name: column.to_pylist() for name, column in scores.items()}
    if isinstance(data, Mapping):  # also a batch of `datasets.Dataset.map`
        return {**data, **cells}
    if kind == "datasets":
        data = data.remove_columns([name for name in scores if name in data.column_names])
        for name, column in cells.items():
            data = data.add_column(name, column)
        return data
    columns = zip(*cells.values(), strict=True)
    return [
        {**row, **dict(zip(cells, x, strict=True))} for row, x in zip(data, columns, strict=True)
    ]
