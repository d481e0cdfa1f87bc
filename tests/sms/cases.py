"""Cases worked out by hand, in the TOML files beside this one."""

from __future__ import annotations

import tomllib
from importlib import util
from pathlib import Path
from typing import Any

WAYS_TO_CUT = ["en", "de", "fr", "es", "ar", "zh", "ja", "ru", "tr", "he", "it", "km", "und"]
"""Languages of every splitter, and with all kinds of rules for sentences."""
if util.find_spec("icu4py") is None:
    WAYS_TO_CUT.remove("km")


def cases(name: str) -> dict[str, Any]:
    """The tables of `NAME.toml`."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
