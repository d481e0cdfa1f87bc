"""The names readers see for levels, coefficients, tests and statistics, and in which order."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

_WORDS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    files(__package__).joinpath("words.toml").read_text("utf-8")
)
LEVELS, LEVEL_MEANINGS = _WORDS["levels"], _WORDS["level_meanings"]
COEFFICIENTS, TESTS, STATISTICS = _WORDS["coefficients"], _WORDS["tests"], _WORDS["statistics"]
MOST_NAMED = 3
"""Systems left out that are named beside every number; the header names all."""
SIGNIFICANCE = 0.05
"""After Holm's correction."""


def lead_text(level: str, coefficient: str) -> str:
    """Say what a level and a coefficient ask, and so why they come first."""
    why = _WORDS["reasons"].get(coefficient, "")
    return f"{LEVELS[level]} level asks: {_WORDS['questions'][level]} {why}".strip()


def in_order(values: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return the names that are among the values, each once, in their order."""
    present = set(values)
    return [name for name in names if name in present]


def selection(raters: str, excluded_systems: Sequence[str]) -> str:
    """Say whose ratings and which systems a number is made of."""
    if not excluded_systems:
        return f"raters: {raters}"
    return f"raters: {raters}; without {listed(excluded_systems, MOST_NAMED)}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Join names as in a sentence, the first few where `most` are to be named."""
    if most is not None and len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last
