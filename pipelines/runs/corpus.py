"""The input files of a run: found, checked before anything runs, and turned into Parquet once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa

from cluster import (
    InputFile,
    Shard,
    canonical_table,
    column_names,
    is_unchanged,
    list_inputs,
    resolve_columns,
)
from cluster.inputs import READERS
from cluster.parts import PLACE, STATUS
from cluster.reading import parquet_copy
from cluster.schema import IDS, Wanted
from cluster.store import is_inside
from cluster.worker import one_line
from pipelines.runs.manifest import Manifest

KEEP_ALL = "all"


def find_inputs(paths: Sequence[str], out: str) -> list[InputFile]:
    """List the input files, none of which may be output."""
    files = list_inputs(paths)
    if any(is_inside(out, path) for path in paths) or any(
        is_inside(file.path, out) for file in files
    ):
        raise ValueError(
            f"`--out` must not lie inside the corpus, got {out}; what is written there would be "
            "read as input the next time"
        )
    return files


def checked_columns(files: Sequence[InputFile], wanted: Wanted) -> Wanted:
    """Check that every file has the columns; return what is wanted, with all names to keep."""
    unknown = [file for file in files if file.outline is None]
    with ThreadPoolExecutor(READERS) as pool:
        names = dict(zip((f.path for f in unknown), pool.map(_names_of, unknown), strict=True))
    first = files[0]
    if wanted.keep == (KEEP_ALL,):
        there = names[first.path] if first.outline is None else first.outline.schema.names
        ids = {wanted.columns.get(name, name) for name in IDS}
        wanted = replace(wanted, keep=tuple(name for name in there if name not in ids))
    seen: set[int] = set()
    kinds: dict[str, pa.DataType] = {}
    for file in files:
        if file.outline is None:
            if names[file.path]:
                resolve_columns(
                    names[file.path],
                    wanted.needed,
                    wanted.columns,
                    keep=wanted.keep,
                    where=file.path,
                )
                _check_kinds(file, dict.fromkeys(wanted.keep, pa.string()), kinds)
        elif id(file.outline.schema) not in seen:  # one object for all files that have it
            seen.add(id(file.outline.schema))
            _check_schema(file, file.outline.schema, wanted, kinds)
    return wanted


def read_at_all(
    files: Sequence[InputFile], limit: int | None, rows_of: Callable[[InputFile, int], int]
) -> list[InputFile]:
    """Return the files that hold the first rows of the corpus; all files without a limit."""
    if limit is None:
        return list(files)
    if limit < 1:
        raise ValueError(f"`limit` must be at least 1, got {limit}")
    read: list[InputFile] = []
    left = limit
    for file in files:
        n_rows = rows_of(file, left) if file.outline is None else file.outline.n_rows
        if n_rows:
            read.append(file)
            left -= n_rows
        if left <= 0:
            break
    return read or list(files[:1])


def with_copies(
    files: Sequence[InputFile], out: str, wanted: Wanted, limit: int | None
) -> list[InputFile]:
    """Turn the files that are not Parquet into it, several at a time."""
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as pool:
        convert = partial(parquet_copy, folder=out, wanted=wanted, limit=limit)
        return list(pool.map(convert, files))


def needs_copies(files: Sequence[InputFile], shards: Sequence[Shard]) -> bool:
    """Say whether some of the shards read files that are not Parquet."""
    others = {file.path for file in files if file.format != "parquet"}
    return any(piece.path in others for shard in shards for piece in shard.pieces)


def check_unchanged(manifest: Manifest) -> None:
    """Raise a `RuntimeError` if an input of a run is not the one it began with any more."""

    def check(file: InputFile) -> None:
        if not is_unchanged(file.path, file.version, file.content):
            raise RuntimeError(
                f"input file changed: {file.path} while it was being scored; score it again with "
                "`--fresh`"
            )

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(check, manifest.inputs))


def check_kept(keep: Sequence[str], fields: Sequence[str]) -> None:
    """Refuse columns that are called as those of the scores."""
    if taken := sorted({*keep} & {*fields, *IDS, STATUS, *PLACE}):
        raise ValueError(
            f"`--keep` must not name a column of the scores, got `{taken[0]}`; give it another name"
        )


def _names_of(file: InputFile) -> list[str]:
    try:
        return column_names(file.path, file.format)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"cannot read {file.path}: {one_line(error)}") from error


def _check_schema(
    file: InputFile, schema: pa.Schema, wanted: Wanted, kinds: dict[str, pa.DataType]
) -> None:
    """Check the names and types of the columns of a Parquet file."""
    resolve_columns(schema.names, wanted.needed, wanted.columns, keep=wanted.keep, where=file.path)
    try:
        canonical_table(schema.empty_table(), wanted, where=file.path)
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"cannot read {file.path}: {one_line(error)}") from error
    _check_kinds(file, {name: _plain(schema.field(name).type) for name in wanted.keep}, kinds)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _check_kinds(
    file: InputFile, kept: Mapping[str, pa.DataType], kinds: dict[str, pa.DataType]
) -> None:
    """Check that the columns to keep, which are text in JSONL and CSV, are as in other files."""
    for name, kind in kept.items():
        if kinds.setdefault(name, kind) != kind:
            raise ValueError(
                f"column `{name}` of `--keep` must be of one type in all files, got "
                f"{kinds[name]} and, in {file.path}, {kind}"
            )
