"""One shard: order, statuses, commit, report."""

import errno
import io
import json
import math
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cluster import (
    Job,
    Shard,
    list_inputs,
    part_path,
    parts,
    plan_shards,
    run_local,
    score_shard,
    worker,
)
from cluster.worker import try_shard
from tests.cluster.conftest import planned, rows_of
from tests.cluster.toy_scorer import CountCharacters, MakeScorer


@pytest.fixture
def shard(write_corpus):
    path = write_corpus(rows_of(30), row_group_size=8)
    return plan_shards(list_inputs([path]), rows_per_shard=20)[1]


@pytest.fixture
def scorer():
    return CountCharacters()


def test_rows_keep_their_order_and_bytes_whatever_the_threads(
    shard, scorer, job, read_scores, tmp_path
):
    written = []
    for how in ({"threads": 1}, {"threads": 2}, {"has_gpu": True}):
        again = replace(job, out=str(tmp_path / f"again{len(written)}"), **how)
        report = score_shard(shard, scorer, again)
        written.append(Path(part_path(again.out, shard.index, job.fingerprint)).read_bytes())
    assert written[0] == written[1] == written[2]
    table = read_scores(again.out)
    expected = rows_of(30)[16:]
    assert table["document_id"].to_pylist() == [row["document_id"] for row in expected]
    assert table["characters"].to_pylist() == [float(len(row["candidate"])) for row in expected]
    named = ["document_id", "system_id", "characters", "half", "status", "input_file", "input_row"]
    assert table.column_names == named
    assert table["input_row"].to_pylist() == list(range(16, 30))
    assert {*table["input_file"].to_pylist()} == {shard.pieces[0].path}
    assert table.schema.metadata[b"signature"] == b"characters|v:1"
    assert (report.n_rows, report.n_status, report.error) == (14, {}, None)


class Counted(CountCharacters):
    """Counts what it has prepared and nobody has taken yet, and the most that there was."""

    def __init__(self, is_of_rows):
        super().__init__()
        self.is_of_rows, self.n_now, self.n_most = is_of_rows, 0, 0
        self.lock = threading.Lock()

    def add(self, n):
        with self.lock:
            self.n_now += n
            self.n_most = max(self.n_most, self.n_now)

    def prepare(self, rows):
        self.add(rows.num_rows if self.is_of_rows else 1)
        return super().prepare(rows)


@pytest.mark.parametrize("how", [{"threads": 2}, {"has_gpu": True}], ids=["cores", "gpu"])
def test_slow_comparison_holds_back_reading_and_encoding(make_plan, job, how):
    """However slow the end of the line is, only so many batches are on it."""

    class Slow(Counted):
        def compare(self, prepared):
            time.sleep(0.02)
            self.add(-1)
            return super().compare(prepared)

    slow = Slow(is_of_rows=False)
    (shard,) = make_plan(80, 80)
    assert score_shard(shard, slow, replace(job, **how)).n_rows == 80
    assert slow.n_most <= 3  # one compared, one waiting, one just prepared


@pytest.mark.parametrize(
    ("how", "n_most"), [({"threads": 2}, 8), ({"has_gpu": True}, 16)], ids=["cores", "gpu"]
)
def test_slow_sink_holds_back_the_next_shard(make_plan, job, monkeypatch, how, n_most):
    """A worker keeps the scores of the shards it has under way at most: one, two with a GPU."""
    counted, write = Counted(is_of_rows=True), parts.write_whole

    def write_slowly(path, payload):
        time.sleep(0.02)
        write(path, payload)
        counted.add(-pq.read_table(pa.BufferReader(payload)).num_rows)

    monkeypatch.setattr(parts, "write_whole", write_slowly)
    run_local(make_plan(8, 80), lambda threads: counted, replace(job, **how))
    assert (counted.n_now, counted.n_most <= n_most) == (0, True)


