"""Models used by metrics, by alias: a folder, or a table with the folder and settings.

    models = {"lm": "models/smollm2"}
    models = {"lm": {"path": "models/smollm2", "value": "sum"}}

In TOML the second is a table `[models.lm]`. Each metric says which settings it takes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sms.naming import user_path

PATH = "path"


def models_of(given: object) -> dict[str, dict[str, Any]]:
    """Return the table of every alias; raises `ValueError` if it or its path is wrong."""
    if not isinstance(given, Mapping):
        raise ValueError(f"`models` must be tables [models.ALIAS], got {given!r}")
    tables = {}
    for alias, value in given.items():
        if not isinstance(alias, str) or not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", alias):
            raise ValueError(f"model alias {alias!r} must be letters, digits, `.`, `-`, `_`")
        table = dict(value) if isinstance(value, Mapping) else {PATH: value}
        path = table.get(PATH)
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ValueError(
                f"`[models.{alias}]` must have the `{PATH}` of a model, a text, got {path!r}"
            )
        tables[alias] = table | {PATH: os.fspath(path)}
    return tables


class NameParts(NamedTuple):
    """The parts of a metric's name, empty where nothing is said."""

    base: str  # the metric, or one of its columns
    model: str
    against: str


def parts_of_name(name: str, choices: Collection[str]) -> NameParts:
    """Read `METRIC[@MODEL][:AGAINST]`, where the model may have colons of its own, as URLs have.

    Raises `ValueError` if AGAINST is missing after its colon, or none of the choices.

    >>> parts_of_name("pair@s3://bucket/nli:source", ["reference", "source"])
    NameParts(base='pair', model='s3://bucket/nli', against='source')
    """
    base, at, rest = re.match("([^@:]*)(@?)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    model, colon, against = rest.rpartition(":")
    if colon and against in choices and (at or not model):
        return NameParts(base, model, against)
    if not colon or (at and ("/" in against or os.path.exists(user_path(rest)))):
        return NameParts(base, rest, "")
    raise ValueError(f"metric {name!r} must end in {' or '.join(f':{own}' for own in choices)}")


def find_model(named: str, models: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Return path (absolute if a folder) and settings of an alias, folder, URL or hub id."""
    settings = dict(models.get(named, {PATH: named}))
    path = user_path(settings.pop(PATH))
    return os.path.abspath(path) if os.path.exists(path) else path, settings
