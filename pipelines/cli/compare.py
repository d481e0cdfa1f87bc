"""`assay compare`."""

from __future__ import annotations

from pipelines import verbs
from pipelines.cli.common import show, terminal
from pipelines.cli.options import command
from pipelines.settings.compare import CompareSettings


@command(CompareSettings, "SCORES_A", "SCORES_B")
def compare(scores_a: str, scores_b: str, settings: CompareSettings) -> None:
    """Compare scores of two systems or runs without human ratings.

    SCORES_A and SCORES_B are folders of `assay score` or files of scores. If both have the same
    systems, each system's two runs are compared. Otherwise every system of A is compared with every
    system of B. Only documents that both sides have count. A metric whose signatures differ is
    refused.
    """
    result = verbs.compare(scores_a, scores_b, settings)
    from pipelines.reports.comparison import comparison_sheet

    show(comparison_sheet(result).text(**terminal()))
