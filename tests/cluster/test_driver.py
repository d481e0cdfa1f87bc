"""What the driver does when workers fail, end or hang; the workers are made up."""

import math
import re
from collections import Counter, deque
from contextlib import nullcontext
from heapq import heappop, heappush

import pytest

from cluster import Job, Piece, Shard, ShardReport, driver
from cluster.driver import MAX_FAILED_STARTS, Driver
from cluster.facts import Facts
from cluster.schedule import LEFT_OUT_AFTER, Schedule
from cluster.serving import Ended, Ready, Unfinished

READY = Ready(facts=Facts(node="a"))


class MadeUpPool:
    """Workers whose news are put in by a test, or by `answer`, which is asked what is said."""

    def __init__(self, room=(1, 0), answer=None):
        self.room_is, self.answer = room, answer
        self.done, self.alive, self.coming = [], set(), deque()

    def begin(self, job):
        pass

    def room(self):
        return self.room_is

    def _do(self, what, worker, shard=None):
        self.done.append((what, worker) if shard is None else (what, worker, shard.index))
        if self.answer is not None:
            said = self.answer(what, worker, shard)
            self.coming.extend((worker, news) for news in said)

    def start(self, worker):
        assert worker not in self.alive
        self.alive.add(worker)
        self._do("start", worker)

    def send(self, worker, shard):
        assert worker in self.alive
        self._do("send", worker, shard)

    def kill(self, worker):
        self.done.append(("kill", worker))
        self.alive.discard(worker)
        self.coming = deque((who, news) for who, news in self.coming if who != worker)

    def news(self, timeout_s):
        assert self.alive or not timeout_s, "the driver waits for nobody"
        for _ in range(len(self.coming)):
            yield self.coming.popleft()

    def close(self):
        self.alive.clear()

    def n(self, what):
        return sum(done[0] == what for done in self.done)


def shards_of(n):
    piece = Piece(path="corpus.parquet", first_row=0, n_rows=10)
    return [Shard(index=index, pieces=(piece,)) for index in range(n)]


def ok(shard):
    return ShardReport(index=shard.index, n_rows=shard.n_rows)


def failed(shard):
    return ShardReport(index=shard.index, error="this node is broken")


