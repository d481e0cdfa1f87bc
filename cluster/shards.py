"""What there is to score: the input files of a corpus, and the shards they are cut into.

A shard is the unit of restart and of output file. The plan is made once, before anything runs;
it depends on the files and `rows_per_shard` only, never on the number of workers.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster.reading import text_start
from cluster.records import iter_records
from cluster.store import absolute, filesystem_for, is_url, open_input

FORMATS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
"""What the end of a file's name says about its format."""

_EDGE_BYTES = 64 << 10
_PARQUET_TAIL = 8  # length of the footer, then the magic
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a corpus, with what tells whether it has changed."""

    path: str
    """Absolute path or URL."""
    size: int
    """Bytes."""
    footer_hash: str
    """SHA-256 of the footer (Parquet), or of the size and the first and last 64 KiB."""

    @property
    def format(self) -> str:
        """One of `parquet`, `jsonl`, `csv`."""
        return _format_of(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A run of rows of one file: whole row groups, a range of one row group, or a byte range."""

    index: int
    """Place in the plan; names the output file."""
    path: str
    format: str
    """One of `parquet`, `jsonl`, `csv`."""
    first_row: int
    """Row in the file, from 0; the header of a CSV file is no row."""
    n_rows: int
    row_groups: tuple[int, ...] = ()
    """Parquet: neighbouring row groups that hold the rows."""
    skip_rows: int = 0
    """Parquet: rows to pass over at the start of the row groups."""
    byte_range: tuple[int, int] | None = None
    """JSONL and CSV: begins and ends where a record does."""

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Shard:
        """Make a shard from what `to_json` returned, before or after it went through JSON."""
        byte_range = values["byte_range"]
        return cls(
            **{
                **values,
                "row_groups": tuple(values["row_groups"]),
                "byte_range": None if byte_range is None else (byte_range[0], byte_range[1]),
            }
        )


