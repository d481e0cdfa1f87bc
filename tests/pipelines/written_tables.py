"""One table that every verb can read, written in the ways in which programs write tables."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

DOCUMENTS, SYSTEMS = ("d1", "d2", "d3", "d4", "d5"), ("old", "new", "other")


def _row(d: int, s: int) -> Row:
    document, system = DOCUMENTS[d], SYSTEMS[s]
    source = f"Storm number {d} hit the coast of Perú on Monday. It rained for {d + 2} days 😀."
    return {
        "document_id": document,
        "system_id": system,
        "candidate": "" if (d, s) == (2, 1) else f"A storm, {d * s} feet high, hit the coast.",
        "reference": f"Storm {d} hit the coast; it rained.",
        "source": source,
        "m": round(0.1 * d * (s - 0.5) + 0.01 * s, 6),
        "quality": None if (d, s) == (1, 2) else (d * 3 + s * 2) % 5,
        "comment": 'a 5" pipe, burst' if d == 3 else "fine",
        "system_a": "old",
        "system_b": "new",
        "winner": ("old", "new", "tie")[(d + s) % 3],
        "id": f"{document}-{system}",
        "article": source,
        "highlights": "It rained.",
    }


ROWS: list[Row] = [_row(d, s) for d in range(len(DOCUMENTS)) for s in range(len(SYSTEMS))]
"""A row is a candidate with its texts, a score, a rating, a judgement, and a pair."""


def _csv(rows: list[Row], **dialect: Any) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n", **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _lines(rows: list[Row], **how: Any) -> str:
    return "".join(f"{json.dumps(row, **how)}\n" for row in rows)


def _unquoted(rows: list[Row]) -> str:
    """Write marks as they are, where that is no quoted cell; no comma is in a cell then."""
    plain = [
        {k: v.replace(", ", " ") if isinstance(v, str) else v for k, v in row.items()}
        for row in rows
    ]
    return _csv(plain, quoting=csv.QUOTE_NONE, quotechar=None)


CSV, LINES = _csv(ROWS), _lines(ROWS)
WITH_NAN = [row | {"quality": float("nan")} if row["quality"] is None else row for row in ROWS]
TEXTS: dict[str, bytes] = {
    "plain.csv": CSV.encode(),
    "mark.csv": CSV.encode("utf-8-sig"),
    "quoted.csv": _csv(ROWS, quoting=csv.QUOTE_ALL).encode(),
    "windows.csv": CSV.replace("\n", "\r\n").encode(),
    "mac.csv": CSV.replace("\n", "\r").encode(),
    "semicolons.csv": _csv(ROWS, delimiter=";").encode(),
    "excel.csv": b"sep=;\r\n" + _csv(ROWS, delimiter=";").replace("\n", "\r\n").encode(),
    "tabs.tsv": _csv(ROWS, delimiter="\t").encode(),
    "unicode.csv": _csv(ROWS, delimiter="\t").encode("utf-16"),
    "no_mark.csv": CSV.encode("utf-16-le"),
    "spaces.csv": CSV.replace(",", ", ", CSV.partition("\n")[0].count(",")).encode(),
    "blank_lines.csv": CSV.replace("\n", "\n\n").encode(),
    "no_end.csv": CSV.rstrip("\n").encode(),
    "gzip.csv.gz": gzip.compress(CSV.encode()),
    "padded.csv.gz": gzip.compress(CSV.encode()) + bytes(1_024),
    "packed.csv.bz2": bz2.compress(CSV.encode()),
    "lines.jsonl": LINES.encode(),
    "mark.jsonl": LINES.encode("utf-8-sig"),
    "nan.jsonl": _lines(WITH_NAN).encode(),
    "commas.ndjson": LINES.replace("\n", ",\n").encode(),
    "packed.jsonl.zst": pa.compress(LINES.encode(), "zstd", asbytes=True),
    "list.json": json.dumps(ROWS).encode(),
    "indented.json": json.dumps(ROWS, indent=2, ensure_ascii=False).encode(),
    "objects.json": _lines(ROWS, indent=1).encode(),
}
TABLES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "plain.parquet": lambda table: table,
    "large.parquet": lambda table: _cast(table, pa.large_string()),
    "views.parquet": lambda table: _cast(table, pa.string_view()),
    "categories.parquet": lambda table: _cast(table, pa.dictionary(pa.int32(), pa.string())),
    "bytes.parquet": lambda table: _cast(table, pa.binary()),
}
FOLDERS: dict[str, Callable[[Path], object]] = {
    "hive": lambda folder: pq.write_to_dataset(
        pa.Table.from_pylist(ROWS), folder, partition_cols=["system_id"]
    ),
    "hive by polars": lambda folder: pl.DataFrame(ROWS).write_parquet(
        folder, partition_by=["document_id", "system_id"]
    ),
    "several kinds": lambda folder: _several_kinds(folder),
}
NAMES = [*TEXTS, *TABLES, *FOLDERS]
STRAY = _unquoted(ROWS).encode()
"""The same rows but for commas in texts, with quotation marks as they come."""


def write_table(folder: Path, name: str) -> Path:
    """Write the rows in one of these ways; return the file or folder."""
    path = folder / name
    if name in TEXTS:
        path.write_bytes(TEXTS[name])
    elif name in TABLES:
        pq.write_table(TABLES[name](pa.Table.from_pylist(ROWS)), path)
    else:
        path.mkdir()
        FOLDERS[name](path)
    return path


def _cast(table: pa.Table, kind: pa.DataType) -> pa.Table:
    fields = [
        field.with_type(kind) if pa.types.is_string(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _several_kinds(folder: Path) -> None:
    (folder / "a.csv").write_text(_csv(ROWS[:4]), encoding="utf-8")
    (folder / "b.jsonl").write_text(_lines(ROWS[4:9]), encoding="utf-8")
    (folder / "c.csv").touch()
    pq.write_table(
        pa.Table.from_pylist(ROWS[9:9], pa.Table.from_pylist(ROWS).schema), folder / "d.parquet"
    )
    pq.write_table(pa.Table.from_pylist(ROWS[9:]), folder / "e.parquet")
    (folder / "about.json").write_text('{"rows": 15}')
    (folder / "_SUCCESS").touch()
