"""Settings of `assay judge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class JudgeSettings(Settings):
    """Which metrics are judged by which ratings."""

    ratings: Annotated[AnyPath, "FILE"]
    """Human ratings of some rows: `document_id`, `system_id`, perhaps `rater`, and an aspect per
    column."""
    out: Annotated[AnyPath | None, "DIR"] = None
    """Folder or URL for the scores of the rated rows and the report. Default: none is kept."""
    metrics: Sequence[str] = ()
    """Metrics to judge besides the usual ones, separated by commas; see `assay metrics`. Usual are
    ROUGE, movers, cosine, the trained scorer `reffree@news` and the trivial ones, against the
    reference and the source where the rows have them."""
    encoders: Annotated[
        Mapping[str, str] | Sequence[str], "[ALIAS=]SPEC", "--encoder", "encoders"
    ] = "minilm"
    """May be repeated, the first is the default; see `assay encoders`."""
    models: Annotated[Mapping[str, Any] | None, "rare", "models"] = None
    """Tables [models.ALIAS], as in `assay score`."""
    raters: Sequence[str] = ()
    """Raters to average, names or patterns such as `expert-*`. Default: all, if they are of one
    pool."""
    columns: Mapping[str, str] | None = None
    """What the files call a column, for example candidate=summary; repeated or with commas."""
    fresh: bool = False
    """Replace what is in DIR."""
    aspects: Annotated[Sequence[str], "rare"] = ()
    """Columns of the ratings. Default: all that hold numbers."""
    resamples: Annotated[int, "rare"] = 1_000
    """Bootstrap resamples, and swaps of a permutation test; see `assay correlate`."""
    seed: Annotated[int, "rare"] = 0
    """Of all random numbers."""
    machines: Annotated[int, "rare"] = 10
    """Machines like this one for which the time of the whole corpus is told, too."""
    multi_reference: Annotated[Literal["best", "mean", "first"], "rare"] = "best"
    """What counts where there are several references."""
    language: Annotated[str, "rare"] = "en"
    """Language of the texts, as in `assay score`."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Where neural encoders run, as in `assay score`."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage, after every shard and every test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.machines < 1:
            raise ValueError(f"`machines` must be at least 1, got {self.machines}")
