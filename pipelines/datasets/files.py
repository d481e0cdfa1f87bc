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

_OF_MACOS = ("._", ".DS_Store")  # begin the names of what macOS adds to folders and archives
_GZIP = b"\x1f\x8b"
_PARQUET_ROWS = 1_000
_ARCHIVE_DEPTH = 3  # archives in archives in archives
_HEADER_BYTES = 1 << 20  # of a name or of attributes, which `tarfile` reads at once
_READ_AT_ONCE = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
BROKEN = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)
"""What reading a damaged archive or compressed file raises."""


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

    @property
    def folder(self) -> str:
        """The name of the folder it lies in, empty where that is unknown."""
        return self.parts[-2] if len(self.parts) > 1 else ""

    def text(self, otherwise: str | None = None) -> str:
        """Read all of it.

        Parameters
        ----------
        otherwise : str, optional
            What the file's encoding is if it is not UTF-8.

        Raises
        ------
        ValueError
            If it is damaged, too long for one text, or in no encoding that it may be in.
        """
        try:
            data = self.stream.read(MAX_RECORD_BYTES + 1)
        except BROKEN as error:
            raise ValueError(f"{self.path} is damaged: {error}") from error
        if len(data) > MAX_RECORD_BYTES:
            raise ValueError(f"{self.path} must have at most {MAX_RECORD_BYTES >> 20} MiB")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if otherwise is None:
                raise ValueError(f"{self.path} must be UTF-8, got {error}") from error
            return data.decode(otherwise)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Read lines with their numbers, without their line breaks; gzip is decompressed.

        Raises
        ------
        ValueError
            If a line is not UTF-8 or too long, or the compressed file is damaged.
        """
        for number, line in self.whole_lines():
            yield number, line.rstrip("\r\n")

    def whole_lines(self) -> Iterator[tuple[int, str]]:
        """Do as `lines`, but keep the line breaks."""
        number = 0
        try:
            # Not `splitlines`: a text may hold U+2028, which ends no line of JSONL.
            for number, line in enumerate(bounded_lines(self._plain(), self.path), start=1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}, line {number} must be UTF-8, got {error}") from error
        except BROKEN as error:
            raise ValueError(f"{self.path} is damaged after line {number}: {error}") from error

    def _plain(self) -> IO[bytes]:
        """Return the stream, decompressed where it is gzip, whatever the file is called."""
        is_gzip = self.stream.read(len(_GZIP)) == _GZIP
        self.stream.seek(0)
        return gzip.GzipFile(fileobj=self.stream) if is_gzip else self.stream  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file, whose cells are checked when they are asked for."""

    where: str
    """For messages, for example `train.jsonl, line 3`."""
    cells: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a cell that must be text.

        Raises
        ------
        ValueError
            If it is missing or something else; so with the other kinds below.
        """
        value = self.cells.get(name)
        if not isinstance(value, str):
            raise ValueError(f"`{name}` in {self.where} must be text, got {shown(value)}")
        return value

    def identifier(self, name: str) -> str:
        """Return a cell that must be text that is not empty, or a whole number."""
        value = self.cells.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"`{name}` in {self.where} must be an id, got {shown(value)}")
        return value.strip()

    def texts(self, name: str) -> list[str]:
        """Return a cell that must be a list of texts."""
        value = self.cells.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"`{name}` in {self.where} must be a list of text, got {shown(value)}")
        return value

    def number(self, name: str) -> float:
        """Return a cell that must be a number, written as one or as text."""
        value = self.cells.get(name)
        try:
            if isinstance(value, bool) or value is None:
                raise TypeError
            return float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"`{name}` in {self.where} must be a number, got {shown(value)}"
            ) from error

    def inner(self, name: str) -> Record:
        """Return a cell that must be an object."""
        value = self.cells.get(name)
        if not isinstance(value, dict):
            raise ValueError(f"`{name}` in {self.where} must be an object, got {shown(value)}")
        return Record(f"`{name}` in {self.where}", value)

    def inner_list(self, name: str) -> list[Record]:
        """Return a cell that must be a list of objects."""
        value = self.cells.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise ValueError(
                f"`{name}` in {self.where} must be a list of objects, got {shown(value)}"
            )
        return [Record(f"`{name}` in {self.where}", item) for item in value]

    def numbers(self, name: str) -> list[float]:
        """Return a cell that must be a list of numbers."""
        value = self.cells.get(name)
        if not isinstance(value, list):
            raise ValueError(f"`{name}` in {self.where} must be a list, got {shown(value)}")
        items = Record(self.where, {f"{name}[{i}]": item for i, item in enumerate(value)})
        return [items.number(key) for key in items.cells]


def members(paths: Sequence[str]) -> Iterator[Member]:
    """Go through files, folders (by name) and archives (in their order), archives in these too.

    A file that is reached by two of the paths is read once.

    Raises
    ------
    FileNotFoundError
        If a path is not there.
    OSError
        If a folder cannot be read.
    ValueError
        If an archive is damaged.
    """
    seen: set[tuple[str, ...]] = set()
    for path in paths:
        for file, parts in _files(Path(path)):
            # With its name: what is linked to under another may be of no use under its own.
            if (place := (os.path.realpath(file), *parts[-2:])) not in seen:
                seen.add(place)
                yield from _opened(file, parts, is_named=file == Path(path))


def bounded_lines(stream: IO[bytes], path: str) -> Iterator[bytes]:
    """Read lines, none of which may be longer than a record of a corpus.

    A file of less than a megabyte may hold one that fills the memory, if it is compressed.

    Raises
    ------
    ValueError
        If a line is longer.
    """
    number = 0
    while line := stream.readline(MAX_RECORD_BYTES + 1):
        number += 1
        if len(line) > MAX_RECORD_BYTES:
            raise ValueError(
                f"{path}, line {number} must have at most {MAX_RECORD_BYTES >> 20} MiB"
            )
        yield line


def records(member: Member) -> Iterator[Record]:
    """Read the rows of a Parquet, JSONL, CSV or TSV file (the last three also as gzip).

    In TSV a quote is a character like any other; in CSV it may hold line breaks.

    Raises
    ------
    ValueError
        If the file is not what its name says, with the line.
    """
    name = member.name.removesuffix(COMPRESSED)
    if name.endswith(".parquet"):
        yield from _parquet(member)
    elif name.endswith(".csv"):
        yield from _csv(member)
    elif name.endswith(".tsv"):
        yield from _tsv(member)
    else:
        for number, line in member.lines():
            if line.strip():
                yield json_record(line, f"{member.path}, line {number}")


def json_record(line: str, where: str) -> Record:
    """Read a line that must be a JSON object; `where` is its place, for messages.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    try:
        cells = json.loads(line)
    # Not only `JSONDecodeError`: a number may have too many digits, a list too many levels.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} must be a JSON object, got {shown(line)} ({error})") from error
    if not isinstance(cells, dict):
        raise ValueError(f"{where} must be a JSON object, got {shown(cells)}")
    if "\\ud" in line.lower() and not _is_unicode(cells):
        raise ValueError(f"{where} must be Unicode, got half of a surrogate pair (\\ud...)")
    return Record(where, cells)


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


