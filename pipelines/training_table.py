"""Training data as a table: a row for each candidate, as `assay negatives` writes.

Columns: `document_id`, `source`, `candidate` and `label` (higher is better). Where they are there:
`kind` (`positive`, or a kind of negative), `base` and `number` (candidates with the same are
compared; else all of a document), `aspect` (heads that it teaches, with commas between them),
`weight` (how much it counts), `split`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cluster import column_names, list_inputs
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, SOURCES, UNREADABLE, kept_name
from pipelines.settings.train import TrainSettings
from reffree.negatives import POSITIVE
from reffree.training_pairs.examples import Example
from reffree.training_pairs.rows import SIDES, side_named, text_key
from reffree.training_pairs.splits import LEAK, shared_sources
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
    paths: OneOrMore, settings: TrainSettings
) -> tuple[dict[str, list[Example]], Counter[str]]:
    """Read the rows of each side; without a column `split` all are for training.

    Also returns why rows are left out, and how many. A row whose document or source, or nearly the
    same source, is on a later side, too, is one of them.
    """
    files, columns = list_inputs(paths), settings.columns or {}
    theirs = {name: columns.get(name, name) for name in (LABEL, *_DEFAULTS)}
    there = set.intersection(*(set(column_names(file.path, file.format)) for file in files))
    keep = tuple(name for name in theirs.values() if name in there)
    has_split = theirs["split"] in there
    renamed = {name: named for name, named in columns.items() if name not in theirs}
    wanted = Wanted(needed=(DOCUMENT_ID, CANDIDATE, SOURCES), columns=renamed, keep=keep)
    examples: list[Example] = []
    sides: list[int] = []
    left_out: Counter[str] = Counter()
    for table in read_files(files, wanted, limit=settings.limit):
        for row in table.to_pylist():
            if (why := why_unused(row)) is not None:
                left_out[why] += 1
                continue
            said = {
                name: row[kept_name(named)]
                for name, named in theirs.items()
                if row.get(kept_name(named)) is not None
            }
            examples.append(_example(row, _DEFAULTS | said))
            sides.append(_side(row[DOCUMENT_ID], said.get("split")) if has_split else 0)
    _check_labels(examples)
    places = np.array(sides, dtype=np.int8)
    if places.any():
        names, sources = [one.document_id for one in examples], [one.source for one in examples]
        keys, groups = shared_sources(names, sources, places)
        is_leak = groups.is_leak(keys, places)
        left_out += Counter({LEAK: int(is_leak.sum())})
        places[is_leak] = len(SIDES)
    by_side = {
        side: [examples[row] for row in np.flatnonzero(places == place)]
        for place, side in enumerate(SIDES)
    }
    return by_side, left_out


def why_unused(row: Mapping[str, Any]) -> str | None:
    """Say why a row cannot be trained on; None if it can.

    Raises ValueError if it has several sources: they would be one text here, and each be scored
    alone later.
    """
    if row[UNREADABLE]:
        return str(row[UNREADABLE])
    if row[DOCUMENT_ID] is None:
        return f"no {DOCUMENT_ID}"
    if not row[CANDIDATE] or text_key(row[CANDIDATE]) is None:
        return f"no {CANDIDATE}"
    sources = row[SOURCES] or ()
    if len(sources) > 1:
        raise ValueError(
            f"a candidate that is trained on must have one source, got {len(sources)} for document "
            f"{row[DOCUMENT_ID]}; join them into one text"
        )
    return None if sources and text_key(sources[0]) is not None else "no source"


def _check_labels(examples: Sequence[Example]) -> None:
    """Refuse a candidate that is better than the positive of its group."""
    least: dict[tuple[str, int, str], float] = {}
    for one in examples:
        if one.kind == POSITIVE:
            group = (one.document_id, one.number, one.base)
            least[group] = min(one.label, least.get(group, one.label))
    for one in examples:
        if one.label > least.get((one.document_id, one.number, one.base), math.inf):
            raise ValueError(
                f"`{LABEL}` of a `{POSITIVE}` must be the highest of its document, got a higher "
                f"one of kind `{one.kind}` for document {one.document_id}; correct one of them"
            )


def _example(row: Mapping[str, Any], said: Mapping[str, Any]) -> Example:
    try:
        label, weight, number = float(said[LABEL]), float(said["weight"]), int(said["number"])
    except (KeyError, TypeError, ValueError) as error:
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
        source=row[SOURCES][0],
        candidate=row[CANDIDATE],
        label=label,
        n_edits=0,
        base=str(said["base"]),
        aspect=str(said["aspect"]),
        weight=weight,
    )


def _side(document_id: str, split: str | None) -> int:
    place = -1 if split is None else side_named(split)
    if place < 0:
        raise ValueError(
            f"`split` must be train, validation or test, got {split!r} for document {document_id}"
        )
    return place
