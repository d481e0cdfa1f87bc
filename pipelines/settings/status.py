"""Settings of `assay status`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class StatusSettings(Settings):
    """How the state of a run is shown."""

    json: Annotated[AnyPath | None, "FILE"] = None
    """Write one JSON object to FILE instead; `-` is standard output."""
