"""Cases worked out by hand, in the TOML files beside this one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def cases(name: str) -> dict[str, Any]:
    """The tables of `NAME.toml`."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
