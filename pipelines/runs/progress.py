"""Shows how far a run is: a bar where there is a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from sms.naming import counted

SCORING = "scoring"
"""The stage in which rows are counted; what comes before it has no known length."""
COMPILING = "compiling, which only the first run does"
"""The beginning of `SCORING` where nothing has been compiled yet."""
LINE_EVERY_S = 5.0
RECENT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    stage: str
    """What is being done, for people."""
    n_rows: int = 0
    """Rows of the whole plan; 0 as long as the length of what is done is not known."""
    n_done: int = 0
    """Rows whose shard is committed."""
    n_earlier: int = 0
    """Rows among them that an earlier run had committed."""
    n_failed_shards: int = 0
    unit: str = "rows"
    """What is counted as rows."""
    note: str = ""
    """With what it is done, in one line for people, who are told once."""


class Pace:
    """Rows per second of late, and the time left at that speed.

    "Of late" is the last quarter of the time since this run began, but at least `RECENT_S`: long
    enough for rows that come a shard at a time, short enough to forget loading a model or a
    node that has gone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When how many rows were done; the first is the last one before "of late".
        self._seen: deque[tuple[float, int]] = deque()
        self._started = 0.0
        self._ends_at: float | None = None
        self._stage = ""
        self.rows_per_s: float | None = None
        """None before the first rows of this stage are done."""

    def update(self, progress: Progress) -> None:
        """Take note of how far the run is now; another stage has another speed."""
        now = self._clock()
        if progress.stage != self._stage:
            self._seen.clear()
            self._stage, self._ends_at, self.rows_per_s = progress.stage, None, None
        if not self._seen:
            self._started = now
        self._seen.append((now, progress.n_done))
        recent = now - max(RECENT_S, (now - self._started) / 4)
        while len(self._seen) > 2 and self._seen[1][0] <= recent:
            self._seen.popleft()
        since, n_then = self._seen[0]
        if progress.n_done > n_then and now > since:
            self.rows_per_s = (progress.n_done - n_then) / (now - since)
            self._ends_at = now + (progress.n_rows - progress.n_done) / self.rows_per_s

    def seconds_left(self) -> float | None:
        """Estimate the time left; it runs down between updates. None before the first rows."""
        return None if self._ends_at is None else max(0.0, self._ends_at - self._clock())


@contextmanager
def show_progress(
    stream: TextIO, *, is_terminal: bool, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Progress], None]]:
    """Show progress on a stream while the block runs; yields what to call with each news.

    The first line comes once rows are done, so that an early error is alone.
    """
    if is_terminal:
        with _bar(stream) as show:
            yield show
        return
    pace, written_at = Pace(clock), clock()
    latest = written = Progress(stage="")

    def write(progress: Progress) -> None:
        nonlocal written, written_at
        note = f"{progress.note}\n" if progress.note and not written.n_rows else ""
        stream.write(f"{note}{describe(progress, pace)}\n")
        stream.flush()
        written, written_at = progress, clock()

    def show_line(progress: Progress) -> None:
        nonlocal latest
        if progress.n_rows:
            pace.update(progress)
            if latest.n_rows and clock() - written_at >= LINE_EVERY_S:
                write(progress)
            latest = progress

    yield show_line
    if latest != written:
        write(latest)


@contextmanager
def _bar(stream: TextIO) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    pace = Pace()
    latest = Progress(stage="")

    class HowFar(ProgressColumn):
        def render(self, task: Task) -> Text:  # the time left runs down between news
            return Text(describe(latest, pace) if latest.n_rows else "")

    console = Console(file=stream, stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), HowFar())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            nonlocal latest
            bar.update(task, description=progress.stage)
            if progress.n_rows:
                if progress.note != latest.note:
                    console.print(progress.note, highlight=False, markup=False)
                pace.update(progress)
                latest = progress
                bar.update(task, total=progress.n_rows, completed=progress.n_done)

        yield show


def describe(progress: Progress, pace: Pace) -> str:
    """Say in one line how far a run is."""
    share = progress.n_done / progress.n_rows if progress.n_rows else 1.0
    parts = [f"{progress.n_done:,} of {progress.n_rows:,} {progress.unit} ({share:.0%})"]
    if pace.rows_per_s is not None:
        parts.append(row_rate(pace.rows_per_s, progress.unit))
    seconds = pace.seconds_left()
    if progress.n_done < progress.n_rows and seconds is not None:
        parts.append(f"{duration(seconds)} left")
    if progress.n_failed_shards:
        parts.append(f"{counted(progress.n_failed_shards, 'shard')} failed")
    return ", ".join(parts)


def row_rate(rows_per_s: float, unit: str = "rows") -> str:
    """Write a speed.

    Examples
    --------
    >>> row_rate(2.34), row_rate(1234.5)
    ('2.3 rows/s', '1,234 rows/s')
    """
    return f"{rows_per_s:,.{1 if rows_per_s < 10 else 0}f} {unit}/s"


def duration(seconds: float) -> str:
    """Write a time span the way people say it.

    Examples
    --------
    >>> duration(7.4), duration(125), duration(7380)
    ('7 s', '2 min 05 s', '2 h 03 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
