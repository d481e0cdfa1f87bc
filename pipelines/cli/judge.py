"""`assay judge`."""

from __future__ import annotations

from pipelines import verbs
from pipelines.cli.common import show, terminal
from pipelines.cli.options import command, shown_progress
from pipelines.settings.judge import JudgeSettings


@command(JudgeSettings, "DATA...")
def judge(data: tuple[str, ...], settings: JudgeSettings) -> None:
    """Find out from some ratings which metric to trust on DATA.

    DATA is what `assay score` reads, with `document_id` and `system_id`. The rated rows are scored
    and compared with the ratings. You learn which metric agrees best with each aspect, which
    metrics cannot be told apart from it, and whether any beats `length` and `density`. You also get
    the command that scores all of DATA, and the time it takes on this machine.
    """
    with shown_progress(settings) as settings:
        judgement = verbs.judge(data, settings)
    show(judgement.text(terminal()["width"]))
