"""Text in processes of its own, and two shards at once: the same scores, nothing waits."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cluster import list_inputs, plan_shards, run_local, worker
from cluster.ahead import gathered
from cluster.text_processes import TextProcesses
from tests.cluster.conftest import parts_of, rows_of
from tests.cluster.toy_scorer import CountCharacters, Reader, ReadsApart, WaitsForNextShard

WAIT_S = 60.0
"""Only a test that fails waits so long."""


@pytest.fixture
def plan(write_corpus):
    """Three shards of two batches, whose first rows' ids are their numbers."""
    rows = [row | {"document_id": str(k)} for k, row in enumerate(rows_of(60))]
    return plan_shards(list_inputs([write_corpus(rows)]), rows_per_shard=20)


@pytest.fixture
def gpu_job(job, monkeypatch):
    """A worker with a GPU, two text processes, and ten rows a batch."""
    monkeypatch.setattr(worker, "GPU_BATCH_BYTES", 1)
    return replace(job, has_gpu=True, threads=3, batch_rows=10)


def table_of(*texts):
    return pa.table({"candidate": texts})


def describe(rows: pa.Table) -> dict[str, object]:
    """What a text process of a test does."""
    if rows["candidate"][0].as_py() == "fail":
        raise ValueError("no such text")
    return {
        "process": os.getpid(),
        "numbers": np.arange(rows.num_rows),
        "texts": rows["candidate"].combine_chunks(),
    }


def test_processes_read_rows_and_return_arrays_that_may_be_changed():
    processes = TextProcesses(describe, 2)
    try:
        found, seconds = processes.read(table_of("a", "b", "c").slice(1))
        assert found["texts"].to_pylist() == ["b", "c"]
        assert found["process"] != os.getpid()
        found["numbers"] += 1
        assert found["numbers"].tolist() == [1, 2]
        assert seconds >= 0
        with pytest.raises(RuntimeError, match="ValueError: no such text"):
            processes.read(table_of("fail"))
        assert processes.read(table_of("d"))[0]["texts"].to_pylist() == ["d"]  # it goes on
    finally:
        processes.close()
    assert all(process.returncode is not None for process, _ in processes._all)


def test_text_processes_change_no_bit_and_are_used(plan, job, gpu_job, tmp_path):
    made = []

    def make(threads):
        made.append(ReadsApart())
        return made[-1]

    outs = []
    for how in (job, gpu_job):
        outs.append(replace(how, out=str(tmp_path / str(len(outs)))))
        reports = run_local(plan, make, outs[-1])
        assert [report.index for report in reports] == [0, 1, 2]
        assert sum(report.counters["rows"] for report in reports) == 60  # each counted once
    assert parts_of(outs[0].out) == parts_of(outs[1].out)
    alone, apart = made
    assert {*alone.seen} == {None}
    assert os.getpid() not in apart.seen
    assert 1 <= len({*apart.seen}) <= 2
    assert None not in apart.seen
    assert "text" in reports[0].stage_seconds


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("fails_on", "ValueError: cannot read"),
        ("kills_on", "a process that handles text has ended"),
    ],
)
def test_broken_text_process_fails_its_shard_only(plan, gpu_job, how, error):
    reader = Reader(**{how: rows_of(60)[25]["candidate"]})
    reports = run_local(plan, lambda threads: ReadsApart(reader), gpu_job, max_attempts=2)
    assert [report.error is None for report in reports] == [True, False, True]
    assert error in reports[1].error
    assert [report.attempts for report in reports] == [1, 2, 1]


def test_spoilt_scorer_gives_no_scores_to_the_shard_beside(plan, gpu_job, job, tmp_path):
    """After a failure the scorer adds 1000 to everything; no file must have that."""
    expected = replace(job, out=str(tmp_path / "expected"))
    run_local(plan, lambda threads: CountCharacters(), expected)
    how = {"fails_on": rows_of(60)[5]["candidate"], "spoils": True}
    one_thread = replace(gpu_job, threads=1)
    reports = run_local(plan, lambda _: CountCharacters(**how), one_thread, max_attempts=2)
    assert [report.error is None for report in reports] == [False, True, True]
    assert [report.attempts for report in reports] == [2, 1, 1]
    assert parts_of(gpu_job.out).items() <= parts_of(expected.out).items()


@pytest.mark.parametrize("how", [{"threads": 1}, {"threads": 2, "has_gpu": False}])
def test_failure_is_told_though_the_next_batch_finds_the_scorer_spoiled(plan, gpu_job, how):
    class Fails(CountCharacters):
        def __init__(self):
            super().__init__()
            self.has_failed = threading.Event()

        def prepare(self, rows):
            if self.n_rows:
                assert self.has_failed.wait(WAIT_S)
            return super().prepare(rows)

        def compare(self, prepared):
            self.has_failed.set()
            raise RuntimeError("cannot compare")

    left = iter([Fails() for _ in range(9)])  # without a report a shard would be tried for ever
    reports = run_local(plan, lambda _: next(left), replace(gpu_job, **how), max_attempts=1)
    assert ["cannot compare" in report.error for report in reports] == [True] * 3


