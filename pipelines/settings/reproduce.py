"""Settings of `assay reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class ReproduceSettings(Settings):
    """What the papers' tables are made from."""

    data: Annotated[AnyPath | None, "DIR"] = None
    """Folder with the data sets (`NAME/` as its owner gives it out, or `NAME.parquet` of `assay
    import`) and, in `encoders/`, the weights."""
    out: Annotated[AnyPath | None, "DIR"] = None
    """Folder or URL for the tables, figures and scores."""
    scores: Sequence[AnyPath] = ()
    """Folders of `assay score`, or files of any tool: make the tables from these scores of your
    own, with `--ratings`, instead of the paper's data."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Human ratings of the candidates in `--scores`."""
    aspects: Annotated[Sequence[str], "rare"] = ()
    """Columns of the ratings. Default: all that hold numbers."""
    raters: Sequence[str] = ()
    """Raters to average, names or patterns such as `expert-*`. Default: all, if they are of one
    pool."""
    metrics: Annotated[Sequence[str], "rare"] = ()
    """Columns of the scores, names or patterns. Default: all that hold numbers."""
    human_systems: Annotated[Sequence[str], "rare"] = ("human*", "reference*")
    """Systems whose summaries people wrote, names or patterns, for Bao et al."""
    scorers: Annotated[AnyPath | None, "DIR"] = None
    """Folder of trained scorers and summarisers, for Bao et al. and Table 4 of Clark et al."""
    train: bool = False
    """Train the scorers of Bao et al. that are not there; takes days."""
    encoders: Annotated[
        Mapping[str, str] | Sequence[str] | None, "ALIAS=SPEC", "--encoder", "encoders"
    ] = None
    """Other weights than the paper's, for example ELMo=minilm; the aliases are in `--dry-run`."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Where it runs."""
    seed: Annotated[int, "rare"] = 0
    """Of draws, splits and training."""
    fresh: bool = False
    """Import and score anew."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Told what is being done."""


@dataclass(frozen=True, kw_only=True)
class ReproduceCommand(ReproduceSettings):
    """What the command shows beside."""

    list: bool = False
    """Show the tables and figures, one a line."""
    dry_run: bool = False
    """Only say what TABLE needs, and what is there."""
