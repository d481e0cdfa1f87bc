"""The files that are imported: on disk, in folders, in archives; their lines and records.

Nothing is unpacked to disk: an archive is read from front to back, a member at a time.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.lines import MAX_RECORD_BYTES

ARCHIVES = (".tar", ".tgz", ".tar.gz")
COMPRESSED = ".gz"
BROKEN = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)
"""What reading a damaged archive or compressed file raises."""

_OF_MACOS = ("._", ".DS_Store")  # begin the names of what macOS adds to folders and archives
_GZIP = b"\x1f\x8b"
_ARCHIVE_DEPTH = 3  # archives in archives in archives


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file; from an archive, it must be read before the next one is asked for."""

    path: str
    """For messages; `ARCHIVE!NAME` for a file in an archive."""
    parts: Sequence[str]
    """Folders and name below what the user named, for example ("d061j", "AP880911-0016.S")."""
    stream: IO[bytes]
    is_named: bool
    """Whether the user named this very file, so that passing over it needs an error."""

    @property
    def name(self) -> str:
        """The file's name without folders."""
        return self.parts[-1]

    def text(self) -> str:
        """Read all of it; a `ValueError` says if it is damaged, too long or not UTF-8."""
        try:
            data = self.stream.read(MAX_RECORD_BYTES + 1)
        except BROKEN as error:
            raise ValueError(f"{self.path} is damaged: {error}") from error
        if len(data) > MAX_RECORD_BYTES:
            raise ValueError(f"{self.path} must have at most {MAX_RECORD_BYTES >> 20} MiB")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path} must be UTF-8, got {error}") from error

    def lines(self) -> Iterator[tuple[int, str]]:
        """Read lines with their numbers and line breaks; gzip is decompressed.

        A file of less than a megabyte may hold a line that fills the memory, if it is compressed:
        none may be longer than a record of a corpus.

        Raises ValueError if a line is not UTF-8 or too long, or the compressed file is damaged.
        """
        is_gzip = self.stream.read(len(_GZIP)) == _GZIP  # whatever the file is called
        self.stream.seek(0)
        stream: Any = gzip.GzipFile(fileobj=self.stream) if is_gzip else self.stream
        number = 0
        try:
            # Not `splitlines`: a text may hold U+2028, which ends no line of JSONL.
            while line := stream.readline(MAX_RECORD_BYTES + 1):
                number += 1
                if len(line) > MAX_RECORD_BYTES:
                    raise ValueError(
                        f"{self.path}, line {number} must have at most {MAX_RECORD_BYTES >> 20} MiB"
                    )
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}, line {number} must be UTF-8, got {error}") from error
        except BROKEN as error:
            raise ValueError(f"{self.path} is damaged after line {number}: {error}") from error


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
        return str(self._checked(name, value, isinstance(value, str), "text"))

    def identifier(self, name: str) -> str:
        """Return a cell that must be text that is not empty, or a whole number."""
        value = self.cells.get(name)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = isinstance(value, str) and bool(value.strip())
        return str(self._checked(name, value, is_number or is_text, "an id")).strip()

    def texts(self, name: str) -> list[str]:
        """Return a cell that must be a list of texts."""
        return self._list(name, str, "text")

    def number(self, name: str) -> float:
        """Return a cell that must be a number, written as one or as text."""
        value = self.cells.get(name)
        try:
            return float("" if isinstance(value, bool) or value is None else value)
        except (TypeError, ValueError, OverflowError):
            return float(self._checked(name, value, False, "a number"))

    def inner(self, name: str) -> Record:
        """Return a cell that must be an object."""
        value = self.cells.get(name)
        cells = self._checked(name, value, isinstance(value, dict), "an object")
        return Record(f"`{name}` in {self.where}", cells)

    def inner_list(self, name: str) -> list[Record]:
        """Return a cell that must be a list of objects."""
        items = self._list(name, dict, "objects")
        return [Record(f"`{name}` in {self.where}", item) for item in items]

    def numbers(self, name: str) -> list[float]:
        """Return a cell that must be a list of numbers."""
        values = self._list(name, object, "numbers")
        items = Record(self.where, {f"{name}[{i}]": item for i, item in enumerate(values)})
        return [items.number(key) for key in items.cells]

    def _list(self, name: str, kind: type, what: str) -> list[Any]:
        value = self.cells.get(name)
        is_right = isinstance(value, list) and all(isinstance(item, kind) for item in value)
        return list(self._checked(name, value, is_right, f"a list of {what}"))

    def _checked(self, name: str, value: Any, is_right: bool, what: str) -> Any:  # noqa: ANN401
        if not is_right:
            raise ValueError(f"`{name}` in {self.where} must be {what}, got {shown(value)}")
        return value


