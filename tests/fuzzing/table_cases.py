"""What other commands read: scores and ratings, judgements, pairs, and texts to explain."""

from __future__ import annotations

import decimal
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzzing.cases import SOUND, SOURCE, Case
from tests.fuzzing.hostile import BROKEN_UTF8, NAMES, TEXTS, damaged, pick

_NUMBERS = (
    "", "NaN", "inf", "-inf", "1e999", "1e308", "-1e308", "5e-324", "0",
    "1,5", "1 000", "ten", "\u0661",
    "0x1F",
    "1_0", "true", "null", "9" * 400, " 3 ", "3%",
)  # fmt: skip


def numbers_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Compare two tables of numbers, or correlate one with another."""
    paths = [_table(rng, folder / f"{name}", name) for name in ("scores", "ratings")]
    if rng.random() < 0.25:  # it also draws the report
        arguments = [
            "correlate",
            "--quiet",
            f"--ratings={paths[1]}",
            f"--out={folder / 'report'}",
            "--resamples=20",
            "--levels=system",
            "--coefficients=pearson",
            "--",
            paths[0],
        ]
    else:
        arguments = ["compare", "--resamples=20", "--", *paths]
    return Case(arguments=arguments)


def judgements_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Read head-to-head judgements."""
    rows = [
        {
            "document_id": f"d{i}",
            "system_a": pick(rng, ("x", "y")),
            "system_b": pick(rng, ("y", "z")),
            "preference": pick(rng, ("a", "b", "tie", *TEXTS)),
            "judge": pick(rng, ("j1", "j2")),
        }
        for i in range(int(rng.integers(0, 9)))
    ]
    path = _written(rng, folder / "judgements", rows)
    return Case(arguments=["preferences", "--resamples=20", "--", path])


def pairs_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Make negatives from pairs."""
    path = _pairs(rng, folder)
    kinds = pick(rng, ("cross-pair", "add,delete,replace", "all", "cross-pair,delete"))
    if kinds == "all":
        kinds = "cross-pair,add,delete,replace"
    return Case(
        arguments=[
            "negatives",
            "--quiet",
            f"--kinds={kinds}",
            f"--out={folder / 'negatives.parquet'}",
            "--",
            path,
        ]
    )


def explain_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Explain a score of a row that may be broken."""
    rows = [
        {
            "document_id": "d",
            "system_id": f"s{i}",
            "candidate": pick(rng, (SOUND[i % 3][0], *TEXTS)),
            "reference": pick(rng, (SOUND[i % 3][1], *TEXTS)),
            "source": SOURCE,
        }
        for i in range(int(rng.integers(1, 4)))
    ]
    path = _written(rng, folder / "corpus", rows)
    metric = pick(rng, ("sms", "wms", "s+wms", "cosine", "rougeL", "density"))
    return Case(
        arguments=[
            "explain",
            f"--encoder=glove:{vectors}",
            "--document=d",
            "--system=s0",
            f"--metric={metric}",
            f"--out={folder / 'page.html'}",
            "--",
            path,
        ]
    )


def _table(rng: np.random.Generator, path: Path, name: str) -> str:
    aspect = pick(rng, (name, name, name, *NAMES))
    rows = []
    for document in range(int(rng.integers(0, 5))):
        for system in ("a", "b", "c"):
            value: object = f"{rng.normal():.3f}"
            if rng.random() < 0.08:
                value = pick(rng, _NUMBERS)
            row = {
                "document_id": pick(rng, (f"d{document}",) * 30 + TEXTS),
                "system_id": system,
                aspect: value,
            }
            if name == "ratings" and rng.random() < 0.1:
                row["rater"] = pick(rng, TEXTS)
            rows.append(row)
    return _written(rng, path, rows)


def _pairs(rng: np.random.Generator, folder: Path) -> str:
    words = SOURCE.split()
    rows = []
    for number in range(int(rng.integers(0, 25))):
        texts = [" ".join(rng.permutation(words)[:8]) + "." for _ in range(2)]
        row: dict[str, object] = {
            "document_id": f"d{number}",
            "source": texts[0],
            "reference": texts[1],
        }
        if rng.random() < 0.1:
            row[pick(rng, tuple(row))] = pick(rng, (*TEXTS, 1, None, ["a"], [None], {"a": 1}))
        if rng.random() < 0.03:
            row["split"] = pick(rng, ("train", "test", "x", ""))
        rows.append(row)
    return _written(rng, folder / "pairs", rows)


def _written(rng: np.random.Generator, path: Path, rows: list[dict[str, object]]) -> str:
    """Write rows in one of the three formats, damaged or not."""
    suffix = pick(rng, ("jsonl", "jsonl", "csv", "parquet"))
    names = list(dict.fromkeys(name for row in rows for name in row)) or [
        "document_id",
        "system_id",
    ]
    if suffix == "jsonl":
        data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        if rng.random() < 0.1:
            data += pick(rng, (b"{\n", b"[]\n", b"\xff\n", b"1\n", b"\x00\n", b'{"a": 1}\n'))
    elif suffix == "csv":
        lines = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
        data = "".join(f"{','.join(line)}\n" for line in lines).encode()
        if rng.random() < 0.1:
            data += pick(rng, (b'"\n', b"a\n", b"\xff,a,b\n", b"\x00\n", b",,,,,,,\n"))
    else:
        data = _parquet(rng, rows, names)
    if rng.random() < 0.3:
        data = damaged(rng, data)
    target = path.with_suffix(f".{suffix}")
    target.write_bytes(data)
    return str(target)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"'


def _parquet(rng: np.random.Generator, rows: list[dict[str, object]], names: list[str]) -> bytes:
    columns = {name: [_text(row.get(name)) for row in rows] for name in names}
    arrays = {name: pa.array(cells, pa.string()) for name, cells in columns.items()}
    if rng.random() < 0.3:
        name = pick(rng, names)
        strange = (
            pa.array([[1]] * len(rows), pa.list_(pa.int64())),
            pa.array([pick(rng, BROKEN_UTF8)] * len(rows), pa.binary()),
            pa.array([None] * len(rows), pa.null()),
            pa.array([{"a": 1}] * len(rows), pa.struct({"a": pa.int64()})),
            pa.array([1.5] * len(rows), pa.float64()),
            pa.array([0] * len(rows), pa.timestamp("us")),
            pa.array([decimal.Decimal(1)] * len(rows), pa.decimal128(20, 2)),
            pa.array(["a"] * len(rows), pa.string()).dictionary_encode(),
        )
        arrays[name] = pick(rng, strange)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    return sink.getvalue().to_pybytes()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)
