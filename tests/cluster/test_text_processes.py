"""Text in processes of its own, and two shards at once: the same scores, nothing waits."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cluster import list_inputs, plan_shards, run_local, worker
from cluster.ahead import gathered
from cluster.shared_scorer import SharedScorer, Spoiled
from cluster.text_processes import TextProcesses
from tests.cluster.toy_scorer import CountCharacters, Reader, ReadsApart

WAIT_S = 60.0
"""Only a test that fails waits so long."""


@pytest.fixture
def plan(write_corpus, make_rows):
    return plan_shards(list_inputs([write_corpus(make_rows(60))]), rows_per_shard=20)


@pytest.fixture
def gpu_job(job, monkeypatch):
    """A worker with a GPU, two text processes, and ten rows a batch."""
    monkeypatch.setattr(worker, "GPU_BATCH_BYTES", 1)
    return replace(job, has_gpu=True, threads=3, batch_rows=10)


def files_of(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(out, "scores").iterdir()}


def rows_of(*texts: str) -> pa.Table:
    return pa.table({"candidate": texts})


def describe(rows: pa.Table) -> dict[str, object]:
    """What a text process of a test does."""
    if rows["candidate"][0].as_py() == "fail":
        raise ValueError("no such text")
    return {
        "process": os.getpid(),
        "has_torch": "torch" in __import__("sys").modules,
        "numbers": np.arange(rows.num_rows),
        "texts": rows["candidate"].combine_chunks(),
    }


def test_processes_read_rows_and_return_arrays_that_may_be_changed():
    processes = TextProcesses(describe, 2)
    try:
        found, seconds = processes.read(rows_of("a", "b", "c").slice(1))
        assert found["texts"].to_pylist() == ["b", "c"]
        assert found["process"] != os.getpid()
        found["numbers"] += 1
        assert found["numbers"].tolist() == [1, 2]
        assert seconds >= 0
        with pytest.raises(RuntimeError, match="ValueError: no such text"):
            processes.read(rows_of("fail"))
        assert processes.read(rows_of("d"))[0]["texts"].to_pylist() == ["d"]  # it goes on
    finally:
        processes.close()
    assert all(process.returncode is not None for _, process in processes._all)


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
    assert files_of(outs[0].out) == files_of(outs[1].out)
    alone, apart = made
    assert {*alone.seen} == {None}
    assert os.getpid() not in apart.seen
    assert 1 <= len({*apart.seen}) <= 2
    assert None not in apart.seen
    assert "text" in reports[0].stage_seconds


def test_no_process_is_started_without_a_gpu_or_with_one_core(plan, job, monkeypatch):
    def refuse(*_):
        raise AssertionError("a process was started")

    monkeypatch.setattr("cluster.text_processes._started", refuse)
    for how in ({"threads": 1}, {"threads": 2}, {"threads": 1, "has_gpu": True}):
        run_local(plan, lambda threads: ReadsApart(), replace(job, **how))


def test_failing_text_process_fails_its_shard_only(plan, gpu_job, make_rows):
    bad = make_rows(60)[25]["candidate"]
    reports = run_local(
        plan, lambda threads: ReadsApart(Reader(fails_on=bad)), gpu_job, max_attempts=2
    )
    assert [report.error is None for report in reports] == [True, False, True]
    assert "ValueError: cannot read" in reports[1].error
    assert [report.attempts for report in reports] == [1, 2, 1]


def test_killed_text_process_fails_its_shard_only(plan, gpu_job, make_rows):
    bad = make_rows(60)[25]["candidate"]
    reports = run_local(
        plan, lambda threads: ReadsApart(Reader(kills_on=bad)), gpu_job, max_attempts=2
    )
    assert [report.error is None for report in reports] == [True, False, True]
    assert "a process that handles text has ended" in reports[1].error


def test_spoilt_scorer_gives_no_scores_to_the_shard_beside(plan, gpu_job, job, tmp_path, make_rows):
    """After a failure the scorer adds 1000 to everything; no file must have that."""
    bad = make_rows(60)[5]["candidate"]
    expected = replace(job, out=str(tmp_path / "expected"))
    run_local(plan, lambda threads: CountCharacters(), expected)
    reports = run_local(
        plan,
        lambda threads: CountCharacters(fails_on=bad, spoils=True),
        replace(gpu_job, threads=1),
        max_attempts=2,
    )
    assert [report.error is None for report in reports] == [False, True, True]
    assert [report.attempts for report in reports] == [2, 1, 1]
    fine = files_of(expected.out)
    for name, written in files_of(gpu_job.out).items():
        assert fine[name] == written


def test_everybody_stops_at_the_next_turn_once_a_batch_has_failed():
    shared = SharedScorer(CountCharacters(fails_on="bad"), 0)
    shared.prepare(rows_of("good"))
    with pytest.raises(RuntimeError, match="cannot score bad"):
        shared.prepare(rows_of("bad"))
    with pytest.raises(Spoiled):
        shared.prepare(rows_of("good"))


# Nothing waits


class Traced(CountCharacters):
    """Writes down what begins and ends, and may hold what it does until something has happened."""

    def __init__(self, until=lambda trace, what: True):
        super().__init__()
        self.trace, self._until, self._news = [], until, threading.Condition()

    def _say(self, *what):
        with self._news:
            self.trace.append(what)
            self._news.notify_all()
            assert self._news.wait_for(lambda: self._until(self.trace, what), WAIT_S), self.trace

    def prepare(self, rows):
        number = int(rows["document_id"][0].as_py())
        self._say("encode", number)
        prepared = super().prepare(rows)
        self._say("encoded", number)
        return prepared, number

    def compare(self, given):
        prepared, number = given
        self._say("compare", number)
        return super().compare(prepared)


@pytest.fixture
def numbered(write_corpus, make_rows):
    """Three shards of two batches, whose first rows' ids are their numbers."""
    rows = [row | {"document_id": str(k)} for k, row in enumerate(make_rows(60))]
    return plan_shards(list_inputs([write_corpus(rows)]), rows_per_shard=20)


