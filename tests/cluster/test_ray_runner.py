"""The same shards on Ray: same bytes, and nothing lost when workers die."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cluster import RayOptions, ShardReport, committed, on_ray, run_local, run_ray
from cluster.children import ProcessLost
from cluster.on_ray import describe_on_ray
from cluster.schedule import Schedule
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


def fail(rows):
    raise OSError("this node is broken")


@pytest.mark.slow
def test_worker_that_fails_fast_is_started_anew_then_left_out(
    make_plan, job, run_on_ray, check_scores, tmp_path
):
    plan = make_plan(2)
    claim, pids = tmp_path / "bad", tmp_path / "pids"
    pids.mkdir()

    def make(threads):
        import ray

        me = ray.get_runtime_context().get_actor_id()  # stays when the actor is started anew
        with suppress(FileExistsError), claim.open("x") as stream:
            stream.write(me)

        def fail_or_wait(rows):
            if claim.read_text() == me:
                (pids / str(os.getpid())).touch()
                fail(rows)
            time.sleep(0.1)

        return MakeScorer(fail_or_wait)(threads)

    reports = run_on_ray(plan, make, job, workers=2)
    assert not any(report.error for report in reports)
    check_scores()
    assert 1 <= len(list(pids.iterdir())) <= 2


def die(threads):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (MakeScorer(fail), r"no worker is left: shards kept failing on 1 of 1.*OSError: this"),
        (die, r"all 1 workers died 2 times before they were ready"),
    ],
)
def test_run_ends_when_no_worker_works(
    make_plan, job, run_on_ray, ray_cluster, monkeypatch, make, message
):
    monkeypatch.setattr(ray_cluster, "MAX_FAILED_STARTS", 2)
    with pytest.raises(RuntimeError, match=message):
        run_on_ray(make_plan(2), make, job, workers=1)


@pytest.mark.slow
def test_cluster_that_is_lost_after_all_is_committed_is_no_failure(
    plan, job, run_on_ray, ray_cluster, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(ray_cluster, "MAX_FAILED_STARTS", 1)
    make = dies_after_commit(tmp_path / "never-again")
    reports = run_on_ray(plan[:1], make, job, workers=1)
    assert [(report.error, report.n_rows) for report in reports] == [(None, 8)]
    assert "all shards were committed before the cluster was lost: the Ray" in caplog.text


def dies_after_commit(mark):
    """A scorer that ends its process once a shard is committed, when no other is made any more."""

    def make(threads):
        if mark.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        scorer = MakeScorer()(threads)
        n_asked = []

        def counters():
            n_asked.append(1)
            if len(n_asked) == 2:  # before and after a shard
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return {}

        scorer.counters = counters
        return scorer

    return make


@pytest.mark.parametrize("n_committed", [6, 5])
def test_driver_that_is_lost_after_all_is_committed_is_no_failure(
    plan, job, monkeypatch, n_committed
):
    def lost(*arguments, tell, address):
        tell["report"](run_local(plan[:1], MakeScorer(), job)[0])
        run_local(plan[1:n_committed], MakeScorer(), job)
        raise ProcessLost("no head answers")

    monkeypatch.setattr(on_ray, "call_apart", lost)
    if n_committed < len(plan):
        with pytest.raises(RuntimeError, match=r"the Ray cluster was lost \(no head answers\)"):
            run_ray(plan, MakeScorer(), job)
    else:
        reports = run_ray(plan, MakeScorer(), job)
        assert [report.n_rows for report in reports] == [8] * 6


@pytest.mark.slow
def test_room_is_asked_for_as_long_as_there_is_something_to_do(ray_cluster, job):
    """With no node on which a worker fits, what is asked for stays in sight of Ray."""
    options = RayOptions(address="x", cpus_per_worker=1000)
    pool = ray_cluster._Pool(MakeScorer(), job, options)
    for n_workers, n_wishes in [(5, 5), (8, 8), (2, 2), (10**6, 100), (-1, 0), (3, 3)]:
        pool.wish_for(n_workers)
        assert len(pool.wishes) == n_wishes
    wishes = list(pool.wishes)
    pool.close()
    assert pool.wishes == []
    for reference in wishes:
        with pytest.raises(ray_cluster.ray.exceptions.TaskCancelledError):
            ray_cluster.ray.get(reference, timeout=60)
    counted = ray_cluster._Pool(MakeScorer(), job, replace(options, workers=4))
    counted.wish_for(5)
    assert counted.wishes == []


@pytest.mark.slow
def test_hanging_worker_is_killed_once_others_have_shown_how_long_a_shard_takes(
    plan, job, run_on_ray, ray_cluster, check_scores, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_cluster, "SLOW_AFTER_S", 0.05)
    monkeypatch.setattr(ray_cluster, "LOOK_AROUND_EVERY_S", 0.2)
    once = tmp_path / "has-hung"

    def hang_once(rows):
        if POISON in rows["candidate"].to_pylist() and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    reports = run_on_ray(plan, MakeScorer(hang_once), job, workers=1)
    assert [(report.error, report.attempts) for report in reports] == TRIED_TWICE
    check_scores()


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
    return os.getpid(), scorer.score_fields


@pytest.mark.slow
def test_worker_says_what_its_scorer_is(ray_cluster, tmp_path):
    pid, fields = describe_on_ray(MakeScorer(), of_this_process, str(tmp_path), RayOptions())
    assert pid != os.getpid()
    assert fields == ("characters", "half")
    with pytest.raises(FileNotFoundError, match="no weights"):
        describe_on_ray(CannotBeMade(), of_this_process, str(tmp_path), RayOptions())


@pytest.fixture
def made_up(monkeypatch):
    """A driver whose workers and cluster are made up, and the module, which brings Ray."""
    from cluster import ray_runner

    monkeypatch.setattr(ray_runner, "HeadWatch", lambda: SimpleNamespace(check=lambda: False))
    monkeypatch.setattr(ray_runner, "RunMetrics", lambda: SimpleNamespace(set=lambda **_: None))

    def make(shards, **pool):
        schedule = Schedule(shards, 3, 30.0)
        driver = ray_runner._Driver(schedule, SimpleNamespace(**pool), lambda *_: None)
        return driver, ray_runner

    return make


def test_worker_of_a_gpu_that_failed_twice_is_restarted_though_its_other_shard_fails_too(
    make_plan, made_up, monkeypatch
):
    asked = []

    def call(name):
        return SimpleNamespace(remote=lambda *_: asked.append(name) or len(asked))

    actor = SimpleNamespace(**{name: call(name) for name in ("ready", "end", "score")})
    driver, ray_runner = made_up(make_plan(10, 30), actors=[actor], shards_at_once=2)

    def answer(value):
        monkeypatch.setattr(ray_runner.ray, "get", lambda _: value)
        driver._take(min(driver._running))

    failed = [ShardReport(index=index, error="this node is broken") for index in range(3)]
    driver._ask(0)
    answer("node")
    driver._idle = [0]  # one shard to begin with
    driver._assign()
    answer(failed[0])
    answer("node")
    driver._assign()
    answer(failed[1])
    answer(failed[2])
    assert asked == ["ready", "score", "ready", "score", "score", "end"]


@pytest.mark.slow
def test_workers_that_are_not_ready_are_told_every_minute(made_up, monkeypatch, caplog):
    driver, ray_runner = made_up([], actors=[None, None])
    driver._running = {"a question": (0, None)}
    begun = time.monotonic()
    for seconds in range(0, 150, 10):
        monkeypatch.setattr(ray_runner.time, "monotonic", lambda now=begun + seconds: now)
        driver._look_around()
    assert [r.message for r in caplog.records] == ["1 of 2 workers are not ready yet"] * 2
