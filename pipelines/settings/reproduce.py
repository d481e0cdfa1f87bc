"""Settings of `assay reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from sms.naming import AnyPath
from sms.options import Encoders, encoders_of
from sms.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ReproduceSettings(Settings):
    """What the papers' tables are made from."""

    data: Annotated[AnyPath | None, "DIR"] = None
    """Read data sets (`NAME/` as published, or `NAME.parquet` of `assay import`) and weights (in
    `encoders/`) from this folder."""
    out: Annotated[AnyPath | None, "DIR"] = None
    """Write tables, figures and scores to this folder or URL."""
    scorers: Annotated[AnyPath | None, "DIR"] = None
    """Read trained scorers and summarisers from this folder, for Bao et al. and Table 4 of Clark
    et al."""
    encoders: Annotated[Encoders | None, "ALIAS=SPEC", "--encoder", encoders_of] = None
    """Use other weights than the paper's, for example ELMo=minilm; `--dry-run` shows the
    aliases."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Run encoders and scorers on this device."""
    seed: Annotated[int, "rare"] = 0
    """Seed of draws and splits."""
    fresh: bool = False
    """Import the data sets and compute the scores again."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage."""


@dataclass(frozen=True, kw_only=True)
class ReproduceCommand(ReproduceSettings):
    """What only the command shows."""

    list: bool = False
    """List the tables and figures, one per line."""
    dry_run: bool = False
    """Only say what each table needs and what is available."""
