"""Made-up inputs with something broken in them: corpora, folders, runs, settings, models, tables.

Each `*_case` writes its files into an empty folder and is made of the numbers it draws alone.
"""

from __future__ import annotations

import decimal
import gzip
import io
import json
import os
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.torture import hostile
from tests.torture.hostile import TEXTS, damaged, other_json
from tests.torture.sound import (
    COLUMNS,
    SOURCE,
    WORDS,
    command,
    encoded,
    score,
    sound_lines,
    sound_models,
    sound_row,
)

GIANT = "giant " * (1 << 20)  # more than is read at once


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command line, and what is known about what must come of it."""

    arguments: Sequence[str]
    out: Path | None = None
    """Where a run of `assay score` is written to."""
    n_rows: int | None = None
    """Rows of the corpus, where that can be known."""
    sound: Sequence[str] = ()
    """Documents whose rows have their usual scores; none is missing where `n_rows` is known."""
    before: Callable[[], None] | None = None
    """Where given, the command is run, then this, then the command again."""


def make(seed: int, folder: Path, vectors: Path) -> Case:
    """Make the input of a seed."""
    rng = Random(seed)
    return _drawn(rng, MAKERS)(rng, folder, vectors)


def _drawn(rng: Random, weights: dict[Any, int]) -> Any:
    return rng.choices(list(weights), list(weights.values()))[0]


# Corpora in Parquet


def parquet_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Write columns of every type, under any name, damaged or not."""
    n_rows = rng.choice([0, 1, 2, 5, 9, 40])
    names = list(COLUMNS)
    arrays = [
        _texts(rng, name, n_rows)
        if rng.random() < 0.7
        else _strange_column(rng, n_rows, [*_STRANGE, _NO_ZONE])
        for name in names
    ]
    options = {"encoder": f"glove:{vectors}", "out": folder / "out"}
    if rng.random() < 0.2:
        place = rng.randrange(len(names))
        ours, names[place] = names[place], rng.choice(hostile.COLUMN_NAMES)
        if rng.random() < 0.7:
            options["columns"] = f"{ours}={names[place]}"
    if rng.random() < 0.1:
        names.append(names[0])
        arrays.append(arrays[0])
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, names=names),
        sink,
        row_group_size=rng.choice([1, 3, 1_000]),
        compression=rng.choice(["snappy", "gzip", "zstd", "none", "brotli", "lz4"]),
        use_dictionary=rng.random() < 0.5,
        store_schema=rng.random() < 0.7,
    )
    is_damaged = rng.random() < 0.6
    data = damaged(rng, sink.getvalue()) if is_damaged else sink.getvalue()
    (folder / "corpus.parquet").write_bytes(data)
    arguments = score(folder / "corpus.parquet", **options)
    return Case(arguments=arguments, out=folder / "out", n_rows=None if is_damaged else n_rows)


def _texts(rng: Random, name: str, n_rows: int) -> pa.Array:
    usual = [sound_row(number)[name] for number in range(5)]
    cells = [rng.choice(TEXTS) if rng.random() < 0.2 else rng.choice(usual) for _ in range(n_rows)]
    return pa.array([None if rng.random() < 0.05 else cell for cell in cells], pa.string())


def _strange_column(rng: Random, n_rows: int, kinds: Sequence[Any]) -> pa.Array:
    """Make a column of a type that is not plain text, or of text that is not UTF-8."""
    kind, values = rng.choice(kinds)
    cells = [rng.choice([*values, None]) for _ in range(n_rows)]
    if values is not hostile.BROKEN_UTF8:
        return pa.array(cells, pa.string()).cast(kind) if values is TEXTS else pa.array(cells, kind)
    raw = pa.array([cell or b"fine" for cell in cells], pa.binary())
    return pa.Array.from_buffers(pa.string(), n_rows, raw.buffers()).cast(kind, safe=False)


