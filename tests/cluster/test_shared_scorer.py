"""Two shards at once on one scorer: a failure spoils no other scores, and the GPU does not wait."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cluster import list_inputs, plan_shards, run_local, worker
from cluster.ahead import gathered
from tests.cluster.conftest import parts_of, rows_of
from tests.cluster.toy_scorer import CountCharacters, WaitsForNextShard

WAIT_S = 60.0
"""Only a test that fails waits so long."""


@pytest.fixture
def plan(write_corpus):
    """Three shards of two batches, whose first rows' ids are their numbers."""
    rows = [row | {"document_id": str(k)} for k, row in enumerate(rows_of(60))]
    return plan_shards(list_inputs([write_corpus(rows)]), rows_per_shard=20)


@pytest.fixture
def gpu_job(job, monkeypatch):
    """A worker with a GPU, one thread, and ten rows a batch."""
    monkeypatch.setattr(worker, "GPU_BATCH_BYTES", 1)
    return replace(job, has_gpu=True, batch_rows=10)


def test_two_shards_at_once_change_no_bit_and_no_row_counts_twice(plan, job, gpu_job, tmp_path):
    outs = []
    for how in (job, gpu_job):
        outs.append(str(tmp_path / str(len(outs))))
        reports = run_local(plan, lambda threads: CountCharacters(), replace(how, out=outs[-1]))
        assert [report.index for report in reports] == [0, 1, 2]
        assert sum(report.counters["rows"] for report in reports) == 60
    assert parts_of(outs[0]) == parts_of(outs[1])


def test_spoilt_scorer_gives_no_scores_to_the_shard_beside(plan, gpu_job, job, tmp_path):
    """After a failure the scorer adds 1000 to everything; no file must have that."""
    expected = replace(job, out=str(tmp_path / "expected"))
    run_local(plan, lambda threads: CountCharacters(), expected)
    how = {"fails_on": rows_of(60)[5]["candidate"], "spoils": True}
    reports = run_local(plan, lambda _: CountCharacters(**how), gpu_job, max_attempts=2)
    assert [report.error is None for report in reports] == [False, True, True]
    assert [report.attempts for report in reports] == [2, 1, 1]
    assert parts_of(gpu_job.out).items() <= parts_of(expected.out).items()


@pytest.mark.parametrize("how", [{}, {"threads": 2, "has_gpu": False}])
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
    reports = run_local(plan[:2], lambda _: next(left), gpu_job, max_attempts=1)
    told = [report.error for report in reports if report.error is not None]
    assert ["cannot prepare" in error for error in told] == [True]


# The GPU does not wait


def test_next_shard_is_encoded_before_this_one_is_compared(make_plan, gpu_job, tmp_path):
    (tmp_path / "prepared").mkdir()
    scorer = WaitsForNextShard(tmp_path / "prepared")
    reports = run_local(make_plan(), lambda threads: scorer, gpu_job)
    assert [(report.error, report.attempts) for report in reports] == [(None, 1)] * 6


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
