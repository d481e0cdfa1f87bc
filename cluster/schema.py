"""Column names of a corpus, and the one table every scorer reads, whatever the file called things.

The canonical table has `document_id`, `system_id`, the needed ones of `candidate` (text),
`references` and `sources` (lists of text), columns of the user's that are kept, and `unreadable`:
null, or why this row cannot be read. Where texts are given as lists of sentences, it has them as
one text, the sentences joined.

A file may lack the ids. Then the number of a row in the whole input, from 0, is its document, and
all rows are of one system.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.arrays import is_list, is_text, plain_array, storable_array
from cluster.ids import id_array
from sms import reasons

DOCUMENT_ID = "document_id"
SYSTEM_ID = "system_id"
CANDIDATE = "candidate"
REFERENCES = "references"
SOURCES = "sources"
UNREADABLE = reasons.UNREADABLE

IDS = (DOCUMENT_ID, SYSTEM_ID)
LISTS = (REFERENCES, SOURCES)
TEXTS = (CANDIDATE, *LISTS)
ONE_SYSTEM = "system"
"""What the system of rows without `system_id` is called."""

_KEPT = "keep:"
# What a file may call each canonical column, in order of preference.
_ACCEPTED = {
    DOCUMENT_ID: ("document_id",),
    SYSTEM_ID: ("system_id",),
    CANDIDATE: ("candidate",),
    REFERENCES: ("references", "reference"),
    SOURCES: ("source", "sources"),
}
_ALIASES = {alias: name for name, aliases in _ACCEPTED.items() for alias in aliases}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is read of every row."""

    needed: tuple[str, ...]
    """Canonical columns; only these, the ids and the kept columns are read."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Our column name to the file's name, where they differ."""
    keep: tuple[str, ...] = ()
    """The user's columns that are carried along; they come out as `kept_name` calls them."""
    system: str = ONE_SYSTEM
    """The system of rows of files without `system_id`."""
    sentence_end: str | None = None
    """Every text is a list of sentences (or is one sentence), which are joined by this; several
    references or sources are a list of such lists."""


class MissingColumnError(ValueError):
    """A column that a metric needs is not there; `column` is our name of it."""

    def __init__(self, message: str, *, column: str = "") -> None:
        super().__init__(message)
        self.column = column


def kept_name(name: str) -> str:
    """Name a kept column so that it is never taken for one of ours."""
    return f"{_KEPT}{name}"


def user_name(name: str) -> str:
    """Undo `kept_name`."""
    return name.removeprefix(_KEPT)


def resolve_columns(
    names: Sequence[str],
    needed: Sequence[str],
    columns: Mapping[str, str] | None = None,
    *,
    keep: Sequence[str] = (),
    where: str = "the corpus",
) -> dict[str, str]:
    """Find the file's column for each column a scorer needs, ids first.

    `needed` are some of `candidate`, `references`, `sources`, and of the ids, which otherwise may
    be absent. `columns` has the file's name for ours, for example ``{"candidate": "summary"}``;
    `reference` and `source` are understood as well as the plurals, and names in capitals where
    there is no other. `keep` must be there, too. Errors name `where`. Raises `MissingColumnError`
    if a column is not there; `ValueError` if it is there twice, or `columns` names something that
    is not a column of ours.
    """
    renamed = _check_mapping(columns or {})
    wanted = {}
    for name in dict.fromkeys((*IDS, *needed)):
        accepted = (renamed[name],) if name in renamed else _ACCEPTED[name]
        theirs = column_called(names, accepted, any_case=name not in renamed)
        if theirs is not None:
            wanted[name] = theirs
        elif name in needed or name in renamed:
            missing = " or ".join(f"`{alias}`" for alias in accepted)
            ours = "reference" if name == REFERENCES else "source" if name == SOURCES else name
            remedy = f"name it with `--columns {ours}=NAME`"
            raise MissingColumnError(
                f"column {missing} is missing in {where}, which has {', '.join(names) or 'none'}; "
                f"{remedy}",
                column=ours,
            )
    if absent := [name for name in keep if name not in names]:
        raise ValueError(
            f"column `{absent[0]}` of `--keep` is missing in {where}, which has {', '.join(names)}"
        )
    for column in (*wanted.values(), *keep):
        if (n := list(names).count(column)) > 1:
            raise ValueError(f"column `{column}` must be in {where} once, got it {n} times")
    return wanted


