"""Rows in memory as a corpus: any kind of table in, the same kind with scores out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from sms.naming import OneOrMore

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.runs.score_run import ScoreRun

Rows: TypeAlias = Any
"""Files (`OneOrMore`), a list of dicts or of texts, a dict of lists, or a table of pandas, polars,
Arrow or datasets."""
_WITH_SERIES = ("pandas", "polars", "pyarrow", "numpy")
IDS = ("document_id", "system_id")
"""Names of a row, which a table may have."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """Rows, and how scores are put to them."""

    names: Sequence[str]
    column: Callable[[str], Any]
    """Cells of a column, as Arrow or as a list."""
    with_columns: Callable[[Mapping[str, pa.Array]], Any]
    asked: Mapping[str, Any]
    """`candidate`, `reference` and `source`, where they were given."""

    def score(self, own: dict[str, Any]) -> Any:  # noqa: ANN401  (their table, or a run)
        """Score them as a run does, in a folder that goes again if none is asked for."""
        from cluster.schema import MissingColumnError
        from pipelines import verbs
        from pipelines.score import score_corpus
        from pipelines.settings.score import ScoreSettings

        if own["limit"] is not None:
            raise ValueError("`limit` is for files; give the first rows of `data` instead")
        kept = own["keep"] if own["out"] is not None else ()  # rows that come back have all
        settings = own | {"columns": None, "keep": kept}
        try:
            if own["out"] is not None:
                corpus = f"{os.fspath(own['out']).rstrip('/')}-rows.parquet"
                self.write(corpus, own["columns"] or {}, kept)
                return verbs.score(corpus, ScoreSettings(**settings))
            with TemporaryDirectory() as folder:
                corpus = f"{folder}/rows.parquet"
                self.write(corpus, own["columns"] or {}, kept)
                run = score_corpus(corpus, **settings | {"out": f"{folder}/run"})
                found = _scores_of(run)
        except MissingColumnError as error:
            raise self._missing(error.column) from None
        taken = [name for name in found if name in self.names]
        if taken:
            raise ValueError(
                f"`data` must not have a column `{taken[0]}` yet; drop it, or give it another name"
            )
        return self.with_columns(found)

    def write(
        self, path: str, columns: Mapping[str, str] | None = None, kept: Sequence[str] = ()
    ) -> None:
        """Write them as a corpus that commands read; without `columns` as the table they are."""
        from io import BytesIO

        import pyarrow as pa
        import pyarrow.parquet as pq

        from cluster.store import write_whole

        if columns is None:
            table = pa.table({name: self._cells(name) for name in self.names})
        else:
            table = self._corpus(columns, kept)
        sink = BytesIO()
        pq.write_table(table, sink)
        write_whole(path, sink.getvalue())

    def _corpus(self, columns: Mapping[str, str], kept: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        found: dict[str, Any] = {"candidate": self._cells("candidate")}
        for name, plural in (("reference", "references"), ("source", "source")):
            own_name = plural if name not in self.asked and plural in self.names else name
            if name in self.asked or own_name in self.names:
                cells = pa.array(self._cells(own_name))
                found[plural if pa.types.is_list(cells.type) else name] = cells
        for name in IDS:
            theirs = columns.get(name, name)
            if theirs in self.names:
                found[name] = pa.array(self._cells(theirs)).cast(pa.string())
        for name in self.names if kept == ("all",) else kept:
            found.setdefault(name, self._cells(name))
        return pa.table(found)

    def _cells(self, name: str) -> Any:  # noqa: ANN401
        """Return the cells of one column, or of several as a list in each row."""
        theirs = self.asked.get(name, name)
        if isinstance(theirs, str):
            if theirs not in self.names:
                raise self._missing(name)
            cells = self.column(theirs)
            return cells.combine_chunks() if hasattr(cells, "combine_chunks") else cells
        several = [list(map(_plain, self.column(each))) for each in theirs]
        return [list(row) for row in zip(*several, strict=True)]

    def _missing(self, name: str) -> ValueError:
        theirs = self.asked.get(name, name)
        return ValueError(
            f"`data` has no column `{theirs}`, only {', '.join(self.names) or 'none'}; say which "
            f"one it is with `{name}=`"
        )


def rows_of(data: Rows, asked: Mapping[str, Any]) -> _Memory | None:
    """Take rows in memory for what they are; None for files."""
    kind = type(data).__module__.partition(".")[0]
    if kind in _WITH_SERIES and not hasattr(data, "columns") and not hasattr(data, "column"):
        return _of_texts(_texts(data), asked)
    if kind == "pandas":
        return _Memory(
            names=list(map(str, data.columns)),
            column=lambda name: _from_pandas(data[name]),
            with_columns=lambda found: data.assign(
                **{name: column.to_pandas().to_numpy() for name, column in found.items()}
            ),
            asked=asked,
        )
    if kind == "polars":
        import polars as pl

        if isinstance(data, pl.LazyFrame):
            data = data.collect()
        return _Memory(
            names=data.columns,
            column=lambda name: data[name].to_arrow(),
            with_columns=lambda found: data.with_columns(
                pl.Series(name, column) for name, column in found.items()
            ),
            asked=asked,
        )
    if kind in ("pyarrow", "datasets"):
        table = data if kind == "pyarrow" else data.with_format("arrow")[:]
        return _Memory(
            names=table.column_names,
            column=table.column,
            with_columns=lambda found: _appended(data, found, kind),
            asked=asked,
        )
    if isinstance(data, Mapping):
        return _of_columns({str(name): list(cells) for name, cells in data.items()}, asked)
    if isinstance(data, str | os.PathLike) or not isinstance(data, Iterable):
        return None
    given = list(data)
    if given and all(isinstance(row, Mapping) for row in given):
        return _of_dicts(given, asked)
    is_beside = any(not isinstance(theirs, str) for theirs in asked.values())
    if given and (is_beside or not all(isinstance(row, str | os.PathLike) for row in given)):
        return _of_texts(given, asked)
    return None


def files_of(data: Rows) -> OneOrMore:
    """Return paths; a list of them is not taken for texts."""
    if isinstance(data, str | os.PathLike):
        return data
    if not isinstance(data, Iterable):
        raise TypeError(f"`data` must be rows or files, got {type(data).__name__}")
    return list(data)


def _of_columns(columns: Mapping[str, list[Any]], asked: Mapping[str, Any]) -> _Memory:
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        raise ValueError(
            "columns of `data` must be equally long, got "
            + ", ".join(f"{name} ({len(cells)})" for name, cells in columns.items())
        )
    return _Memory(
        names=list(columns),
        column=columns.__getitem__,
        with_columns=lambda found: {
            **columns,
            **{name: column.to_pylist() for name, column in found.items()},
        },
        asked=asked,
    )


def _of_dicts(rows: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> _Memory:
    def with_columns(found: Mapping[str, pa.Array]) -> list[dict[str, Any]]:
        cells = {name: column.to_pylist() for name, column in found.items()}
        return [
            {**row, **{name: column[k] for name, column in cells.items()}}
            for k, row in enumerate(rows)
        ]

    return _Memory(
        names=list(dict.fromkeys(str(name) for row in rows for name in row)),
        column=lambda name: [row.get(name) for row in rows],
        with_columns=with_columns,
        asked=asked,
    )


def _of_texts(texts: Sequence[Any], asked: Mapping[str, Any]) -> _Memory:
    """Make rows of texts and of what they are compared with."""
    columns = {"candidate": list(texts)}
    for name in ("reference", "source"):
        if name in asked:
            columns[name] = _texts(asked[name])
            if len(columns[name]) != len(texts):
                raise ValueError(
                    f"`{name}` must have a text for each of {len(texts)} candidates, got "
                    f"{len(columns[name])}"
                )
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return _of_dicts(rows, {})


def _texts(series: Any) -> list[Any]:  # noqa: ANN401
    """Return a list of texts or a column of a table as a list, with None where one is missing."""
    import pyarrow as pa

    if type(series).__module__.partition(".")[0] in _WITH_SERIES:
        series = pa.array(series, from_pandas=True).to_pylist()
    return list(series)


def _appended(data: Any, found: Mapping[str, pa.Array], kind: str) -> Any:  # noqa: ANN401
    for name, column in found.items():
        if kind == "pyarrow":
            data = data.append_column(name, column)
        else:
            data = data.add_column(name, column.to_pylist())
    return data


def _from_pandas(series: Any) -> Any:  # noqa: ANN401
    import pyarrow as pa

    return pa.Array.from_pandas(series)


def _plain(cell: Any) -> Any:  # noqa: ANN401
    return cell.as_py() if hasattr(cell, "as_py") else cell


def _scores_of(run: ScoreRun) -> dict[str, pa.Array]:
    """Return the columns of numbers and the statuses of a run."""
    import pyarrow as pa

    table = run.to_arrow()
    return {
        name: table[name].combine_chunks()
        for name in table.column_names
        if pa.types.is_floating(table[name].type) or name == "status"
    }
