"""A run whose inputs, scores files or run files were changed behind its back, and what comes of it.

Every change must be refused in a line, repaired (the rows are scored again), or be none: then the
scores are those of a fresh run, and what other commands print is what they printed before.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cluster import part_path, reports_from_file
from pipelines.runs.history import HistoryWriter
from pipelines.runs.live import LiveRun
from pipelines.runs.manifest import read_manifest, write_manifest
from pipelines.runs.progress import SCORING, Progress
from tests.fuzzing.cases import WORDS
from tests.fuzzing.folder_cases import other_json
from tests.fuzzing.hostile import damaged, pick
from tests.fuzzing.judging import run_captured, wrong_with_message

REFUSED, REPAIRED, RIGHT, WRONG = "refused", "repaired", "right", "wrong"
WHAT = ("input", "scores", "run files")
HOW = ("damaged", "replaced", "linked", "renamed", "edited")
METRICS = "wms,rouge1_f,length"
N_FILES, N_ROWS = 2, 6

_SCORE, _FRESH, _STATUS, _COMPARE = "score", "score --fresh", "status", "compare"


@dataclass(frozen=True)
class Sound:
    """A run and its corpus as they are before the change, and what commands say of them."""

    folder: Path
    said: dict[str, tuple[int, str]]
    """Exit status and standard output, by command."""


def judge(seed: int, vectors: Path, _folder: Path | None = None) -> tuple[int, str | None, str]:
    """Change a run as the seed says; return the exit status, what is wrong, and what came of it."""
    rng = np.random.default_rng(seed)
    what, how = pick(rng, WHAT), pick(rng, HOW)
    suffix, is_finished = pick(rng, ("parquet", "jsonl", "csv")), bool(rng.random() < 0.7)
    work = vectors.parent / "changes" / "work"
    sound = sound_run(vectors, suffix, is_finished=is_finished)
    _copy(sound.folder, work)
    {"input": _change_input, "scores": _change_scores, "run files": _change_run_files}[what](
        rng, how, work, suffix
    )
    commands = (_SCORE, _SCORE, _FRESH) if what == "input" else (_SCORE, _STATUS, _COMPARE)
    command = pick(rng, commands)
    before = contents(work / "out")
    status, output, errors = _run(_arguments(command, work, vectors))
    outcome, problem = _outcome(command, work, vectors, sound, before, (status, output, errors))
    kind = f"{what} {how}: {outcome}"
    if problem is not None:
        problem = f"{what} {how}, {suffix}, `assay {command}`: {problem}"
    return status, problem, kind


@cache
def sound_run(vectors: Path, suffix: str, *, is_finished: bool) -> Sound:
    """Score a small corpus; keep it as a finished run, or as one whose driver was killed."""
    root = vectors.parent / "changes"
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    for number in range(N_FILES):
        write_rows(work / "in" / f"{number}.{suffix}", rows_of(number))
    _checked(_run(_arguments(_SCORE, work, vectors)))
    if not is_finished:
        _as_killed(work / "out")
    kept = root / f"{suffix}-{is_finished}"
    _copy(work, kept)
    said = {}
    for command in (_STATUS, _COMPARE):
        status, output, _ = _run(_arguments(command, work, vectors))
        said[command] = (status, output)
    return Sound(kept, said)


def rows_of(number: int, seed: int = 0) -> list[dict[str, object]]:
    """Make the rows of a file; another seed gives other texts of the same lengths."""
    rng = np.random.default_rng([number, seed])
    words = [word for word in WORDS if len(word) == 3]

    def text(n_words: int) -> str:
        return f"{' '.join(pick(rng, words) for _ in range(n_words))}."

    return [
        {
            "document_id": f"d{number}-{i // 2}",
            "system_id": "xy"[i % 2],
            "candidate": text(4 + i),
            "references": [text(5), text(6)],
        }
        for i in range(N_ROWS)
    ]


def write_rows(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write a corpus in the format of its name; Parquet without anything that tells of texts."""
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(list(rows))
        pq.write_table(table, path, 3, compression="none", write_statistics=False)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)  # of a list it writes the `str`, as pandas does


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _as_killed(out: Path) -> None:
    """Leave what a driver leaves that was killed after most of its shards."""
    manifest = read_manifest(str(out))
    assert manifest is not None
    write_manifest(str(out), replace(manifest, result={}))
    writer = HistoryWriter(str(out), manifest.fingerprint)
    for index in (0, 1):
        part = part_path(str(out), index, manifest.fingerprint)
        (report,) = reports_from_file(part)
        writer.add(replace(report, node="here", seconds=1.0))
        writer.write()
    Path(part_path(str(out), 3, manifest.fingerprint)).unlink()
    LiveRun(str(out)).begin(manifest, Progress(stage=SCORING, n_rows=12, n_done=9))
    (out / "_SUCCESS").unlink()


