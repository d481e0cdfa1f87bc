"""Settings of `assay explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sms.naming import AnyPath
from sms.options import models_of
from sms.settings import Settings


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
    models: Annotated[Mapping[str, Any] | None, "ALIAS=MODEL", "rare", models_of] = None
    """Tables [models.ALIAS], as in `assay score`."""
    columns: Mapping[str, str] | None = None
    """Read our column OURS from the column THEIRS of the files, for example candidate=summary.
    Repeat the option or separate pairs by commas. Names that only the ratings have come after
    `ratings.`, for example ratings.document_id=item."""
    preset: Annotated[Literal["default", "clark2019"] | None, "rare"] = None
    """Rules for texts, as in `assay score`. Default: default."""
    multi_reference: Annotated[Literal["best", "mean", "first"] | None, "rare"] = None
    """How several references are combined, as in `assay score`. Default: best."""
    language: Annotated[str | None, "rare"] = None
    """Language of the texts, as in `assay score`. Default: en."""
    sentences: Annotated[Literal["split", "given"] | None, "rare"] = None
    """Whether sentences are split or given, as in `assay score`. Default: split."""
    source_tokens: Annotated[int | None, "rare"] = None
    """Read only the first N tokens of a source."""
    scores: Annotated[AnyPath | None, "DIR"] = None
    """Take settings and corpus from this folder of `assay score`, and check that the scores are
    the same."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Show these human ratings with the scores."""
    raters: Annotated[Sequence[str], "rare"] = ()
    """Raters to average, names or patterns such as `expert-*`. Default: all, if they are of one
    pool."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Write to FILE: a page if it ends in .html, a picture of the best system for papers if it ends
    in .svg."""
