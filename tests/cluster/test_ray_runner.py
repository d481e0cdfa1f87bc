"""The same shards on Ray: same bytes, and nothing lost when workers die."""

import logging
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import RayOptions, committed, list_inputs, on_ray, plan_shards, run_local, run_ray
from cluster.ray_process import ProcessLost

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def ray_cluster():
    """Two cores that the runs of this module share; a run uses the connection it finds."""
    from cluster import ray_runner  # sets the environment before Ray is imported

    ray_runner.ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    yield ray_runner
    ray_runner.ray.shutdown()


@pytest.fixture
def run(ray_cluster):
    def run(plan, make, job, on_report=None, **options):
        return run_ray(plan, make, job, on_report, options=RayOptions(**options))

    return run


@pytest.fixture
def plan(write_corpus, make_rows):
    return plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=8)]), 8)


def parts_of(out):
    return {path.name: path.read_bytes() for path in Path(out, "scores").iterdir()}


def test_same_bytes_as_in_one_process(plan, make_scorer, job, run, tmp_path):
    alone = replace(job, out=str(tmp_path / "alone"))
    expected = run_local(plan, make_scorer(), alone)
    seen = []
    run(plan, make_scorer(), job, seen.append, workers=2)
    assert parts_of(job.out) == parts_of(alone.out)
    without_times = {"seconds": 0.0, "cpu_seconds": 0.0, "stage_seconds": {}}
    seen.sort(key=lambda report: report.index)
    assert [replace(report, **without_times) for report in seen] == [
        replace(report, **without_times) for report in expected
    ]


@pytest.mark.slow
def test_killed_worker_loses_and_doubles_nothing(
    plan, make_scorer, job, run, tmp_path, read_scores, make_rows, capfd
):
    how = {"kills_on": make_rows(48)[20]["candidate"], "once": str(tmp_path / "killed")}
    reports = run(plan, make_scorer(**how), job, workers=2)
    assert (tmp_path / "killed").exists()
    assert [report.attempts for report in reports] == [1, 1, 2, 1, 1, 1]
    assert all(report.error is None for report in reports)
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths
    assert len(parts_of(job.out)) == 6
    assert capfd.readouterr().out == ""  # where results go


@pytest.mark.slow
def test_shard_that_always_fails_is_reported_and_the_others_finish(
    plan, make_scorer, job, run, make_rows
):
    how = {"fails_on": make_rows(48)[9]["candidate"]}
    reports = run(plan, make_scorer(**how), job, workers=2)
    assert [report.attempts for report in reports] == [1, 3, 1, 1, 1, 1]
    rows = f"rows 8 to 15 of {plan[1].pieces[0].path}"
    assert reports[1].error == f'RuntimeError: cannot score 9 says "yes", [{rows}]'
    assert committed(job.out, plan, job.fingerprint) == {0, 2, 3, 4, 5}


@pytest.mark.slow
def test_shard_that_always_kills_its_worker_is_reported_and_the_others_finish(
    plan, make_scorer, job, run, make_rows
):
    how = {"kills_on": make_rows(48)[9]["candidate"]}
    reports = run(plan, make_scorer(**how), job, workers=2, max_attempts=2)
    assert [report.attempts for report in reports] == [1, 2, 1, 1, 1, 1]
    assert reports[1].error.startswith("the worker was lost while scoring it (Actor")
    assert committed(job.out, plan, job.fingerprint) == {0, 2, 3, 4, 5}


@pytest.mark.slow
def test_scorer_is_thrown_away_after_a_failure(plan, make_scorer, job, run, read_scores, make_rows):
    """What a failure leaves in a scorer spoils no later score."""
    base, poison = type(make_scorer()(1)), make_rows(48)[9]["candidate"]

    def make(threads):
        import pyarrow.compute as pc

        class Spoilt(base):
            offset = 0.0

            def prepare(self, rows):
                try:
                    return super().prepare(rows)
                except RuntimeError:
                    self.offset = 1000.0
                    raise

            def compare(self, prepared):
                scores = super().compare(prepared)
                return scores.set_column(0, "characters", pc.add(scores["characters"], self.offset))

        return Spoilt(fails_on=poison)

    reports = run(plan, make, job, workers=1)
    assert [report.error is None for report in reports] == [True, False, True, True, True, True]
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths[:8] + lengths[16:]


@pytest.mark.slow
def test_worker_that_fails_fast_is_started_anew_then_left_out(
    write_corpus, make_scorer, job, run, read_scores, make_rows, tmp_path, caplog
):
    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=2)]), 2)
    claim, pids = tmp_path / "bad", tmp_path / "pids"
    pids.mkdir()

    def make(threads):
        import ray

        scorer = make_scorer()(threads)
        prepare = scorer.prepare
        me = ray.get_runtime_context().get_actor_id()  # stays when the actor is started anew
        try:
            with claim.open("x") as stream:
                stream.write(me)
        except FileExistsError:
            pass

        def prepare_or_fail(rows):
            if claim.read_text() == me:
                (pids / str(os.getpid())).touch()
                raise OSError("this node is broken")
            time.sleep(0.1)
            return prepare(rows)

        scorer.prepare = prepare_or_fail
        return scorer

    with caplog.at_level(logging.WARNING):
        reports = run(plan, make, job, workers=2)
    assert [report.error for report in reports if report.error is not None] == []
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths
    assert 1 <= len(list(pids.iterdir())) <= 2


@pytest.mark.slow
def test_run_ends_when_no_worker_works(write_corpus, job, run, make_scorer, make_rows):
    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=2)]), 2)

    def make(threads):
        scorer = make_scorer()(threads)

        def fail(rows):
            raise OSError("this node is broken")

        scorer.prepare = fail
        return scorer

    with pytest.raises(RuntimeError, match=r"no worker is left: on 1 of 1 shards .*OSError: this"):
        run(plan, make, job, workers=1)


