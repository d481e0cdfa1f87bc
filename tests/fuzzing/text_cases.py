"""Corpora in JSONL and CSV: broken lines between sound ones, strange files, damaged bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np

from tests.fuzzing.cases import SOUND, Case, score_arguments, sound_row
from tests.fuzzing.hostile import BROKEN_UTF8, NAMES, TEXTS, damaged, pick

COLUMNS = ("document_id", "system_id", "candidate", "reference", "source")
_GIANT_BYTES = 5 << 20  # more than is read at once

_VALUES = (
    "null", "true", "0", "-0", "1e999", "-1e400", "1.5", "NaN", "Infinity", "-Infinity", "9" * 400,
    "9" * 5_000, "18446744073709551616", "9223372036854775808", "[]", "{}", '[""]', '["a", null]',
    "[null]", '["a", 1]', "[[]]", '[["a"]]', '{"a": "b"}', '"2020-01-01"', '"2020-01-01T00:00:00Z"',
    '"\\ud800"', '"\\udc00\\ud800"', '"a\\u0000b"', '"\\u001b[31m"', '"1"', '""', '" "',
)  # fmt: skip
"""Of a JSON key."""
_LINES = (
    b"{", b"}", b"[]", b"[1, 2]", b'"text"', b"1", b"null", b"{}", b"{]", b'{"a": }', b'{"a" 1}',
    b"{'a': 1}", b"not JSON", b"\x00", b"\x00\x00\x00\x00", b"\xff\xfe", b"# comment", b"{} {}",
    b'{"candidate": "never closed', b"[" * 200, b"[" * 100_000, b'{"a":' * 50_000,
    b'{"candidate": "a", "candidate": "b"}', b'{"": ""}', b"\xef\xbb\xbf{}",
    b'{"candidate": "\x01"}',
    b'{"candidate": "a"}\r{"candidate": "b"}',
)  # fmt: skip
"""Lines that are no rows of a corpus."""


def jsonl_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Write one JSONL file."""
    lines: list[bytes] = []
    sound: list[tuple[str, int]] = []
    for number in range(int(pick(rng, (0, 1, 3, 8, 30)))):
        lines.append(_json_line(rng, number, sound) + pick(rng, (b"\n", b"\n", b"\n", b"\r\n")))
    data = b"".join(lines)
    if lines and rng.random() < 0.2:
        data = data.rstrip(b"\n")
    if lines and rng.random() < 0.1:
        data = b"\xef\xbb\xbf" + data
    n_rows = sum(bool(line.strip()) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    return _text_case(rng, folder, vectors, "jsonl", data, n_rows, sound)


def _json_line(rng: np.random.Generator, number: int, sound: list[tuple[str, int]]) -> bytes:
    way = rng.random()
    row: dict[str, object] = dict(sound_row(number, int(rng.integers(len(SOUND)))))
    if way < 0.4:
        of = next(k for k, (candidate, _) in enumerate(SOUND) if candidate == row["candidate"])
        sound.append((str(row["document_id"]), of))
        return json.dumps(row).encode()
    row["document_id"] = f"broken-{number}"
    if way < 0.6:
        return _with_value(rng, row)
    if way < 0.75:
        row[pick(rng, COLUMNS)] = pick(rng, TEXTS)
        return json.dumps(row, ensure_ascii=bool(rng.random() < 0.5)).encode()
    if way < 0.8:
        del row[pick(rng, COLUMNS)]
        return json.dumps(row).encode()
    if way < 0.85:
        row[pick(rng, COLUMNS)] = "HERE"
        return json.dumps(row).encode().replace(b"HERE", pick(rng, BROKEN_UTF8))
    if way < 0.87:
        row[pick(rng, NAMES)] = "more"
        return json.dumps(row).encode()
    if way < 0.872:
        row[pick(rng, COLUMNS)] = "giant " * (_GIANT_BYTES // 6)
        return json.dumps(row).encode()
    if way < 0.95:
        return pick(rng, _LINES)
    return pick(rng, (b"", b"   ", b"\t"))


def _with_value(rng: np.random.Generator, row: dict[str, object]) -> bytes:
    name = pick(rng, COLUMNS)
    row[name] = "HERE"
    return json.dumps(row).replace('"HERE"', pick(rng, _VALUES)).encode()


def csv_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Write one CSV file."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator=pick(rng, ("\n", "\r\n")))
    header = list(COLUMNS)
    if is_odd := rng.random() < 0.15:
        header[int(rng.integers(len(header)))] = pick(rng, NAMES)
    writer.writerow(header)
    sound: list[tuple[str, int]] = []
    n_rows = int(pick(rng, (0, 1, 3, 8, 30)))
    for number in range(n_rows):
        of = int(rng.integers(len(SOUND)))
        row = list(sound_row(number, of).values())
        if rng.random() < 0.6:
            sound.append((row[0], of))
        else:
            row[0] = f"broken-{number}"
            row[int(rng.integers(1, len(row)))] = pick(rng, TEXTS)
        writer.writerow(row)
    data = sink.getvalue().encode()
    if is_odd:
        sound = []
    if rng.random() < 0.3:
        data, is_odd, sound = _with_broken_line(rng, data), True, []
    return _text_case(rng, folder, vectors, "csv", data, None if is_odd else n_rows, sound)


def _with_broken_line(rng: np.random.Generator, data: bytes) -> bytes:
    line = pick(
        rng,
        (
            b'd,s,"never closed,a,b\n', b'd,s,a"b"c,a,b\n', b'd,s,"a"b,a,b\n', b"d,s\n", b",,,,\n",
            b"d,s,a,b,c,d,e,f\n", b"d,s,\x00,b,c\n", b"d,s,\xff,b,c\n", b"d\rs,a\rb,c\n", b'"\n',
            b'"""\n', b'""\n', b"\x00\n", b"d;s;a;b;c\n", b'd,s,"' + b"a\n" * 3_000 + b'",b,c\n',
            b'd,s,"' + b"a" * 200_000 + b'",b,c\n',
        ),
    )  # fmt: skip
    places = [0, *(i + 1 for i, byte in enumerate(data) if byte == ord("\n"))]
    at = pick(rng, places)
    return data[:at] + line + data[at:]


def _text_case(
    rng: np.random.Generator,
    folder: Path,
    vectors: Path,
    suffix: str,
    data: bytes,
    n_rows: int | None,
    sound: list[tuple[str, int]],
) -> Case:
    way = rng.random()
    if way < 0.3:
        data, n_rows, sound = damaged(rng, data), None, []
    elif way < 0.33:
        data, n_rows, sound = data.decode("utf-8", "replace").encode("utf-16"), None, []
    elif way < 0.36:
        data, n_rows, sound = gzip.compress(data), None, []
    elif way < 0.4:
        suffix, n_rows, sound = pick(rng, ("csv", "jsonl", "parquet", "ndjson", "txt")), None, []
    path = folder / f"corpus.{suffix}"
    path.write_bytes(data)
    return Case(
        arguments=score_arguments([str(path)], folder / "out", vectors),
        out=folder / "out",
        n_rows=n_rows,
        sound=tuple(sound),
    )