def test_next_shard_is_encoded_before_this_one_is_compared(numbered, gpu_job):
    """The last batch of a shard is held until the first one of the next has been encoded."""

    def until(trace, what):
        return what != ("compare", 10) or ("encoded", 20) in trace

    scorer = Traced(until)
    run_local(numbered, lambda threads: scorer, replace(gpu_job, threads=1))
    assert {what for what in scorer.trace if what[0] == "compare"} == {
        ("compare", first) for first in range(0, 60, 10)
    }


def test_next_shard_is_encoded_while_this_one_is_written(numbered, gpu_job, monkeypatch):
    scorer = Traced()
    write = worker.write_scores

    def held(*given):
        with scorer._news:
            last = numbered[-1].index == given[2].index
            fine = last or scorer._news.wait_for(
                lambda: ("encoded", 20 * given[2].index + 20) in scorer.trace, WAIT_S
            )
        assert fine
        return write(*given)

    monkeypatch.setattr(worker, "write_scores", held)
    run_local(numbered, lambda threads: scorer, replace(gpu_job, threads=1))


def test_rows_are_gathered_until_they_are_enough():
    tables = [rows_of(f"{k:010}", f"{k:010}") for k in range(10)]
    assert [t.num_rows for t in gathered(iter(tables), 30)] == [6, 6, 6, 2]  # a text counts once
    lists = pa.table({"candidate": ["a"], "references": [["bb", "bb", None]], "sources": [None]})
    lists = lists.set_column(2, "sources", pa.array([["cccc"]], pa.list_(pa.string())))
    assert len([*gathered(iter([lists] * 4), 14)]) == 2  # 7 bytes each
    assert [*gathered(iter([]), 5)] == []
