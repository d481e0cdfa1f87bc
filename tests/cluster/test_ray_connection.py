"""A run that connects to Ray itself: interrupted, or with nobody at the address."""

import sys

import pytest

from cluster import committed, list_inputs, plan_shards, run_local

pytestmark = pytest.mark.ray


def test_interrupted_run_stops_ray_and_can_be_resumed(
    write_corpus, make_rows, make_scorer, job, read_scores
):
    from cluster import ray_runner  # before Ray: it sets the environment

    ray = ray_runner.ray
    ray.cloudpickle.register_pickle_by_value(sys.modules[make_scorer.__module__])
    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=8)]), 8)

    def interrupt(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ray_runner.run_ray(plan, make_scorer(), job, interrupt, workers=1)
    assert not ray.is_initialized()
    done = committed(job.out, plan, job.fingerprint)
    assert done

    left = [shard for shard in plan if shard.index not in done]
    run_local(left, make_scorer(), job)
    assert committed(job.out, plan, job.fingerprint) == {0, 1, 2, 3, 4, 5}
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    assert read_scores(job.out)["characters"].to_pylist() == lengths


def test_address_where_nobody_answers_is_refused_at_once(write_corpus, make_rows, make_scorer, job):
    from cluster import ray_runner

    plan = plan_shards(list_inputs([write_corpus(make_rows(3))]))
    with pytest.raises(ConnectionError, match=r"no Ray cluster answers at `127\.0\.0\.1:1`"):
        ray_runner.run_ray(plan, make_scorer(), job, address="127.0.0.1:1")
