"""Who gets which shard: the clock is a number here, and the workers are numbers.

What becomes of whole runs is in `test_driver`.
"""

from dataclasses import replace

import pytest

from cluster import Piece, Shard, ShardReport
from cluster.schedule import Schedule


def schedule_of(n_shards, max_attempts=3):
    piece = Piece(path="corpus.parquet", first_row=0, n_rows=10)
    shards = [Shard(index=index, pieces=(piece,)) for index in range(n_shards)]
    return Schedule(shards, max_attempts, slow_after_s=30.0)


def ok(shard):
    return ShardReport(index=shard.index, n_rows=shard.n_rows)


def failed(shard, error="broken"):
    return ShardReport(index=shard.index, error=error)


def test_failed_shard_waits_at_the_end_until_it_is_given_up():
    schedule = schedule_of(2, max_attempts=2)
    shard = schedule.take(0, 0.0)
    assert schedule.settle(0, shard, failed(shard), 1.0) is None
    assert schedule.take(0, 1.0).index == 1
    assert schedule.take(1, 1.0).index == 0
    final = schedule.settle(1, shard, failed(shard, "broken again"), 2.0)
    assert (final.error, final.attempts) == ("broken again", 2)
    assert (schedule.n_waiting, schedule.n_open) == (0, 1)


def test_shards_are_taken_in_order_and_one_that_was_never_begun_costs_no_attempt():
    schedule = schedule_of(3, max_attempts=1)
    first, *_ = taken = [schedule.take(worker, 0.0) for worker in range(3)]
    assert [shard.index for shard in taken] == [0, 1, 2]
    assert schedule.take(3, 0.0) is None
    assert (schedule.n_waiting, schedule.n_open) == (0, 3)
    schedule.put_back(0, first)
    assert schedule.take(0, 0.0) == first
    assert schedule.settle(0, first, ok(first), 1.0).attempts == 1


def test_shard_that_failed_is_not_tried_again_beside_another():
    schedule = schedule_of(3)
    first, second = schedule.take(0, 0.0), schedule.take(0, 0.0)
    schedule.settle(0, first, failed(first), 1.0)
    third = schedule.take(0, 1.0)
    assert third.index == 2
    assert schedule.take(0, 1.0) is None
    for shard in (second, third):
        schedule.settle(0, shard, ok(shard), 2.0)
    assert schedule.take(0, 2.0) == first


def test_nothing_is_put_beside_a_shard_that_is_tried_again():
    schedule = schedule_of(3)
    first, second, third = (schedule.take(worker, 0.0) for worker in (0, 1, 0))
    schedule.settle(0, first, failed(first), 1.0)
    schedule.settle(1, second, ok(second), 1.0)
    assert schedule.take(1, 1.0) == first
    schedule.put_back(0, third)
    assert schedule.take(1, 1.0) is None
    assert schedule.take(0, 1.0) == third


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
    schedule = schedule_of(2)
    slow = finish_one_leave_one(schedule, usual_s)
    assert schedule.take(0, now) == (slow if is_slow else None)


@pytest.fixture(params=[3])
def copied(request):
    """A shard that worker 1 has had for so long that worker 0 has a copy."""
    schedule = schedule_of(2, max_attempts=request.param)
    slow = finish_one_leave_one(schedule)
    assert schedule.take(0, 1e6) == slow
    return schedule, slow


def test_first_copy_counts(copied):
    schedule, slow = copied
    final = schedule.settle(0, slow, ok(slow), 1e6 + 1)
    assert (final.error, final.attempts) == (None, 2)
    assert schedule.settle(1, slow, failed(slow), 1e6 + 2) is None
    assert schedule.n_open == schedule.n_waiting == 0


@pytest.mark.parametrize("copied", [3, 1], indirect=True)
def test_shard_of_a_lost_copy_is_neither_queued_again_nor_given_up(copied):
    schedule, slow = copied
    assert schedule.settle(1, slow, failed(slow), 1e6 + 1) is None
    assert (schedule.n_waiting, schedule.n_open) == (0, 1)
    final = schedule.settle(0, slow, ok(slow), 1e6 + 2)
    assert (final.error, final.attempts) == (None, 2)


def test_copy_that_was_never_begun_is_forgotten_once_the_shard_is_reported(copied):
    schedule, slow = copied
    schedule.settle(1, slow, ok(slow), 1e6 + 1)
    schedule.put_back(0, slow)
    assert schedule.n_waiting == schedule.n_open == 0


def test_second_attempt_waits_for_another_worker():
    schedule = schedule_of(2)
    bad, other = schedule.take(0, 0.0), schedule.take(1, 0.0)
    schedule.settle(0, bad, failed(bad), 1.0)
    assert schedule.take(0, 1.0) is None
    schedule.settle(1, other, ok(other), 10.0)
    assert schedule.take(0, 10.0) is None
    assert schedule.take(1, 10.0) == bad


def test_there_is_no_limit_before_a_shard_is_finished():
    schedule = schedule_of(2)
    first, second = schedule.take(0, 0.0), schedule.take(1, 0.0)
    assert schedule.over_limit(1e9) == []
    schedule.settle(0, first, ok(first), 70.0)
    assert schedule.over_limit(700.0) == []
    assert schedule.over_limit(701.0) == [(1, second, 701.0)]


def test_limit_doubles_with_each_failure():
    schedule = schedule_of(2)
    slow = finish_one_leave_one(schedule, 1.0)
    assert schedule.over_limit(601.0) == [(1, slow, 601.0)]
    schedule.settle(1, slow, failed(slow), 601.0)
    assert schedule.take(0, 601.0) == slow
    assert schedule.over_limit(601.0 + 1200.0) == []
    assert schedule.over_limit(601.0 + 1201.0) == [(0, slow, 1201.0)]


def test_full_disk_is_final_at_once_and_no_fault_of_the_worker():
    schedule = schedule_of(1)
    shard = schedule.take(0, 0.0)
    report = replace(failed(shard), is_out_of_room=True)
    assert schedule.settle(0, shard, report, 1.0).attempts == 1
