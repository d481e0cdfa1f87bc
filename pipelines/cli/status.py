"""`assay status`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipelines.cli.common import DONE, NOT_ACCEPTED, show
from pipelines.cli.options import command
from pipelines.settings.score import StatusSettings

if TYPE_CHECKING:
    from pipelines.status import RunStatus


@command(StatusSettings, "DIR")
def status(folder: str, settings: StatusSettings) -> int:
    """Show how far the run in DIR has got.

    DIR is a folder or URL; the run may be going on or have ended. Exit status: 0 if the run is
    complete, or is running and no shard has been given up; 1 if it stopped or died early, or
    shards have failed; 2 if there is no run.
    """
    from cluster.output import Output
    from pipelines.status import run_status

    run = run_status(folder)
    values = {**asdict(run), "n_running": len(run.running), "n_left": run.n_left}
    text = json.dumps(values, ensure_ascii=False)
    if settings.json == "-":
        print(text)
    elif settings.json is not None:
        Output.named("--json", settings.json).write(f"{text}\n".encode())
    else:
        show("\n".join(_lines(run)))
    return DONE if run.is_well else NOT_ACCEPTED


def _lines(run: RunStatus) -> Iterator[str]:
    from pipelines.runs.progress import duration, row_rate

    by = f" ({run.driver})" if run.driver else ""
    yield f"{run.out}: {run.state}{by}"
    if not run.n_shards:
        return
    share = run.n_done_rows / run.n_rows
    rows = [f"{run.n_done_rows:,} of {run.n_rows:,} done ({share:.0%})"]
    if run.rows_per_s is not None:
        rows.append(row_rate(run.rows_per_s))
    if run.seconds_left is not None and run.n_done < run.n_shards:
        rows.append(f"{duration(run.seconds_left)} left")
    yield f"Rows:    {', '.join(rows)}"
    is_dead = run.state != "running"
    yield (
        f"Shards:  {run.n_done:,} done, {len(run.running):,} "
        f"{'begun and lost' if is_dead and run.running else 'running'}, "
        f"{run.n_failed:,} failed, {run.n_left:,} left"
    )
    if run.running:
        oldest = run.running[0]
        where = f" on {oldest.node}" if oldest.node else ""
        yield f"Oldest:  shard {oldest.index}{where}, begun {duration(oldest.seconds)} ago"
    if run.errors:
        yield ""
        yield "Last errors:"
        yield from (f"  {error}" for error in run.errors)