def column_called(
    names: Sequence[str], accepted: Sequence[str], *, any_case: bool = True
) -> str | None:
    """Find the column that is called as accepted, in order; else one that differs in capitals.

    >>> column_called(["Document_ID", "text"], ["document_id"]), column_called(["a"], ["b"])
    ('Document_ID', None)
    """
    for alias in accepted:
        if alias in names:
            return alias
    for alias in accepted if any_case else ():
        if len(alike := {name for name in names if name.lower() == alias}) == 1:
            return alike.pop()
    return None


def canonical_table(
    raw: pa.Table,
    wanted: Wanted,
    *,
    reasons: pa.Array | None = None,
    where: str = "the corpus",
) -> pa.Table:
    """Turn a table as it was read, under the file's names, into the canonical table.

    A text that is not valid UTF-8 becomes null and its row gets a reason in `unreadable`; nothing
    is dropped and the order stays. A null text is a null list; nulls inside a list are left out.
    Ids that the file lacks are left out, see `with_ids`; others become text, see `ids`. Any string
    type, dictionary or binary will do for text. `reasons` say what the reader already found wrong,
    null where a row is fine; where there are some, `text_cells` has made the kept columns, and they
    have the names that `kept_name` gives. Raises `ValueError` if a needed column is missing, or is
    neither text nor a list of text.
    """
    resolved = resolve_columns(raw.column_names, wanted.needed, wanted.columns, where=where)
    unreadable = pa.nulls(raw.num_rows, pa.string())
    arrays = {}
    for name, theirs in resolved.items():
        read = _text_lists if name in LISTS else _texts
        array, place = plain_array(raw.column(theirs)), f"`{theirs}` in {where}"
        if name in IDS:
            arrays[name] = id_array(array, place)
            continue
        is_bad_list = np.zeros(len(array), dtype=bool)
        if wanted.sentence_end is not None:
            array, is_bad_list = _joined(array, wanted.sentence_end, place)
        arrays[name], is_bad = read(array, place)
        is_bad |= is_bad_list
        if is_bad.any():
            why = pa.scalar(f"`{theirs}` is not valid UTF-8")
            why_here = pc.if_else(pa.array(is_bad), why, pa.scalar(None, pa.string()))
            unreadable = pc.coalesce(unreadable, why_here)
    if reasons is not None:
        unreadable = pc.coalesce(reasons, unreadable)
    for name in wanted.keep:
        called = kept_name(name)
        if reasons is None:
            arrays[called] = storable_array(raw.column(name))
        else:
            arrays[called] = _texts(plain_array(raw.column(called)), name)[0]
    return pa.table({**arrays, UNREADABLE: unreadable})


def with_ids(table: pa.Table, first: int, system: str = ONE_SYSTEM) -> pa.Table:
    """Put the ids that a table of `canonical_table` lacks before its other columns.

    `first` is the number of its first row in the whole input, `system` what all its rows are of.
    """
    given = {name: table[name] for name in table.column_names}
    if DOCUMENT_ID not in given:
        numbers = pa.array(range(first, first + table.num_rows), pa.int64())
        given[DOCUMENT_ID] = numbers.cast(pa.string())
    if SYSTEM_ID not in given:
        given[SYSTEM_ID] = pa.repeat(pa.scalar(system), table.num_rows)
    return pa.table({name: given[name] for name in dict.fromkeys((*IDS, *given))})


def _check_mapping(columns: Mapping[str, str]) -> dict[str, str]:
    for ours in columns:
        if ours not in _ALIASES:
            raise ValueError(
                f"OURS in `--columns` must be one of {', '.join(_ALIASES)}, got `{ours}`; "
                "write Assay's name first: `--columns candidate=summary`"
            )
    return {_ALIASES[ours]: theirs for ours, theirs in columns.items()}


def _texts(array: pa.Array, where: str) -> tuple[pa.Array, np.ndarray]:
    """Return the text of every cell and which cells were not valid UTF-8 (they become null)."""
    if not is_text(array.type):
        raise ValueError(f"{where} must be text, got {array.type}")
    is_bad = np.zeros(len(array), dtype=bool)
    try:
        if array.type != pa.string():
            array = array.cast(pa.binary()).cast(pa.string())
        array.validate(full=True)  # Arrow trusts what calls itself a string
        return array, is_bad
    except pa.ArrowInvalid:
        cells = array.cast(pa.binary()).to_pylist()
    for i, cell in enumerate(cells):
        try:
            cells[i] = None if cell is None else cell.decode()
        except UnicodeDecodeError:
            cells[i], is_bad[i] = None, True
    return pa.array(cells, pa.string()), is_bad


