"""How far a run is, on a terminal and in a log."""

import io

import pytest

from cluster.progress import SCORING, Progress
from pipelines.runs.progress import show_progress


def test_lines_come_every_few_seconds_and_at_the_end():
    now, stream = [0.0], io.StringIO()
    with show_progress(stream, is_terminal=False, clock=lambda: now[0]) as show:
        show(Progress(stage="loading minilm"))
        for n_done in range(13):
            failed = int(n_done > 9)
            done = {"n_done": n_done, "n_failed_shards": failed}
            show(Progress(stage=SCORING, n_rows=12, note="Found: 8 cores", **done))
            now[0] += 1.0
    assert stream.getvalue().splitlines() == [
        "Found: 8 cores",
        "5 of 12 rows (42%), 1.0 rows/s, 7 s left",
        "10 of 12 rows (83%), 1.0 rows/s, 2 s left, 1 shard failed",
        "12 of 12 rows (100%), 1.0 rows/s, 1 shard failed",
    ]


def test_nothing_written_before_rows_are_done():
    stream = io.StringIO()
    with pytest.raises(ValueError, match="wrong"):  # noqa: PT012, SIM117
        with show_progress(stream, is_terminal=False) as show:
            show(Progress(stage="reading the inputs"))
            show(Progress(stage=SCORING, n_rows=5))
            raise ValueError("wrong")
    assert stream.getvalue() == ""


def test_bar_shows_rows():
    stream = io.StringIO()
    stream.isatty = lambda: True
    with show_progress(stream, is_terminal=True) as show:
        show(Progress(stage="loading minilm"))
        for n_done in (1, 5):
            show(Progress(stage=SCORING, n_rows=5, n_done=n_done, note="Found: 8 cores"))
    assert "rows" in stream.getvalue()
    assert stream.getvalue().count("Found: 8 cores") == 1
