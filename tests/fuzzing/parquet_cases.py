"""Corpora in Parquet: columns of every type, text that is not UTF-8, damaged bytes."""

from __future__ import annotations

import datetime
import decimal
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzzing.cases import SOUND, SOURCE, Case, score_arguments
from tests.fuzzing.hostile import BROKEN_UTF8, NAMES, TEXTS, damaged, pick

COLUMNS = ("document_id", "system_id", "candidate", "reference", "source")


def parquet_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Write one file, damaged or not."""
    n_rows = int(pick(rng, (0, 1, 2, 5, 9, 40)))
    columns = {name: _column(rng, name, n_rows) for name in COLUMNS}
    mapping: list[str] = []
    names = list(columns)
    if rng.random() < 0.2:
        _rename(rng, names, mapping)
    arrays = list(columns.values())
    if rng.random() < 0.1:
        again = int(rng.integers(len(names)))
        names.append(names[again])
        arrays.append(arrays[again])
    table = pa.Table.from_arrays(arrays, names=names)
    data, written = _written(rng, table)
    if is_damaged := rng.random() < 0.6:
        data = damaged(rng, data)
    path = folder / "corpus.parquet"
    path.write_bytes(data)
    arguments = score_arguments([str(path)], folder / "out", vectors)
    arguments[1:1] = mapping
    return Case(
        arguments=arguments,
        out=folder / "out",
        n_rows=None if is_damaged else written.num_rows,
    )


def _rename(rng: np.random.Generator, names: list[str], mapping: list[str]) -> None:
    at = int(rng.integers(len(names)))
    ours, names[at] = names[at], pick(rng, NAMES)
    if rng.random() < 0.7:
        mapping.append(f"--columns={ours}={names[at]}")


def _column(rng: np.random.Generator, name: str, n_rows: int) -> pa.Array:
    if rng.random() < 0.7:
        return _plain_text(rng, name, n_rows)
    return pick(rng, _KINDS)(rng, n_rows)


def _plain_text(rng: np.random.Generator, name: str, n_rows: int) -> pa.Array:
    sound = {"candidate": [c for c, _ in SOUND], "reference": [r for _, r in SOUND]}
    usual = sound.get(name, [SOURCE] if name == "source" else [f"{name}-{i}" for i in range(5)])
    cells = [pick(rng, TEXTS) if rng.random() < 0.2 else pick(rng, usual) for _ in range(n_rows)]
    return pa.array([None if rng.random() < 0.05 else cell for cell in cells], pa.string())


def _texts(rng: np.random.Generator, n_rows: int) -> list[str | None]:
    return [None if rng.random() < 0.1 else pick(rng, TEXTS) for _ in range(n_rows)]


def _as(kind: pa.DataType):
    return lambda rng, n: pa.array(_texts(rng, n), pa.string()).cast(kind)


def _numbers(kind: pa.DataType):
    return lambda rng, n: pa.array(rng.integers(0, 100, n)).cast(kind)


def _broken_text(kind: pa.DataType):
    """Text whose bytes are not UTF-8 though its type says they are."""

    def make(rng: np.random.Generator, n: int) -> pa.Array:
        cells = [pick(rng, BROKEN_UTF8) if rng.random() < 0.5 else b"fine" for _ in range(n)]
        raw = pa.array(cells, pa.binary())
        return pa.Array.from_buffers(pa.string(), n, raw.buffers()).cast(kind, safe=False)

    return make


def _lists(kind: pa.DataType):
    def make(rng: np.random.Generator, n: int) -> pa.Array:
        cells = [
            None if rng.random() < 0.1 else _texts(rng, int(rng.integers(0, 4))) for _ in range(n)
        ]
        return pa.array(cells, pa.list_(pa.string())).cast(kind)

    return make


def _of(kind: pa.DataType, *values: object):
    return lambda rng, n: pa.array([pick(rng, (*values, None)) for _ in range(n)], kind)


def _broken_lists(rng: np.random.Generator, n: int) -> pa.Array:
    values = _broken_text(pa.string())(rng, 2 * n)
    return pa.ListArray.from_arrays(pa.array(range(0, 2 * n + 1, 2), pa.int32()), values)


_KINDS = (
    _as(pa.large_string()),
    _as(pa.string_view()),
    _as(pa.binary()),
    _as(pa.large_binary()),
    _as(pa.binary_view()),
    _as(pa.dictionary(pa.int8(), pa.string())),
    _as(pa.dictionary(pa.int32(), pa.large_string())),
    _broken_text(pa.string()),
    _broken_text(pa.large_string()),
    _broken_text(pa.dictionary(pa.int32(), pa.string())),
    _broken_lists,
    _lists(pa.list_(pa.string())),
    _lists(pa.large_list(pa.large_string())),
    _lists(pa.list_(pa.binary())),
    _of(pa.null()),
    _of(pa.binary(3), b"abc", b"\xff\xff\xff"),
    _of(pa.bool_(), True, False),
    *map(_numbers, (pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())),
    _of(pa.float64(), float("nan"), float("inf"), -0.0, 1e308),
    _of(pa.float16(), np.float16(1.5)),
    _of(pa.decimal128(38, 10), decimal.Decimal("1.5")),
    _of(pa.decimal256(60, 3), decimal.Decimal("-7")),
    _of(pa.date32(), datetime.date(2020, 2, 29)),
    _of(pa.timestamp("ns"), 0, 1 << 62),
    _of(pa.timestamp("us", "Europe/Berlin"), 0, 10**15),
    _of(pa.timestamp("us", "Nowhere/Else"), 0),
    _of(pa.time64("us"), datetime.time(1, 2)),
    _of(pa.duration("s"), 5),
    _of(pa.list_(pa.int64()), [1, 2], []),
    _of(pa.list_(pa.null()), [None], []),
    _of(pa.list_(pa.string(), 2), ["a", None]),
    _of(pa.list_(pa.list_(pa.string())), [["a"]], [[]]),
    _of(pa.list_(pa.dictionary(pa.int32(), pa.string())), ["a", "b"]),
    _of(pa.struct({"text": pa.string()}), {"text": "a"}),
    _of(pa.struct({}), {}),
    _of(pa.map_(pa.string(), pa.string()), [("a", "b")]),
    _of(pa.list_(pa.struct({"text": pa.string()})), [{"text": "a"}]),
    _of(pa.uuid(), b"0123456789abcdef"),
    _of(pa.json_(), '{"a": 1}'),
)


def _written(rng: np.random.Generator, table: pa.Table) -> tuple[bytes, pa.Table]:
    """Write a table in a random dialect; what the format cannot hold is left as text."""
    options = {
        "row_group_size": int(pick(rng, (1, 3, 1_000))),
        "compression": pick(rng, ("snappy", "gzip", "zstd", "none", "brotli", "lz4")),
        "use_dictionary": bool(rng.random() < 0.5),
        "data_page_version": pick(rng, ("1.0", "2.0")),
        "store_schema": bool(rng.random() < 0.7),
        "write_page_checksum": bool(rng.random() < 0.3),
    }
    sink = io.BytesIO()
    try:
        pq.write_table(table, sink, **options)
    except (pa.ArrowException, TypeError):
        texts = [pa.array(["a"] * table.num_rows, pa.string()) for _ in table.column_names]
        table = pa.Table.from_arrays(texts, names=table.column_names)
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
    return sink.getvalue(), table
