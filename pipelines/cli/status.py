"""`assay status`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.cli.common import DONE, NOT_ACCEPTED, show
from pipelines.cli.options import command
from pipelines.settings.status import StatusSettings

if TYPE_CHECKING:
    from pipelines.status import RunStatus


@command(StatusSettings, "DIR")
def status(folder: str, settings: StatusSettings) -> int:
    """Show how far the run in DIR has come.

    DIR is a folder or URL; the run may be going on or have ended. Exit status: 0 if the run is
    complete, or is running and no shard has been given up; 1 if it stopped or died early, or
    shards have failed; 2 if there is no run.
    """
    from cluster.output import Output
    from pipelines.status import run_status

    found = run_status(folder)
    text = json.dumps(_values(found), ensure_ascii=False)
    if settings.json == "-":
        print(text)
    elif settings.json is not None:
        Output.named("--json", settings.json).write(f"{text}\n".encode())
    else:
        show("\n".join(_lines(found)))
    return DONE if found.is_well else NOT_ACCEPTED


def _values(found: RunStatus) -> dict[str, Any]:
    values = {**asdict(found), "n_running": len(found.running), "n_left": found.n_left}
    for node, entry in zip(found.nodes, values["nodes"], strict=True):
        entry["rows_per_s"] = node.rows_per_s
    return values


def _lines(found: RunStatus) -> Iterator[str]:
    from pipelines.runs.progress import duration, row_rate

    by = f" ({found.driver})" if found.driver else ""
    yield f"{found.out}: {found.state}{by}"
    if not found.n_shards:
        return
    share = found.n_done_rows / found.n_rows
    rows = [f"{found.n_done_rows:,} of {found.n_rows:,} done ({share:.0%})"]
    if found.rows_per_s is not None:
        rows.append(row_rate(found.rows_per_s))
    if found.seconds_left is not None and found.n_done < found.n_shards:
        rows.append(f"{duration(found.seconds_left)} left")
    yield f"Rows:    {', '.join(rows)}"
    is_dead = found.state != "running"
    yield (
        f"Shards:  {found.n_done:,} done, {len(found.running):,} "
        f"{'begun and lost' if is_dead and found.running else 'running'}, "
        f"{found.n_failed:,} failed, {found.n_left:,} left"
    )
    if found.running:
        oldest = found.running[0]
        where = f" on {oldest.node}" if oldest.node else ""
        yield f"Oldest:  shard {oldest.index}{where}, begun {duration(oldest.seconds)} before"
    if found.nodes:
        yield ""
        yield _node_table(found)
    if found.errors:
        yield ""
        yield "Last errors:"
        yield from (f"  {error}" for error in found.errors)


def _node_table(found: RunStatus) -> str:
    from pipelines.reports.terminal import table_text

    is_terminal = sys.stdout.isatty()
    header = ["node", "shards", "rows", "rows/s of a worker", "running", "failures"]
    rows = [
        [
            node.node,
            f"{node.n_shards:,}",
            f"{node.n_rows:,}",
            "" if node.rows_per_s is None else f"{node.rows_per_s:,.1f}",
            f"{node.n_running:,}",
            f"{node.n_failures:,}",
        ]
        for node in found.nodes
    ]
    width = shutil.get_terminal_size().columns if is_terminal else None
    return table_text(header, rows, is_terminal=is_terminal, width=width)
