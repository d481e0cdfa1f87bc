"""`assay correlate`."""

from __future__ import annotations

import click

from pipelines import verbs
from pipelines.cli.common import DONE, show, terminal
from pipelines.cli.options import command, shown_progress
from pipelines.settings.correlate import CorrelateSettings


@command(CorrelateSettings, "SCORES...")
def correlate(scores: tuple[str, ...], settings: CorrelateSettings) -> int:
    """Correlate SCORES with human ratings: folders of `assay score`, or any tool's files.

    A file (Parquet, CSV, JSONL) has a row per candidate: `document_id`, `system_id` and a column
    of numbers per metric, or per aspect in the ratings, which may also name a `rater`. A metric
    that several inputs have is called INPUT/METRIC. All numbers are about the rows that have every
    score and rating. DIR gets report.html, report.md, report.json and correlations.parquet.
    """
    if settings.out is None:
        raise click.UsageError("`--out` is missing; name a folder for the report")
    from pipelines.correlation.summary import summary_text

    with shown_progress(settings) as settings:
        result = verbs.correlate(scores, settings)
    shown = {"coefficients": list(settings.coefficients), **terminal()}
    show(summary_text(result, str(settings.out).rstrip("/"), **shown))
    return DONE