def list_inputs(corpora: Sequence[str]) -> list[InputFile]:
    """List the files of a corpus, sorted by path, each once.

    Parameters
    ----------
    corpora : sequence of str
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
    paths = {path for corpus in corpora for path in _paths_of(os.fspath(corpus))}
    if not paths:
        raise ValueError("`corpora` must name at least one file, got none")
    return [_input_file(path) for path in sorted(paths)]


def plan_shards(
    files: Sequence[InputFile], rows_per_shard: int = 20_000, limit: int | None = None
) -> list[Shard]:
    """Cut the files into shards, in the order of the files and of their rows.

    Parquet is cut at row groups: small neighbours are joined, a huge one is split into even
    ranges. JSONL and CSV are read through once, a block at a time, and cut between records.

    Parameters
    ----------
    files : sequence of InputFile
        From `list_inputs`.
    rows_per_shard : int
        No shard is larger. Rows are work; 30 to 120 s of it is a good size.
    limit : int, optional
        Keep only the first rows of the whole corpus.

    Raises
    ------
    ValueError
        If there are no rows, a file is broken, or a number is not positive.
    """
    if rows_per_shard < 1:
        raise ValueError(f"`rows_per_shard` must be at least 1, got {rows_per_shard}")
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1, got {limit}")
    shards: list[Shard] = []
    left = limit
    for file in files:
        if left == 0:
            break
        cut = _cut_parquet if file.format == "parquet" else _cut_text
        for piece in cut(file, rows_per_shard, left):
            shards.append(replace(piece, index=len(shards)))
            left = None if left is None else left - piece.n_rows
    if not shards:
        raise ValueError(f"the corpus has no rows in {', '.join(file.path for file in files)}")
    return shards


def _paths_of(corpus: str) -> list[str]:
    filesystem, inner = filesystem_for(corpus)
    kind = filesystem.get_file_info(inner).type
    if kind == pafs.FileType.File:
        paths = [absolute(corpus)]
    elif kind == pafs.FileType.Directory:
        paths = _in_folder(corpus, filesystem, inner)
    elif _WILDCARDS & set(corpus):
        paths = _matching(corpus, filesystem, inner)
    else:
        raise FileNotFoundError(f"no such file or folder: {corpus}")
    for path in paths:
        _format_of(path)
    return paths


def _in_folder(corpus: str, filesystem: pafs.FileSystem, folder: str) -> list[str]:
    found = filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
    paths = []
    for info in found:
        names = os.path.relpath(info.path, folder).split("/")
        is_data = os.path.splitext(info.path)[1].lower() in FORMATS
        is_hidden = any(name.startswith((".", "_")) for name in names)
        if info.type == pafs.FileType.File and is_data and not is_hidden:
            paths.append(_rejoin(corpus, info.path))
    if not paths:
        raise ValueError(f"nothing to read in {corpus}; files must end in {_suffixes()}")
    return paths


def _matching(corpus: str, filesystem: pafs.FileSystem, pattern: str) -> list[str]:
    if isinstance(filesystem, pafs.LocalFileSystem):
        paths = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    else:
        first = min(pattern.index(sign) for sign in _WILDCARDS if sign in pattern)
        folder = pattern[:first].rpartition("/")[0]
        found = filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
        paths = [
            _rejoin(corpus, info.path)
            for info in found
            if info.type == pafs.FileType.File and fnmatch(info.path, pattern)
        ]
    if not paths:
        raise FileNotFoundError(f"no file matches {corpus}")
    return paths


def _rejoin(corpus: str, inner: str) -> str:
    """Put the scheme of a URL back in front of a path the filesystem returned."""
    return f"{corpus.partition('://')[0]}://{inner}" if is_url(corpus) else inner


def _format_of(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path} must end in {_suffixes()}, got `{suffix}`")
    return FORMATS[suffix]


def _suffixes() -> str:
    return ", ".join(FORMATS)


def _input_file(path: str) -> InputFile:
    with open_input(path) as stream:
        size = stream.size()
        parts = (
            [_parquet_footer(path, stream, size)]
            if _format_of(path) == "parquet"
            else [str(size).encode(), *_edges(stream, size)]
        )
    return InputFile(path, size, hashlib.sha256(b"".join(parts)).hexdigest())


def _parquet_footer(path: str, stream: pa.NativeFile, size: int) -> bytes:
    stream.seek(max(0, size - _PARQUET_TAIL))
    tail = stream.read(_PARQUET_TAIL)
    n_bytes = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or n_bytes + _PARQUET_TAIL > size:
        raise ValueError(f"not a Parquet file (or not all of one): {path}")
    stream.seek(size - _PARQUET_TAIL - n_bytes)
    footer: bytes = stream.read(n_bytes)
    return footer


def _edges(stream: pa.NativeFile, size: int) -> list[bytes]:
    stream.seek(0)
    first = stream.read(_EDGE_BYTES)
    stream.seek(max(0, size - _EDGE_BYTES))
    return [first, stream.read(_EDGE_BYTES)]


def _cut_parquet(file: InputFile, rows_per_shard: int, limit: int | None) -> Iterator[Shard]:
    first_row = 0
    for groups, n_rows in _joined(_group_sizes(file.path), rows_per_shard):
        n_pieces = -(-n_rows // rows_per_shard)
        bounds = [n_rows * i // n_pieces for i in range(n_pieces + 1)]
        for begin, end in pairwise(bounds):
            row = first_row + begin
            taken = end - begin if limit is None else min(end - begin, limit - row)
            if taken <= 0:
                return
            yield Shard(
                index=-1,
                path=file.path,
                format="parquet",
                first_row=row,
                n_rows=taken,
                row_groups=groups,
                skip_rows=begin,
            )
        first_row += n_rows


def _group_sizes(path: str) -> list[int]:
    try:
        with open_input(path) as stream:
            metadata = pq.read_metadata(stream)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"not a readable Parquet file: {path} ({error})") from error
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def _joined(sizes: Sequence[int], rows_per_shard: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Join neighbouring row groups while they fit into one shard; a larger one stays alone."""
    groups: list[int] = []
    n_rows = 0
    for group, size in enumerate(sizes):
        if n_rows and n_rows + size > rows_per_shard:
            yield tuple(groups), n_rows
            groups, n_rows = [], 0
        if size:
            groups.append(group)
            n_rows += size
    if n_rows:
        yield tuple(groups), n_rows


def _cut_text(file: InputFile, rows_per_shard: int, limit: int | None) -> Iterator[Shard]:
    first_row, n_rows = 0, 0
    with open_input(file.path) as stream:
        begin = end = text_start(stream, file.format, file.path)
        for records in iter_records(stream, begin, file.size, quoted=file.format == "csv"):
            taken = 0
            while taken < len(records):
                room = rows_per_shard if limit is None else min(rows_per_shard, limit - first_row)
                fits = min(room - n_rows, len(records) - taken)
                taken, n_rows = taken + fits, n_rows + fits
                end = records.offset + int(records.ends[taken - 1])
                if n_rows < room:
                    continue
                yield _text_shard(file, first_row, n_rows, (begin, end))
                first_row, n_rows, begin = first_row + n_rows, 0, end
                if first_row == limit:
                    return
    if n_rows:
        yield _text_shard(file, first_row, n_rows, (begin, end))


def _text_shard(file: InputFile, first_row: int, n_rows: int, byte_range: tuple[int, int]) -> Shard:
    return Shard(
        index=-1,
        path=file.path,
        format=file.format,
        first_row=first_row,
        n_rows=n_rows,
        byte_range=byte_range,
    )
