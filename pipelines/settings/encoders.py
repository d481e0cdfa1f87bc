"""The one syntax for encoders: `[ALIAS=]SPEC` on the command line, a table in TOML, both in Python.

    encoders = "minilm"
    encoders = ["minilm", "news=glove:vectors.txt,pooling=max"]
    encoders = {"news": "glove:vectors.txt,pooling=max"}
    encoders = {"news": {"kind": "glove", "path": "vectors.txt", "pooling": "max"}}

The first is the default of a run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from sms.naming import nearest

_ALIAS = re.compile(r"([^=:/\\,]+)=(.*)", re.DOTALL)
_AFTER_KIND = re.compile(r"[:,]")


def encoders_of(given: object) -> dict[str, str]:
    """Return alias to specification; without an alias an encoder is called by its kind.

    Raises ValueError if two have the same alias, or a table is wrong: a key is unknown (naming the
    nearest), a value of the wrong type, or the encoder it describes is.

    Examples
    --------
    >>> encoders_of(["minilm", "news=glove:v.txt,pooling=max"])
    {'minilm': 'minilm', 'news': 'glove:v.txt,pooling=max'}
    """
    if isinstance(given, Mapping):
        return {
            str(alias): value if isinstance(value, str) else _spec_of_table(alias, value)
            for alias, value in given.items()
        }
    specs: dict[str, str] = {}
    for text in given if isinstance(given, Iterable) and not isinstance(given, str) else [given]:
        if not isinstance(text, str):
            raise ValueError(f"`encoders` must be texts or tables [encoders.ALIAS], got {text!r}")
        named = _ALIAS.fullmatch(text)
        alias, spec = named.groups() if named else (_AFTER_KIND.split(text, maxsplit=1)[0], text)
        if alias in specs:
            raise ValueError(
                f"two encoders are called `{alias}`; rename one of them: "
                f"--encoder {shlex.quote(f'ALIAS={spec}')}"
            )
        specs[alias] = spec
    return specs


def _spec_of_table(alias: str, table: object) -> str:
    from sms.encoders.registry import EncoderSpec, find_kind

    name = f"[encoders.{alias}]"
    if not isinstance(table, Mapping):
        raise ValueError(f"`{name}` must be a specification, or a table with `kind`, got {table!r}")
    if "kind" not in table:
        raise ValueError(f"`{name}` must say which `kind` of encoder it is; see `assay encoders`")
    kind = find_kind(_text(name, "kind", table["kind"]))
    known = ["kind", *(["path"] if kind.path else []), *(option.name for option in kind.options)]
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key `{key}` in `{name}`; {nearest(key, known)}")
    values = {key: _text(name, key, value) for key, value in table.items()}
    del values["kind"]
    return str(EncoderSpec(kind, values.pop("path", ""), values))


def _text(name: str, key: str, value: Any) -> str:  # noqa: ANN401  (any TOML)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"`{key}` of `{name}` must be text or a whole number, got {value!r}")
