"""Settings of `assay compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Settings):
    """How two sets of scores are compared."""

    metrics: Sequence[str] = ()
    """Names or patterns, separated by commas. Default: all that both have."""
    systems_a: Sequence[str] = ()
    """Systems of SCORES_A to compare, names or patterns. Default: all."""
    systems_b: Sequence[str] = ()
    """Systems of SCORES_B to compare, names or patterns. Default: all."""
    columns: Annotated[Mapping[str, str] | None, "rare"] = None
    """What the files call a column, for example system_id=model."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Write it to a file, too: a page (.html) or a table (.csv, .json, .md) by its name."""
    resamples: Annotated[int, "rare"] = 10_000
    """Bootstrap resamples of the documents."""
    confidence: Annotated[float, "rare"] = 0.95
    """Of the intervals; one minus it is the level of the tests."""
    seed: Annotated[int, "rare"] = 0
    """Of the draws."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resamples < 1:
            raise ValueError(f"`--resamples` must be at least 1, got {self.resamples}")
        if self.seed < 0:
            raise ValueError(f"`--seed` must not be negative, got {self.seed}")
