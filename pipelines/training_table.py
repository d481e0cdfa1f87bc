"""Training data as a table: a row for each candidate, as `assay negatives` writes.

Columns: `document_id`, `source`, `candidate` and `label` (higher is better). Where they are there:
`kind` (`positive`, or a kind of negative), `base` and `number` (candidates with the same are
compared; else all of a document), `aspect` (heads that it teaches, with commas between them),
`weight` (how much it counts), `split`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cluster import column_names, list_inputs
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES, UNREADABLE, kept_name
from reffree.examples import Example
from reffree.hashing import hash64
from reffree.pairs import SIDES, side_named
from reffree.splits import hashed_sides
from sms.naming import OneOrMore

LABEL = "label"
_DEFAULTS: dict[str, Any] = {
    "kind": "", "base": "", "number": 0, "aspect": "", "weight": 1.0, "split": None,
}  # fmt: skip


def is_table(paths: OneOrMore, columns: Mapping[str, str]) -> bool:
    """Tell a table of candidates from pairs of sources and references."""
    wanted = {columns.get(CANDIDATE, CANDIDATE), columns.get(LABEL, LABEL)}
    return all(wanted <= set(column_names(file.path, file.format)) for file in list_inputs(paths))


def read_examples(
    paths: OneOrMore, columns: Mapping[str, str], *, limit: int | None, seed: int
) -> dict[str, list[Example]]:
    """Read the rows of each side; without a column `split` all are for training."""
    files = list_inputs(paths)
    theirs = {name: columns.get(name, name) for name in (LABEL, *_DEFAULTS)}
    there = set.intersection(*(set(column_names(file.path, file.format)) for file in files))
    keep = tuple(name for name in theirs.values() if name in there)
    own = {name: named for name, named in columns.items() if name not in theirs}
    wanted = Wanted(needed=(DOCUMENT_ID, CANDIDATE, SOURCES), columns=own, keep=keep)
    examples: dict[str, list[Example]] = {side: [] for side in SIDES}
    for table in read_files(files, wanted, limit=limit):
        for row in table.to_pylist():
            if row[UNREADABLE] or not row[CANDIDATE] or not row[SOURCES]:
                continue
            said = {
                name: row[kept_name(named)]
                for name, named in theirs.items()
                if row.get(kept_name(named)) is not None
            }
            example = _example(row, _DEFAULTS | said)
            side = "train"
            if theirs["split"] in there:
                side = _side(example.document_id, said.get("split"), seed)
            examples[side].append(example)
    return examples


def _example(row: Mapping[str, Any], said: Mapping[str, Any]) -> Example:
    try:
        label, weight, number = float(said[LABEL]), float(said["weight"]), int(said["number"])
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"`{LABEL}`, `weight` and `number` must be numbers, got none for document "
            f"{row[DOCUMENT_ID]}"
        ) from error
    if not (math.isfinite(label) and 0 < weight < math.inf):
        raise ValueError(
            f"`{LABEL}` must be finite and `weight` above 0, got {label:g} and {weight:g} for "
            f"document {row[DOCUMENT_ID]}; leave the row out"
        )
    return Example(
        document_id=row[DOCUMENT_ID],
        number=number,
        kind=str(said["kind"]),
        index=0,
        source=" ".join(row[SOURCES]),
        candidate=row[CANDIDATE],
        label=label,
        n_edits=0,
        base=str(said["base"]),
        aspect=str(said["aspect"]),
        weight=weight,
    )


def _side(document_id: str, split: str | None, seed: int) -> str:
    if split is not None:
        place = side_named(split)
        if place < 0:
            raise ValueError(
                f"`split` must be train, validation or test, got {split!r} for document "
                f"{document_id}"
            )
        return SIDES[place]
    keys = np.array([hash64(document_id)], dtype=np.uint64)
    return SIDES[int(hashed_sides(keys, seed=seed)[0])]
