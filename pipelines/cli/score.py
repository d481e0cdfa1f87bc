"""`assay score` and `assay status`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipelines.cli.common import DONE, INTERRUPTED, NOT_ACCEPTED, fail, show, terminal
from pipelines.cli.options import command, shown_progress
from pipelines.settings.score import ScoreSettings, StatusSettings
from sms.naming import counted

if TYPE_CHECKING:
    from pipelines.runs.score_run import ScoreRun
    from pipelines.status import RunStatus

_SHOWN_FAILURES = 5


@command(ScoreSettings, "CORPORA...")
def score(corpora: tuple[str, ...], settings: ScoreSettings) -> int:
    """Score the summaries in CORPORA.

    CORPORA are Parquet, JSONL or CSV: files, folders, globs or URLs, or - for standard input. One
    row is one candidate: `document_id`, `system_id`, `candidate`, and, if a metric needs them,
    `source` and `reference` (or `references`). To continue an interrupted run, give the same
    command again (and the same standard input).
    """
    from pipelines.runs.score_run import RunInterrupted
    from pipelines.score import score as run
    from pipelines.summary import summary_text

    try:
        with shown_progress(settings) as settings:
            result = run(corpora, settings)
    except RunInterrupted as interrupt:
        return fail(
            f"interrupted; {interrupt.n_committed} of {interrupt.n_shards} shards are committed; "
            "run the same command (without `--fresh`) to continue",
            INTERRUPTED,
        )
    except KeyboardInterrupt:
        return fail("interrupted; this command has scored nothing yet", INTERRUPTED)
    show(summary_text(result, **terminal()))
    return _exit_status(result)


def _exit_status(result: ScoreRun) -> int:
    if result.failed_shards:
        shown = list(result.failed_shards.items())[:_SHOWN_FAILURES]
        text = "; ".join(f"shard {index}: {error}" for index, error in shown)
        more = len(result.failed_shards) - len(shown)
        text += f"; and {more} more, all in run.json" if more else ""
        failed = f"{len(result.failed_shards)} of {result.n_shards} shards failed"
        remedy = "run the same command (without `--fresh`) to try them again"
        return fail(f"{failed}; {remedy}: {text}", NOT_ACCEPTED)
    if not result.is_accepted:
        rows = counted(result.n_with_status, "row")
        return fail(f"{rows} with a status, which `--strict` does not accept", NOT_ACCEPTED)
    return DONE


@command(StatusSettings, "DIR")
def status(folder: str, settings: StatusSettings) -> int:
    """Show how far the run in DIR has got.

    DIR is the folder or URL of a run, which may be running or have ended. Exit status: 0 if the run
    is complete, or is running without failed shards; 1 if it ended early or has failed shards; 2 if
    there is no run.
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

    yield f"{run.out}: {run.state}{f' ({run.driver})' if run.driver else ''}"
    if not run.n_shards:
        return
    share = run.n_done_rows / run.n_rows
    rows = f"Rows:    {run.n_done_rows:,} of {run.n_rows:,} done ({share:.0%})"
    if run.rows_per_s is not None:
        rows += f", {row_rate(run.rows_per_s)}"
    if run.seconds_left is not None and run.n_done < run.n_shards:
        rows += f", {duration(run.seconds_left)} left"
    yield rows
    is_lost = run.running and run.state != "running"
    yield (
        f"Shards:  {run.n_done:,} done, {len(run.running):,} "
        f"{'started and lost' if is_lost else 'running'}, "
        f"{run.n_failed:,} failed, {run.n_left:,} left"
    )
    if run.running:
        oldest = run.running[0]
        where = f" on {oldest.node}" if oldest.node else ""
        yield f"Oldest:  shard {oldest.index}{where}, started {duration(oldest.seconds)} ago"
    yield from ("", "Last errors:", *(f"  {error}" for error in run.errors)) if run.errors else ()
