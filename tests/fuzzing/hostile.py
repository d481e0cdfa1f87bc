"""Hostile texts, names and numbers, and ways to damage a file's bytes; all drawn from one `rng`."""

from __future__ import annotations

import numpy as np

TEXTS = (
    "",
    " ",
    "\t\n ",
    "\x00",
    "a\x00b",
    "\x1b[31mred\x1b[0m \x07",
    "‮evil‬",
    "﻿mark",
    "￾￿",
    "\U0010ffff",
    "e" + "́" * 300,
    "👩‍👩‍👧‍👦" * 20,
    "...",
    "?! — … «»",
    "the",
    "a" * 5_000,
    "a. " * 700,
    "word " * 700,
    "\r\n\r\n",
    "\u2028\u2029\x85",
    "<script>alert(1)</script>",
    "\"quoted\", 'single' and `ticks`",
    "../../etc/passwd",
    "{{7*7}} ${7*7} %s %n {0}",
    "NaN",
    "null",
    "[PAD] [CLS] <unk> </s>",
    "١٢٣ ½ Ⅷ ①",
    "ﬀ ﬃ ß İ ı",  # noqa: RUF001
    "東京は日本の首都です。これは本です。",
    "مرحبا بالعالم",
    "\U0001d4b3\U0001d4b4",
    "1e308 -0.0 0x1F",
)
"""What is valid UTF-8 and yet likely to break something."""

NAMES = (
    "",
    " ",
    "a b",
    "a\nb",
    "a\rb",
    "\x1b[2J",
    "a\x00b",
    "../../x",
    "/etc/passwd",
    "a,b",
    "a=b",
    "a/b",
    "a\\b",
    'a"b',
    "a'b",
    "a.b",
    "a.b.c",
    "candidаte",  # noqa: RUF001  (a Cyrillic letter)
    "ｃａｎｄｉｄａｔｅ",  # noqa: RUF001  (wide letters)
    "Candidate",
    "candidate ",
    "candi­date",
    "‮candidate",
    "x" * 3_000,
    "status",
    "sms",
    "unreadable",
    "row",
    "list",
    "element",
    "__index_level_0__",
    "{}",
    "%s",
    "$HOME",
    "*",
    "None",
    "東京",
)
"""Names of columns."""

FILE_NAMES = (
    "a b",
    "a\nb",
    "a#b",
    "a%41b",
    "a%b",
    "a?b",
    "a*b",
    "[ab]",
    "[",
    "-rf",
    "--out",
    "~",
    "$HOME",
    "a:b",
    "c:",
    "s3:",
    "a'b",
    'a"b',
    "a\\b",
    "é",
    "é",
    "東京",
    "\x1b[2J",
    "‮x",
    "a&b",
    "<b>",
    "a,b=c",
    "x" * 200,
    "a..",
    " ",
    ".hidden",
    "_private",
    "\udcff",  # a byte that is not UTF-8
)
"""Names of files and folders, before the suffix."""

BROKEN_UTF8 = (b"\xff", b"\xc3", b"ok \xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"a\xf8b", b"\x80")


def pick(rng: np.random.Generator, things):
    """Return one of some things."""
    return things[int(rng.integers(len(things)))]


def damaged(rng: np.random.Generator, data: bytes, *, tail: int = 2_000) -> bytes:
    """Return the bytes of a file with one kind of damage, as often at its end as anywhere."""
    ways = (_cut, _flip, _overwrite, _insert, _remove, _swap, _repeat, _length_word)
    way = pick(rng, ways)
    begin = max(0, len(data) - tail) if rng.random() < 0.5 else 0
    return way(rng, data, begin)


def _place(rng: np.random.Generator, data: bytes, begin: int) -> int:
    return int(rng.integers(begin, len(data) + 1))


def _cut(rng, data, begin):
    return data[: _place(rng, data, begin)]


def _flip(rng, data, begin):
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        changed[int(rng.integers(begin, len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(rng, data, begin):
    at, length = _place(rng, data, begin), int(rng.integers(1, 33))
    filling = pick(rng, (b"\x00", b"\xff", b"\x7f", b"\x80")) * length
    if rng.random() < 0.4:
        filling = rng.bytes(length)
    return data[:at] + filling[: len(data) - at] + data[at + length :]


def _insert(rng, data, begin):
    at = _place(rng, data, begin)
    return data[:at] + rng.bytes(int(rng.integers(1, 33))) + data[at:]


def _remove(rng, data, begin):
    at = _place(rng, data, begin)
    return data[:at] + data[at + int(rng.integers(1, 33)) :]


def _swap(rng, data, begin):
    first, second = sorted((_place(rng, data, begin), _place(rng, data, begin)))
    return data[:first] + data[second:] + data[first:second]


def _repeat(rng, data, begin):
    first, second = sorted((_place(rng, data, begin), _place(rng, data, begin)))
    return data[:second] + data[first:second] + data[second:]


def _length_word(rng, data, begin):
    """Write a number where Parquet has the length of its footer and many formats a length."""
    at = len(data) - 8 if rng.random() < 0.5 else 0
    number = pick(rng, (0, 1, 7, 0x7FFFFFFF, 0xFFFFFFFF, int(rng.integers(1 << 32))))
    return data[: max(at, 0)] + number.to_bytes(4, "little") + data[max(at, 0) + 4 :]
