"""The files that are imported, named or in folders; their lines and records."""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.lines import MAX_RECORD_BYTES

_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".zip")
_OF_MACOS = ("._", ".DS_Store")  # begin the names of what macOS adds to folders
_GZIP = b"\x1f\x8b"
_BROKEN = (gzip.BadGzipFile, EOFError, zlib.error)


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
        return str(self._checked(name, isinstance(self.cells.get(name), str), "text"))

    def identifier(self, name: str) -> str:
        """Return a cell that must be text that is not empty, or a whole number."""
        value = self.cells.get(name)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = isinstance(value, str) and bool(value.strip())
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
        is_right = isinstance(value, list) and all(isinstance(item, kind) for item in value)
        return list(self._checked(name, is_right, f"a list of {what}"))

    def _checked(self, name: str, is_right: bool, what: str) -> Any:  # noqa: ANN401
        value = self.cells.get(name)
        if not is_right:
            raise ValueError(f"`{name}` in {self.where} must be {what}, got {shown(value)}")
        return value


def files_in(paths: Sequence[str], suffixes: Sequence[str], takes: str) -> Iterator[Path]:
    """Go through files, and those of folders by name, each once; pass over other kinds of files.

    Raises OSError if a path is not there, or cannot be read; ValueError if a file that was named is
    of another kind, or one is an archive.
    """
    seen: set[tuple[str, str]] = set()
    for path in map(Path, paths):
        path.stat()
        for file in _files_of(path) if path.is_dir() else [path]:
            if file.name.endswith(_ARCHIVES):
                raise ValueError(f"{file} is an archive; unpack it, and name the folder")
            # With its name: what is linked to under another may be of no use under its own.
            place = (os.path.realpath(file), file.name)
            if place in seen:
                continue
            seen.add(place)
            if file.name.endswith(tuple(suffixes)):
                yield file
            elif file == path:
                raise ValueError(f"`FILES` must be {takes}, got {file}")


def _files_of(root: Path) -> Iterator[Path]:
    def cannot_read(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(root, onerror=cannot_read):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith(_OF_MACOS))


def text_of(file: Path) -> str:
    """Read all of a small file; a `ValueError` says if it is too long or not UTF-8."""
    lines, n_characters = [], 0
    for _, line in _lines(file):
        lines.append(line)
        n_characters += len(line)
        if n_characters > MAX_RECORD_BYTES:
            raise ValueError(f"{file} must have at most {MAX_RECORD_BYTES >> 20} MiB")
    return "".join(lines)


def records(file: Path) -> Iterator[Record]:
    """Read the rows of a Parquet, JSONL, CSV or TSV file (the last three also as gzip).

    In TSV a quote is a character like any other; in CSV it may hold line breaks.

    Raises ValueError if the file is not what its name says, with the line.
    """
    suffix = Path(file.name.removesuffix(".gz")).suffix
    if suffix == ".parquet":
        yield from _parquet(file)
    elif suffix in (".csv", ".tsv"):
        yield from _csv(file, is_tsv=suffix == ".tsv")
    else:
        for number, line in _lines(file):
            if line.strip():
                yield _json_record(line, f"{file}, line {number}")


def shown(value: object, n_characters: int = 40) -> str:
    """Write a value for a message, cut where it is long."""
    if value is None:
        return "nothing"
    text = " ".join(repr(value).split())
    return text if len(text) <= n_characters else f"{text[:n_characters]}…"


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Read lines with their numbers and line breaks; gzip is decompressed.

    None may be longer than a record of a corpus: of a compressed megabyte it could fill the memory.
    """
    number = 0
    try:
        with file.open("rb") as raw:
            is_gzip = raw.read(len(_GZIP)) == _GZIP  # whatever the file is called
            raw.seek(0)
            stream: Any = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            # Not `splitlines`: a text may hold U+2028, which ends no line of JSONL.
            while line := stream.readline(MAX_RECORD_BYTES + 1):
                number += 1
                if len(line) > MAX_RECORD_BYTES:
                    raise ValueError(
                        f"{file}, line {number} must have at most {MAX_RECORD_BYTES >> 20} MiB"
                    )
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}, line {number} must be UTF-8, got {error}") from error
    except _BROKEN as error:
        raise ValueError(f"{file} is damaged after line {number}: {error}") from error


def _json_record(line: str, where: str) -> Record:
    try:
        cells = json.loads(line)
        if "\\ud" in line.lower():  # JSON can escape halves of characters, UTF-8 has none
            json.dumps(cells, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} must be Unicode, got half of a surrogate pair (\\ud...)"
        ) from error
    # Not only `JSONDecodeError`: a number may have too many digits, a list too many levels.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} must be a JSON object, got {shown(line)} ({error})") from error
    if not isinstance(cells, dict):
        raise ValueError(f"{where} must be a JSON object, got {shown(cells)}")
    return Record(where, cells)


def _parquet(file: Path) -> Iterator[Record]:
    number = 0
    with file.open("rb") as stream:
        try:
            for batch in pq.ParquetFile(stream).iter_batches(1_000):
                for cells in batch.to_pylist():
                    number += 1
                    yield Record(f"{file}, row {number}", cells)
        # OSError: what Arrow says of damage, and without the file's name.
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise ValueError(f"{file} is not a Parquet file that can be read: {error}") from error


def _csv(file: Path, *, is_tsv: bool) -> Iterator[Record]:
    csv.field_size_limit(MAX_RECORD_BYTES)  # an article is longer than the default of 128 KiB
    lines = (line for _, line in _lines(file))
    as_tsv: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_tsv else {}
    reader = csv.DictReader(lines, strict=True, **as_tsv)
    try:
        for cells in reader:
            where = f"{file}, line {reader.line_num}"
            if None in cells or None in cells.values():
                n_columns = len(reader.fieldnames or ())
                raise ValueError(f"{where} must have {n_columns} columns, as the header has")
            yield Record(where, cells)
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num} is not CSV: {error}") from error