def test_failure_is_told_though_an_earlier_batch_waits_for_the_shard_beside(plan, gpu_job):
    """While one shard is compared, and the first batch of the other waits, the second one fails."""

    class Fails(CountCharacters):
        compared, has_begun, has_failed = -1, threading.Event(), threading.Event()

        def prepare(self, rows):
            row = int(rows["document_id"][0].as_py())
            if row % 20:
                assert self.has_begun.wait(WAIT_S)
                if row // 20 != self.compared:
                    time.sleep(0.2)  # until the first batch waits
                    self.has_failed.set()
                    raise RuntimeError("cannot prepare")
            return super().prepare(rows), row // 20

        def compare(self, given):
            prepared, self.compared = given
            self.has_begun.set()
            assert self.has_failed.wait(WAIT_S)
            return super().compare(prepared)

    left = iter([Fails(), CountCharacters()])
    job = replace(gpu_job, threads=1)
    reports = run_local(plan[:2], lambda _: next(left), job, max_attempts=1)
    told = [report.error for report in reports if report.error is not None]
    assert ["cannot prepare" in error for error in told] == [True]


# Nothing waits


def test_next_shard_is_encoded_before_this_one_is_compared(make_plan, gpu_job, tmp_path):
    (tmp_path / "prepared").mkdir()
    scorer = WaitsForNextShard(tmp_path / "prepared")
    reports = run_local(make_plan(), lambda threads: scorer, replace(gpu_job, threads=1))
    assert [(report.error, report.attempts) for report in reports] == [(None, 1)] * 6


class _Texts:
    """Text processes of this process, which say how many batches they have read."""

    n_processes = 2

    def __init__(self):
        self.n_read, self.news = 0, threading.Condition()

    def read(self, rows):
        with self.news:
            self.n_read += 1
            self.news.notify_all()
        return {"process": 0, "texts": rows["candidate"]}, 0.0

    def wait_for(self, n_batches):
        with self.news:
            return self.news.wait_for(lambda: self.n_read >= n_batches, WAIT_S)

    def close(self):
        pass


def test_device_is_busy_for_95_percent_of_the_batches(plan, gpu_job, monkeypatch):
    """By a made-up clock: the device takes for a batch what a text process takes for one.

    It is done with a batch when the text of one more has been read, here or in the next shard, and
    waits if nothing is there for it to begin with.
    """
    texts, waits, n_batches = _Texts(), [], 30
    monkeypatch.setattr("cluster.shared_scorer.TextProcesses", lambda *_: texts)

    class Device(ReadsApart):
        def prepare(self, rows, read=None):
            done = len(self.seen)
            waits.append(done == 0 or texts.n_read <= done)
            assert texts.wait_for(min(done + 2, n_batches)), f"no text for batch {done + 1}"
            return super().prepare(rows, read)

    reports = run_local(plan, lambda threads: Device(), replace(gpu_job, batch_rows=2))
    assert [report.error for report in reports] == [None] * 3
    assert len(waits) == n_batches
    assert sum(not has_waited for has_waited in waits) / n_batches >= 0.95


def test_batches_of_a_gpu_fill_its_blocks():
    """1,024 rows gave 1.6 blocks of tokens, the second mostly empty."""
    from sms.encoders.batches import Batches
    from sms.encoders.bert import BLOCK_TOKENS

    rng = np.random.default_rng(0)
    block, bytes_per_token = BLOCK_TOKENS["cuda"], 5
    words = np.array([f"word{k}" for k in range(2_000)])

    def some_rows():
        texts = [" ".join(words[rng.integers(0, 2_000, 60)]) for _ in range(1_024)]
        return pa.table({"candidate": texts, "references": [[text[9:]] for text in texts]})

    def filled(tables):
        """Return the share of places that are used when a batch fills its blocks one by one."""
        blocks, n_tokens = [], 0
        for table in tables:
            texts = pc.list_flatten(table["references"]).to_pylist()
            lengths = [len(text) for text in table["candidate"].to_pylist() + texts]
            lengths = np.array(lengths) // 3 // bytes_per_token  # three sentences of a text
            Batches(block, is_padded=False).run(np.repeat(lengths, 3), blocks.append)
            n_tokens += int(lengths.sum()) * 3
        return n_tokens / len(blocks) / block

    tables = [some_rows() for _ in range(16)]
    assert filled(tables) < 0.9
    assert filled([*gathered(iter(tables), worker.GPU_BATCH_BYTES)][:-1]) > 0.93
