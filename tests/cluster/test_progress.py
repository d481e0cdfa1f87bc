"""How fast a run is, and how long it will take."""

import pytest

from cluster.progress import SCORING, Pace, Progress


class Run:
    """A run on a clock of its own."""

    def __init__(self):
        self.now, self.done = 0.0, 0
        self.pace = Pace(lambda: self.now)
        self.go(0, 0)

    def go(self, seconds, rows, times=1):
        """Finish a shard of `rows` after `seconds`, so many times."""
        for _ in range(times):
            self.now += seconds
            self.done += rows
            self.pace.update(Progress(stage=SCORING, n_rows=100_000, n_done=self.done))


def test_speed_by_hand():
    run = Run()
    run.go(10, 100)
    assert run.pace.rows_per_s == 10
    assert run.pace.seconds_left() == 9_990
    run.now += 90
    assert run.pace.seconds_left() == 9_900


def test_loading_a_model_is_forgotten():
    """Two minutes pass before the first shard; after a while only 50 rows/s count."""
    run = Run()
    run.go(120, 100)
    run.go(2, 100, times=60)
    assert run.pace.rows_per_s == pytest.approx(50, rel=0.02)


def test_node_that_leaves_is_noticed():
    """A thousand seconds at 40 rows/s, then at 20: the estimate follows within a quarter."""
    run = Run()
    run.go(5, 200, times=200)
    assert run.pace.rows_per_s == pytest.approx(40)
    run.go(10, 200, times=34)
    assert run.pace.rows_per_s == pytest.approx(20, rel=0.05)
    assert run.pace.seconds_left() == pytest.approx((100_000 - run.done) / 20, rel=0.05)
