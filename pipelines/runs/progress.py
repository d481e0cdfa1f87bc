"""Shows how far a run is: a bar where there is a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from cluster.progress import Pace, Progress
from sms.naming import counted

LINE_EVERY_S = 5.0


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
