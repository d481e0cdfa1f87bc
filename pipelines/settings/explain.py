"""Settings of `assay explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from sms.naming import AnyPath
from sms.options import MetricOptions


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(MetricOptions):
    """Which scores are explained, and how they were computed."""

    document: Annotated[str, "ID"]
    """Explain the scores of the document with this `document_id`."""
    system: Annotated[Sequence[str], "ID,..."] = ()
    """Show these systems. Default: all systems of the document."""
    metric: Annotated[str, "NAME"] = "s+wms"
    """Explain this metric, METRIC[@ENCODER][:AGAINST], or a column of the scores; `assay metrics`
    lists the metrics."""
    columns: Mapping[str, str] | None = None
    """Read Assay's column OURS from your column THEIRS, for example candidate=summary.
    Repeat the option or separate pairs by commas. For a column of the ratings alone, write
    `ratings.` first, for example ratings.document_id=item."""
    scores: Annotated[AnyPath | None, "DIR"] = None
    """Read settings and corpus from this folder of `assay score`, and check that its scores are
    the same."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Show these human ratings with the scores."""
    raters: Annotated[Sequence[str], "rare"] = ()
    """Average these raters, given as names or patterns such as `expert-*`. Default: all. Required
    if the names show several pools, such as expert-1 and turker-1."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Write to FILE: a page if it ends in .html; a picture of the best system, for a paper, if it
    ends in .svg. Required on the command line."""
