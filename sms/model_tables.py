"""Models used by metrics, by alias: a folder, or a table with the folder and settings.

    models = {"lm": "models/smollm2"}
    models = {"lm": {"path": "models/smollm2", "value": "sum"}}

In TOML the second is a table `[models.lm]`. Each metric says which settings it takes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

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


def find_model(named: str, models: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Return path (absolute if a folder) and settings of an alias, folder, URL or hub id."""
    settings = dict(models.get(named, {PATH: named}))
    path = user_path(settings.pop(PATH))
    return os.path.abspath(path) if os.path.exists(path) else path, settings
