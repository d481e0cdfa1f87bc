"""Hostile paths, folders of sound and broken files, runs whose folder was damaged, settings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from tests.fuzzing.cases import SOUND, Case, score_arguments, sound_row
from tests.fuzzing.hostile import FILE_NAMES, NAMES, TEXTS, damaged, pick

_SUFFIXES = (".jsonl", ".JSONL", ".ndjson", ".parquet", ".csv", ".json", ".gz", "", ".jsonl.gz")
_TOML_VALUES = (
    "1", "-1", "0", '""', '"a"', "true", "[]", "[[]]", "{}", "1e400", "nan", "2020-01-01",
    '["sms"]', '["sms", 1]', '"sms,,wms"', "9223372036854775808", '"\\u0000"', '"../x"', '"="',
)  # fmt: skip
_OPTIONS = (
    "metrics", "encoder", "columns", "preset", "multi_reference", "language", "source_tokens",
    "precision", "device", "embedding_cache", "workers", "cpus_per_worker", "out", "config",
    "limit", "strict", "fresh", "local", "address", "encoders", "corpora", "no_such_option",
)  # fmt: skip


def sound_lines(n_rows: int, start: int = 0) -> tuple[bytes, list[tuple[str, int]]]:
    """Return the lines of a sound JSONL file, and what its rows are."""
    sound = [(f"sound-{number}", number % len(SOUND)) for number in range(start, start + n_rows)]
    rows = [sound_row(start + i, of) for i, (_, of) in enumerate(sound)]
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode(), sound


def path_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Put a sound file, or something that is no file, under a hostile name."""
    data, sound = sound_lines(4)
    name = pick(rng, FILE_NAMES) + (".jsonl" if rng.random() < 0.6 else pick(rng, _SUFFIXES))
    inside = folder / "in" / (pick(rng, FILE_NAMES) if rng.random() < 0.4 else "plain")
    inside.mkdir(parents=True, exist_ok=True)
    path = inside / name
    kind = pick(rng, ("file",) * 5 + ("folder", "pipe", "loop", "dangling", "link", "none"))
    _make(kind, path, data, folder)
    asked = {0: str(path), 1: str(inside), 2: f"{inside}/*.jsonl", 3: f"{inside}/**"}
    corpus = asked.get(int(rng.integers(6)), str(path))
    out = folder / ("out" if rng.random() < 0.6 else pick(rng, FILE_NAMES))
    if rng.random() < 0.1:
        out = pick(rng, (path, inside, folder / "in" / "plain" / "out", Path("/dev/null/x")))
    return Case(arguments=score_arguments([corpus], out, vectors), out=out, sound_if_any=sound)


def _make(kind: str, path: Path, data: bytes, folder: Path) -> None:
    if kind == "file":
        path.write_bytes(data)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "dangling":
        path.symlink_to(folder / "nowhere")
    elif kind == "link":
        (folder / "elsewhere").write_bytes(data)
        path.symlink_to(folder / "elsewhere")


def folder_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Put sound, damaged and empty files together."""
    inside = folder / "in"
    inside.mkdir()
    sound: list[tuple[str, int]] = []
    is_damaged = False
    for number in range(int(rng.integers(1, 6))):
        data, rows = sound_lines(3, 3 * number)
        if rng.random() < 0.15:
            data, is_damaged = damaged(rng, data), True
        elif rng.random() < 0.1:
            data, is_damaged = b"", True
        else:
            sound += rows
        (inside / f"{number}.jsonl").write_bytes(data)
    arguments = score_arguments([str(inside)], folder / "out", vectors)
    known = {} if is_damaged else {"n_rows": len(sound), "sound": tuple(sound)}
    return Case(arguments=arguments, out=folder / "out", sound_if_any=sound, **known)


def rerun_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Score, damage what was written, and ask for the same again."""
    data, sound = sound_lines(6)
    (folder / "corpus.jsonl").write_bytes(data)
    arguments = score_arguments([str(folder / "corpus.jsonl")], folder / "out", vectors)

    def spoil() -> None:
        written = sorted(path for path in (folder / "out").rglob("*") if path.is_file())
        for path in sorted({pick(rng, written) for _ in range(int(rng.integers(1, 3)))}):
            if rng.random() < 0.25:
                path.unlink()
            elif path.name == "run.json" and rng.random() < 0.6:
                path.write_text(other_json(rng, path.read_text("utf-8")), encoding="utf-8")
            else:
                path.write_bytes(damaged(rng, path.read_bytes()))
        if rng.random() < 0.1:
            (folder / "out" / "foreign.txt").write_text("not ours", encoding="utf-8")

    if rng.random() < 0.2:
        arguments.insert(1, "--fresh")
    return Case(arguments=arguments, out=folder / "out", before=spoil, sound_if_any=sound)


def other_json(rng: np.random.Generator, text: str) -> str:
    """Replace one value, anywhere in a JSON document, or take it out."""
    values = json.loads(text)
    holder = values
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return json.dumps(pick(rng, ([], None, 1, "x")))
        key = pick(rng, keys)
        if isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.75:
            holder = holder[key]
            continue
        if rng.random() < 0.3:
            del holder[key]
        else:
            holder[key] = pick(rng, (None, -1, 10**30, 1.5, "", "x", [], {}, [None], {"a": None}))
        return json.dumps(values)


def settings_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Give a strange TOML file, or strange options."""
    (folder / "corpus.jsonl").write_bytes(sound_lines(3)[0])
    arguments = score_arguments([str(folder / "corpus.jsonl")], folder / "out", vectors)
    if rng.random() < 0.6:
        lines = [
            f"{pick(rng, _OPTIONS)} = {pick(rng, _TOML_VALUES)}" for _ in range(rng.integers(1, 4))
        ]
        lines += pick(
            rng, ([], ["[encoders.a]", f"kind = {pick(rng, _TOML_VALUES)}"], ["[encoders]"])
        )
        text = "\n".join(lines).encode()
        (folder / "run.toml").write_bytes(damaged(rng, text) if rng.random() < 0.4 else text)
        arguments[1:1] = [f"--config={folder / 'run.toml'}"]
    else:
        names = ("metrics", "encoder", "columns", "preset", "language", "multi-reference")
        strange = f"--{pick(rng, names)}={pick(rng, (*TEXTS, *NAMES))}"
        same = strange.partition("=")[0]
        arguments = [part for part in arguments if not part.startswith(f"{same}=")]
        arguments.insert(1, strange)
    return Case(arguments=arguments, out=folder / "out", is_out_certain=False)
