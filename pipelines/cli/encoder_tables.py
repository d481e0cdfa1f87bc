"""Reads the tables `[encoders.ALIAS]` of a TOML file into specifications.

A table has `kind`, `path` where the kind has one, and the kind's options by name:

    [encoders.glove300]
    kind = "glove"
    path = "vectors/glove.6B.300d.txt"
    pooling = "max"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sms.encoders.registry import EncoderSpec, find_kind
from sms.naming import nearest


def encoder_specs(tables: object) -> dict[str, str]:
    """Return the specification of every alias, in the order of the file.

    Raises
    ------
    ValueError
        If something is not a table, a key is unknown (naming the nearest), a value is of the
        wrong type, or the encoder they describe is wrong.
    """
    if not isinstance(tables, Mapping):
        raise ValueError(f"`encoders` must be tables [encoders.ALIAS], got {tables!r}")
    return {alias: str(_spec(alias, table)) for alias, table in tables.items()}


def _spec(alias: str, table: object) -> EncoderSpec:
    name = f"[encoders.{alias}]"
    if not isinstance(table, Mapping):
        raise ValueError(
            f"`{name}` must be a table with `kind`, got {table!r}; "
            f"a specification in one line is written encoder.{alias} = ..."
        )
    if "kind" not in table:
        raise ValueError(f"`{name}` must say which `kind` of encoder it is; see `assay encoders`")
    kind = find_kind(_text(name, "kind", table["kind"]))
    known = ["kind", *(["path"] if kind.path else []), *(option.name for option in kind.options)]
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key `{key}` in `{name}`; {nearest(key, known)}")
    values = {key: _text(name, key, value) for key, value in table.items()}
    del values["kind"]
    return EncoderSpec(kind, values.pop("path", ""), values)


def _text(name: str, key: str, value: Any) -> str:  # noqa: ANN401  (any TOML)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"`{key}` of `{name}` must be text or a whole number, got {value!r}")
