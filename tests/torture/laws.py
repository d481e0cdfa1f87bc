"""What holds for every command, however hostile its input: the laws that the tests here check."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cli.app import run
from tests.torture.cases import Case
from tests.torture.sound import SOUND, encoded, score, sound_row

MAX_MESSAGE = 3_000
"""Characters of a message; it is to be read by people."""
_NOTICES = ("each file is read once: ", "skipped, because its name is not UTF-8: ")
"""How lines begin that may come before the one that says why a command ended."""
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
_IDS = frozenset({"document_id", "system_id", "status", "input_file", "input_row"})


def run_captured(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run a command; return its status and what it printed on both outputs."""
    errors = io.StringIO()
    encoded_output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as strict as a terminal
    with contextlib.redirect_stdout(encoded_output), contextlib.redirect_stderr(errors):
        status = run(list(arguments))
        encoded_output.flush()
    return status, encoded_output.buffer.getvalue().decode(), errors.getvalue()


def check_said(status: int, output: str, errors: str) -> None:
    """A command ends with status 0, or with 1 or 2 and one line; nothing steers the terminal."""
    assert status in (0, 1, 2), f"exit status {status}: {errors}"
    lines = [line for line in errors.splitlines() if not line.startswith(_NOTICES)]
    if status:
        assert len(lines) == 1, errors
        assert lines[0].startswith("assay: "), errors
    assert "Traceback" not in errors
    assert len(errors) <= MAX_MESSAGE, errors
    steering = {
        char
        for char in set(output + errors) - {"\n", "\t"}
        if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(char) in _TURNING
    }
    assert not steering, ascii(output + errors)


def check_rows(case: Case, status: int, vectors: Path) -> None:
    """No row is lost, doubled or null without a reason, and sound rows score as they do alone."""
    out = case.out
    assert out is not None
    run_json = (out / "run.json").read_bytes().decode("utf-8", "surrogateescape")
    manifest = json.loads(run_json)
    mark = manifest["fingerprint"][:12]
    parts = sorted((out / "scores").glob(f"part-*-{mark}.parquet"))
    try:
        written = pa.concat_tables([pq.read_table(part) for part in parts]) if parts else None
    except (pa.ArrowException, OSError):
        if case.before is None:
            raise
        return  # what was damaged after its commit is found by whoever reads it
    failed = {shard["index"] for shard in manifest["result"]["shards"] if shard["error"]}
    n_failed = sum(shard["n_rows"] for shard in manifest["shards"] if shard["index"] in failed)
    n_planned = sum(shard["n_rows"] for shard in manifest["shards"])
    assert (written.num_rows if written else 0) + n_failed == n_planned
    assert case.n_rows in (None, n_planned)
    assert bool(failed) == (status == 1) == (not (out / "_SUCCESS").exists())
    if written is not None:
        _check_statuses(written, out, mark)
        _check_sound(case, written, vectors)


def _check_statuses(written: pa.Table, out: Path, mark: str) -> None:
    metrics = [name for name in written.column_names if name not in _IDS]
    n_unreadable = 0
    for row in written.to_pylist():
        scores = [row[name] for name in metrics]
        n_unreadable += (row["status"] or "").startswith("unreadable")
        assert row["status"] is not None or None not in scores, f"null without a status: {row}"
        assert all(value is None or np.isfinite(value) for value in scores), row
    listed = list((out / "errors").glob(f"part-*-{mark}.jsonl"))
    assert sum(path.read_bytes().count(b"\n") for path in listed) == n_unreadable


def _check_sound(case: Case, written: pa.Table, vectors: Path) -> None:
    expected = usual_scores(vectors)
    n_each = Counter(written["document_id"].to_pylist())
    if case.n_rows is not None:
        assert {n_each[document] for document in case.sound} <= {1}
    for row in written.to_pylist():
        if row["document_id"] in case.sound:
            usual = expected[int(row["document_id"].removeprefix("sound-")) % len(SOUND)]
            assert {name: row[name] for name in usual} == usual


@cache
def usual_scores(vectors: Path) -> list[dict[str, object]]:
    """Score each sound row by itself."""
    usual = []
    for number in range(len(SOUND)):
        with tempfile.TemporaryDirectory() as name:
            corpus, out = Path(name, "one.jsonl"), Path(name, "out")
            corpus.write_bytes(encoded([sound_row(number)], "jsonl"))
            assert run_captured(score(corpus, encoder=f"glove:{vectors}", out=out))[0] == 0
            (part,) = (out / "scores").glob("part-*.parquet")
            (row,) = pq.read_table(part).drop_columns(list(_IDS)).to_pylist()
            usual.append(row)
    return usual
