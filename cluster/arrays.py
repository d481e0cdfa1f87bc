"""Arrow arrays of any type as the few types that everything else reads and writes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_LIST_KINDS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_TEXT_KINDS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_null,
)
_POLARS_DIGITS = 38
"""Of a decimal; polars refuses a whole file that has more in any column."""


def is_list(kind: pa.DataType) -> bool:
    """Say whether an Arrow type holds a list of values per row."""
    return any(is_kind(kind) for is_kind in _LIST_KINDS)


def is_text(kind: pa.DataType) -> bool:
    """Say whether an Arrow type holds text, or bytes that may be text."""
    return any(is_kind(kind) for is_kind in _TEXT_KINDS)


def plain_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one array without dictionaries, runs or extension types at its top."""
    array = _decoded(column)
    while isinstance(array.type, pa.BaseExtensionType):
        array = _decoded(array.storage)
    return array


def _decoded(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return pc.run_end_decode(array) if pa.types.is_run_end_encoded(array.type) else array


def storable_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array as readers of Parquet know it: Arrow writes some types that few can read.

    Views become lists, text or bytes, decimals of too many digits text, and times in a zone that is
    not known lose it.
    """
    array = _decoded(column)
    kind = storable_type(array.type)
    if kind == array.type:
        return array
    if not pa.types.is_nested(kind):
        return array.cast(kind)
    return pa.array(array.to_pylist(), kind)  # Arrow 26 loses values of lists in maps


def storable_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `storable_array` makes of one."""
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_storable_field(kind.value_field))
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_storable_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_storable_field(kind.value_field), kind.list_size)
    if pa.types.is_map(kind):
        return pa.map_(_storable_field(kind.key_field), _storable_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_storable_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return pa.string() if pa.types.is_string_view(kind) else pa.binary()
    if pa.types.is_decimal(kind) and kind.precision > _POLARS_DIGITS:
        return pa.string()
    if pa.types.is_timestamp(kind) and kind.tz is not None and not _is_zone(kind):
        return pa.timestamp(kind.unit)
    return kind


def _storable_field(field: pa.Field) -> pa.Field:
    return field.with_type(storable_type(field.type))


def _is_zone(kind: pa.DataType) -> bool:
    try:
        pa.scalar(0, kind).cast(pa.string())
    except pa.ArrowException:
        return False
    return True
