"""Reads scores of rated candidates: folders of `assay score`, and any tool's files.

Only rows that have a rating are ever held: the join is made while the files are read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow.fs as pafs

from cluster import InputFile, committed_parts
from cluster.manifest import RUN_FILE, SUCCESS_FILE, read_manifest
from cluster.parts import SCORES_FOLDER
from cluster.store import (
    absolute,
    base_name,
    file_sizes,
    filesystem_for,
    join,
    list_names,
    naming,
    real_path,
)
from pipelines.runs.questions import repeatability
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS
from pipelines.tables.records import InputRecord
from sms.naming import ABOUT_ROWS, AnyPath, is_precision_or_recall
from sms.signature import without_content


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInput:
    """One of the score folders or files that were named."""

    path: str
    files: Sequence[InputFile]
    signatures: Mapping[str, str]
    """By column; empty for other tools' files."""
    asked: Sequence[str] = ()
    """Metrics of the run, as they were asked for."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Of the run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Scores of the rated candidates."""

    frame: pl.DataFrame
    """The rated keys, sorted, and a float64 column per metric; null where there is no score."""
    metrics: Sequence[str]
    signatures: Mapping[str, str]
    """By metric as in `metrics`."""
    records: Sequence[InputRecord]
    notes: Sequence[str]


def find_scores(path: AnyPath, *, is_unfinished_accepted: bool = False) -> ScoreInput:
    """Find the files of one input: the committed parts of a run, or the files themselves.

    A folder's files are those its `_SUCCESS` lists, not whatever lies there; of an unfinished run
    what it has committed so far, if that is accepted.
    """
    path = os.fspath(path)
    if not is_folder(path):
        return ScoreInput(path=absolute(path), files=keyed.files_of(path), signatures={})
    folder = absolute(path).rstrip("/")
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(
            f"{path} must be a folder of `assay score`, but has no {RUN_FILE}; name files instead"
        )
    is_finished = SUCCESS_FILE in list_names(folder)
    if not (is_finished or is_unfinished_accepted):
        raise ValueError(
            f"the run in {path} has not finished; finish it with the same `assay score`"
        )
    there = committed_parts(folder, manifest.shards, manifest.fingerprint)
    if len(there) < len(manifest.shards) and (is_finished or not there):
        raise ValueError(
            f"{path} must hold {len(manifest.shards)} scores files of its run, got "
            f"{len(there)}; score again with `assay score`"
        )
    parts = list(dict.fromkeys(there.values()))
    sizes = file_sizes(join(folder, SCORES_FOLDER))
    (first,) = keyed.files_of(parts[0])  # the others have the same columns, and are not opened
    return ScoreInput(
        path=folder,
        files=[replace(first, path=part, size=sizes.get(base_name(part), 0)) for part in parts],
        signatures=manifest.signatures,
        asked=manifest.configuration["metrics"],
        counters=manifest.result.get("counters", {}),
    )


def is_folder(path: str) -> bool:
    """Say whether a path or URL names a folder, going by what its store says."""
    filesystem, inner = filesystem_for(path)
    with naming(path):
        return bool(filesystem.get_file_info(inner).type == pafs.FileType.Directory)


def read_scores(
    inputs: Sequence[ScoreInput],
    rated: pl.DataFrame,
    *,
    metrics: Sequence[str] = (),
    with_parts: bool = True,
    columns: Mapping[str, str],
) -> Scores:
    """Read the scores of rated candidates out of all inputs.

    A column of numbers is a metric; a name that several inputs have is written `INPUT/METRIC` in
    all of them. `rated` has the keys of the rated candidates, sorted, each once. `metrics` are
    names or patterns to keep, all where empty (but, without `with_parts`, precision and recall that
    the run was not asked for by name); `columns` has our column name to the file's.
    """
    times = Counter(real_path(each.path) for each in inputs)
    if repeated := [path for path, n in times.items() if n > 1]:
        raise ValueError(f"`scores` must name every input once, got {repeated[0]} twice")
    tables = [keyed.open_table(each.files, columns) for each in inputs]
    calls = _calls(inputs, tables, metrics)
    wanted = _wanted(inputs, calls, metrics, with_parts=with_parts)
    _refuse_other_content(inputs, calls, wanted)
    frame, notes, signatures = rated, list[str](), dict[str, str]()
    records = list[InputRecord]()
    for source, table, called in zip(inputs, tables, calls, strict=True):
        kept = {name: call for name, call in called.items() if call in wanted}
        if kept:
            part, read, dropped = _rated_rows(table, [*kept], rated, metrics)
            records += read
            notes += dropped
            kept = {name: call for name, call in kept.items() if name in part.columns}
            frame = frame.join(part.rename(kept), on=KEYS, how="left", maintain_order="left")
            signed = source.signatures
            signatures |= {kept[name]: signed[name] for name in kept if name in signed}
            notes += repeatability(kept, source.counters)
    kept_metrics = [name for name in frame.columns if name not in KEYS]
    if not kept_metrics:
        raise ValueError("the scores must have a column of numbers, not only ids")
    if shared := sorted({*kept_metrics} - {name for called in calls for name in called}):
        notes.append(f"Columns that several inputs have are named by input: {keyed.listed(shared)}")
    return Scores(
        frame=frame,
        metrics=kept_metrics,
        signatures=signatures,
        records=records,
        notes=notes,
    )