def _arguments(command: str, work: Path, vectors: Path) -> list[str]:
    out = str(work / "out")
    if command == _STATUS:
        return ["status", "--json", "-", out]
    if command == _COMPARE:
        return ["compare", "--resamples=20", "--systems-a=x", "--systems-b=y", out, out]
    options = ["--fresh"] if command == _FRESH else []
    return _score_arguments(work / "in", Path(out), vectors, *options)


def _score_arguments(corpus: Path, out: Path, vectors: Path, *options: str) -> list[str]:
    return [
        "score", "--local", "--quiet", f"--metrics={METRICS}", f"--encoder=glove:{vectors}",
        f"--out={out}", *options, str(corpus),
    ]  # fmt: skip


def _run(arguments: Sequence[str]) -> tuple[int, str, str]:
    module = importlib.import_module("pipelines.score")
    with patch.object(module, "ROWS_PER_SHARD", 3):
        return run_captured(arguments)


def _checked(result: tuple[int, str, str]) -> None:
    if result[0]:
        raise RuntimeError(f"a sound corpus must be scored, got {result}")


# Changes


def _change_input(rng: np.random.Generator, how: str, work: Path, suffix: str) -> None:
    path = work / "in" / f"{int(rng.integers(N_FILES))}.{suffix}"
    other = work / "in" / f"{int(rng.integers(N_FILES))}.{suffix}"
    about = path.stat()
    if how == "damaged":
        path.write_bytes(damaged(rng, path.read_bytes()))
    elif how == "replaced":  # by other texts of the same lengths, or by the same
        write_rows(path, rows_of(int(path.stem), seed=int(rng.integers(2))))
    elif how == "linked":
        _link(rng, path, other, work)
    elif how == "renamed":
        way = rng.random()
        _exchange(path, other if way < 0.5 else path.with_name(f"new.{suffix}"))
    else:
        rows = rows_of(int(path.stem))
        row = pick(rng, rows)
        row["candidate"] = str(row["candidate"]).replace("a", pick(rng, "aeiou"), 1)
        write_rows(path, rows)
    if path.exists() and rng.random() < 0.5:
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def _change_scores(rng: np.random.Generator, how: str, work: Path, suffix: str) -> None:
    parts = sorted((work / "out" / "scores").iterdir())
    path, other = pick(rng, parts), pick(rng, parts)
    if how == "damaged":
        path.write_bytes(damaged(rng, path.read_bytes()))
    elif how == "replaced":
        path.write_bytes(pick(rng, (other.read_bytes(), rng.bytes(path.stat().st_size), b"")))
    elif how == "linked":
        _link(rng, path, other, work)
    elif how == "renamed":
        _exchange(path, pick(rng, (other, path.with_name("mine.parquet"))))
    else:
        table = pq.read_table(path)
        scores = table["length"].to_pylist()
        scores[int(rng.integers(len(scores)))] = 3.0
        place = table.column_names.index("length")
        pq.write_table(table.set_column(place, "length", pa.array(scores)), path)