_STRANGE = [
    *((kind, TEXTS) for kind in (
        pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string()),
    )),
    *((kind, hostile.BROKEN_UTF8) for kind in (
        pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()),
    )),
    *((kind, (0, 1, 99)) for kind in (
        pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float16(), pa.duration("s"),
        pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"), pa.date32(), pa.time64("us"),
    )),
    *((kind, ([], [None], ["a", None], [""], ["a", "b"])) for kind in (
        pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.binary()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    )),
    (pa.list_(pa.binary()), ([b"\xff"], [b"a", b"\xc3"])),
    (pa.list_(pa.string(), 2), (["a", None],)),
    (pa.list_(pa.int64()), ([1, 2], [])),
    (pa.list_(pa.null()), ([None], [])),
    (pa.list_(pa.list_(pa.string())), ([["a"]], [[]])),
    (pa.list_(pa.struct({"text": pa.string()})), ([{"text": "a"}],)),
    (pa.struct({"text": pa.string()}), ({"text": "a"},)),
    (pa.map_(pa.string(), pa.string()), ([("a", "b")],)),
    (pa.null(), ()),
    (pa.binary(3), (b"abc", b"\xff\xff\xff")),
    (pa.bool_(), (True, False)),
    (pa.float64(), (float("nan"), float("inf"), -0.0, 1e308)),
    (pa.decimal128(38, 10), (decimal.Decimal("1.5"),)),
    (pa.decimal256(60, 3), (decimal.Decimal("-7"),)),
    (pa.uuid(), (b"0123456789abcdef",)),
    (pa.json_(), ('{"a": 1}',)),
]  # fmt: skip
"""Types of columns and their values."""
_NO_ZONE = (pa.timestamp("us", "Nowhere/Else"), (0,))  # polars panics


# Corpora in JSONL and CSV


def jsonl_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Write sound and broken lines."""
    lines, sound = [], []
    for number in range(rng.choice([0, 1, 3, 8, 30])):
        row = sound_row(number)
        if rng.random() < 0.4:
            sound.append(str(row["document_id"]))
            lines.append(json.dumps(row).encode())
        else:
            lines.append(_broken_line(rng, row | {"document_id": f"broken-{number}"}))
    data = b"".join(line + rng.choice([b"\n", b"\n", b"\n", b"\r\n"]) for line in lines)
    if rng.random() < 0.2:
        data = data.rstrip(b"\n")
    n_rows = sum(bool(line.strip()) for line in data.split(b"\n"))
    if n_rows and rng.random() < 0.1:
        data = b"\xef\xbb\xbf" + data
    return _text_case(rng, folder, vectors, "jsonl", data, n_rows=n_rows, sound=sound)


def _broken_line(rng: Random, row: dict[str, object]) -> bytes:
    name = rng.choice(COLUMNS)
    if rng.random() < 0.004:
        return json.dumps(row | {name: GIANT}).encode()
    marked = json.dumps(row | {name: "HERE"}).encode()
    strange_text = json.dumps(row | {name: rng.choice(TEXTS)}, ensure_ascii=rng.random() < 0.5)
    ways = {
        marked.replace(b'"HERE"', rng.choice(hostile.JSON_VALUES).encode()): 20,
        strange_text.encode(): 15,
        json.dumps({key: value for key, value in row.items() if key != name}).encode(): 5,
        marked.replace(b"HERE", rng.choice(hostile.BROKEN_UTF8)): 5,
        json.dumps(row | {rng.choice(hostile.COLUMN_NAMES): "more"}).encode(): 2,
        rng.choice(hostile.JSON_LINES): 8,
        rng.choice([b"", b"   ", b"\t"]): 5,
    }
    return _drawn(rng, ways)


def csv_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Write sound and broken rows, with a strange header or a broken line among them."""
    rows, sound = [], []
    for number in range(rng.choice([0, 1, 3, 8, 30])):
        row = sound_row(number)
        if rng.random() < 0.6:
            sound.append(str(row["document_id"]))
        else:
            row["document_id"] = f"broken-{number}"
            row[rng.choice(COLUMNS[1:])] = rng.choice(TEXTS)
        rows.append(row)
    data = encoded(rows, "csv", line_end=rng.choice(["\n", "\r\n"]))
    known = {"n_rows": len(rows), "sound": sound}
    if rng.random() < 0.15:
        name = rng.choice(hostile.COLUMN_NAMES).encode()
        data, known = data.replace(rng.choice(COLUMNS).encode(), name, 1), {}
    if rng.random() < 0.3:
        lines = data.split(b"\n")
        lines.insert(rng.randrange(len(lines)), rng.choice(hostile.CSV_LINES))
        data, known = b"\n".join(lines), {}
    return _text_case(rng, folder, vectors, "csv", data, **known)


