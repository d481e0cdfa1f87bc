"""`assay compare`."""

from __future__ import annotations

from pipelines import verbs
from pipelines.cli.common import show, terminal
from pipelines.cli.options import command
from pipelines.settings.compare import CompareSettings


@command(CompareSettings, "SCORES_A", "SCORES_B")
def compare(scores_a: str, scores_b: str, settings: CompareSettings) -> None:
    """Say which system has the higher scores, without ratings: SCORES_A or SCORES_B.

    Both are folders of `assay score` or files of scores. Where they hold the same systems, two
    runs of each are compared, else every system of the one with every system of the other, on
    the documents both have. A metric whose signature differs is refused.
    """
    result = verbs.compare(scores_a, scores_b, settings)
    from pipelines.reports.comparison import comparison_sheet

    show(comparison_sheet(result).text(**terminal()))
