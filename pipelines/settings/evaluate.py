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
    """Evaluate these scorers, too; each is a row of the table."""
    negatives: Sequence[str] = ()
    """Use these kinds of negatives, separated by commas. Default: the kinds that a scorer was
    trained on."""
    split: Annotated[Literal["test", "validation"], "rare"] = "test"
    """Use the documents of this side of the split."""
    embedding_cache: Annotated[AnyPath | None, "DIR", "rare"] = None
    """Keep the vectors of `sentence` and `word` in this folder for later runs."""
    corpus: Annotated[AnyPath | None, "FILE"] = None
    """Also compare the scorers with human ratings: FILE has the rated candidates and their sources.
    Needs `--ratings`."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Read human ratings of the candidates in `--corpus` from FILE. The table also shows the
    agreement that is left when length or density is held fixed."""
    raters: Annotated[Sequence[str], "rare"] = ()
    """Average these raters, given as names or patterns such as `expert-*`. Default: all, unless
    their names show several pools, such as expert-1 and turker-1."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Device of the scorers."""
    json: Annotated[AnyPath | None, "FILE"] = None
    """Also write all figures to FILE."""
