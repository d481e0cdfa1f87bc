"""English words that edits and features know, of `data/english.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("data").joinpath("english.toml").read_text("utf-8"))
_PAIRS = [pair.split() for pair in _LISTS.pop("opposites").split(",")]

WEEKDAYS, MONTHS, NUMBER_WORDS, TITLES, SPEAKING, BEFORE_PLACES, AUXILIARIES, POINTING = (
    frozenset(words.split()) for words in _LISTS.values()
)
OPPOSITES = {word: other for a, b in _PAIRS for word, other in ((a, b), (b, a))}
