"""`assay correlate`."""

from __future__ import annotations

import click

from pipelines import verbs
from pipelines.cli.common import DONE, show, terminal
from pipelines.cli.options import command, shown_progress
from pipelines.settings.correlate import CorrelateSettings


@command(CorrelateSettings, "SCORES...")
def correlate(scores: tuple[str, ...], settings: CorrelateSettings) -> int:
    """Correlate SCORES with human ratings.

    SCORES are folders of `assay score`, or files of any tool (Parquet, CSV, JSONL). A file has one
    row per candidate: `document_id`, `system_id`, and one column of numbers per metric. The ratings
    have one such column per aspect, and may have a column `rater`. If several inputs have a metric,
    it is called INPUT/METRIC. Only rows that have every score and every rating count. DIR gets
    report.html, report.md, report.json and correlations.parquet.
    """
    if settings.out is None:
        raise click.UsageError("`--out DIR` is missing: name a folder for the report")
    from pipelines.correlation.summary import summary_text

    with shown_progress(settings) as settings:
        result = verbs.correlate(scores, settings)
    show(summary_text(result, str(settings.out).rstrip("/"), **terminal()))
    return DONE
