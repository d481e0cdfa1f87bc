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
    """Write the status as a JSON object to FILE instead of text; `-` means standard output."""
