"""Hostile texts, names and numbers, read from `hostile.toml`, and ways to damage a file."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from random import Random

_LISTS = {
    name: [entry[0] * entry[1] if isinstance(entry, list) else entry for entry in entries]
    for name, entries in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}
TEXTS = _LISTS["texts"]
COLUMN_NAMES = _LISTS["column_names"]
FILE_NAMES = [*_LISTS["file_names"], os.fsdecode(b"\xff")]
JSON_VALUES = _LISTS["json_values"]
NUMBERS = _LISTS["numbers"]
TOML_VALUES = _LISTS["toml_values"]
SETTINGS = _LISTS["settings"]
BROKEN_UTF8, JSON_LINES, CSV_LINES = (
    [text.encode("latin-1") for text in _LISTS[name]]
    for name in ("broken_utf8", "json_lines", "csv_lines")
)


def damaged(rng: Random, data: bytes) -> bytes:
    """Return the bytes of a file with one kind of damage, as often at its end as anywhere."""
    begin = max(0, len(data) - 2_000) if rng.random() < 0.5 else 0
    first, second = sorted(rng.randint(begin, len(data)) for _ in range(2))
    n_bytes = rng.choice([1, 1, 4, 32])
    noise, blank = rng.randbytes(n_bytes), rng.choice([b"\x00", b"\xff"]) * n_bytes
    length = rng.choice([0, 1, 7, 0x7FFFFFFF, 0xFFFFFFFF]).to_bytes(4, "little")
    ways = [
        data[:first],
        data[:first] + noise + data[first + n_bytes :],
        data[:first] + blank + data[first + n_bytes :],
        data[:first] + noise + data[first:],
        data[:first] + data[first + n_bytes :],
        data[:first] + data[second:] + data[first:second],
        data[:second] + data[first:],
        data[:-8] + length + data[-4:],  # where Parquet has the length of its footer
        length + data[4:],  # and many formats a length
    ]
    return rng.choice(ways)


def other_json(rng: Random, text: str) -> str:
    """Replace one value, anywhere in a JSON document, or take it out."""
    values = json.loads(text)
    holder = values
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return json.dumps(rng.choice([[], None, 1, "x"]))
        key = rng.choice(keys)
        if not (isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.75):
            break
        holder = holder[key]
    if rng.random() < 0.3:
        del holder[key]
    else:
        odd = [None, True, -1, 0, 10**30, 1.5, "", "x", [], {}, [None], [1], {"a": None}]
        holder[key] = rng.choice(odd)
    return json.dumps(values)
