"""What there is to score: the input files of a corpus, each opened once.

A Parquet file's footer says how it may be cut into shards; JSONL and CSV are turned into Parquet
for that by `cluster.reading`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.listing import each_once, find_files
from cluster.pipes import is_nameless, is_pipe
from cluster.store import (
    NAMED_BY_STORE,
    base_name,
    open_input,
    parquet_footer,
    reads_again,
    version_of,
)
from cluster.text_blocks import opened_text
from sms.naming import OneOrMore, several
from sms.urls import is_url

FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
}
"""What the end of a file's name says about its format; text may be compressed: `.jsonl.gz`."""
PACKED = (".gz", ".zst", ".bz2")
"""How the name of a packed file of text may end."""
READERS = 32
"""Threads that wait for files."""

_JSON = ".json"
_LIKELY_BYTES = 1_024
"""Of a row of text: a summary and a reference, or more of a packed file."""
_FILES_AT_ONCE = 1_024
_NUMBERS = frozenset({"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"})
_NUMBER_BYTES = 8

_Schemas: TypeAlias = dict[bytes, pa.Schema]  # those met so far; the files of a corpus have few


@dataclass(frozen=True, slots=True)
class Outline:
    """What a Parquet footer tells that planning needs."""

    schema: pa.Schema
    """One object for all files that have it."""
    row_groups: np.ndarray
    """Of every row group its rows and its bytes of text, shape (n, 2): uncompressed, in all
    columns; 0 in files that hold vectors or other large values as well, which cannot be told
    apart."""

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return int(self.row_groups[:, 0].sum())


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

    @property
    def needs_copy(self) -> bool:
        """Whether its rows are turned into Parquet before they are scored."""
        return self.format != "parquet" or (not is_url(self.path) and is_pipe(self.path))

    @property
    def likely_rows(self) -> int:
        """How many rows it has; a guess where only reading it would tell."""
        return self.outline.n_rows if self.outline else self.size // _LIKELY_BYTES

    def without_outline(self) -> InputFile:
        """Return what is kept for the length of a run."""
        return replace(self, outline=None)

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` can write; `InputFile(**values)` makes it a file again."""
        return {"path": self.path, "size": self.size, "content": self.content}


def list_inputs(corpora: OneOrMore) -> list[InputFile]:
    """List the files of a corpus (files, folders, globs or URLs), sorted by path, each once.

    In a folder (read with its subfolders) files of other kinds and names that begin with `.` or `_`
    are passed over, and `.json` files beside tables of other kinds; so are files without a byte
    beside others, which programs write for parts that have no rows. What a glob means, and which of
    a file's names counts, is in `cluster.listing`. Raises `FileNotFoundError` if a file or folder
    is not there, or a glob matches nothing; `ValueError` if a file is of an unknown kind or is not
    the Parquet file it claims to be, or a folder has nothing to read.
    """
    paths = each_once(name for corpus in several(corpora) for name in _names_of(corpus))
    if not paths:
        raise ValueError("`corpora` must name at least one file, got none")
    schemas: _Schemas = {}
    files: list[InputFile] = []
    with ThreadPoolExecutor(min(READERS, len(paths))) as pool:
        for first in range(0, len(paths), _FILES_AT_ONCE):
            some = paths[first : first + _FILES_AT_ONCE]
            files += pool.map(lambda path: _input_file(path, schemas), some)
    return [file for file in files if file.size] or files


def with_content(files: Sequence[InputFile]) -> list[InputFile]:
    """Look at all bytes of files, several at a time, and say what they are.

    Raises `ValueError` if a file is not the one any more that was listed.
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
    file or linked to it, its bytes tell. Raises `FileNotFoundError` if it is gone.
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
        return _outline(path, stream, {})


def format_of(path: str) -> str:
    """Tell the format of a file by the end of its name; that of a pipe by how its content begins.

    Raises `ValueError` if no format ends like that.
    """
    suffix = _suffix(path)
    if suffix in FORMATS:
        return FORMATS[suffix]
    if not is_url(path) and is_nameless(path):
        return _format_of_content(path)
    raise ValueError(f"{path} must end in {_suffixes()}, got `{suffix}`")


def _format_of_content(path: str) -> str:
    with open_input(path) as stream:
        if stream.read_at(4, 0) == b"PAR1":
            return "parquet"
    with opened_text(path) as blocks:
        start = next((block.lstrip() for block in blocks if block.strip()), b"")
    return "jsonl" if start.startswith((b"{", b"[")) else "csv"


def _names_of(corpus: str) -> list[str]:
    paths, is_folder = find_files(corpus)
    if is_folder:
        paths = [path for path in paths if _suffix(path) in FORMATS]
        # JSON next to other tables is usually their metadata.
        paths = [path for path in paths if _suffix(path) != _JSON] or paths
        if not paths:
            raise ValueError(f"no files to read in {corpus}; their names must end in {_suffixes()}")
    for path in paths:
        format_of(path)
    return paths


def _suffix(path: str) -> str:
    stem, suffix = os.path.splitext(base_name(path).lower())
    inner = os.path.splitext(stem)[1]
    is_text = FORMATS.get(inner, "parquet") != "parquet"
    return inner if suffix in PACKED and is_text else suffix


def _suffixes() -> str:
    return f"{', '.join(FORMATS)}, or text with {' or '.join(PACKED)}"


@reads_again
def _input_file(path: str, schemas: _Schemas) -> InputFile:
    with open_input(path) as stream:
        size, version = stream.size(), version_of(stream, path)
        outline = _outline(path, stream, schemas) if format_of(path) == "parquet" else None
    return InputFile(path, size, outline=outline, version=version)


def _outline(path: str, stream: pa.NativeFile, schemas: _Schemas) -> Outline:
    # What is known of single columns is not asked for: where a damaged footer contradicts itself
    # there, Arrow 26 ends the process.
    end = parquet_footer(stream)
    if end[-4:] != b"PAR1":
        raise ValueError(f"not a whole Parquet file: {path}; write or copy it again")
    try:
        footer = pq.read_metadata(pa.BufferReader(end))
        schema = footer.schema.to_arrow_schema()
        groups = map(footer.row_group, range(footer.num_row_groups))
        sizes = np.array([(g.num_rows, g.total_byte_size) for g in groups], np.int64).reshape(-1, 2)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"cannot read the Parquet file {path} ({error}); write or copy it again"
        ) from error
    n_numbers = _n_numbers(footer.schema)
    number_bytes = sizes[:, 1] if n_numbers is None else _NUMBER_BYTES * n_numbers * sizes[:, 0]
    sizes[:, 1] = np.maximum(0, sizes[:, 1] - number_bytes)
    # Arrow 21 cannot hash a schema that has metadata.
    return Outline(schemas.setdefault(schema.serialize().to_pybytes(), schema), sizes)


def _n_numbers(schema: pq.ParquetSchema) -> int | None:
    """Count the numbers of a row beside its text; None if it has other large values."""
    leaves = (schema.column(i) for i in range(len(schema)))
    others = [leaf for leaf in leaves if leaf.logical_type.type != "STRING"]
    is_plain = all(
        leaf.physical_type in _NUMBERS and not leaf.max_repetition_level for leaf in others
    )
    return len(others) if is_plain else None
