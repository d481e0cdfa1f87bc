"""Cells of CSV and JSON as the columns of a corpus: texts, lists of texts, ids, kept columns.

They are bytes, so that what is not valid UTF-8 is found, and named, with that of Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cluster.ids import id_cells
from cluster.rows import Rows
from cluster.schema import CANDIDATE, IDS, LISTS, Wanted, kept_name, text_list_or_none, written_list


def corpus_arrays(
    rows: Rows, theirs: Mapping[str, str], wanted: Wanted, *, is_csv: bool
) -> tuple[pa.Table, pa.Array]:
    """Return the columns of `theirs` (our name to the file's), the kept ones, and the reasons.

    A cell that is not what its column must hold makes its row unreadable. Of JSON, kept values that
    are no text are JSON.
    """
    reasons = list(rows.reasons or [None] * len(rows))
    columns: dict[str, pa.Array] = {}
    for name, named in theirs.items():
        if name in IDS:
            columns[named] = id_cells(rows.columns[named], named, is_csv=is_csv)
            continue
        # How many lists may be around a text.
        depth = (name in LISTS) + (not is_csv and wanted.sentence_end is not None)
        cells: list[Any] = [None] * len(rows)
        for row, value in enumerate(rows.columns[named]):
            if reasons[row] is not None:
                continue
            try:
                cells[row] = _cell(name, _of_csv(name, value) if is_csv else value, depth)
            except UnicodeEncodeError:
                reasons[row] = reasons[row] or f"`{named}` is not valid UTF-8"
            except (TypeError, ValueError) as error:
                reasons[row] = reasons[row] or f"`{named}` {error}"
        columns[named] = pa.array(cells, _nested(depth))
    for name in wanted.keep:
        kept = [_kept(value) for value in rows.columns[name]]
        columns[kept_name(name)] = pa.array(kept, pa.binary())
    return pa.table(columns), pa.array(reasons, pa.string())


def _nested(depth: int) -> pa.DataType:
    return pa.binary() if depth == 0 else pa.list_(_nested(depth - 1))


def _of_csv(name: str, cell: str | None) -> str | list[str] | None:
    """Read the list that the text of a cell of CSV may be."""
    if cell is None:
        return None
    try:
        texts = written_list(cell)
    except ValueError:
        if name != CANDIDATE:
            raise
        return cell
    if texts is not None and name == CANDIDATE:
        raise TypeError("must be text, got a list")
    return cell if texts is None else texts


def _cell(name: str, value: Any, depth: int) -> Any:  # noqa: ANN401  (any JSON)
    if depth == 2 and isinstance(value, list) and any(isinstance(item, list) for item in value):
        return [_cell(CANDIDATE, item, 1) for item in value if item is not None]
    if depth:
        texts = text_list_or_none(value)
        listed = None if texts is None else [_bytes_if_broken(text) for text in texts]
        return listed if listed is None or depth == 1 else [listed]
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"must be text, got {type(value).__name__}")
    return _bytes_if_broken(value)


def _bytes_if_broken(text: str) -> bytes:
    """Undo `surrogateescape`, so that what was not UTF-8 is found (and named) later."""
    return text.encode("utf-8", "surrogateescape")


def _kept(value: Any) -> bytes | None:  # noqa: ANN401  (any JSON)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace")