def test_unreadable_rows_have_null_scores_and_a_status(tmp_path, scorer, job, read_scores):
    """In shards of two files and of one row; what cannot be read is named by its own file."""
    good = '{"document_id": "d", "system_id": "s", "candidate": "four"}\n'
    null = '{"document_id": "e", "system_id": "s", "candidate": null}\n'
    for name, text in (("a", good * 2), ("b", good + "{broken\n" + null)):
        (tmp_path / f"{name}.jsonl").write_text(text)
    (shard,) = planned([str(tmp_path)], job.out)
    report = score_shard(shard, scorer, job)
    assert read_scores(job.out)["characters"].to_pylist() == [4.0, 4.0, 4.0, None, None]
    told = {"no candidate": 1, "unreadable: malformed JSON": 1}
    assert {*filter(None, read_scores(job.out)["status"].to_pylist())} == {*told}
    assert report.n_status == told
    errors = Path(job.out, "errors", "part-000000-0123456789ab.jsonl").read_text()
    place = {"path": str(tmp_path / "b.jsonl"), "row": 1}
    ids = {"document_id": None, "system_id": None}
    assert [json.loads(line) for line in errors.splitlines()] == [
        {**place, **ids, "reason": "malformed JSON"}
    ]
    alone = planned([str(tmp_path / "b.jsonl")], job.out, rows_per_shard=1)[1]
    assert score_shard(alone, scorer, job).n_rows == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "model name\t: Made\nflags\t: fpu avx2 avx512f avx512_bf16 amx_bf16 amx_tile\n"
            "model name\t: Other\nflags\t: fpu\n",
            "Made (avx2, avx512f, avx512_bf16, amx_bf16)",
        ),
        ("processor\t: 0\nFeatures\t: fp asimd\n", "here"),
    ],
)
def test_processor_is_named_with_its_units(text, expected, monkeypatch):
    monkeypatch.setattr(worker, "open", lambda *_, **__: io.StringIO(text), raising=False)
    monkeypatch.setattr(worker.platform, "processor", lambda: "here")
    assert worker.processor_kind.__wrapped__() == expected


def test_score_that_is_not_a_number_is_null_with_a_status(shard, scorer, job, read_scores):
    class Undefined(CountCharacters):
        def compare(self, prepared):
            table = super().compare(prepared)
            nan = pc.if_else(pc.greater(table["half"], 12.0), math.nan, table["half"])
            return table.set_column(1, "half", nan)

    report = score_shard(shard, Undefined(), job)
    table = read_scores(job.out)
    n_nan = table["half"].null_count
    assert 0 < n_nan < table.num_rows
    assert report.n_status == {"`half` is not a number": n_nan}


def test_missing_columns_are_put_beside_those_of_an_earlier_run(shard, scorer, job, read_scores):
    class Half(CountCharacters):
        score_fields = ("half",)

    class Characters(CountCharacters):
        score_fields = ("characters",)

    score_shard(shard, scorer, job)
    expected = read_scores(job.out)
    Path(part_path(job.out, shard.index, job.fingerprint)).unlink()
    score_shard(shard, Half(), replace(job, fingerprint="0" * 12))
    fields = ("characters", "half")
    base = {shard.index: part_path(job.out, shard.index, "0" * 12)}
    score_shard(shard, Characters(), replace(job, base=base, fields=fields))
    Path(part_path(job.out, shard.index, "0" * 12)).unlink()
    assert read_scores(job.out).equals(expected, check_metadata=True)


def test_scorer_that_loses_rows_is_refused(shard, scorer, job):
    class Loses(CountCharacters):
        def compare(self, prepared):
            return super().compare(prepared).slice(1)

    with pytest.raises(RuntimeError, match=r"the scorer must return 4 rows of .*; got 3 rows"):
        score_shard(shard, Loses(), job)
    assert not Path(job.out).exists()


@pytest.fixture
def nine(make_plan):
    """The only shard of nine rows."""
    (shard,) = make_plan(9, 9)
    return shard


def test_input_that_lost_rows_is_refused(nine, write_corpus, scorer, job):
    path = write_corpus(rows_of(8))
    unchecked = Shard.from_json(nine.to_json({path: 0}), [path])
    with pytest.raises(ValueError, match=r"must have 9 rows .* got 8; the file has changed"):
        score_shard(unchecked, scorer, job)


def test_input_that_changed_or_vanished_is_refused(nine, write_corpus, scorer, job):
    path = Path(write_corpus(rows_of(9)[::-1]))
    with pytest.raises(ValueError, match="has changed since the run began; run the same"):
        score_shard(nine, scorer, job)
    path.unlink()
    with pytest.raises(ValueError, match="has vanished since the run began; put it back"):
        score_shard(nine, scorer, job)
    assert not Path(job.out).exists()


def test_input_that_changes_while_it_is_read_is_not_committed(nine, write_corpus, job):
    make = MakeScorer(lambda _rows: write_corpus(rows_of(9)[::-1]))
    report = try_shard(nine, make(1), job)
    assert "has changed since the run began" in report.error
    assert not Path(job.out).exists()


def test_no_room_is_reported_as_such(nine, scorer, job, monkeypatch):
    def is_full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cluster.store.os.fsync", is_full)
    report = try_shard(nine, scorer, job)
    assert report.is_out_of_room
    assert report.error.startswith(f"StorageFull: no space is left for {job.out}/scores/part-")
    assert not [path for path in Path(job.out).rglob("*") if path.is_file()]


@pytest.mark.parametrize("wrong", [{"batch_rows": 0}, {"threads": 0}, {"fingerprint": "a/b"}])
def test_wrong_job_rejected(wrong):
    with pytest.raises(ValueError, match="must be"):
        Job(**{"out": "out", "fingerprint": "f", **wrong})
