"""Settings of `assay explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(Settings):
    """Which scores are explained, and how they were computed."""

    document: Annotated[str, "ID"]
    """Explain the scores of the document with this `document_id`."""
    system: Annotated[Sequence[str], "ID,..."] = ()
    """Show these systems. Default: all systems of the document."""
    metric: Annotated[str, "NAME"] = "s+wms"
    """Explain this metric, METRIC[@ENCODER][:AGAINST], or a column of the scores; `assay metrics`
    lists the metrics."""
    encoder: Annotated[str | None, "SPEC"] = None
    """Use this encoder; `assay encoders` lists them. Default: minilm."""
    models: Annotated[Mapping[str, Any] | None, "rare", "models"] = None
    """Tables [models.ALIAS], as in `assay score`."""
    columns: Mapping[str, str] | None = None
    """Read our column OURS from the column THEIRS of the files, for example candidate=summary.
    Repeat the option or separate pairs by commas."""
    scores: Annotated[AnyPath | None, "DIR"] = None
    """Take settings and corpus from this folder of `assay score`, and check that the scores are
    the same."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Write to FILE: a page if it ends in .html, a picture of the best system for papers if it ends
    in .svg."""
