"""Published judges as settings, of `presets.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reffree.pair.settings import PairSettings
from sms.naming import nearest

CONV_FILE = "summac_conv_vitc_sent_perc_e.bin"
"""The trained layers of SummaC-Conv, from the repository tingofurro/summac."""
FOUNDATION = "foundation"
"""Folder, in that of HHEM, of the model whose shape and tokeniser it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One judge."""

    settings: PairSettings  # those of all its aspects, and all there is where it has none
    source: str  # repository and file
    needs: str  # what the folder must hold
    aspects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, the settings that an aspect has of its own."""


def _published() -> dict[str, Preset]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {
        name: Preset(**{**table, "settings": PairSettings(**table["settings"])})
        for name, table in tables.items()
    }


PRESETS: Mapping[str, Preset] = _published()


def settings_of(table: Mapping[str, Any]) -> PairSettings:
    """Read a table `[models.ALIAS]` without its path: a preset, and what it has otherwise.

    Raises `ValueError` if a preset, aspect or key is unknown, naming the nearest, or a value is not
    allowed.

    Examples
    --------
    >>> settings_of({"preset": "summac-zs", "over_summary": "min"}).document
    'sentences'
    """
    known = ["preset", "aspect", *PairSettings.__dataclass_fields__]
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key `{key}` of a pair; {nearest(key, known)}")
    own = dict(table)
    name, aspect = own.pop("preset", None), own.pop("aspect", None)
    if name is None:
        if aspect is not None:
            raise ValueError("`aspect` of a pair is for a preset that has several, such as unieval")
        return PairSettings(**own)
    if name not in PRESETS:
        raise ValueError(f"unknown `preset` {name!r} of a pair; {nearest(str(name), PRESETS)}")
    preset = PRESETS[name]
    if (aspect is not None or preset.aspects) and aspect not in preset.aspects:
        aspects = ", ".join(preset.aspects) or "none"
        raise ValueError(f"`aspect` of preset {name} must be one of {aspects}, got {aspect!r}")
    return replace(preset.settings, **{**preset.aspects.get(aspect or "", {}), **own})


def needs_of(table: Mapping[str, Any]) -> str:
    """Say what the folder of a preset must hold, for the end of a message."""
    name = table.get("preset")
    return f"; preset {name} needs {PRESETS[name].needs}" if name else ""
