"""Runs one made-up input through the command line and says what is wrong with what came of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzzing import folder_cases, model_cases, parquet_cases, table_cases, text_cases
from tests.fuzzing.cases import SOUND, Case, score_arguments, sound_row
from tests.rare import run

MAKERS = {
    parquet_cases.parquet_case: 32,
    text_cases.jsonl_case: 20,
    text_cases.csv_case: 16,
    folder_cases.path_case: 8,
    folder_cases.folder_case: 4,
    folder_cases.rerun_case: 4,
    folder_cases.settings_case: 3,
    model_cases.vectors_case: 4,
    model_cases.model_case: 2,
    table_cases.numbers_case: 3,
    table_cases.judgements_case: 1,
    table_cases.pairs_case: 2,
    table_cases.explain_case: 1,
}
"""How many of a hundred inputs are of each kind."""
MAX_MESSAGE = 3_000
"""Characters of a message; it is to be read by people."""

_NOTICES = ("each file is read once: ", "skipped, because its name is not UTF-8: ")
"""How lines begin that may come before the one that says why a command ended."""
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
_IDS = frozenset({"document_id", "system_id", "status", "input_file", "input_row"})


def make(seed: int, folder: Path, vectors: Path) -> Case:
    """Make the input of a seed; the folder must be empty."""
    rng = np.random.default_rng(seed)
    shares = np.array(list(MAKERS.values()), dtype=float)
    maker = list(MAKERS)[int(rng.choice(len(MAKERS), p=shares / shares.sum()))]
    return maker(rng, folder, vectors)


def judge(seed: int, vectors: Path, folder: Path | None = None) -> tuple[int, str | None]:
    """Run the input of a seed; return the exit status and what is wrong, None if nothing is.

    With a folder, the input stays there and the command is printed.
    """
    with contextlib.ExitStack() as stack:
        is_shown = folder is not None
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-fuzz-")))
        case = make(seed, folder, vectors)
        if is_shown:
            sys.stdout.write(f"assay {' '.join(map(ascii, case.arguments))}\n")
        if case.before is not None:
            status, text = _run(case.arguments)
            if status < 0 or not (folder / "out").exists():
                return status, _wrong_with(
                    case, status, text, vectors
                ) or f"nothing to spoil: {text}"
            case.before()
        status, text = _run(case.arguments)
        return status, _wrong_with(case, status, text, vectors)


def _run(arguments) -> tuple[int, str]:
    status, _, errors = run_captured(arguments)
    return status, errors


def run_captured(arguments) -> tuple[int, str, str]:
    """Run a command line; return its status and what it printed on both outputs.

    An exception that it lets out is status -1, with its traceback.
    """
    errors = io.StringIO()
    encoded = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as strict as a terminal
    with contextlib.redirect_stdout(encoded), contextlib.redirect_stderr(errors):
        try:
            status = run(list(arguments))
            encoded.flush()
        except BaseException:  # noqa: BLE001  (a panic of a library is no Exception)
            return -1, "", traceback.format_exc()
    output = encoded.buffer.getvalue().decode()
    if wrong := _unprintable(output):
        return -2, output, f"standard output has {wrong}"
    return status, output, errors.getvalue()


def _unprintable(text: str) -> str | None:
    """Name the characters by which a hostile text could steer a terminal."""
    found = {
        char
        for char in text
        if (unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in "\n\t")
        or unicodedata.bidirectional(char) in _TURNING
    }
    return ascii("".join(sorted(found))) if found else None


def wrong_with_message(status: int, text: str) -> str | None:
    """Say what is wrong with a status and what came on standard error, None if nothing is."""
    if status < 0:
        return text
    if status not in (0, 1, 2):
        return f"exit status {status}: {text}"
    lines = [line for line in text.splitlines() if not line.startswith(_NOTICES)]
    if status and (len(lines) != 1 or not lines[0].startswith("assay: ")):
        return f"exit status {status} must come with one line, got {text!r}"
    if "Traceback" in text or len(text) > MAX_MESSAGE:
        return f"the message is {len(text)} characters long: {text[:500]!r} ... {text[-300:]!r}"
    if wrong := _unprintable(text):
        return f"the message has {wrong}: {text[:500]!r}"
    return None


def _wrong_with(case: Case, status: int, text: str, vectors: Path) -> str | None:
    if wrong := wrong_with_message(status, text):
        return wrong
    if case.out is None or status == 2 or not case.is_out_certain:
        return None
    return _wrong_with_rows(case, status, vectors)


def _wrong_with_rows(case: Case, status: int, vectors: Path) -> str | None:
    """Hold the rows that were written against those that were there."""
    out = case.out
    assert out is not None
    manifest = json.loads((out / "run.json").read_bytes().decode("utf-8", "surrogateescape"))
    mark = manifest["fingerprint"][:12]
    parts = sorted((out / "scores").glob(f"part-*-{mark}.parquet"))
    try:
        written = pa.concat_tables([pq.read_table(part) for part in parts]) if parts else None
    except (pa.ArrowException, OSError):
        if case.before is None:
            raise
        return None  # what was damaged after its commit is found by whoever reads it
    n_written = 0 if written is None else written.num_rows
    n_planned = sum(shard["n_rows"] for shard in manifest["shards"])
    failed = {shard["index"] for shard in manifest["result"]["shards"] if shard["error"]}
    n_failed = sum(shard["n_rows"] for shard in manifest["shards"] if shard["index"] in failed)
    if n_written + n_failed != n_planned:
        return f"{n_planned} rows planned, {n_written} written, {n_failed} in failed shards"
    if case.n_rows is not None and n_planned != case.n_rows:
        return f"{case.n_rows} rows in the corpus, {n_planned} planned"
    if bool(failed) != (status == 1):
        return f"exit status {status} with {len(failed)} failed shards"
    if (out / "_SUCCESS").exists() == bool(failed):
        return f"_SUCCESS is wrong: {len(failed)} shards failed"
    if written is None:
        return None
    return _wrong_with_statuses(written, out, mark) or _wrong_with_sound(case, written, vectors)


def _wrong_with_statuses(written: pa.Table, out: Path, mark: str) -> str | None:
    metrics = [name for name in written.column_names if name not in _IDS]
    n_unreadable = 0
    for row in written.to_pylist():
        n_unreadable += (row["status"] or "").startswith("unreadable")
        if row["status"] is None and any(row[name] is None for name in metrics):
            return f"a score is null without a status: {row}"
        if any(row[name] is not None and not np.isfinite(row[name]) for name in metrics):
            return f"a score is not a number: {row}"
    names = (out / "errors").glob(f"part-*-{mark}.jsonl") if (out / "errors").is_dir() else ()
    n_listed = sum(path.read_bytes().count(b"\n") for path in names)
    if n_listed != n_unreadable:
        return f"{n_unreadable} rows are unreadable, errors/ lists {n_listed}"
    return None


def _wrong_with_sound(case: Case, written: pa.Table, vectors: Path) -> str | None:
    """A sound row has its usual scores, whatever stands around it."""
    expected = usual_scores(vectors)
    rows = {row["document_id"]: row for row in written.to_pylist()}
    for document, of in (*case.sound, *case.sound_if_any):
        row = rows.get(document)
        if row is None:
            if (document, of) in case.sound:
                return f"the sound row {document} is missing"
            continue
        usual = {name: expected[of][name] for name in row if name in expected[of]}
        found = {name: row[name] for name in usual}
        if "sms" in usual and found != usual:
            return f"{document} must score {usual}, got {found}"
    n_each = Counter(written["document_id"].to_pylist())
    doubled = [document for document, _ in case.sound if n_each[document] > 1]
    return f"rows are doubled: {doubled}" if doubled else None


@cache
def usual_scores(vectors: Path) -> list[dict[str, object]]:
    """Score each sound row by itself."""
    usual = []
    for of in range(len(SOUND)):
        with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as name:
            folder = Path(name)
            (folder / "one.jsonl").write_text(f"{json.dumps(sound_row(0, of))}\n", encoding="utf-8")
            status, text = _run(
                score_arguments([str(folder / "one.jsonl")], folder / "out", vectors)
            )
            if status:
                raise RuntimeError(f"a sound row must be scored, got {text}")
            part = next((folder / "out" / "scores").glob("part-*.parquet"))
            row = pq.read_table(part).drop_columns(list(_IDS)).to_pylist()[0]
            usual.append(row)
    return usual


def keep_native_output(path: Path) -> int:
    """Send what libraries write to the file descriptors into a file; return the real output."""
    real = os.dup(1)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout.flush()
    return real