def members(paths: Sequence[str]) -> Iterator[Member]:
    """Go through files, folders (by name) and archives (in their order), archives in these too.

    A file that is reached by two of the paths is read once; linked folders are not followed.

    Raises OSError if a path is not there, or cannot be read; ValueError if an archive is damaged.
    """
    seen: set[tuple[str, ...]] = set()
    for path in paths:
        for file, parts in _files(Path(path)):
            # With its name: what is linked to under another may be of no use under its own.
            if (place := (os.path.realpath(file), *parts[-2:])) not in seen:
                seen.add(place)
                is_named = file == Path(path)
                with file.open("rb") as stream:
                    member = Member(path=str(file), parts=parts, stream=stream, is_named=is_named)
                    yield from _with_archives(member)


def records(member: Member) -> Iterator[Record]:
    """Read the rows of a Parquet, JSONL, CSV or TSV file (the last three also as gzip).

    In TSV a quote is a character like any other; in CSV it may hold line breaks.

    Raises ValueError if the file is not what its name says, with the line.
    """
    name = member.name.removesuffix(COMPRESSED)
    if name.endswith(".parquet"):
        yield from _parquet(member)
    elif name.endswith((".csv", ".tsv")):
        yield from _csv(member, is_tsv=name.endswith(".tsv"))
    else:
        for number, line in member.lines():
            if line.strip():
                yield _json_record(line, f"{member.path}, line {number}")


def shown(value: object, n_characters: int = 40) -> str:
    """Write a value for a message, cut where it is long.

    Examples
    --------
    >>> shown(None), shown("x" * 9, 5)
    ('nothing', "'xxxx…")
    """
    if value is None:
        return "nothing"
    text = " ".join(repr(value).split())
    return text if len(text) <= n_characters else f"{text[:n_characters]}…"


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


def _files(root: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """List a file, or those of a folder, with their parts."""
    if not root.is_dir():
        # The folder is kept: some formats say in its name what the file is.
        yield root, (root.absolute().parent.name, root.name)
        return
    for folder, folders, names in os.walk(root, onerror=_cannot_read):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            yield file, (root.absolute().name, *file.relative_to(root).parts)


def _cannot_read(error: OSError) -> None:
    raise error


def _with_archives(member: Member, depth: int = 1) -> Iterator[Member]:
    if member.name.startswith(_OF_MACOS) and not member.is_named:
        return
    if not member.name.endswith(ARCHIVES):
        yield member
        return
    if depth > _ARCHIVE_DEPTH:
        raise ValueError(
            f"archives must be nested at most {_ARCHIVE_DEPTH} deep, got {member.path}; unpack "
            "it and name its folder"
        )
    try:
        with tarfile.open(fileobj=member.stream, tarinfo=_WholeHeader) as archive:
            while (info := archive.next()) is not None:
                # Kept by `tarfile` for going back; an archive of 300,000 stories would fill memory.
                archive.members = []  # type: ignore[attr-defined]
                if info.islnk() or info.issym():
                    raise ValueError(
                        f"{member.path} must hold files themselves, got {info.name}, a link to "
                        f"{info.linkname}; unpack it and name its folder"
                    )
                if info.isfile() and (stream := archive.extractfile(info)) is not None:
                    inner = Member(
                        path=f"{member.path}!{info.name}",
                        parts=(*member.parts[:-1], *PurePosixPath(info.name).parts),
                        stream=stream,
                        is_named=False,
                    )
                    yield from _with_archives(inner, depth + 1)
    except BROKEN as error:
        raise ValueError(f"{member.path} is not an archive that can be read: {error}") from error


class _WholeHeader(tarfile.TarInfo):
    """Tells the end of an archive from damage, which `tarfile` takes for the end as well."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} where a member or the end should be") from error


def _parquet(member: Member) -> Iterator[Record]:
    number = 0
    try:
        for batch in pq.ParquetFile(member.stream).iter_batches(1_000):
            for cells in batch.to_pylist():
                number += 1
                yield Record(f"{member.path}, row {number}", cells)
    # OSError: what Arrow says of damage, and without the file's name.
    except (pa.ArrowException, UnicodeDecodeError, OSError, *BROKEN) as error:
        raise ValueError(
            f"{member.path} is not a Parquet file that can be read: {error}"
        ) from error


def _csv(member: Member, *, is_tsv: bool) -> Iterator[Record]:
    csv.field_size_limit(MAX_RECORD_BYTES)  # an article is longer than the default of 128 KiB
    lines = (line for _, line in member.lines())
    if is_tsv:
        reader = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.DictReader(lines, strict=True)
    try:
        for cells in reader:
            where = f"{member.path}, line {reader.line_num}"
            if None in cells or None in cells.values():
                n_columns = len(reader.fieldnames or ())
                raise ValueError(f"{where} must have {n_columns} columns, as the header has")
            yield Record(where, cells)
    except csv.Error as error:
        raise ValueError(f"{member.path}, line {reader.line_num} is not CSV: {error}") from error