def _text_case(
    rng: Random, folder: Path, vectors: Path, suffix: str, data: bytes, **known: object
) -> Case:
    """Write a file, often with damage to it as a whole."""
    if rng.random() < 0.4:
        known = {}
        ways = {
            (suffix, damaged(rng, data)): 30,
            (suffix, data.decode("utf-8", "replace").encode("utf-16")): 3,
            (suffix, gzip.compress(data)): 3,
            (rng.choice(["csv", "jsonl", "parquet", "ndjson", "txt"]), data): 4,
        }
        suffix, data = _drawn(rng, ways)
    path = folder / f"corpus.{suffix}"
    path.write_bytes(data)
    return _scored(folder, vectors, path, **known)


def _scored(folder: Path, vectors: Path, corpus: object, **known: object) -> Case:
    arguments = score(corpus, encoder=f"glove:{vectors}", out=folder / "out")
    return Case(arguments=arguments, out=folder / "out", **known)


# Folders, runs and settings


def path_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Put a sound file, or something that is no file, under a hostile name."""
    data, sound = sound_lines(4)
    suffix = rng.choice([*6 * [".jsonl"], ".JSONL", ".parquet", ".gz", ""])
    inside = folder / "in" / (rng.choice(hostile.FILE_NAMES) if rng.random() < 0.4 else "plain")
    inside.mkdir(parents=True)
    path = inside / (rng.choice(hostile.FILE_NAMES) + suffix)
    kind = rng.choice([*5 * ["file"], "folder", "pipe", "link to itself", "link", "none"])
    if kind == "file":
        path.write_bytes(data)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind == "link":
        path.symlink_to(folder / "elsewhere")
        (folder / "elsewhere").write_bytes(data)
    corpus = rng.choice([path, path, path, inside, f"{inside}/*.jsonl", f"{inside}/**"])
    out = folder / ("out" if rng.random() < 0.6 else rng.choice(hostile.FILE_NAMES))
    if rng.random() < 0.1:
        out = rng.choice([path, inside, inside / "out", Path("/dev/null/x")])
    arguments = score(corpus, encoder=f"glove:{vectors}", out=out)
    return Case(arguments=arguments, out=out, sound=sound)


def folder_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Put sound, damaged and empty files together."""
    (folder / "in").mkdir()
    all_sound = []
    n_rows = 0
    for number in range(rng.randint(1, 5)):
        data, sound = sound_lines(3, 3 * number)
        if rng.random() < 0.25:
            data, n_rows = rng.choice([damaged(rng, data), b""]), None
        else:
            all_sound += sound
            n_rows = None if n_rows is None else n_rows + 3
        (folder / "in" / f"{number}.jsonl").write_bytes(data)
    return _scored(folder, vectors, folder / "in", n_rows=n_rows, sound=all_sound)


def rerun_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Score, damage what was written, and ask for the same again."""
    data, sound = sound_lines(6)
    (folder / "corpus.jsonl").write_bytes(data)

    spoil = partial(_spoil, rng, folder / "out")
    case = _scored(folder, vectors, folder / "corpus.jsonl", sound=sound, before=spoil)
    if rng.random() < 0.2:
        case.arguments.insert(1, "--fresh")
    return case


def _spoil(rng: Random, folder: Path) -> None:
    """Take a file away, change a value in it, or damage it."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    way = rng.random()
    if way < 0.15:
        path.unlink()
    elif way < 0.5 and path.suffix == ".json":
        path.write_text(other_json(rng, path.read_text("utf-8")), encoding="utf-8")
    else:
        path.write_bytes(damaged(rng, path.read_bytes()))


