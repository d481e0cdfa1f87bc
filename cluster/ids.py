"""Ids as text, whatever a file has in their place: one rule for all formats and verbs.

Numbers and dates are written as they print, a number without a fraction without one (pandas makes
1.0 of 1 where an id is missing). Sixteen bytes are a UUID. Other bytes that are not UTF-8 are
written as escapes, so that an id never keeps a row from being scored, and none is lost.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from types import NoneType
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from cluster.arrays import is_text, plain_array, storable_array

_UUID_BYTES = 16
_STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_MOST_WHOLE = 1e15
"""A larger number is written with its power of ten."""


def id_text(value: Any) -> str | None:  # noqa: ANN401  (any value)
    """Write one id; None where there is none. Lists and objects are written as JSON.

    >>> id_text("007"), id_text(7), id_text(7.0), id_text(True), id_text(float("nan"))
    ('007', '7', '7', 'true', None)
    """
    if value is None or isinstance(value, str):
        return None if value is None else _whole_text(value)
    if isinstance(value, bytes):
        return _text_of(value)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        is_whole = value.is_integer() and abs(value) < _MOST_WHOLE
        return str(int(value)) if is_whole else json.dumps(value)
    if isinstance(value, bool | int | list | dict):
        return _whole_text(json.dumps(value, ensure_ascii=False))
    return str(value)


def id_cells(cells: pa.Array | list[Any], where: str, *, is_csv: bool = False) -> pa.Array:
    """Write the ids of a column, of Arrow or of Python's values, as text.

    In CSV nothing else can stand for a missing id than a blank cell, and spaces after a comma are
    no part of one. Raises `ValueError`, naming `where`, if an Arrow type cannot be written as text.
    """
    if not isinstance(cells, list):
        return id_array(cells, where)
    texts = [(cell or "").strip() or None for cell in cells] if is_csv else cells
    if {*map(type, texts)} <= {str, NoneType}:  # as they most often are
        with suppress(UnicodeEncodeError):
            return pa.array(texts, pa.string())
    return pa.array([id_text(cell) for cell in texts], pa.string())


def id_array(column: pa.Array | pa.ChunkedArray, where: str) -> pa.Array:
    """Write the ids of a column as text.

    Raises `ValueError`, naming `where`, if its type cannot be written as text.
    """
    array = plain_array(column)
    if pa.types.is_timestamp(array.type):
        array = storable_array(array)  # without a zone that is not known
    kind = array.type
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == _UUID_BYTES:
        return pa.array([cell and str(UUID(bytes=cell)) for cell in array.to_pylist()], pa.string())
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    try:
        if not is_text(kind) or pa.types.is_null(kind):
            return array.cast(pa.string())
        # Through binary: Arrow trusts what calls itself a string and checks only what does not.
        raw = array.cast(pa.binary())
        is_bytes = not any(is_string(kind) for is_string in _STRINGS)
        has_uuids = is_bytes and pc.any(pc.equal(pc.binary_length(raw), _UUID_BYTES)).as_py()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"{where} must be text or a number, got {kind}; convert it to text"
        ) from error
    if not has_uuids:
        with suppress(pa.ArrowInvalid):
            return raw.cast(pa.string())
    return pa.array([_text_of(cell, is_bytes=is_bytes) for cell in raw.to_pylist()], pa.string())


def _text_of(cell: bytes | None, *, is_bytes: bool = True) -> str | None:
    """Write one id of bytes, of a column of bytes or (`is_bytes` false) of text that is broken."""
    if cell is None:
        return None
    text = cell.decode("utf-8", "backslashreplace")
    is_text = _is_utf8(cell) and text.isprintable()
    is_uuid = is_bytes and len(cell) == _UUID_BYTES and not is_text
    return str(UUID(bytes=cell)) if is_uuid else text


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole_text(text: str) -> str:
    r"""Escape what is not Unicode: bytes that were not UTF-8, and halves of characters.

    >>> _whole_text("M\udcfcller"), _whole_text("\ud83d")
    ('M\\xfcller', '\\ud83d')
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except UnicodeEncodeError:
            return text.encode("utf-8", "backslashreplace").decode()
    return text
