"""The input files of a run: found, checked before anything runs, and turned into Parquet once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from cluster.inputs import READERS, InputFile, is_unchanged, list_inputs, with_content
from cluster.manifest import Manifest
from cluster.partitions import partition_columns
from cluster.parts import kept_as
from cluster.reading import COPIES_FOLDER, parquet_copy, read_files
from cluster.rows import column_names, read_rows
from cluster.schema import IDS, Wanted, canonical_table, resolve_columns
from cluster.store import check_no_links, is_inside
from cluster.worker import one_line
from sms.urls import is_url


class FoundInputs(NamedTuple):
    """The files of a run."""

    files: list[InputFile]
    """Those that are read: where the rows are limited, not all."""
    wanted: Wanted
    """What is read of them, with all names to keep."""
    n_rows: int | None
    """Rows of the whole corpus; None where files do not say how many they have."""


def find_inputs(paths: Sequence[str], out: str, wanted: Wanted, limit: int | None) -> FoundInputs:
    """List the input files that are read, and say what is read of them.

    None of them may be output, and every file must have the columns.
    """
    files = list_inputs(paths)
    is_within = any(is_inside(out, path) for path in paths)
    if is_within or any(is_inside(file.path, out) for file in files):
        raise ValueError(
            f"`--out` must not be inside the corpus, got {out}; choose a folder that is not read "
            "as input"
        )
    wanted = _checked_columns(files, wanted)
    outlines = [file.outline for file in files if file.outline is not None]
    n_rows = sum(outline.n_rows for outline in outlines) if len(outlines) == len(files) else None
    return FoundInputs(with_content(_read_at_all(files, wanted, limit)), wanted, n_rows)


def with_copies(
    files: Sequence[InputFile], out: str, wanted: Wanted, limit: int | None
) -> list[InputFile]:
    """Turn the files that are not Parquet into it, several at a time."""
    if not is_url(out):  # Arrow fails to list a folder that appears meanwhile
        check_no_links(out, COPIES_FOLDER)
        Path(out, COPIES_FOLDER).mkdir(exist_ok=True)
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as pool:
        convert = partial(parquet_copy, folder=out, wanted=wanted, limit=limit)
        return list(pool.map(convert, files))


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
    """Refuse kept columns that would have the same name in the scores."""
    names = Counter(kept_as(name, fields) for name in dict.fromkeys(keep))
    if twice := [name for name, n in names.items() if n > 1]:
        raise ValueError(
            f"`--keep` must not name two columns that would be called `{twice[0]}` in the scores; "
            "rename one of them"
        )


def _checked_columns(files: Sequence[InputFile], wanted: Wanted) -> Wanted:
    with ThreadPoolExecutor(READERS) as pool:
        schemas = list(pool.map(_schema_of, files))
    if wanted.keep == ("all",):
        ids = {wanted.columns.get(name, name) for name in IDS}
        wanted = replace(wanted, keep=tuple(name for name in schemas[0].names if name not in ids))
    seen: set[int] = set()
    kinds: dict[str, pa.DataType] = {}
    for file, schema in zip(files, schemas, strict=True):
        has_rows = schema.names or file.format == "parquet"
        if has_rows and id(schema) not in seen:  # one object for all files that have it
            seen.add(id(schema))
            _check_schema(file.path, schema, wanted, kinds)
    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(partial(_check_folders, wanted=wanted), files))
    return wanted


def _read_at_all(
    files: Sequence[InputFile], wanted: Wanted, limit: int | None
) -> Sequence[InputFile]:
    """Return the files that hold the first rows of the corpus; all files without a limit."""
    if limit is None:
        return files
    if limit < 1:
        raise ValueError(f"`limit` must be at least 1, got {limit}")
    read: list[InputFile] = []
    for file in files:
        rows = () if file.outline else read_files([file], wanted, limit=limit)
        n_rows = file.outline.n_rows if file.outline else sum(map(len, rows))
        read += [file] if n_rows else []
        limit -= n_rows
        if limit <= 0:
            break
    return read or files[:1]


def _schema_of(file: InputFile) -> pa.Schema:
    """Return the columns of a file, which are text in JSON and CSV; none of a file of no rows."""
    if file.outline is not None:
        folders = partition_columns(file.path).keys() - {*file.outline.schema.names}
        if not folders:
            return file.outline.schema
        return pa.schema([*file.outline.schema, *((name, pa.string()) for name in folders)])
    try:
        names = column_names(file.path, file.format)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"cannot read {file.path}: {one_line(error)}") from error
    return pa.schema([(name, pa.string()) for name in names])


def _check_folders(file: InputFile, wanted: Wanted) -> None:
    """Have the columns read that the folders of a file name, too: they may contradict these.

    Text is read before anything is scored, anyhow.
    """
    if file.outline is None:
        return
    names = file.outline.schema.names
    both = [name for name in partition_columns(file.path) if name in names]
    read = {*resolve_columns(names, (), wanted.columns).values(), *wanted.keep}
    if asked := [name for name in both if name in read]:
        for _ in read_rows(file.path, file.format, lambda _names: asked):
            pass


def _check_schema(
    path: str, schema: pa.Schema, wanted: Wanted, kinds: dict[str, pa.DataType]
) -> None:
    """Check the columns of a file: their names, types, and that kept ones are as in `kinds`."""
    resolve_columns(schema.names, wanted.needed, wanted.columns, keep=wanted.keep, where=path)
    try:
        canonical_table(schema.empty_table(), wanted, where=path)
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"cannot read {path}: {one_line(error)}") from error
    for name in wanted.keep:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if kinds.setdefault(name, kind) != kind:
            raise ValueError(
                f"column `{name}` of `--keep` must have the same type in all files, got "
                f"{kinds[name]} and, in {path}, {kind}"
            )