def _change_run_files(rng: np.random.Generator, how: str, work: Path, suffix: str) -> None:
    out = work / "out"
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.suffix != ".parquet")
    path, other = pick(rng, files), pick(rng, files)
    if how == "damaged":
        path.write_bytes(damaged(rng, path.read_bytes()))
    elif how == "replaced":
        path.write_bytes(pick(rng, (other.read_bytes(), b"", b"{}", b"[]", rng.bytes(300))))
    elif how == "linked":
        _link(rng, path, other, work)
    elif how == "renamed":
        _exchange(path, pick(rng, (other, path.with_name("mine.json"))))
    elif path.suffix == ".json":
        path.write_text(other_json(rng, path.read_text("utf-8")), encoding="utf-8")
    else:
        path.write_text(f"{path.read_text('utf-8')}scores/mine.parquet\n", encoding="utf-8")


def _link(rng: np.random.Generator, path: Path, other: Path, work: Path) -> None:
    """Put a link in the place of a file, or one more beside it."""
    way = int(rng.integers(5))
    if way == 0:  # the same content elsewhere
        path.rename(work / "elsewhere")
        path.symlink_to(work / "elsewhere")
    elif way == 1 and other != path:
        path.unlink()
        path.symlink_to(other)
    elif way == 2:
        path.with_name(f"zz{path.suffix}").symlink_to(path)
    elif way == 3:
        (path.parent / "zz").symlink_to(path.parent)
    else:
        os.link(path, work / "hard")


def _exchange(path: Path, other: Path) -> None:
    if not other.exists():
        path.rename(other)
    elif other != path:
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)


# What came of it


def _outcome(
    command: str,
    work: Path,
    vectors: Path,
    sound: Sound,
    before: dict[str, bytes],
    result: tuple[int, str, str],
) -> tuple[str, str | None]:
    status, output, errors = result
    if command == _STATUS and status == 1:  # it says in its output what is wrong, or left to do
        errors = ""
        if (status, output) != sound.said[command] and json.loads(output)["state"] == "complete":
            return WRONG, f"a run that is not well is called complete: {output}"
    elif problem := wrong_with_message(status, errors):
        return WRONG, problem
    if command in sound.said:
        if status == 2 or (status == 1 and json.loads(output)["n_failed"]):
            return REFUSED, None
        return _as_before(command, sound, output)
    if status == 2:
        unchanged = contents(work / "out") == before
        return REFUSED, None if unchanged else f"something was changed though it said: {errors}"
    if status == 1:
        return REFUSED, None
    outcome, problem = _as_fresh(work, vectors, before)
    return RIGHT if command == _FRESH and problem is None else outcome, problem


def _as_before(command: str, sound: Sound, output: str) -> tuple[str, str | None]:
    """Hold what a command says against what it said before the change."""
    usual = sound.said[command][1]
    if command == _STATUS:
        found, expected = json.loads(output), json.loads(usual)
        if found["state"] == "complete" and expected["state"] == "complete":
            return RIGHT, None if found == expected else f"got {output}, before {usual}"
        return REPAIRED, None if found["state"] != "complete" else f"complete, before {usual}"
    return RIGHT, None if output == usual else f"got {output}, before {usual}"


def _as_fresh(work: Path, vectors: Path, before: dict[str, bytes]) -> tuple[str, str | None]:
    """Hold the scores against those of a run that knows nothing of this one."""
    fresh = work / "fresh"
    _checked(_run(_score_arguments(work / "in", fresh, vectors)))
    found, expected = _scores(work / "out"), _scores(fresh)
    if not found.equals(expected):
        return WRONG, f"scores {found.to_pylist()}, a fresh run gives {expected.to_pylist()}"
    for name in ("n_rows", "means", "statuses"):
        ours, theirs = (_result(out)[name] for out in (work / "out", fresh))
        if ours != theirs:
            return WRONG, f"`{name}` in run.json is {ours}, a fresh run has {theirs}"
    was, now = (
        {name: data for name, data in found.items() if name.startswith("scores")}
        for found in (before, contents(work / "out"))
    )
    return RIGHT if was == now else REPAIRED, None


def _scores(out: Path) -> pa.Table:
    names = (out / "_SUCCESS").read_text("utf-8").split()
    table = pa.concat_tables([pq.read_table(out / name) for name in names])
    return table.replace_schema_metadata(None)


def _result(out: Path) -> dict[str, object]:
    values = json.loads((out / "run.json").read_bytes())["result"]
    assert isinstance(values, dict)
    return values
