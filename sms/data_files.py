"""The data files of this package, in `data`."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any


@functools.cache
def data_text(name: str) -> str:
    """Return the text of a file."""
    return (resources.files("sms") / "data" / name).read_text(encoding="utf-8")


def data_tables(name: str) -> dict[str, Any]:
    """Return what is in a TOML file."""
    return tomllib.loads(data_text(f"{name}.toml"))