def _calls(
    inputs: Sequence[ScoreInput], tables: Sequence[keyed.KeyedTable], asked: Sequence[str]
) -> list[dict[str, str]]:
    """Name every metric of every input, with the input before it where others have it too."""
    names = [
        [
            name
            for name in table.names
            # Columns of a run without a signature were copied from the corpus (`--keep`).
            if (name in each.signatures or not each.signatures)
            and (name in asked if name.startswith(ABOUT_ROWS) else name not in keyed.NOT_NUMBERS)
        ]
        for each, table in zip(inputs, tables, strict=True)
    ]
    n_inputs = Counter(name for columns in names for name in columns)
    labels = keyed.names_of_paths([each.path for each in inputs])
    return [
        {name: f"{label}/{name}" if n_inputs[name] > 1 else name for name in columns}
        for label, columns in zip(labels, names, strict=True)
    ]


def _wanted(
    inputs: Sequence[ScoreInput],
    calls: Sequence[Mapping[str, str]],
    patterns: Sequence[str],
    *,
    with_parts: bool,
) -> set[str]:
    """Return the metrics a user wants, named as they are called or by their column in any input."""
    pairs = [
        (each, name, call)
        for each, called in zip(inputs, calls, strict=True)
        for name, call in called.items()
    ]
    if not patterns:
        return {
            call
            for each, name, call in pairs
            # A run also writes precision and recall if only the F measure was requested.
            if with_parts or not (each.asked and is_precision_or_recall(name)) or name in each.asked
        }
    names = dict.fromkeys([call for *_, call in pairs] + [name for _, name, _ in pairs])
    chosen = set(keyed.matching([*names], patterns, "--metrics"))
    return {call for _, name, call in pairs if call in chosen or name in chosen}


def _rated_rows(
    table: keyed.KeyedTable, names: Sequence[str], rated: pl.DataFrame, asked: Sequence[str]
) -> tuple[pl.DataFrame, Sequence[InputRecord], list[str]]:
    """Read rows that have a rating; also say of which files, and which rows and columns are not."""
    where, read = table.where, table.read(names, among=rated, role="scores")
    rows = read.frame
    if not rows.height:
        theirs = table.read([]).frame.drop_nulls().head(3)
        raise ValueError(
            f"no row of {where} has a rating: 0 of its {read.n_rows:,} keys are among the "
            f"{rated.height:,} rated ones of the systems that are kept; scores have "
            f"{keyed.examples(theirs)}, ratings {keyed.examples(rated)}; name the right columns "
            "with `--columns`, or other systems"
        )
    keyed.check_unique(rows, KEYS, where, "keep one row of each")
    numbers, of_numbers, notes = keyed.number_columns(rows, names, where)
    texts = [name for name in names if name not in of_numbers]
    if texts and asked:
        raise ValueError(f"metric `{texts[0]}` in {where} must hold numbers, got text only")
    return numbers, read.records, [*read.notes, *notes]


def _refuse_other_content(
    inputs: Sequence[ScoreInput], calls: Sequence[Mapping[str, str]], wanted: set[str]
) -> None:
    """Refuse metrics that look the same but for the hash of the files behind them."""
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for source, called in zip(inputs, calls, strict=True):
        for name, signature in source.signatures.items():
            if called.get(name) not in wanted:
                continue
            key = name, without_content(signature)
            path, other = first.setdefault(key, (source.path, signature))
            if other != signature:
                raise ValueError(
                    f"`{name}` must be computed with the same files in all inputs, but the hashes "
                    f"in its signatures differ in {path} and {source.path}; score one of them "
                    "again under another name (`--encoder ALIAS=...` and METRIC@ALIAS), or leave "
                    "one out"
                )
