"""A run whose inputs, scores files or run files were changed behind its back, and what comes of it.

Every change must be refused in a line, repaired (the rows are scored again), or be none: then the
scores are those of a fresh run, and what other commands print is what they printed before. What
somebody edits in the files of a run counts as it is then.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import part_path
from cluster.live import LiveRun
from cluster.manifest import read_manifest, write_manifest
from cluster.progress import SCORING, Progress
from tests.torture.hostile import damaged
from tests.torture.laws import check_said, run_captured
from tests.torture.sound import WORDS, command, encoded, score

WHAT = ("input", "scores", "run files")
HOW = ("damaged", "replaced", "linked", "renamed")
CHANGES = [*product(WHAT, HOW), ("input", "edited")]
READ = ["document_id", "system_id", "wms", "rouge1_f", "length", "status"]
"""Columns of the scores that a run reads again, and checks."""
N_FILES, N_ROWS = 2, 6

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need POSIX")


@pytest.mark.slow
def test_changes_are_refused_repaired_or_harmless(vectors):
    outcomes = {
        outcome_of(f"{what}, {how}, {number}", what, how, vectors)
        for what, how in CHANGES
        for number in range(2)
    }
    assert outcomes == {"refused", "repaired", "right"}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "how"), CHANGES)
def test_ten_thousand_changes(what, how, vectors):
    for number in range(2, 667):
        outcome_of(f"{what}, {how}, {number}", what, how, vectors)


def outcome_of(seed: str, what: str, how: str, vectors: Path) -> str:
    """Change a run, run a command on it, and say what came of it."""
    rng = Random(seed)
    suffix = rng.choice(["parquet", "jsonl", "csv"])
    work = vectors.parent / "changes" / "work"
    sound, said = sound_run(vectors, suffix, is_finished=rng.random() < 0.7)
    copy(sound, work)
    change(rng, what, how, work)
    commands = ["score", "score", "fresh"] if what == "input" else ["score", "status", "compare"]
    asked = rng.choice(commands)
    before = contents(work / "out")
    status, output, errors = run_command(asked, work, vectors)
    try:
        if asked == "status":
            return outcome_of_status(status, output, errors, said["status"])
        check_said(status, output, errors)
        if asked == "compare":
            assert status or output == said["compare"][1]
            return "refused" if status else "right"
        if status == 2 and what != "scores":  # whose pages are read when the rest is scored
            assert contents(work / "out") == before, (
                f"something was changed though it said: {errors}"
            )
        return "refused" if status else outcome_of_scoring(work, vectors, before)
    except AssertionError as error:
        error.add_note(f"{seed}: {suffix}, `assay {asked}`, in {work}")
        raise


def outcome_of_status(status: int, output: str, errors: str, before: tuple[int, str]) -> str:
    """A run that is not well is never called complete."""
    if status != 1:  # then it says in its output what is left to do
        check_said(status, output, errors)
    if status == 2:
        return "refused"
    found = json.loads(output)
    if found["state"] == "complete":
        assert (status, output) == before
        return "right"
    return "refused" if found["n_failed"] else "repaired"


def outcome_of_scoring(work: Path, vectors: Path, before: dict[str, bytes]) -> str:
    """Hold the scores against those of a run that knows nothing of this one."""
    fresh = work / "anew"
    assert run_command("score", work, vectors, out=fresh)[0] == 0
    assert scores(work / "out").equals(scores(fresh))
    results = [
        json.loads((out / "run.json").read_bytes())["result"] for out in (work / "out", fresh)
    ]
    for name in ("n_rows", "means", "statuses"):
        assert results[0][name] == results[1][name], name
    now = contents(work / "out")
    names = {name for name in before.keys() | now.keys() if name.startswith("scores")}
    is_same = all(before.get(name) == now.get(name) for name in names)
    return "right" if is_same else "repaired"


# The run before the change


@cache
def sound_run(
    vectors: Path, suffix: str, *, is_finished: bool
) -> tuple[Path, dict[str, tuple[int, str]]]:
    """Score a small corpus; keep it as a finished run, or as one whose driver was killed.

    Returns its folder, and the exit status and output of the commands that look at it.
    """
    work = vectors.parent / "changes" / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    for number in range(N_FILES):
        (work / "in" / f"{number}.{suffix}").write_bytes(encoded(rows_of(number), suffix))
    status, _, errors = run_command("score", work, vectors)
    assert status == 0, errors
    if not is_finished:
        leave_as_killed(work / "out")
    kept = work.with_name(f"{suffix}-{is_finished}")
    copy(work, kept)
    return kept, {name: run_command(name, work, vectors)[:2] for name in ("status", "compare")}


def rows_of(number: int, seed: int = 0) -> list[dict[str, object]]:
    """Make the rows of a file; another seed gives other texts of the same lengths."""
    rng = Random(f"{number} {seed}")
    words = [word for word in WORDS if len(word) == 3]

    def text(n_words: int) -> str:
        return " ".join(rng.choice(words) for _ in range(n_words)) + "."

    return [
        {
            "document_id": f"d{number}-{i // 2}",
            "system_id": "xy"[i % 2],
            "candidate": text(4 + i),
            "references": [text(5), text(6)],
        }
        for i in range(N_ROWS)
    ]


def leave_as_killed(out: Path) -> None:
    """Leave what a driver leaves that was killed after most of its shards."""
    manifest = read_manifest(str(out))
    assert manifest is not None
    write_manifest(str(out), replace(manifest, result={}))
    Path(part_path(str(out), 3, manifest.fingerprint)).unlink()
    LiveRun(str(out)).begin(manifest.fingerprint, Progress(stage=SCORING, n_rows=12, n_done=9))
    (out / "_SUCCESS").unlink()


def run_command(
    name: str, work: Path, vectors: Path, *, out: Path | None = None
) -> tuple[int, str, str]:
    out = out or work / "out"
    arguments: Sequence[str]
    if name == "status":
        arguments = ["status", "--json", "-", str(out)]
    elif name == "compare":
        arguments = command("compare", out, out, resamples=20, systems_a="x", systems_b="y")
    else:
        arguments = score(
            work / "in", metrics="wms,rouge1_f,length", out=out, encoder=f"glove:{vectors}"
        )
        arguments[1:1] = ["--fresh"] if name == "fresh" else []
    with patch("pipelines.score.ROWS_PER_SHARD", 3):
        return run_captured(arguments)


def contents(out: Path) -> dict[str, bytes]:
    """Read all files of a run but the copies of its inputs, which a refused run may have made."""
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    return {name: (out / name).read_bytes() for name in names if not name.startswith("inputs/")}


def scores(out: Path) -> pa.Table:
    names = (out / "_SUCCESS").read_text("utf-8").split()
    table = pa.concat_tables([pq.read_table(out / name, columns=READ) for name in names])
    return table.replace_schema_metadata(None)


def copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


# Changes


def change(rng: Random, what: str, how: str, work: Path) -> None:
    """Change a file of the corpus, of the scores, or of those in which a run says how it stands."""
    files = sorted(path for path in (work / "out").rglob("*") if path.is_file())
    files = {
        "input": sorted((work / "in").iterdir()),
        "scores": [path for path in files if path.suffix == ".parquet"],
        "run files": [path for path in files if path.suffix != ".parquet"],
    }[what]
    path, other = rng.choice(files), rng.choice(files)
    about = path.stat()
    if how == "damaged" and what == "run files":  # a write that broke off
        path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])
    elif how == "damaged":
        path.write_bytes(damaged(rng, path.read_bytes()))
    elif (
        how == "replaced" and what == "input"
    ):  # by other texts of the same lengths, or by the same
        rows = rows_of(int(path.stem), seed=rng.randrange(2))
        path.write_bytes(encoded(rows, path.suffix[1:]))
    elif how == "replaced":
        noise = rng.randbytes(path.stat().st_size)
        path.write_bytes(rng.choice([other.read_bytes(), noise, b"", b"{}", b"[]"]))
    elif how == "linked":
        link(rng, path, other, work)
    elif how == "renamed":
        exchange(path, rng.choice([other, path.with_name(f"mine{path.suffix}")]))
    else:
        edit(rng, path)
    if what == "input" and path.exists() and rng.random() < 0.5:
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def edit(rng: Random, path: Path) -> None:
    """Change one letter in a file of the corpus, which stays whole."""
    rows = rows_of(int(path.stem))
    row = rng.choice(rows)
    row["candidate"] = str(row["candidate"]).replace("a", rng.choice("aeiou"), 1)
    path.write_bytes(encoded(rows, path.suffix[1:]))


def link(rng: Random, path: Path, other: Path, work: Path) -> None:
    """Put a link in the place of a file, or one more beside it."""
    way = rng.randrange(5)
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


def exchange(path: Path, other: Path) -> None:
    if not other.exists():
        path.rename(other)
    elif other != path:
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)