def settings_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Give a strange TOML file, or a strange option."""
    (folder / "corpus.jsonl").write_bytes(sound_lines(3)[0])
    options = {"encoder": f"glove:{vectors}", "out": folder / "out"}
    if rng.random() < 0.6:
        names = [*rng.choices(hostile.SETTINGS, k=3), "[encoders.a]\nkind"]
        lines = [f"{name} = {rng.choice(hostile.TOML_VALUES)}" for name in names]
        text = "\n".join(lines[rng.randrange(3) : rng.choice([3, 4])]).encode()
        options["config"] = folder / "run.toml"
        (folder / "run.toml").write_bytes(damaged(rng, text) if rng.random() < 0.4 else text)
    else:
        names = ["metrics", "encoder", "columns", "preset", "language", "multi_reference"]
        options[rng.choice(names)] = rng.choice([*TEXTS, *hostile.COLUMN_NAMES])
    return Case(arguments=score(folder / "corpus.jsonl", **options))


# Encoders, scorers and caches


def vectors_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Read damaged word vectors of the three kinds."""
    kind = rng.choice(["glove", "word2vec", "fasttext"])
    text = vectors.read_bytes()
    header = f"{len(WORDS)} 8\n".encode()
    data = text if kind == "glove" else header + text
    if kind == "word2vec" and rng.random() < 0.6:
        rows = [line.split(" ") for line in text.decode().splitlines()]
        binary = [(word, struct.pack("<8f", *map(float, numbers))) for word, *numbers in rows]
        data = header + b"".join(f"{word} ".encode() + cells + b"\n" for word, cells in binary)
    if rng.random() < 0.3:
        parts = data.split(b" ")
        number = rng.choice(["1 2", "-1", "1e39", *hostile.NUMBERS])
        parts[rng.randrange(len(parts))] = number.encode()
        data = b" ".join(parts)
    else:
        data = damaged(rng, data)
    (folder / "vectors.bin").write_bytes(data)
    options = {"encoder": f"{kind}:{folder / 'vectors.bin'}", "metrics": "sms,wms,cosine"}
    return _with_model(folder, options)


def model_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Damage one file of a model's folder, a scorer's folder or a cache."""
    kind = rng.choice(["hf", "st", "infersent", "scorer", "cache"])
    copy, cache = folder / "model", folder / "cache"
    shutil.copytree(
        sound_models(vectors.parent / "models") / ("hf" if kind == "cache" else kind), copy
    )
    infersent = f"infersent:{copy}/state.pkl,vectors={vectors}"
    options = {
        "hf": {"encoder": f"hf:{copy}", "metrics": "sms,cosine"},
        "st": {"encoder": f"st:{copy}", "metrics": "cosine"},
        "infersent": {"encoder": infersent, "metrics": "cosine"},
        "scorer": {"metrics": f"reffree@{copy}"},
        "cache": {"encoder": f"hf:{copy}", "metrics": "sms", "embedding_cache": cache},
    }[kind]
    if kind == "cache":
        return _with_model(folder, options, before=partial(_spoil, rng, cache))
    _spoil(rng, copy)
    return _with_model(folder, options)


def _with_model(
    folder: Path, options: dict[str, object], before: Callable[[], None] | None = None
) -> Case:
    (folder / "corpus.jsonl").write_bytes(sound_lines(4)[0])
    arguments = score(folder / "corpus.jsonl", out=folder / "out", **options)
    return Case(arguments=arguments, out=folder / "out", n_rows=4, before=before)


# What other commands read


def numbers_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Compare two tables of numbers, or correlate one with another."""
    scores, ratings = (
        _written(rng, folder / name, _numbers(rng, name)) for name in ("scores", "ratings")
    )
    if rng.random() < 0.75:
        return Case(arguments=command("compare", scores, ratings, resamples=20))
    few = {"resamples": 20, "levels": "system", "coefficients": "pearson"}
    report = {"ratings": ratings, "out": folder / "report", "quiet": True}
    return Case(arguments=command("correlate", scores, **report, **few))


