"""Settings of `assay compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from sms.naming import AnyPath
from sms.settings import Settings


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Settings):
    """How scores are compared."""

    metrics: Sequence[str] = ()
    """Compare these metrics, given as names or patterns separated by commas. Default: all metrics
    that every input has."""
    systems_a: Sequence[str] = ()
    """Compare these systems of SCORES_A, given as names or patterns. Default: all."""
    systems_b: Sequence[str] = ()
    """Compare with these systems of SCORES_B (or of SCORES_A, if it is the only input), given as
    names or patterns. Default: all."""
    columns: Annotated[Mapping[str, str] | None, "rare"] = None
    """Read Assay's column OURS from your column THEIRS, for example system_id=model."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Also write the comparison to FILE: a page if it ends in .html, a table if it ends in .csv,
    .json, .md or .tex."""
    resamples: Annotated[int, "rare"] = 10_000
    """Number of bootstrap resamples of the documents."""
    seed: Annotated[int, "rare"] = 0
    """Seed of all random numbers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resamples < 1:
            raise ValueError(f"`--resamples` must be at least 1, got {self.resamples}")
        if self.seed < 0:
            raise ValueError(f"`--seed` must not be negative, got {self.seed}")