def _files(root: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """List a file, or those of a folder, with their parts."""
    if not root.is_dir():
        # The folder is kept: some formats say in its name what the file is.
        yield root, (root.absolute().parent.name, root.name)
        return
    for folder, folders, names in os.walk(root, followlinks=True, onerror=_cannot_read):
        folders[:] = sorted(name for name in folders if not _is_reached(folder, name, root))
        for name in sorted(names):
            file = Path(folder, name)
            yield file, (root.absolute().name, *file.relative_to(root).parts)


def _is_reached(folder: str, name: str, root: Path) -> bool:
    """Say whether a folder is a link to one that is walked through in any case, or is above it."""
    path = os.path.join(folder, name)
    if not os.path.islink(path):
        return False
    target = Path(os.path.realpath(path))
    return target.is_relative_to(os.path.realpath(root)) or Path(
        os.path.realpath(folder)
    ).is_relative_to(target)


def _cannot_read(error: OSError) -> None:
    raise error


def _opened(file: Path, parts: Sequence[str], *, is_named: bool) -> Iterator[Member]:
    with file.open("rb") as stream:
        yield from _with_archives(
            Member(path=str(file), parts=parts, stream=stream, is_named=is_named)
        )


def _with_archives(member: Member, depth: int = 1) -> Iterator[Member]:
    if member.name.startswith(_OF_MACOS) and not member.is_named:
        return
    if not member.name.endswith(ARCHIVES):
        yield member
        return
    if depth > _ARCHIVE_DEPTH:
        raise ValueError(
            f"{member.path} must not be an archive more than {_ARCHIVE_DEPTH} deep; unpack it and "
            "name its folder"
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
                    yield from _with_archives(
                        Member(
                            path=f"{member.path}!{info.name}",
                            parts=(*member.parts[:-1], *PurePosixPath(info.name).parts),
                            stream=stream,
                            is_named=False,
                        ),
                        depth + 1,
                    )
    except BROKEN as error:
        raise ValueError(f"{member.path} is not an archive that can be read: {error}") from error


class _WholeHeader(tarfile.TarInfo):
    """Tells the end of an archive from damage, which `tarfile` takes for the end as well."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _READ_AT_ONCE and found.size > _HEADER_BYTES:
            raise tarfile.HeaderError(f"a name or attributes of {found.size:,} bytes")
        return found

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} where a member or the end should be") from error


def _is_unicode(cells: object) -> bool:
    """Say whether texts can be written: JSON can escape halves of characters, UTF-8 has none."""
    try:
        json.dumps(cells, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parquet(member: Member) -> Iterator[Record]:
    try:
        batches = pq.ParquetFile(member.stream).iter_batches(_PARQUET_ROWS)
        number = 0
        for batch in batches:
            for cells in batch.to_pylist():
                number += 1
                yield Record(f"{member.path}, row {number}", cells)
    # OSError: what Arrow says of damage, and without the file's name.
    except (pa.ArrowException, UnicodeDecodeError, OSError, *BROKEN) as error:
        raise ValueError(
            f"{member.path} is not a Parquet file that can be read: {error}"
        ) from error


def _csv(member: Member) -> Iterator[Record]:
    csv.field_size_limit(MAX_RECORD_BYTES)  # an article is longer than the default of 128 KiB
    reader = csv.DictReader((line for _, line in member.whole_lines()), strict=True)
    try:
        for cells in reader:
            where = f"{member.path}, line {reader.line_num}"
            if None in cells or None in cells.values():
                n_columns = len(reader.fieldnames or ())
                raise ValueError(f"{where} must have {n_columns} columns as the header, got others")
            yield Record(where, cells)
    except csv.Error as error:
        raise ValueError(f"{member.path}, line {reader.line_num} is not CSV: {error}") from error


def _tsv(member: Member) -> Iterator[Record]:
    lines = member.lines()
    _, header = next(lines, (1, ""))
    names = header.split("\t")
    for number, line in lines:
        cells = line.split("\t")
        where = f"{member.path}, line {number}"
        if len(cells) != len(names):
            raise ValueError(f"{where} must have {len(names)} columns, got {len(cells)}")
        yield Record(where, dict(zip(names, cells, strict=True)))