def _numbers(rng: Random, name: str) -> list[dict[str, object]]:
    aspect = "m" if rng.random() < 0.9 else rng.choice(hostile.COLUMN_NAMES)
    rows = []
    for document in range(rng.randrange(5)):
        for system in "abc":
            document_id = f"d{document}" if rng.random() < 0.95 else rng.choice(TEXTS)
            value = rng.choice(hostile.NUMBERS) if rng.random() < 0.04 else f"{rng.gauss(0, 1):.3f}"
            rows.append({"document_id": document_id, "system_id": system, aspect: value})
            if name == "ratings" and rng.random() < 0.02:
                rows[-1]["rater"] = rng.choice(TEXTS)
    return rows


def judgements_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Read head-to-head judgements."""
    rows = [
        {
            "document_id": f"d{i}",
            "system_a": rng.choice("xy"),
            "system_b": "z",
            "winner": rng.choice(["z", "tie"]) if rng.random() < 0.9 else rng.choice(TEXTS),
        }
        for i in range(rng.randrange(9))
    ]
    path = _written(rng, folder / "judgements", rows)
    return Case(arguments=command("preferences", path))


def pairs_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Make negatives from pairs."""
    rows = []
    for number in range(rng.randrange(25)):
        source, reference = (" ".join(rng.sample(SOURCE.split(), 8)) + "." for _ in "12")
        row = {"document_id": f"d{number}", "source": source, "reference": reference}
        if rng.random() < 0.1:
            odd = [*TEXTS, 1, None, ["a"], [None], {"a": 1}]
            row[rng.choice(list(row))] = rng.choice(odd)
        if rng.random() < 0.9:
            row["split"] = rng.choice(["train", "validation", "test"])
        rows.append(row)
    kinds = rng.choice(["cross-pair", "add,delete,replace", "cross-pair,delete"])
    path, out = _written(rng, folder / "pairs", rows), folder / "negatives.parquet"
    return Case(arguments=command("negatives", path, quiet=True, kinds=kinds, out=out))


def explain_case(rng: Random, folder: Path, vectors: Path) -> Case:
    """Explain a score of a row that may be broken."""
    rows = [sound_row(i) | {"document_id": "d", "system_id": f"s{i}"} for i in range(3)]
    for row in rows:
        row |= {name: rng.choice([row[name], *TEXTS]) for name in ("candidate", "reference")}
    path = _written(rng, folder / "corpus", rows[: rng.randint(1, 3)])
    metric = rng.choice(["sms", "wms", "s+wms", "cosine", "rougeL", "density"])
    which = {"document": "d", "system": "s0", "metric": metric}
    out = folder / "page.html"
    return Case(arguments=command("explain", path, encoder=f"glove:{vectors}", out=out, **which))


def _written(rng: Random, path: Path, rows: list[dict[str, object]]) -> Path:
    """Write rows in one of the three formats, damaged or not."""
    suffix = rng.choice(["jsonl", "jsonl", "csv", "parquet"])
    if suffix == "parquet":
        rows = [{name: _text(cell) for name, cell in row.items()} for row in rows]
    data = encoded(rows, suffix, names=("document_id", "system_id"))
    if suffix == "parquet" and rng.random() < 0.3:
        table, sink = pq.read_table(io.BytesIO(data)), io.BytesIO()
        name, column = table.column_names[-1], _strange_column(rng, len(rows), _STRANGE)
        pq.write_table(table.set_column(table.num_columns - 1, name, column), sink)
        data = sink.getvalue()
    elif suffix != "parquet" and rng.random() < 0.1:
        data += rng.choice(hostile.JSON_LINES if suffix == "jsonl" else hostile.CSV_LINES) + b"\n"
    target = path.with_suffix(f".{suffix}")
    target.write_bytes(damaged(rng, data) if rng.random() < 0.3 else data)
    return target


def _text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


MAKERS = {
    parquet_case: 32,
    jsonl_case: 20,
    csv_case: 16,
    path_case: 8,
    folder_case: 4,
    rerun_case: 4,
    settings_case: 3,
    vectors_case: 4,
    model_case: 2,
    numbers_case: 3,
    judgements_case: 1,
    pairs_case: 2,
    explain_case: 1,
}
"""How many of a hundred inputs are of each kind."""