def works(what, worker, shard):
    return [READY] if what == "start" else [ok(shard)]


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by what is added."""
    now = [1000.0]
    monkeypatch.setattr(driver.time, "monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def run(pool, n_shards, *, expected=None, has_gpu=False, max_attempts=3):
    reports = []
    job = Job(out="out", fingerprint="0" * 12, has_gpu=has_gpu)
    Driver(pool, expected).run(
        Schedule(shards_of(n_shards), max_attempts, 30.0), job, reports.append
    )
    return reports


def test_no_more_workers_than_shards_are_started():
    pool = MadeUpPool((5, 100), works)
    run(pool, 2)
    assert pool.n("start") == 2


def test_worker_is_replaced_after_each_failure_but_not_after_the_last_shard():
    def fails_on_3(what, worker, shard):
        return (
            [failed(shard)] if what == "send" and shard.index == 3 else works(what, worker, shard)
        )

    pool = MadeUpPool((1, 0), fails_on_3)
    reports = run(pool, 6, max_attempts=2)
    assert [(report.index, report.attempts) for report in reports if report.error] == [(3, 2)]
    assert (pool.n("start"), pool.n("kill")) == (2, 2)  # the shard's second attempt comes last


def test_worker_of_a_gpu_is_replaced_once_nothing_is_under_way_and_its_other_shard_is_kept():
    seen = []

    def spoiled(what, worker, shard):
        if what == "start":
            return [READY]
        seen.append(shard.index)
        if len(seen) == 1:
            return []
        return [failed(shard), Unfinished(seen[0])] if len(seen) == 2 else [ok(shard)]

    pool = MadeUpPool((1, 0), spoiled)
    reports = run(pool, 2, has_gpu=True)
    assert [(r.error, r.attempts) for r in sorted(reports, key=lambda r: r.index)] == [
        (None, 1),  # what was not finished was never begun
        (None, 2),
    ]
    assert [done[0] for done in pool.done[:5]] == ["start", "send", "send", "kill", "start"]


def test_failures_are_held_against_a_node_whoever_runs_there():
    """Further workers wait for room, and each gets the bad node as soon as it is free."""
    holder, waiting = {}, deque()
    pool = MadeUpPool((2, 100))

    def answer(what, worker, shard):
        if what == "send":
            return [failed(shard)] if holder.get("bad") == worker else [ok(shard)]
        waiting.append(worker)
        for node in ("good", "bad"):
            if holder.get(node) not in pool.alive and waiting:
                holder[node] = waiting.popleft()
                pool.coming.append((holder[node], Ready(facts=Facts(node=node))))
        return []

    pool.answer = answer
    reports = run(pool, 60)
    assert not any(report.error for report in reports)
    assert pool.n("send") - 60 <= LEFT_OUT_AFTER


def test_worker_that_never_gets_ready_is_given_up():
    def dies(what, worker, shard):
        return [Ended("by a signal")] if what == "start" and worker else works(what, worker, shard)

    pool = MadeUpPool((2, 0), dies)
    run(pool, 50)
    assert pool.n("start") == 1 + MAX_FAILED_STARTS


@pytest.mark.parametrize("room", [(2, 0), (2, 100)])
def test_run_ends_when_nobody_gets_ready(room):
    pool = MadeUpPool(room, lambda *_: [Ended("by a signal")])
    said = "all workers ended 5 times before they were ready .last error: by a signal.; is there"
    with pytest.raises(RuntimeError, match=said):
        run(pool, 1000)
    assert pool.n("start") <= max(room[0] * MAX_FAILED_STARTS, 2 * sum(room))


@pytest.mark.parametrize("room", [(2, 0), (2, 100)])
def test_run_ends_when_everybody_is_left_out_though_more_would_come(room):
    def fails(what, worker, shard):
        return [failed(shard)] if what == "send" else [READY] if worker < 2 else []

    pool = MadeUpPool(room, fails)
    with pytest.raises(RuntimeError, match="no worker is left: shards kept failing on 2 of"):
        run(pool, 1000)
    assert pool.n("send") == 2 * LEFT_OUT_AFTER


OTHER = Facts(node="b", scorer={"files": {"glove": "2"}})
KNOWN = Facts(node="a", scorer={"files": {"glove": "1"}})


@pytest.mark.parametrize(
    ("ready", "said"),
    [
        (Ready(facts=OTHER), "ValueError: the files of `glove` on b are not those the run began"),
        (Ready(facts=Facts(node="b"), failure=OSError("no weights")), "OSError: no weights"),
    ],
)
def test_worker_that_cannot_score_as_the_others_is_left_out_and_keeps_its_room(caplog, ready, said):
    def answer(what, worker, shard):
        return [ready] if what == "start" and worker == 1 else works(what, worker, shard)

    pool = MadeUpPool((2, 0), answer)
    run(pool, 9, expected=KNOWN)
    (message,) = caplog.messages
    assert message.startswith(f"one worker cannot score and is left out: {said}")
    assert pool.alive == {0, 1}
    assert pool.n("start") == 2


def test_workers_that_a_cluster_may_grow_for_are_asked_for_while_shards_wait(monkeypatch):
    """No node has room; then one has, and later no shard waits any more."""
    pool = MadeUpPool((0, 100))
    n_alive = []

    def answer(what, worker, shard):
        if what == "start" and len(pool.alive) == 30:  # all are asked for: a node joins
            pool.room_is = (1, 100)
            pool.coming.append((0, READY))
        if what == "send":
            n_alive.append(len(pool.alive))
            return [ok(shard)]
        return []

    pool.answer = answer
    monkeypatch.setattr(driver, "LOOK_AROUND_EVERY_S", 0.0)
    run(pool, 30)
    assert n_alive[0] == 30
    assert n_alive[-1] <= 3


def test_run_waits_for_a_node_when_all_are_lost():
    """What was about to start there fails once, too."""
    pool = MadeUpPool((2, 100))
    started, sent = [], []

    def answer(what, worker, shard):
        if what == "send":
            sent.append(shard)
            if len(sent) == 2:
                pool.coming.extend((each, Ended("node lost")) for each in range(12))
            return [ok(shard)] if len(sent) > 2 else []
        started.append(worker)
        if len(started) in (1, 2, 24):  # two nodes at first, a new one when all wait again
            return [READY]
        return []

    pool.answer = answer
    reports = run(pool, 12)
    assert not any(report.error for report in reports)
    assert len(started) >= 24


def test_hanging_worker_is_replaced_and_its_shard_is_scored(clock, caplog):
    hung = []

    def answer(what, worker, shard):
        clock(10.0)
        if what == "send" and shard.index == 2 and not hung:
            hung.append(shard)
            return []
        return works(what, worker, shard)

    pool = MadeUpPool((1, 0), answer)
    take = pool.news

    def news(timeout_s):
        clock(timeout_s)
        return take(timeout_s)

    pool.news = news
    reports = run(pool, 4)
    assert [(r.index, r.error) for r in reports] == [(0, None), (1, None), (3, None), (2, None)]
    assert re.search(r"worker 0 on a has worked on shard 2 for 6\d\d s and", caplog.text)


def test_answer_that_waits_saves_a_worker_from_being_taken_for_hung(clock):
    """The driver, not the worker, was held up."""

    def answer(what, worker, shard):
        clock(10_000.0 if what == "send" and shard.index == 2 else 10.0)
        return works(what, worker, shard)

    pool = MadeUpPool((1, 0), answer)
    assert not any(report.error for report in run(pool, 4))
    assert pool.n("start") == 1


class Enough(Exception):
    """The test has seen what it wanted."""


def test_workers_that_are_not_ready_are_told_every_minute(clock, caplog):
    pool = MadeUpPool((2, 100))
    n_asked = []

    def news(timeout_s):
        clock(1.0)
        n_asked.append(timeout_s)
        if len(n_asked) == 1:
            yield 0, READY
        if len(n_asked) == 150:
            raise Enough

    pool.news = news
    waiting = Driver(pool)
    waiting.start(2)
    with pytest.raises(Enough):
        waiting.wait_for(2)
    assert caplog.messages == ["1 of 2 workers are not ready yet"] * 2


def test_counts_are_told(monkeypatch):
    told, reports = [], []
    pool = MadeUpPool((2, 0))

    def answer(what, worker, shard):
        if what == "start":
            return [READY] if worker == 0 else []
        return [ok(shard)]

    pool.answer = answer
    monkeypatch.setattr(driver, "LOOK_AROUND_EVERY_S", 0.0)
    job = Job(out="out", fingerprint="0" * 12)
    Driver(pool, on_look=told.append).run(Schedule(shards_of(3), 3, 30.0), job, reports.append)
    assert told[0] == {"waiting": 3, "running": 0, "busy": 0, "starting": 1, "idle": 1}


# Whole runs, by a clock that goes on from one news to the next


class Play(MadeUpPool):
    """Workers that take their time, each on a node of its own.

    One is a function: asked with a shard's index, how often it was replaced, and the time, it
    answers how many seconds it takes, and whether it finishes.
    """

    START_S = 10.0

    def __init__(self, workers):
        super().__init__((len(workers), 0))
        self.workers, self.now = workers, 0.0
        self.due = []
        """When which worker says what."""
        self.n_replaced, self.n_failures, self.reports = Counter(), Counter(), []

    def _do(self, what, worker, shard=None):
        super()._do(what, worker, shard)
        if what == "start":
            seconds, said = 0.0, Ready(facts=Facts(node=f"node {worker}"))
            if ("kill", worker) in self.done:
                self.n_replaced[worker] += 1
                seconds = self.START_S
        else:
            seconds, is_done = self.workers[worker](shard.index, self.n_replaced[worker], self.now)
            said = (ok if is_done else failed)(shard)
        heappush(self.due, (self.now + seconds, len(self.done), worker, said))

    def kill(self, worker):
        super().kill(worker)
        self.due = sorted(each for each in self.due if each[2] != worker)

    def news(self, timeout_s):
        self.now = max(self.now, min([self.now + timeout_s, *(at for at, *_ in self.due)]))
        while self.due and self.due[0][0] <= self.now:
            *_, worker, said = heappop(self.due)
            if isinstance(said, ShardReport) and said.error:
                self.n_failures[worker] += 1
            yield worker, said

    @property
    def left_out(self):
        return set(filter(self.schedule.is_left_out, range(len(self.workers))))

    @property
    def completed(self):
        return {report.index for report in self.reports if report.error is None}

    @property
    def given_up(self):
        return {report.index: report.attempts for report in self.reports if report.error}


@pytest.fixture
def perform(monkeypatch):
    """Have workers score so many shards, or as many as they can until none is left."""

    def perform(n_shards, workers, ends=None):
        play = Play(workers)
        monkeypatch.setattr(driver.time, "monotonic", lambda: play.now)
        play.schedule = Schedule(shards_of(n_shards), 3, 30.0)
        with ends or nullcontext():
            job = Job(out="out", fingerprint="0" * 12)
            Driver(play).run(play.schedule, job, play.reports.append)
        return play

    return perform


def nobody_is_left():
    return pytest.raises(RuntimeError, match="no worker is left: shards kept failing on")


SHARD_S, FAILS_AFTER_S = 10.0, 0.05


def finishes(shard, n_replaced, now):
    return SHARD_S, True


def fails(shard, n_replaced, now):
    return FAILS_AFTER_S, False


def fails_once_warm(shard, n_replaced, now):
    return (FAILS_AFTER_S, False) if now > 100.0 else finishes(shard, n_replaced, now)


def fails_until_replaced(shard, n_replaced, now):
    return finishes(shard, n_replaced, now) if n_replaced else (FAILS_AFTER_S, False)


def hangs(shard, n_replaced, now):
    return math.inf, False


def works_but_for(poison):
    def work(shard, n_replaced, now):
        return (FAILS_AFTER_S, False) if shard in poison else (SHARD_S, True)

    return work


@pytest.mark.parametrize("bad", [fails, fails_once_warm])
@pytest.mark.parametrize("n_bad", [1, 7])
def test_bad_workers_are_left_out_and_no_good_shard_is_given_up(bad, n_bad, perform, caplog):
    play = perform(400, [bad] * n_bad + [finishes] * (8 - n_bad))
    assert play.completed == set(range(400))
    assert play.left_out == set(range(n_bad))
    assert play.n_failures == dict.fromkeys(range(n_bad), LEFT_OUT_AFTER)
    assert play.n_replaced == play.n_failures
    assert len(caplog.messages) == n_bad


@pytest.mark.parametrize("bad", [fails, fails_once_warm])
@pytest.mark.parametrize("n_workers", [1, 8])
def test_run_ends_when_every_worker_is_left_out_and_gives_up_nothing(bad, n_workers, perform):
    play = perform(400, [bad] * n_workers, nobody_is_left())
    assert play.left_out == set(range(n_workers))
    assert not play.given_up
    assert play.schedule.n_open == 400 - len(play.completed)


def test_worker_that_works_once_it_is_replaced_goes_on(perform):
    play = perform(400, [fails_until_replaced, *[finishes] * 7])
    assert play.completed == set(range(400))
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
def test_poison_is_given_up_and_good_workers_stay(poison, n_good, n_bad, perform):
    play = perform(400, [fails] * n_bad + [works_but_for(poison)] * n_good)
    assert play.completed == set(range(400)) - poison
    assert set(play.given_up) == poison
    assert set(play.given_up.values()) == {3}
    assert play.left_out == set(range(n_bad))


def test_all_that_is_good_is_done_before_poison_ends_the_run(perform):
    poison = set(range(300, 400))
    play = perform(400, [works_but_for(poison)] * 8, nobody_is_left())
    assert play.completed == set(range(300))
    assert play.left_out == set(range(8))


def test_hanging_worker_loses_its_shards_to_others(perform):
    play = perform(1000, [hangs, *[finishes] * 7])
    assert play.completed == set(range(1000))
    assert play.n_replaced[0] >= 1
