"""The same shards on Ray: same bytes, and nothing lost when workers die."""

import os
from dataclasses import replace

import pytest

from cluster import RayOptions, committed, run_local, run_ray, runners
from cluster.children import ProcessLost
from cluster.runners import describe_on_ray
from tests.cluster.conftest import POISON, parts_of
from tests.cluster.toy_scorer import CannotBeMade, MakeScorer, WaitsForNextShard

pytestmark = pytest.mark.ray
TRIED_TWICE = [(None, n) for n in (1, 1, 2, 1, 1, 1)]


@pytest.mark.slow
def test_same_bytes_as_in_one_process(plan, job, run_on_ray, tmp_path):
    alone = replace(job, out=str(tmp_path / "alone"))
    expected = run_local(plan, MakeScorer(), alone)
    seen = []
    run_on_ray(plan, MakeScorer(), job, seen.append, workers=2)
    assert parts_of(job.out) == parts_of(alone.out)
    without_times = {"seconds": 0.0, "cpu_seconds": 0.0, "stage_seconds": {}}
    seen.sort(key=lambda report: report.index)
    assert [replace(report, **without_times) for report in seen] == [
        replace(report, **without_times) for report in expected
    ]


GPU = {"workers": 1, "cpus_per_worker": 1, "gpus_per_worker": 1}


@pytest.mark.slow
def test_worker_with_a_gpu_prepares_a_shard_before_the_last_one_is_compared(
    plan, job, run_on_ray, tmp_path, check_scores
):
    folder = tmp_path / "prepared"
    folder.mkdir()
    reports = run_on_ray(plan, lambda _: WaitsForNextShard(folder), job, **GPU)
    assert [(report.error, report.attempts) for report in reports] == [(None, 1)] * 6
    check_scores()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fails_on", "kills_on"])
def test_fault_beside_another_shard_of_a_gpu_loses_and_doubles_nothing(
    plan, job, run_on_ray, tmp_path, check_scores, fault
):
    how = {fault: POISON, "spoils": True}
    reports = run_on_ray(plan, MakeScorer(**how), job, **GPU, max_attempts=2)
    wrong = [report for report in reports if report.error is not None]
    assert [report.index for report in wrong] == [2]
    assert wrong[0].attempts == 2
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 3, 4, 5}
    parts = parts_of(job.out)
    unfinished = {name for name in parts if name.endswith(".partial")}
    assert len(parts) - len(unfinished) == 5
    assert fault == "kills_on" or not unfinished  # it may be killed as it writes the other shard
    check_scores(but=range(16, 24))


@pytest.mark.slow
def test_killed_worker_loses_and_doubles_nothing(
    plan, job, run_on_ray, tmp_path, check_scores, capfd
):
    how = {"kills_on": POISON, "once": str(tmp_path / "killed")}
    reports = run_on_ray(plan, MakeScorer(**how), job, workers=2)
    assert (tmp_path / "killed").exists()
    assert [(report.error, report.attempts) for report in reports] == TRIED_TWICE
    check_scores()
    assert len(parts_of(job.out)) == 6
    assert capfd.readouterr().out == ""  # where results go


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ProcessLost("no head answers"), r"the Ray cluster was lost \(no head answers\)"),
        (RuntimeError("no worker is left"), "^no worker is left$"),
    ],
)
@pytest.mark.parametrize("n_committed", [6, 5])
def test_cluster_that_is_lost_after_all_is_committed_is_no_failure(
    plan, job, monkeypatch, caplog, n_committed, error, said
):
    def lost(*arguments, tell, address):
        tell["report"](run_local(plan[:1], MakeScorer(), job)[0])
        run_local(plan[1:n_committed], MakeScorer(), job)
        raise error

    monkeypatch.setattr(runners, "call_apart", lost)
    if n_committed < len(plan):
        with pytest.raises(RuntimeError, match=said):
            run_ray(plan, MakeScorer(), job, options=RayOptions())
    else:
        reports = run_ray(plan, MakeScorer(), job, options=RayOptions())
        assert [report.n_rows for report in reports] == [8] * 6
        assert "all shards were committed before the cluster was lost: no " in caplog.text


@pytest.mark.slow
def test_worker_has_the_threads_it_was_given(plan, job, run_on_ray, tmp_path):
    def make(threads):
        import pyarrow as pa

        seen = (threads, os.environ["OMP_NUM_THREADS"], pa.cpu_count())
        (tmp_path / "seen").write_text(str(seen))
        return MakeScorer()(threads)

    run_on_ray(plan[:1], make, job, cpus_per_worker=2)
    assert (tmp_path / "seen").read_text() == "(2, '2', 2)"


def of_this_process(scorer):
    return {"process": {"number": str(os.getpid())}, "fields": dict.fromkeys(scorer.score_fields)}


@pytest.mark.slow
def test_worker_says_what_its_scorer_is(started, tmp_path):
    said = describe_on_ray(MakeScorer(), of_this_process, str(tmp_path), RayOptions())
    assert said["process"]["number"] != str(os.getpid())
    assert [*said["fields"]] == ["characters", "half"]
    with pytest.raises(FileNotFoundError, match="no weights"):
        describe_on_ray(CannotBeMade(), of_this_process, str(tmp_path), RayOptions())
