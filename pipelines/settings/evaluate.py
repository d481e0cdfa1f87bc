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
    negatives: Annotated[Sequence[str], "rare"] = ()
    """Use these kinds of negatives, separated by commas. Default: the kinds that a scorer was
    trained on."""
    device: Annotated[Literal["auto", "cpu", "cuda"], "rare"] = "auto"
    """Run the scorers on this device."""
    json: Annotated[AnyPath | None, "FILE"] = None
    """Also write all figures to FILE."""
