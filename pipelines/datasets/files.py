"""The files that are imported, named or in folders, and their records, cell by cell checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.listing import each_once, find_files
from cluster.rows import read_rows
from cluster.text_blocks import check_length, opened_text
from sms.naming import is_unicode

_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".zip")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file, whose cells are checked when they are asked for.

    Every method raises `ValueError` if the cell is missing or something else.
    """

    where: str
    """For messages, for example `train.jsonl, line 3`."""
    cells: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a cell that must be text."""
        value = self.cells.get(name)
        what = "Unicode" if isinstance(value, str) else "text"
        return str(self._checked(name, is_unicode(value), what))

    def identifier(self, name: str) -> str:
        """Return a cell that must be text that is not empty, or a whole number."""
        value = self.cells.get(name)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = is_unicode(value) and bool(str(value).strip())
        return str(self._checked(name, is_number or is_text, "an id")).strip()

    def texts(self, name: str) -> list[str]:
        """Return a cell that must be a list of texts."""
        return self._list(name, str, "text")

    def number(self, name: str) -> float:
        """Return a cell that must be a number, written as one or as text."""
        value = self.cells.get(name)
        try:
            return float("" if isinstance(value, bool) or value is None else value)
        except (TypeError, ValueError, OverflowError):
            return float(self._checked(name, False, "a number"))

    def inner_list(self, name: str) -> list[Record]:
        """Return a cell that must be a list of objects."""
        items = self._list(name, dict, "objects")
        return [Record(f"`{name}` in {self.where}", item) for item in items]

    def _list(self, name: str, kind: type, what: str) -> list[Any]:
        value = self.cells.get(name)
        is_right = isinstance(value, list) and all(
            is_unicode(item) if kind is str else isinstance(item, kind) for item in value
        )
        return list(self._checked(name, is_right, f"a list of {what}"))

    def _checked(self, name: str, is_right: bool, what: str) -> Any:  # noqa: ANN401
        value = self.cells.get(name)
        if not is_right:
            raise ValueError(f"`{name}` in {self.where} must be {what}, got {shown(value)}")
        return value


def files_in(paths: Sequence[str], suffixes: Sequence[str], takes: str) -> list[Path]:
    """List files, and those of folders and globs, each once; pass over other kinds of files.

    Raises OSError if a path is not there, or cannot be read; ValueError if a file that was named is
    of another kind, or one is an archive.
    """
    found = []
    for path in paths:
        files, is_folder = find_files(path)
        for file in files:
            if file.endswith(_ARCHIVES):
                raise ValueError(f"{file} is an archive; unpack it, and name the folder")
            if file.endswith(tuple(suffixes)):
                found.append(file)
            elif not is_folder:
                raise ValueError(f"`FILES` must be {takes}, got {file}")
    return [*map(Path, each_once(found))]


def text_of(file: Path) -> str:
    """Read all of a small file; a `ValueError` says if it is too long or not UTF-8."""
    content = b""
    with opened_text(str(file)) as blocks:
        for block in blocks:
            content += block
            check_length(len(content), str(file))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} must be UTF-8, got {error}") from error


def records(file: Path) -> Iterator[Record]:
    """Read the rows of a Parquet, JSONL, CSV or TSV file (the last three also packed).

    In TSV a quote is a character like any other; in CSV it may hold line breaks.

    Raises ValueError if the file is not what its name says, with the line.
    """
    suffix = Path(file.name.removesuffix(".gz")).suffix
    format = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}.get(suffix, "jsonl")
    place_is = "row" if format == "parquet" else "line"
    for rows in read_rows(str(file), format, has_quotes=suffix != ".tsv"):
        columns = {
            name: cells if isinstance(cells, list) else cells.to_pylist()
            for name, cells in rows.columns.items()
        }
        for row, place in enumerate(rows.places):
            where = f"{file}, {place_is} {place}"
            if rows.reasons and (reason := rows.reasons[row]):
                raise ValueError(f"{where} cannot be read: {reason}")
            yield Record(where, {name: cells[row] for name, cells in columns.items()})


def shown(value: object, n_characters: int = 40) -> str:
    """Write a value for a message, cut where it is long."""
    if value is None:
        return "nothing"
    text = " ".join(repr(value).split())  # which escapes what is no Unicode
    return text if len(text) <= n_characters else f"{text[:n_characters]}…"
