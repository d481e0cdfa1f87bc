"""`assay judge`."""

from __future__ import annotations

from pipelines import verbs
from pipelines.cli.common import show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.judge import JudgeSettings


@command(JudgeSettings, "DATA...")
def judge(data: tuple[str, ...], settings: JudgeSettings) -> None:
    """Say which metric to trust on DATA, of which some rows are rated, and what all of it takes.

    DATA is what `assay score` reads, with `document_id` and `system_id`. The rated rows are scored
    and held against the ratings: which metric for which aspect, which cannot be told apart from
    it, and whether any beats `length` and `density`. Then the speed on this machine, and the
    command for all of DATA.
    """
    with shown_progress(settings) as settings:
        found = verbs.judge(data, settings)
    show(found.text())
