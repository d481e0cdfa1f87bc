"""Settings of `assay judge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from sms.naming import AnyPath
from sms.options import ScoringOptions


@dataclass(frozen=True, kw_only=True)
class JudgeSettings(ScoringOptions):
    """Which metrics are judged by which ratings."""

    ratings: Annotated[AnyPath, "FILE"]
    """Read human ratings of some rows from FILE: `document_id`, `system_id`, `rater` if you have
    it, and one column per aspect."""
    out: Annotated[AnyPath | None, "DIR"] = None
    """Keep the scores of the rated rows and the report in this folder or URL. Default: nothing is
    kept."""
    metrics: Sequence[str] = ()
    """Judge these metrics in addition to the usual ones, separated by commas; `assay metrics` lists
    them. The usual ones are ROUGE, movers, cosine, the trained scorers `reffree@news` and
    `reffree@general`, and the baselines (such as `length`), against the reference and the source
    where the rows have them."""
    raters: Sequence[str] = ()
    """Average these raters, given as names or patterns such as `expert-*`. Default: all. Required
    if the names show several pools, such as expert-1 and turker-1."""
    columns: Mapping[str, str] | None = None
    """Read Assay's column OURS from your column THEIRS, for example candidate=summary.
    Repeat the option or separate pairs by commas. For a column of the ratings alone, write
    `ratings.` first, for example ratings.document_id=item."""
    fresh: bool = False
    """Replace what is in DIR."""
    aspects: Annotated[Sequence[str], "rare"] = ()
    """Columns of the ratings to use. Default: all columns of numbers."""
    resamples: Annotated[int, "rare"] = 1_000
    """Number of bootstrap resamples, and of permutations in a test; see `assay correlate`."""
    seed: Annotated[int, "rare"] = 0
    """Seed of all random numbers."""
    machines: Annotated[int, "rare"] = 10
    """Also estimate how long N machines like this one need for the whole corpus."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Run neural encoders on this device, as in `assay score`."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage, after every shard and every test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.machines < 1:
            raise ValueError(f"`machines` must be at least 1, got {self.machines}")
