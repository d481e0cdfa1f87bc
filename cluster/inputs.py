"""What there is to score: the input files of a corpus, each opened once.

A Parquet file's footer says how it may be cut into shards; JSONL and CSV are turned into Parquet
for that by `cluster.reading`.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.listing import Named, each_once, find_files
from cluster.rereading import reads_again
from cluster.store import NAMED_BY_STORE, base_name, open_input, version_of
from sms.naming import OneOrMore, several

FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
}
"""What the end of a file's name says about its format; text may be compressed: `.jsonl.gz`."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
READERS = 32
"""Threads that wait for files."""

_TAIL_BYTES = 64 << 10
_PARQUET_TAIL = 8  # length of the footer, then the magic
_FILES_AT_ONCE = 1_024
_KNOWN_SCHEMAS = 8
_NUMBERS = frozenset({"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"})
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Outline:
    """What a Parquet footer tells that planning needs: 16 bytes per row group."""

    schema: pa.Schema
    """One object for all files that have it."""
    packed_sizes: bytes
    """Of every row group its rows and its bytes of text, int64."""

    def rows(self) -> list[int]:
        """Return the rows of every row group."""
        return self._sizes()[:, 0].tolist()

    def text_bytes(self) -> list[int]:
        """Return the bytes of text of every row group, uncompressed and in all columns.

        0 in files that hold vectors or other large values as well, which cannot be told apart.
        """
        return self._sizes()[:, 1].tolist()

    def _sizes(self) -> np.ndarray:
        return np.frombuffer(self.packed_sizes, np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a corpus, with what tells whether it has changed."""

    path: str
    """Absolute path or URL."""
    size: int
    """Bytes."""
    content: str = ""
    """See `content_of`; empty until `with_content` has looked."""
    outline: Outline | None = field(default=None, compare=False, repr=False)
    """Of a Parquet file; None for other files and for what was read from `run.json`."""
    version: str = field(default="", compare=False, repr=False)
    """See `store.version_of`; unknown of what was read from `run.json`."""
    copy: str = field(default="", compare=False, repr=False)
    """Where `reading.parquet_copy` has put its rows."""

    @property
    def format(self) -> str:
        """One of `parquet`, `jsonl`, `csv`."""
        return format_of(self.path)

    def without_outline(self) -> InputFile:
        """Return what is kept for the length of a run."""
        return replace(self, outline=None)

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` can write; `InputFile(**values)` makes it a file again."""
        return {"path": self.path, "size": self.size, "content": self.content}


def list_inputs(corpora: OneOrMore) -> list[InputFile]:
    """List the files of a corpus, sorted by path, each once.

    What a glob means, and which of a file's names counts, is in `cluster.listing`.

    Parameters
    ----------
    corpora : path or sequence of paths
        Files, folders, globs or URLs. In a folder (read with its subfolders) files of other kinds
        and names that begin with `.` or `_` are passed over.

    Raises
    ------
    FileNotFoundError
        If a file or folder is not there, or a glob matches nothing.
    ValueError
        If a file is of an unknown kind or is not the Parquet file it claims to be, or a folder
        has nothing to read.
    """
    paths = each_once(name for corpus in several(corpora) for name in _names_of(corpus))
    if not paths:
        raise ValueError("`corpora` must name at least one file, got none")
    schemas = _Schemas()
    files: list[InputFile] = []
    left = iter(paths)
    with ThreadPoolExecutor(min(READERS, len(paths))) as pool:
        while some := list(islice(left, _FILES_AT_ONCE)):
            files += pool.map(lambda path: _input_file(path, schemas), some)
    return files


def with_content(files: Sequence[InputFile]) -> list[InputFile]:
    """Look at all bytes of files, several at a time, and say what they are.

    Raises
    ------
    ValueError
        If a file is not the one any more that was listed.
    """
    with ThreadPoolExecutor(READERS) as pool:
        contents = pool.map(lambda file: content_of(file.path, file.version), files)
        return [
            replace(file, content=content) for file, content in zip(files, contents, strict=True)
        ]


@reads_again
def content_of(path: str, version: str) -> str:
    """Say what is in a file: the SHA-256 of its bytes, or what its store calls them.

    Raises `ValueError` if the file has not the version it should have, or gets another one
    meanwhile.
    """
    if version.startswith(NAMED_BY_STORE):
        return version
    with open_input(path) as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if version_of(stream, path) != version:
            raise ValueError(f"{path} changed while it was read; run the same command again")
    return f"sha256:{digest}"


def is_unchanged(path: str, version: str, content: str) -> bool:
    """Say whether a file is still the one that was listed.

    Its version tells without reading it. Where that is another one, for somebody has touched the
    file or linked to it, its bytes tell.

    Raises
    ------
    FileNotFoundError
        If it is gone.
    """
    with open_input(path) as stream:
        now = version_of(stream, path)
    return now == version or (bool(content) and _content_again(path, now) == content)


@lru_cache(maxsize=_FILES_AT_ONCE)
def _content_again(path: str, version: str) -> str:
    return content_of(path, version)


@reads_again
def read_outline(path: str) -> Outline:
    """Read the footer of a Parquet file.

    Raises `ValueError` if it is none.
    """
    with open_input(path) as stream:
        return _outline(path, _parquet_footer(path, stream, stream.size()), _Schemas())


def format_of(path: str) -> str:
    """Tell the format of a file by the end of its name.

    Raises `ValueError` if no format ends like that.
    """
    suffix = _suffix(path)
    if suffix not in FORMATS:
        hint = "; write a line for each object, as .jsonl" if suffix == ".json" else ""
        raise ValueError(f"{path} must end in {_suffixes()}, got `{suffix}`{hint}")
    return FORMATS[suffix]


def _names_of(corpus: str) -> list[Named]:
    named, is_folder = find_files(corpus)
    if is_folder:
        named = [each for each in named if each.same_as or _suffix(each.path) in FORMATS]
        if all(each.same_as for each in named):
            raise ValueError(f"nothing to read in {corpus}; files must end in {_suffixes()}")
    for each in named:
        if not each.same_as:
            format_of(each.path)
    return named


def _suffix(path: str) -> str:
    stem, suffix = os.path.splitext(base_name(path).lower())
    inner = os.path.splitext(stem)[1]
    is_text = FORMATS.get(inner, "parquet") != "parquet"
    return inner if suffix in COMPRESSIONS and is_text else suffix


def _suffixes() -> str:
    return f"{', '.join(FORMATS)}, or text with {' or '.join(COMPRESSIONS)}"


class _Schemas:
    """Knows the schemas met so far; the files of a corpus have few, and reading one takes time."""

    def __init__(self) -> None:
        self._known: list[tuple[pq.FileMetaData, pa.Schema, int | None]] = []
        self._adding = Lock()

    def of(self, footer: pq.FileMetaData) -> tuple[pa.Schema, int | None]:
        """Return the schema, and how many numbers a row has; None if it has other large values."""
        if schema := self._find(footer):
            return schema
        with self._adding:  # a second thread with a new schema finds the first one's here
            return self._find(footer) or self._add(footer)

    def _find(self, footer: pq.FileMetaData) -> tuple[pa.Schema, int | None] | None:
        for known, schema, n_numbers in self._known:
            if footer.schema.equals(known.schema) and footer.metadata == known.metadata:
                return schema, n_numbers
        return None

    def _add(self, footer: pq.FileMetaData) -> tuple[pa.Schema, int | None]:
        leaves = [footer.schema.column(i) for i in range(footer.num_columns)]
        others = [leaf for leaf in leaves if leaf.logical_type.type != "STRING"]
        is_plain = all(leaf.physical_type in _NUMBERS for leaf in others) and not any(
            leaf.max_repetition_level for leaf in others
        )
        n_numbers = len(others) if is_plain else None
        schema = footer.schema.to_arrow_schema()
        self._known = [(footer, schema, n_numbers), *self._known[: _KNOWN_SCHEMAS - 1]]
        return schema, n_numbers


@reads_again
def _input_file(path: str, schemas: _Schemas) -> InputFile:
    with open_input(path) as stream:
        size, version = stream.size(), version_of(stream, path)
        if format_of(path) != "parquet":
            return InputFile(path, size, version=version)
        footer = _parquet_footer(path, stream, size)
    return InputFile(path, size, outline=_outline(path, footer, schemas), version=version)


def _parquet_footer(path: str, stream: pa.NativeFile, size: int) -> bytes:
    """Return the footer with the bytes after it; most often all of it comes with one request."""
    stream.seek(max(0, size - _TAIL_BYTES))
    tail: bytes = stream.read(_TAIL_BYTES)
    n_bytes = int.from_bytes(tail[-_PARQUET_TAIL:-4], "little") + _PARQUET_TAIL
    if tail[-4:] != b"PAR1" or n_bytes > size:
        raise ValueError(f"not a Parquet file (or not all of one): {path}")
    if n_bytes > len(tail):
        stream.seek(size - n_bytes)
        tail = stream.read(n_bytes)
    return tail[-n_bytes:]


def _outline(path: str, footer: bytes, schemas: _Schemas) -> Outline:
    # What is known of single columns is not asked for: where a damaged footer contradicts itself
    # there, Arrow 26 ends the process.
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer))
        schema, n_numbers = schemas.of(metadata)
        sizes = array("q")
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            n_rows, n_bytes = group.num_rows, 0
            if n_numbers is not None:
                n_bytes = max(0, group.total_byte_size - _NUMBER_BYTES * n_numbers * n_rows)
            sizes.extend((n_rows, n_bytes))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not a readable Parquet file: {path} ({error})") from error
    return Outline(schema, sizes.tobytes())
