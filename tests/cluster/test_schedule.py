"""Who gets which shard: the clock is a number here, and the workers are numbers."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from cluster import Piece, Shard, ShardReport
from cluster.schedule import LEFT_OUT_AFTER, Schedule


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


class Play:
    """A run whose workers are functions, by a clock that is a number.

    A worker is asked with a shard's index, how often it was replaced, and the time. It answers how
    many seconds it takes, and whether it finishes. As the driver does, the play replaces workers
    that fail, and looks from time to time for those that have had a shard for too long.
    """

    START_S = 10.0
    LOOK_EVERY_S = 5.0

    def __init__(self, n_shards, workers):
        self.schedule = schedule_of(n_shards)
        self.workers = workers
        self.n_replaced, self.n_failures = Counter(), Counter()
        self.done, self.given_up = set(), {}
        self.now = 0.0
        self._ready_at = dict.fromkeys(range(len(workers)), 0.0)
        self._at_work = {}  # until when, the shard, and whether it is finished then
        self._idle = set()
        self._run()

    @property
    def left_out(self):
        return set(filter(self.schedule.is_left_out, range(len(self.workers))))

    def _run(self):
        look_at = 0.0
        while self.schedule.n_open:
            ends = [until for until, _, _ in self._at_work.values()]
            self.now = min([*ends, *self._ready_at.values(), look_at])
            for worker in [w for w, (until, _, _) in self._at_work.items() if until <= self.now]:
                _, shard, is_done = self._at_work.pop(worker)
                self._settle(worker, shard, is_done)
            for worker in [w for w, at in self._ready_at.items() if at <= self.now]:
                del self._ready_at[worker]
                self._idle.add(worker)
            if look_at <= self.now:
                look_at += self.LOOK_EVERY_S
                for worker, shard, _ in self.schedule.over_limit(self.now):
                    del self._at_work[worker]
                    self._settle(worker, shard, False)
            for worker in sorted(self._idle):
                self._hand_out(worker)
            if not self._at_work and not self._ready_at:
                return

    def _hand_out(self, worker):
        shard = self.schedule.take(worker, self.now)
        if shard is not None:
            self._idle.discard(worker)
            answer = self.workers[worker](shard.index, self.n_replaced[worker], self.now)
            self._at_work[worker] = (self.now + answer[0], shard, answer[1])

    def _settle(self, worker, shard, is_done):
        final = self.schedule.settle(worker, shard, (ok if is_done else failed)(shard), self.now)
        if not is_done:
            self.n_failures[worker] += 1
        if final is not None and is_done:
            self.done.add(shard.index)
        elif final is not None:
            self.given_up[shard.index] = final.attempts
        if is_done:
            self._ready_at[worker] = self.now
        else:
            self.schedule.leave(worker)
            self.n_replaced[worker] += 1
            self._ready_at[worker] = self.now + self.START_S


SHARD_S, FAILS_AFTER_S = 10.0, 0.05


def works(shard, n_replaced, now):
    return SHARD_S, True


def fails(shard, n_replaced, now):
    return FAILS_AFTER_S, False


def fails_once_warm(shard, n_replaced, now):
    return (FAILS_AFTER_S, False) if now > 100.0 else works(shard, n_replaced, now)


def fails_until_replaced(shard, n_replaced, now):
    return works(shard, n_replaced, now) if n_replaced else (FAILS_AFTER_S, False)


def hangs(shard, n_replaced, now):
    return math.inf, False


def works_but_for(poison):
    def work(shard, n_replaced, now):
        return (FAILS_AFTER_S, False) if shard in poison else (SHARD_S, True)

    return work


@pytest.mark.parametrize("bad", [fails, fails_once_warm])
@pytest.mark.parametrize("n_bad", [1, 7])
def test_bad_workers_are_left_out_and_no_good_shard_is_given_up(bad, n_bad):
    play = Play(400, [bad] * n_bad + [works] * (8 - n_bad))
    assert play.done == set(range(400))
    assert play.left_out == set(range(n_bad))
    assert play.n_failures == dict.fromkeys(range(n_bad), LEFT_OUT_AFTER)
    assert play.n_replaced == play.n_failures


@pytest.mark.parametrize("bad", [fails, fails_once_warm])
@pytest.mark.parametrize("n_workers", [1, 8])
def test_run_ends_when_every_worker_is_left_out_and_gives_up_nothing(bad, n_workers):
    play = Play(400, [bad] * n_workers)
    assert play.left_out == set(range(n_workers))
    assert not play.given_up
    assert play.schedule.n_open == 400 - len(play.done)


def test_worker_that_works_once_it_is_replaced_goes_on():
    play = Play(400, [fails_until_replaced, *[works] * 7])
    assert play.done == set(range(400))
    assert (play.left_out, play.n_failures, play.n_replaced) == (set(), {0: 1}, {0: 1})


@pytest.mark.parametrize(
    ("poison", "n_good", "n_bad"),
    [
        pytest.param({17}, 7, 1, id="one"),
        pytest.param(set(range(100)), 7, 1, id="the-first-hundred"),
        pytest.param(set(range(200, 300)), 8, 0, id="a-hundred-in-the-middle"),
        pytest.param(set(range(0, 400, 2)), 8, 0, id="every-other"),
        pytest.param({3, 50, 51, 52, 98, 99}, 1, 0, id="one-worker"),
        pytest.param({3, 50, 51, 52, 98, 99}, 2, 0, id="two-workers"),
    ],
)
def test_poison_is_given_up_and_good_workers_stay(poison, n_good, n_bad):
    play = Play(400, [fails] * n_bad + [works_but_for(poison)] * n_good)
    assert play.done == set(range(400)) - poison
    assert set(play.given_up) == poison
    assert set(play.given_up.values()) == {3}
    assert play.left_out == set(range(n_bad))


def test_all_that_is_good_is_done_before_poison_ends_the_run():
    poison = set(range(300, 400))
    play = Play(400, [works_but_for(poison)] * 8)
    assert play.done == set(range(300))
    assert play.left_out == set(range(8))


def test_hanging_worker_loses_its_shards_to_others():
    play = Play(1000, [hangs, *[works] * 7])
    assert play.done == set(range(1000))
    assert play.n_replaced[0] >= 1


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