def _text_lists(array: pa.Array, where: str) -> tuple[pa.Array, np.ndarray]:
    """Return a list of texts for every cell; a cell with one bad text is bad as a whole."""
    if not is_list(array.type):
        texts, is_bad = _texts(array, where)
        offsets = np.arange(len(texts) + 1, dtype=np.int32)
        mask = texts.is_null() if texts.null_count else None
        return pa.ListArray.from_arrays(pa.array(offsets), texts, mask=mask), is_bad
    values = plain_array(pc.list_flatten(array))
    if not is_text(values.type):
        raise ValueError(f"{where} must be text or a list of text, got {array.type}")
    texts, is_bad_text = _texts(values, where)
    return _lists_of(texts, is_bad_text, array)


def _lists_of(
    texts: pa.Array, is_bad_text: np.ndarray, given: pa.Array
) -> tuple[pa.ListArray, np.ndarray]:
    """Put texts into lists, null where the given ones were or one text is bad; say which are bad.

    Texts that are null are left out.
    """
    parents = np.asarray(pc.list_parent_indices(given))
    is_bad = np.zeros(len(given), dtype=bool)
    is_bad[parents[is_bad_text]] = True
    # Masked cells must still own a consistent run of values, so their texts go as well.
    is_kept = np.asarray(texts.is_valid()) & ~is_bad[parents]
    counts = np.bincount(parents[is_kept], minlength=len(given))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    mask = pa.array(np.asarray(given.is_null()) | is_bad)
    lists = pa.ListArray.from_arrays(pa.array(offsets), texts.filter(pa.array(is_kept)), mask=mask)
    return lists, is_bad


def _joined(array: pa.Array, sentence_end: str, where: str) -> tuple[pa.Array, np.ndarray]:
    """Join the sentences of every text, of a list of texts those of each."""
    if not is_list(array.type):
        return array, np.zeros(len(array), dtype=bool)
    if not is_list(array.type.value_type):
        lists, is_bad = _text_lists(array, where)
        values = pc.replace_substring(lists.values, sentence_end, " ")
        lists = pa.ListArray.from_arrays(lists.offsets, values, mask=lists.is_null())
        return pc.binary_join(lists, sentence_end), is_bad
    texts, is_bad_text = _joined(pc.list_flatten(array), sentence_end, where)
    return _lists_of(texts, is_bad_text, array)


def text_list_or_none(value: object) -> list[str] | None:
    """Read one JSON value as a list of texts; a single text is a list of one.

    Raises `TypeError` if the value is neither text, nor a list of text, nor null.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise TypeError(f"must be text or a list of text, got {type(value).__name__}")
    texts = [item for item in value if item is not None]
    if not all(isinstance(item, str) for item in texts):
        raise TypeError("must be text or a list of text, got a list of other things")
    return texts


def written_list(cell: str) -> list[str] | None:
    """Read a list of texts as pandas, numpy and JSON write one into a cell; None if it is none.

    A text is taken for a list only if it begins like one: with a bracket, then a quotation mark.
    Raises `ValueError` if it begins like a list of texts, but is not one.

    >>> written_list("['a', 'b']"), written_list('["a", null]'), written_list("[1] See")
    (['a', 'b'], ['a'], None)
    """
    if not _BEGINS_LIST(cell):
        return None
    try:
        return text_list_or_none(json.loads(cell))
    except (ValueError, TypeError, RecursionError):
        pass  # not JSON; perhaps a list as Python writes it
    match = _WRITTEN_LIST(cell)
    if match is None:
        raise ValueError("begins like a list of texts but is not one; write it as JSON")
    try:
        items = _ITEM.findall(match["items"])
        return [ast.literal_eval(item) for item in items if item not in ("None", "nan")]
    except (ValueError, SyntaxError) as error:
        raise ValueError("has a list of texts that cannot be read; write it as JSON") from error


_TEXT = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
_ITEM = re.compile(rf"{_TEXT}|None|nan", re.DOTALL)
# Commas between the items (Python, pandas) or only white space (numpy), never both.
_BEGINS_LIST = re.compile(
    r"""\s*(?:array\s*\(\s*)?\[\s*(?:\[|\]|[bBuUrR]?['"]|(?:None|nan|null)\s*[],'"])"""
).match
_WRITTEN_LIST = re.compile(
    rf"""
    \s* (?P<array>array\s*\(\s*)? \[ \s*
    (?P<items>
        (?: (?:{_ITEM.pattern}) (?: \s*,\s* (?:{_ITEM.pattern}) )*+ (?:\s*,)?
        |   (?:{_ITEM.pattern}) (?: \s+ (?:{_ITEM.pattern}) )*+
        )?
    )
    \s* \] \s* (?(array)(?:,\s*dtype=[^)]*)?\)\s*)
    """,
    re.DOTALL | re.VERBOSE,
).fullmatch