@pytest.mark.slow
def test_shard_whose_worker_is_lost_after_the_commit_is_done(plan, make_scorer, job, run):
    """The file is the commit, whoever reports it."""
    reports = run(plan[:1], dies_after_commit(make_scorer), job, workers=1, max_attempts=1)
    assert [(report.error, report.n_rows) for report in reports] == [(None, 8)]


@pytest.mark.slow
def test_cluster_that_is_lost_after_all_is_committed_is_no_failure(
    plan, make_scorer, job, run, ray_cluster, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(ray_cluster, "MAX_FAILED_STARTS", 1)
    make = dies_after_commit(make_scorer, tmp_path / "never-again")
    reports = run(plan[:1], make, job, workers=1)
    assert [(report.error, report.n_rows) for report in reports] == [(None, 8)]
    assert "all shards were committed before the cluster was lost: the Ray" in caplog.text


def dies_after_commit(make_scorer, mark=None):
    """A scorer that ends its process once a shard is committed; no other is made if so marked."""

    def make(threads):
        if mark is not None and mark.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        scorer = make_scorer()(threads)
        n_asked = []

        def counters():
            n_asked.append(1)
            if len(n_asked) == 2:  # before and after a shard
                if mark is not None:
                    mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return {}

        scorer.counters = counters
        return scorer

    return make


@pytest.mark.parametrize("n_committed", [6, 5])
def test_driver_that_is_lost_after_all_is_committed_is_no_failure(
    plan, make_scorer, job, monkeypatch, n_committed
):
    def lost(*arguments, tell, address):
        tell["report"](run_local(plan[:1], make_scorer(), job)[0])
        run_local(plan[1:n_committed], make_scorer(), job)
        raise ProcessLost("no head answers")

    monkeypatch.setattr(on_ray, "call_apart", lost)
    if n_committed < len(plan):
        with pytest.raises(RuntimeError, match=r"the Ray cluster was lost \(no head answers\)"):
            run_ray(plan, make_scorer(), job)
    else:
        reports = run_ray(plan, make_scorer(), job)
        assert [report.n_rows for report in reports] == [8] * 6


def test_room_is_asked_for_as_long_as_there_is_something_to_do(ray_cluster, make_scorer, job):
    """With no node on which a worker fits, what is asked for stays in sight of Ray."""
    pool = ray_cluster._Pool(
        make_scorer(),
        job,
        ray_cluster.RayOptions(address="x", cpus_per_worker=1000),
    )
    for n_workers, n_wishes in [(5, 5), (8, 8), (2, 2), (10**6, 100), (-1, 0), (3, 3)]:
        pool.wish_for(n_workers)
        assert len(pool.wishes) == n_wishes
    wishes = list(pool.wishes)
    pool.close()
    assert pool.wishes == []
    for reference in wishes:
        with pytest.raises(ray_cluster.ray.exceptions.TaskCancelledError):
            ray_cluster.ray.get(reference, timeout=60)


def test_room_is_not_asked_for_beyond_a_number_of_workers(ray_cluster, make_scorer, job):
    options = ray_cluster.RayOptions(address="x", cpus_per_worker=1000, workers=4)
    pool = ray_cluster._Pool(make_scorer(), job, options)
    pool.wish_for(5)
    assert pool.wishes == []


@pytest.mark.slow
def test_hanging_worker_is_killed_once_others_have_shown_how_long_a_shard_takes(
    plan, make_scorer, job, run, ray_cluster, read_scores, make_rows, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_cluster, "SLOW_AFTER_S", 0.05)
    monkeypatch.setattr(ray_cluster, "LOOK_AROUND_EVERY_S", 0.2)
    poison, once = make_rows(48)[20]["candidate"], tmp_path / "has-hung"

    def make(threads):
        scorer = make_scorer()(threads)
        prepare = scorer.prepare

        def prepare_or_hang(rows):
            if poison in rows["candidate"].to_pylist() and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGSTOP)
            return prepare(rows)

        scorer.prepare = prepare_or_hang
        return scorer

    reports = run(plan, make, job, workers=1)
    assert [report.error for report in reports if report.error is not None] == []
    assert [report.attempts for report in reports] == [1, 1, 2, 1, 1, 1]
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths


@pytest.mark.slow
def test_scorer_that_cannot_be_made_stops_the_run(plan, job, run):
    def make(threads):
        raise FileNotFoundError("no weights")

    with pytest.raises(FileNotFoundError, match="no weights"):
        run(plan, make, job, workers=1)


@pytest.mark.slow
def test_workers_that_die_before_they_are_ready_stop_the_run(
    plan, job, run, ray_cluster, monkeypatch
):
    def make(threads):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ray_cluster, "MAX_FAILED_STARTS", 2)
    with pytest.raises(RuntimeError, match=r"all 1 workers died 2 times before they were ready"):
        run(plan, make, job, workers=1)


def test_worker_has_the_threads_it_was_given(plan, make_scorer, job, run, tmp_path):
    def make(threads):
        import pyarrow as pa

        seen = (threads, os.environ["OMP_NUM_THREADS"], pa.cpu_count())
        (tmp_path / "seen").write_text(str(seen))
        return make_scorer()(threads)

    run(plan[:1], make, job, cpus_per_worker=2)
    assert (tmp_path / "seen").read_text() == "(2, '2', 2)"


def test_wrong_number_of_workers_rejected(plan, job, run):
    with pytest.raises(ValueError, match="`workers` must be at least 1, got 0"):
        run(plan, None, job, workers=0)
