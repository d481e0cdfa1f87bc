"""Settings of `assay explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(Settings):
    """Which scores are explained, and how they were computed."""

    document: Annotated[str, "ID"]
    """The document_id of one document."""
    system: Annotated[Sequence[str], "ID,..."] = ()
    """Systems to show. Default: all of the document."""
    metric: Annotated[str, "NAME"] = "s+wms"
    """METRIC[@ENCODER][:AGAINST] or a score column; see `assay metrics`."""
    encoder: Annotated[str | None, "SPEC"] = None
    """See `assay encoders`. Default: minilm."""
    models: Annotated[Mapping[str, Any] | None, "rare", "models"] = None
    """As in `assay score`."""
    columns: Mapping[str, str] | None = None
    """What the files call a column, for example candidate=summary; repeated or with commas."""
    preset: Annotated[Literal["default", "clark2019"] | None, "rare"] = None
    """As in `assay score`, as are the next four. Default: default."""
    multi_reference: Annotated[Literal["best", "mean", "first"] | None, "rare"] = None
    """Default: best."""
    language: Annotated[str | None, "rare"] = None
    """Default: en."""
    sentences: Annotated[Literal["split", "given"] | None, "rare"] = None
    """Default: split."""
    source_tokens: Annotated[int | None, "rare"] = None
    """Read only the first N tokens of a source."""
    scores: Annotated[AnyPath | None, "DIR"] = None
    """Folder of `assay score`: take its settings and corpus, and check that the scores are the
    same."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Human ratings to show with the scores."""
    aspects: Annotated[Sequence[str], "rare"] = ()
    """Aspects to show. Default: all."""
    raters: Annotated[Sequence[str], "rare"] = ()
    """Raters to average. Default: all."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """The page (.html), or a picture of the best of the systems, for papers (.svg)."""
