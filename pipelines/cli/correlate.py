"""`assay correlate`."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from pipelines import verbs
from pipelines.cli.common import DONE, show, terminal
from pipelines.cli.options import command, is_quiet
from pipelines.settings.correlate import CorrelateSettings


@command(CorrelateSettings, "SCORES...")
def correlate(scores: tuple[str, ...], settings: CorrelateSettings) -> int:
    """Correlate SCORES with human ratings: folders of `assay score`, or any tool's files.

    A file (Parquet, CSV, JSONL) has a row per candidate: `document_id`, `system_id` and a column
    of numbers per metric, or per aspect in the ratings, which may also name a `rater`. A metric
    that several inputs have is called INPUT/METRIC. DIR gets a report (report.html, report.md),
    correlations.parquet and about.json.
    """
    if settings.out is None:
        raise click.UsageError("`--out` is missing; name a folder for the report")
    from pipelines.correlation.summary import summary_text

    result = verbs.correlate(scores, settings if is_quiet() else replace(settings, on_stage=_say))
    shown = {"coefficients": list(settings.coefficients), **terminal()}
    show(summary_text(result, str(settings.out).rstrip("/"), **shown))
    return DONE


def _say(stage: str) -> None:
    print(f"assay: {stage}", file=sys.stderr)
