"""Settings of `assay evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.pairs import PairSettings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(PairSettings):
    """How trained scorers are judged."""

    also: Annotated[Sequence[str], "SCORER,..."] = ()
    """Further scorers, each a row of the matrix."""
    negatives: Sequence[str] = ()
    """Kinds separated by commas. Default: those that a scorer was trained on."""
    split: Annotated[Literal["test", "validation"], "rare"] = "test"
    """Which documents."""
    embedding_cache: Annotated[AnyPath | None, "DIR", "rare"] = None
    """Folder that keeps the vectors of `sentence` and `word` for later runs."""
    corpus: Annotated[AnyPath | None, "FILE"] = None
    """Rated candidates and their sources, judged by `--ratings`."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """What people said of them: what is left of agreement without length and density."""
    raters: Annotated[Sequence[str], "rare"] = ()
    """Patterns such as `expert-*`. Default: all."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Where it runs."""
    json: Annotated[AnyPath | None, "FILE"] = None
    """Write all figures there as well."""
