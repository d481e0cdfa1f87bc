"""`assay score`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines import verbs
from pipelines.cli.common import DONE, INTERRUPTED, NOT_ACCEPTED, fail, show, terminal
from pipelines.cli.options import command, shown_progress
from pipelines.settings.score import ScoreSettings
from sms.naming import counted

if TYPE_CHECKING:
    from pipelines.runs.score_run import ScoreRun

_SHOWN_FAILURES = 5


@command(ScoreSettings, "CORPORA...")
def score(corpora: tuple[str, ...], settings: ScoreSettings) -> int:
    """Score the summaries in CORPORA.

    CORPORA are Parquet, JSONL or CSV: files, folders, globs or URLs. One row is one candidate:
    `document_id`, `system_id`, `candidate`, and `reference` or `references` and `source` where a
    metric needs them. To continue an interrupted run, give the same command again.
    """
    from pipelines.runs.score_run import RunInterrupted
    from pipelines.summary import summary_text

    try:
        with shown_progress(settings) as settings:
            result = verbs.score(corpora, settings)
    except RunInterrupted as interrupt:
        return fail(
            f"interrupted; {interrupt.n_committed} of {interrupt.n_shards} shards are committed; "
            "run the same command (without `--fresh`) to continue",
            INTERRUPTED,
        )
    except KeyboardInterrupt:
        return fail("interrupted; this command has scored nothing yet", INTERRUPTED)
    show(summary_text(result, **terminal()))
    return _status(result)


def _status(result: ScoreRun) -> int:
    if result.failed_shards:
        shown = list(result.failed_shards.items())[:_SHOWN_FAILURES]
        text = "; ".join(f"shard {index}: {error}" for index, error in shown)
        more = len(result.failed_shards) - len(shown)
        others = f"; and {more} more, all in run.json" if more else ""
        return fail(
            f"{len(result.failed_shards)} of {result.n_shards} shards failed; run the same "
            f"command (without `--fresh`) to try them again: {text}{others}",
            NOT_ACCEPTED,
        )
    if not result.is_accepted:
        return fail(
            f"{counted(result.n_with_status, 'row')} with a status, which `--strict` does not "
            "accept",
            NOT_ACCEPTED,
        )
    return DONE
