"""Who gets which shard: the clock is a number here, and the workers are numbers."""

import pytest

from cluster import Piece, Shard, ShardReport
from cluster.schedule import Schedule


def schedule_of(shards, max_attempts):
    return Schedule(shards, max_attempts, slow_after_s=30.0)


def shards_of(n, n_rows=10):
    piece = Piece(path="corpus.parquet", first_row=0, n_rows=n_rows)
    return [Shard(index=index, pieces=(piece,)) for index in range(n)]


def ok(shard):
    return ShardReport(index=shard.index, n_rows=shard.n_rows)


def failed(shard, error="broken"):
    return ShardReport(index=shard.index, error=error)


def test_shards_are_taken_in_order_and_each_once():
    schedule = schedule_of(shards_of(3), max_attempts=3)
    assert [schedule.take(worker, 0.0).index for worker in range(3)] == [0, 1, 2]
    assert schedule.take(3, 0.0) is None
    assert (schedule.n_waiting, schedule.n_open) == (0, 3)


def test_failed_shard_waits_at_the_end_until_it_is_given_up():
    schedule = schedule_of(shards_of(2), max_attempts=2)
    shard = schedule.take(0, 0.0)
    assert schedule.settle(0, shard, failed(shard), 1.0) is None
    assert schedule.take(0, 1.0).index == 1
    assert schedule.take(1, 1.0).index == 0
    final = schedule.settle(1, shard, failed(shard, "broken again"), 2.0)
    assert (final.error, final.attempts) == ("broken again", 2)
    assert (schedule.n_waiting, schedule.n_open) == (0, 1)


def test_shard_that_was_never_begun_costs_no_attempt():
    schedule = schedule_of(shards_of(2), max_attempts=1)
    shard = schedule.take(0, 0.0)
    schedule.put_back(0, shard)
    assert schedule.take(0, 0.0).index == 0
    assert schedule.settle(0, shard, ok(shard), 1.0).attempts == 1


def finish_one_leave_one(schedule, seconds=10.0):
    """Worker 0 is done with its shard after some seconds, worker 1 goes on with its own."""
    first, slow = schedule.take(0, 0.0), schedule.take(1, 0.0)
    schedule.settle(0, first, ok(first), seconds)
    return slow


@pytest.mark.parametrize(
    ("usual_s", "now", "is_slow"),
    [
        pytest.param(1.0, 29.0, False, id="never-before-the-least"),
        pytest.param(1.0, 31.0, True, id="after-the-least"),
        pytest.param(20.0, 59.0, False, id="not-three-times-the-usual"),
        pytest.param(20.0, 61.0, True, id="three-times-the-usual"),
    ],
)
def test_slow_shard_is_copied_when_nothing_waits(usual_s, now, is_slow):
    schedule = schedule_of(shards_of(2), max_attempts=3)
    slow = finish_one_leave_one(schedule, usual_s)
    assert schedule.take(0, now) == (slow if is_slow else None)


def test_large_shard_is_not_slow():
    small, large = shards_of(1)[0], Shard(index=1, pieces=shards_of(1, 100)[0].pieces)
    schedule = schedule_of([small, large], max_attempts=3)
    finish_one_leave_one(schedule, 10.0)
    assert schedule.take(0, 299.0) is None
    assert schedule.take(0, 301.0) == large


def test_waiting_shards_come_before_copies():
    schedule = schedule_of(shards_of(3), max_attempts=3)
    slow = finish_one_leave_one(schedule)
    assert schedule.take(0, 1e6).index == 2
    assert schedule.take(2, 1e6) == slow
    assert schedule.take(3, 1e6) is None  # not a third copy, and shard 2 has just begun


def test_first_copy_counts():
    schedule = schedule_of(shards_of(2), max_attempts=3)
    slow = finish_one_leave_one(schedule)
    schedule.take(0, 1e6)
    final = schedule.settle(0, slow, ok(slow), 1e6 + 1)
    assert (final.error, final.attempts) == (None, 2)
    assert schedule.n_open == 0
    assert schedule.settle(1, slow, failed(slow), 1e6 + 2) is None
    assert schedule.n_open == schedule.n_waiting == 0


def test_lost_copy_does_not_queue_the_shard_again():
    schedule = schedule_of(shards_of(2), max_attempts=3)
    slow = finish_one_leave_one(schedule)
    schedule.take(0, 1e6)
    assert schedule.settle(1, slow, failed(slow), 1e6 + 1) is None
    assert schedule.n_waiting == 0
    assert schedule.settle(0, slow, ok(slow), 1e6 + 2).attempts == 2


def test_shard_is_not_given_up_while_a_copy_runs():
    schedule = schedule_of(shards_of(2), max_attempts=1)
    slow = finish_one_leave_one(schedule)
    schedule.take(0, 1e6)
    assert schedule.settle(0, slow, failed(slow), 1e6 + 1) is None
    assert schedule.n_open == 1
    assert schedule.settle(1, slow, ok(slow), 1e6 + 2).error is None


def test_copy_that_was_never_begun_is_forgotten_once_the_shard_is_reported():
    schedule = schedule_of(shards_of(2), max_attempts=3)
    slow = finish_one_leave_one(schedule)
    schedule.take(0, 1e6)
    schedule.settle(1, slow, ok(slow), 1e6 + 1)
    schedule.put_back(0, slow)
    assert schedule.n_waiting == schedule.n_open == 0


def test_reports_that_come_from_clocks_apart_change_nothing():
    """What a machine says of its own time goes into the report and nowhere else."""
    schedule = schedule_of(shards_of(2), max_attempts=3)
    first, slow = schedule.take(0, 0.0), schedule.take(1, 0.0)
    skewed = ShardReport(index=first.index, n_rows=10, seconds=-3600.0)
    assert schedule.settle(0, first, skewed, 10.0).seconds == -3600.0
    assert schedule.take(0, 29.0) is None
    assert schedule.take(0, 31.0) == slow
